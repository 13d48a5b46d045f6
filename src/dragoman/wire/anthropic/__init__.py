"""Anthropic's Messages, and everyone who speaks like it.

Instructions stand apart from the conversation, content is a list of blocks, results are blocks of a user message, and
thinking goes back as it came, with its signature. Every request of this wire names the most tokens that the reply may
have: where the caller said nothing, that is 4096 (more by the size of a reasoning budget, which counts into it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Message, Reply, Request, ToolResult
from dragoman.types import Tool as Tool
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.anthropic.client import (
    MOST,
    MessageReader,
    ToolWriter,
    clean,
    mark,
    shorten,
    write_definitions,
    write_messages,
    write_system,
)
from dragoman.wire.anthropic.parts import (
    RULES,
    WIRE,
    SettingsWriter,
    merge_own,
    own,
    read_failure,
    read_settings,
    write_failure,
    write_result,
)
from dragoman.wire.anthropic.server import ConversationReader, EventWriter, read_system, read_tools, write_message
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, Reader, as_object
from dragoman.wire.failures import Loss
from dragoman.wire.framing import SseDecoder as SseDecoder
from dragoman.wire.history import HistoryRules
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import as_text, dicts, parse


class Anthropic(Codec):
    name: ClassVar[str] = WIRE
    rules: ClassVar[HistoryRules] = RULES

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return "/messages"

    def _schema_target(self) -> str:
        return "anthropic_strict" if self.quirks.strict_tools else "anthropic"

    def _history_quirks(self) -> Quirks:
        # A request without any message is refused.
        return replace(self.quirks, needs_user=True)

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        return clean(request.messages, self.quirks, losses)

    def _write_body(self, draft: Draft) -> JsonObject:
        options, losses = draft.request.options, draft.losses
        system, messages = write_system(draft.history.system), write_messages(draft.history.messages, losses)
        tooling = ToolWriter(draft.request, draft.offered, self.quirks, losses)
        tooling.write(messages)
        settings = SettingsWriter(options, self.quirks, losses, is_forced=tooling.is_forced)
        settings.write()
        draft.limit = settings.limit
        room = MOST - ("cache_control" in own(options))
        losses += mark(tooling.tools, system, messages, options.get("cache"), room)
        body: JsonObject = {"model": draft.request.model, **settings.fields}
        if system:
            body["system"] = shorten(system)
        for entry in messages:
            entry["content"] = shorten(entry["content"])
        body["messages"] = messages
        if tooling.tools:
            body["tools"] = tooling.tools
        if tooling.choice:
            body["tool_choice"] = tooling.choice
        return merge_own(body, options)

    def open_reader(self, sent: Prepared | None) -> Reader:
        return MessageReader(sent, self.quirks)

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields = as_object(body)
        tools, others = read_tools(fields.get("tools"))
        options = read_settings(fields, others)
        if stream is not None:
            options["stream"] = stream
        messages = read_system(fields.get("system")) + ConversationReader().read(fields.get("messages"))
        return Request(as_text(fields.get("model")) or model, messages, tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_message(reply)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return EventWriter(model, id)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, self.quirks, losses)

    def find_calls(self, body: Any) -> JsonObject:
        return wrap_calls(body)

    def write_result(self, result: ToolResult) -> JsonObject:
        return {"role": "user", "content": [write_result(result, [])]}


def wrap_calls(body: Any) -> JsonObject:
    """A whole message around a body, a message, a list of messages or blocks, or one call."""
    if isinstance(body, bytes | bytearray | str):
        body = parse(bytes(body) if isinstance(body, bytearray) else body)
    if isinstance(body, list):
        blocks: list[Any] = []
        for entry in dicts(body):
            inner = entry.get("content") if "role" in entry else None
            blocks += inner if isinstance(inner, list) else [entry]
        return {"content": blocks}
    if not isinstance(body, dict):
        return {"content": []}
    inner = body.get("message")
    fields: JsonObject = inner if isinstance(inner, dict) else body
    if "error" in fields or isinstance(fields.get("content"), list | str):
        return fields
    return {"content": [{"type": "tool_use", **fields}] if "name" in fields else []}
