"""Ollama's own chat: JSON lines, arguments as objects, no tool choice, and a schema of few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Reply, Request, ToolResult
from dragoman.types import Message as Message
from dragoman.types import Tool as Tool
from dragoman.wire.aliases import FREE_NAMES
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, Reader, as_object
from dragoman.wire.failures import Loss, fail
from dragoman.wire.framing import LineDecoder
from dragoman.wire.history import HistoryRules
from dragoman.wire.ollama.client import OllamaReader, write_definitions, write_messages, write_options, write_tools
from dragoman.wire.ollama.server import LineWriter, MessageReader, read_options, write_failure, write_reply
from dragoman.wire.openai_chat.server import read_tools
from dragoman.wire.values import as_dict, read_result


class Ollama(Codec):
    name: ClassVar[str] = "ollama"
    rules: ClassVar[HistoryRules] = HistoryRules(
        "ollama", names=FREE_NAMES, result_images=True, keeps_empty_text=True, error_flags=False
    )

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return "/api/chat"

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        messages = write_messages(draft.history.messages, losses)
        tools = write_tools(request, draft.offered, losses)
        return {"model": request.model, "messages": messages, **tools, **write_options(request, self.quirks, losses)}

    def open_framing(self) -> Stage[bytes, Any]:
        return LineDecoder()

    def open_reader(self, sent: Prepared | None) -> Reader:
        return OllamaReader(self.name, sent)

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        said = as_dict(body).get("error", body)
        message = as_dict(said).get("message", said)
        return fail(message if isinstance(message, str) else "", status=status, body=body, headers=headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields = as_object(body)
        tools, others = read_tools(fields, self.name)
        options = read_options(fields, others)
        named = fields.get("model")
        return Request(
            named if isinstance(named, str) else model, MessageReader().read(fields.get("messages")), tools, options
        )

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_reply(reply, created)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return LineWriter(model, created)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered)

    def find_calls(self, body: Any) -> JsonObject:
        if isinstance(body, bytes | str):
            body = as_object(body)
        if isinstance(body, list):
            body = {"tool_calls": body}
        fields = as_dict(body)
        if "message" in fields or "error" in fields:
            return fields
        if "tool_calls" not in fields and ("function" in fields or "name" in fields):
            fields = {"tool_calls": [fields]}
        return {"message": fields}

    def write_result(self, result: ToolResult) -> JsonObject:
        """Exactly a role and the content: the name that `encode_request` adds is known only from the history."""
        return {"role": "tool", "content": read_result(result)}
