"""The wire `ollama`: Ollama's own chat API, with JSON lines, arguments as objects, no tool choice, and few keywords."""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Reply, Request, ToolResult
from dragoman.wire.aliases import FREE_NAMES
from dragoman.wire.codec import Codec, Draft, Offer
from dragoman.wire.failures import Loss
from dragoman.wire.framing import LineStreamDecoder
from dragoman.wire.history import HistoryRules
from dragoman.wire.ollama import client, server
from dragoman.wire.openai_chat import wrap_message
from dragoman.wire.openai_chat.client import write_definitions
from dragoman.wire.openai_chat.server import read_tools
from dragoman.wire.values import as_text, read_result


def wrap_calls(body: Any) -> JsonObject:
    """A whole reply around a body, a message, a list of calls or one call."""
    fields = wrap_message(body)
    if "message" in fields or "error" in fields:
        return fields
    bare = "name" in fields and "tool_calls" not in fields
    return {"message": {"tool_calls": [fields]} if bare else fields}


class Ollama(Codec):
    name = client.WIRE
    rules = HistoryRules(client.WIRE, names=FREE_NAMES, result_images=True, keeps_empty_text=True, error_flags=False)
    path = "/api/chat"
    reader = client.OllamaReader
    framing = LineStreamDecoder
    decode_failure = staticmethod(client.read_failure)
    encode_failure = staticmethod(server.write_failure)
    find_calls = staticmethod(wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        messages = client.write_messages(draft.history.messages, losses)
        tools = client.write_tools(request, draft.offered, losses)
        options = client.write_options(request, self.quirks, losses)
        return {"model": request.model, "messages": messages, **tools, **options}

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        tools, others = read_tools(fields, self.name)
        options = server.read_options(fields, others)
        messages = server.MessageReader().read(fields.get("messages"))
        return Request(as_text(fields.get("model"), model), messages, tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_reply(reply, created)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return server.LineWriter(model, created)

    def keep_alive(self, model: str = "", created: int = 0) -> bytes:
        # Lines have no comments, so this is a reply that goes on without text.
        return server.LineWriter(model, created).write_empty()

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, False, self.name)

    def write_result(self, result: ToolResult) -> JsonObject:
        """Exactly a role and the content: the name that `encode_request` adds is known only from the history."""
        return {"role": "tool", "content": read_result(result)}
