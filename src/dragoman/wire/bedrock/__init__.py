"""Bedrock's Converse: one wire for all models of AWS, with streams of binary frames.

The model and whether to stream are said in the path of a request, not in its body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Message, Reply, Request, ToolResult
from dragoman.types import Tool as Tool
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.bedrock.client import (
    RULES,
    ConverseReader,
    drop_blanks,
    read_marks,
    sort_thinking,
    write_definitions,
    write_marks,
    write_messages,
    write_options,
    write_system,
    write_thinking,
    write_tools,
)
from dragoman.wire.bedrock.parts import BlockWriter, find_type, read_failure, write_failure
from dragoman.wire.bedrock.server import FrameWriter, MessageReader, read_options, read_tools, write_reply
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, Reader, as_object
from dragoman.wire.eventstream import EventStreamDecoder
from dragoman.wire.failures import Loss
from dragoman.wire.history import HistoryRules
from dragoman.wire.values import as_dict, as_text


class Bedrock(Codec):
    name: ClassVar[str] = "bedrock"
    rules: ClassVar[HistoryRules] = RULES

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return f"/model/{quote(model, safe='')}/{'converse-stream' if stream else 'converse'}"

    def _schema_target(self) -> str:
        # Strict tools are a thing of Claude, by the rules of its own API.
        return "anthropic_strict" if self.quirks.strict_tools else "bedrock"

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        return sort_thinking(drop_blanks(request.messages, losses), request.model, self.quirks, losses)

    def _write_body(self, draft: Draft) -> JsonObject:
        request, history, losses = draft.request, draft.history, draft.losses
        writer = BlockWriter(losses)
        system = write_system(history.system, writer)
        messages = write_messages(history, writer, losses)
        thinking = write_thinking(request, losses)
        free = as_dict(thinking.get("thinking")).get("type") == "enabled"
        tooling = write_tools(request, history.messages, draft.offered, self.quirks, losses, free=free)
        body: JsonObject = {
            **({"system": system} if system else {}),
            "messages": messages,
            **({"toolConfig": tooling.config} if tooling.config else {}),
            **write_options(request, tooling, thinking, self.quirks, losses),
        }
        return write_marks(body, request.options.get("cache"))

    def open_framing(self) -> Stage[bytes, Any]:
        return EventStreamDecoder()

    def open_reader(self, sent: Prepared | None) -> Reader:
        return ConverseReader(sent, self.quirks)

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields, cache = read_marks(as_object(body))
        asked = model or as_text(fields.get("modelId"))
        tools, others = read_tools(fields)
        options = read_options(fields, asked, others)
        if cache:
            options["cache"] = cache
        if stream:
            options["stream"] = True
        return Request(asked, MessageReader(fields.get("messages")).read(fields.get("system")), tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_reply(reply)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return FrameWriter()

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, self.quirks.strict_tools)

    def find_calls(self, body: Any) -> JsonObject:
        return _wrap_calls(body)

    def write_result(self, result: ToolResult) -> JsonObject:
        return {"role": "user", "content": [BlockWriter([]).write_result(result)]}


def _wrap_calls(body: Any) -> JsonObject:
    """A whole answer around a body, a message, a list of blocks or calls, or one of them."""
    if isinstance(body, bytes | str):
        body = as_object(body)
    if isinstance(body, list):
        body = {"content": [_as_block(entry) for entry in body]}
    fields = as_dict(body)
    if "output" in fields or (find_type(fields) and "toolUseId" not in fields):
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
