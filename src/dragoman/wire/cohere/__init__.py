"""The wire `cohere`: Cohere's chat API, version 2, with a plan before the calls, typed frames and citations."""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Reply, Request, ToolResult
from dragoman.wire.codec import Codec, Draft, Offer
from dragoman.wire.cohere import client, parts, server
from dragoman.wire.failures import Loss
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_chat import wrap_message
from dragoman.wire.openai_chat.client import write_definitions
from dragoman.wire.openai_chat.parts import read_failure, settle_media
from dragoman.wire.openai_chat.server import read_tools
from dragoman.wire.values import as_text


def wrap_calls(body: Any) -> JsonObject:
    """A whole reply around a body, a message, a list of calls or one call."""
    fields = wrap_message(body)
    if "message" in fields or "error" in fields:
        return fields
    given = fields.get("tool_calls")
    # A single call, as it stands in the frames of a stream.
    return {"message": {**fields, "tool_calls": [given]} if isinstance(given, dict) else fields}


class Cohere(Codec):
    name = parts.WIRE
    rules = HistoryRules(parts.WIRE, system="first", keeps_empty_text=True, error_flags=False)
    path = "/chat"
    reader = client.CohereReader
    decode_failure = staticmethod(read_failure)
    encode_failure = staticmethod(parts.write_failure)
    find_calls = staticmethod(wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        history = [settle_media(message, self.name, losses) for message in draft.history.messages]
        messages = client.write_messages(history, self.quirks, losses)
        tools = client.write_tools(request, draft.offered, self.quirks, losses)
        settings = parts.write_settings(request.options, self.quirks, losses, with_tools="tools" in tools)
        return {"model": request.model, "messages": messages, **tools, **settings}

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        tools, others = read_tools({"tools": fields.get("tools")}, self.name)
        messages = server.MessageReader().read(fields.get("messages"))
        return Request(as_text(fields.get("model"), model), messages, tools, parts.read_settings(fields, others))

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_reply(reply, self.rules.ids)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return server.FrameWriter(self.rules.ids, id)

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, False, self.name)

    def write_result(self, result: ToolResult) -> JsonObject:
        return client.write_result(result, self.quirks)
