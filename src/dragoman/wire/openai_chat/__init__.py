"""OpenAI chat completions, and everyone who speaks like it.

The most copied wire, and the one with the most dialects: what an endpoint does differently is a flag in `Quirks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Reply, Request, ToolResult
from dragoman.types import Message as Message
from dragoman.types import Tool as Tool
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.aliases import IdRule
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, Reader, as_object
from dragoman.wire.failures import Loss
from dragoman.wire.framing import SseDecoder as SseDecoder
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_chat.client import (
    ChatReader,
    Dialect,
    keep_documented,
    write_definitions,
    write_message,
    write_options,
    write_result,
    write_tools,
)
from dragoman.wire.openai_chat.parts import read_failure, write_failure
from dragoman.wire.openai_chat.server import ChunkWriter, MessageReader, read_options, read_tools, write_completion
from dragoman.wire.values import as_dict


class OpenAIChat(Codec):
    name: ClassVar[str] = "openai_chat"
    rules: ClassVar[HistoryRules] = HistoryRules(
        "openai_chat", ids=IdRule(r"(?s).+", 40), keeps_empty_text=True, error_flags=False
    )
    dialect: ClassVar[Dialect] = Dialect("openai_chat")

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return "/chat/completions"

    def _history_rules(self) -> HistoryRules:
        replays = self.quirks.replay_reasoning != "never" and bool(self.quirks.reasoning_field)
        return self.rules if replays else replace(self.rules, thinking=False)

    def _schema_target(self) -> str:
        return "openai_strict" if self.quirks.strict_tools else "openai"

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        messages = [
            entry for message in draft.history.messages for entry in write_message(message, self.dialect, self.quirks)
        ]
        tools, taken = write_tools(request, draft.offered, self.dialect, self.quirks, losses)
        options = write_options(request, self.dialect, self.quirks, taken, losses)
        body = {"model": request.model, "messages": messages, **tools, **options}
        if self.quirks.standard_fields_only:
            return keep_documented(body, self.dialect, self.quirks, losses)
        return body

    def open_reader(self, sent: Prepared | None) -> Reader:
        return ChatReader(self.name, sent, self.quirks)

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields = as_object(body)
        tools, others = read_tools(fields, self.name)
        options = read_options(fields, self.name, others)
        if stream:
            options["stream"] = True
        named = fields.get("model")
        messages = MessageReader(self.name).read(fields.get("messages"))
        return Request(named if isinstance(named, str) else model, messages, tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_completion(reply, self.name, self.rules.ids, created)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, include_usage: bool = True
    ) -> Stage[Event, bytes]:
        """As for every wire; `include_usage` is what the client said in `stream_options`."""
        return ChunkWriter(self.name, self.rules.ids, model, id, created, include_usage=include_usage)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, self.quirks.strict_tools, self.name)

    def find_calls(self, body: Any) -> JsonObject:
        return wrap_calls(body)

    def write_result(self, result: ToolResult) -> JsonObject:
        return write_result(result, self.dialect, self.quirks)


def wrap_calls(body: Any) -> JsonObject:
    """A whole completion around a body, a message, a list of calls or one call."""
    if isinstance(body, bytes | str):
        body = as_object(body)
    if isinstance(body, list):
        body = {"tool_calls": body}
    fields = as_dict(body)
    if "choices" in fields or "error" in fields:
        return fields
    if "tool_calls" not in fields and ("function" in fields or ("name" in fields and "arguments" in fields)):
        fields = {"tool_calls": [fields]}
    message = fields.get("message")
    return {"choices": [{"message": message if isinstance(message, dict) else fields}]}
