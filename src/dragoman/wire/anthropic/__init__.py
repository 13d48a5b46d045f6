"""The wire `anthropic`: Anthropic's Messages API, and compatible endpoints.

Instructions are separate from the conversation, content is a list of blocks, results are blocks of a user message, and
thinking is sent back unchanged, with its signature. Every request of this wire has a limit of output tokens. The
default is 4096, plus the reasoning budget, which counts towards the limit.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Message, Reply, Request, Tool, ToolResult
from dragoman.wire.anthropic import client, parts, server
from dragoman.wire.codec import Codec, Draft, Offer
from dragoman.wire.failures import Loss
from dragoman.wire.history import clean
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import as_text, dicts, merge_fields, parse


def wrap_calls(body: Any) -> JsonObject:
    """A whole message around a body, a message, a list of messages or blocks, or one call."""
    if isinstance(body, bytes | bytearray | str):
        body = parse(bytes(body) if isinstance(body, bytearray) else body)
    if isinstance(body, list):
        blocks: list[Any] = []
        for entry in dicts(body):
            inner = entry.get("content") if "role" in entry else None
            block = {"type": "tool_use", **entry} if "name" in entry else entry
            blocks += inner if isinstance(inner, list) else [block]
        return {"content": blocks}
    if not isinstance(body, dict):
        return {"content": []}
    inner = body.get("message")
    fields: JsonObject = inner if isinstance(inner, dict) else body
    if "error" in fields or isinstance(fields.get("content"), list | str):
        return fields
    return {"content": [{"type": "tool_use", **fields}] if "name" in fields else []}


def _read_settings(fields: JsonObject) -> tuple[list[Tool], dict[str, Any]]:
    tools, others = server.read_tools(fields.get("tools"))
    return tools, parts.read_settings(fields, others)


class Anthropic(Codec):
    name = parts.WIRE
    rules = parts.RULES
    path = "/messages"
    reader = client.MessageReader
    decode_failure = staticmethod(parts.read_failure)
    encode_failure = staticmethod(parts.write_failure)
    find_calls = staticmethod(wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def _schema_target(self) -> str:
        return "anthropic_strict" if self.quirks.strict_tools else "anthropic"

    def _history_quirks(self) -> Quirks:
        # A request without any message is refused.
        return replace(self.quirks, needs_user=True)

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        return clean(request.messages, self.name, lambda part: client.may_return(part, self.quirks), losses)

    def _write_body(self, draft: Draft) -> JsonObject:
        options, losses = draft.request.options, draft.losses
        system = client.write_system(draft.history.system)
        messages = client.write_messages(draft.history.messages, losses)
        tooling = client.ToolWriter(draft.request, draft.offered, self.quirks, losses)
        tooling.write(messages)
        settings = parts.SettingsWriter(options, self.quirks, losses, is_forced=tooling.is_forced)
        settings.write()
        draft.limit = settings.limit
        room = client.MOST - ("cache_control" in parts.own(options))
        cache = options.get("cache")
        if cache is None and self.quirks.marks_cache and (tooling.tools or len(messages) > 1):
            cache = client.AUTO
        losses += client.mark(tooling.tools, system, messages, cache, room)
        body: JsonObject = {"model": draft.request.model, **settings.fields}
        if system:
            body["system"] = client.shorten(system)
        for entry in messages:
            entry["content"] = client.shorten(entry["content"])
        body["messages"] = messages
        if tooling.tools:
            body["tools"] = tooling.tools
        if tooling.choice:
            body["tool_choice"] = tooling.choice
        return merge_fields(body, parts.own(options))

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        tools, options = self._read_rest(fields, ("system", "messages"), _read_settings)
        messages = server.read_system(fields.get("system")) + server.ConversationReader().read(fields.get("messages"))
        return Request(as_text(fields.get("model")) or model, messages, tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_message(reply)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return server.EventWriter(model, id)

    def keep_alive(self, model: str = "", created: int = 0) -> bytes:
        return b'event: ping\ndata: {"type": "ping"}\n\n'

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return client.write_definitions(offered, self.quirks, losses)

    def write_result(self, result: ToolResult) -> JsonObject:
        return {"role": "user", "content": [parts.write_result(result, [])]}
