"""The wire `bedrock`: the Converse API of AWS for all its models, with streams of binary frames.

The path of a request, and not its body, contains the model and whether to stream.
"""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Message, Reply, Request, ToolResult
from dragoman.wire.bedrock import client, parts, server
from dragoman.wire.codec import Codec, Draft, Offer, as_object
from dragoman.wire.eventstream import EventStreamDecoder
from dragoman.wire.failures import Loss
from dragoman.wire.history import clean
from dragoman.wire.values import as_dict, as_text, write_model


def _wrap_calls(body: Any) -> JsonObject:
    """A whole answer around a body, a message, a list of blocks or calls, or one of them."""
    if isinstance(body, bytes | str):
        body = as_object(body)
    if isinstance(body, list):
        body = {"content": [_as_block(entry) for entry in body]}
    fields = as_dict(body)
    if "output" in fields or (parts.find_type(fields) and "toolUseId" not in fields):
        return fields
    message = fields.get("message")
    if isinstance(message, dict):
        fields = message
    if "content" not in fields:
        fields = {"content": [_as_block(fields)]}
    return {"output": {"message": fields}}


def _as_block(entry: Any) -> Any:
    """A call may come with or without the wrapper that says what it is."""
    return {"toolUse": entry} if isinstance(entry, dict) and "name" in entry and "toolUse" not in entry else entry


class Bedrock(Codec):
    name = parts.WIRE
    rules = client.RULES
    reader = client.ConverseReader
    framing = EventStreamDecoder
    decode_failure = staticmethod(parts.read_failure)
    encode_failure = staticmethod(parts.write_failure)
    find_calls = staticmethod(_wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return f"/model/{write_model(model, safe='')}/{'converse-stream' if stream else 'converse'}"

    def _schema_target(self) -> str:
        # Strict tools are a thing of Claude, by the rules of its own API.
        return "anthropic_strict" if self.quirks.strict_tools else "bedrock"

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        model, quirks = request.model, self.quirks
        return clean(request.messages, self.name, lambda part: client.may_return(part, model, quirks), losses)

    def _write_body(self, draft: Draft) -> JsonObject:
        request, history, losses = draft.request, draft.history, draft.losses
        writer = parts.BlockWriter(losses)
        system = [block for part in history.system for block in writer.write(part, "system")]
        messages = client.write_messages(history, writer, losses)
        thinking = client.write_thinking(request, losses)
        free = as_dict(thinking.get("thinking")).get("type") == "enabled"
        tooling = client.write_tools(request, history.messages, draft.offered, self.quirks, losses, free=free)
        body: JsonObject = {
            **({"system": system} if system else {}),
            "messages": messages,
            **({"toolConfig": tooling} if tooling else {}),
            **client.write_options(request, tooling, thinking, self.quirks, losses),
        }
        return client.write_marks(body, request.options.get("cache"))

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        fields, cache = client.read_marks(fields)
        asked = model or as_text(fields.get("modelId"))
        tools, others = server.read_tools(fields)
        options = server.read_options(fields, asked, others)
        if cache:
            options["cache"] = cache
        return Request(asked, server.MessageReader(fields.get("messages")).read(fields.get("system")), tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_reply(reply)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return server.FrameWriter()

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return client.write_definitions(offered, self.quirks.strict_tools)

    def write_result(self, result: ToolResult) -> JsonObject:
        return {"role": "user", "content": [parts.BlockWriter([]).write_result(result)]}
