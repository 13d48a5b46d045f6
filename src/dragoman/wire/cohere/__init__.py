"""Cohere's chat, version 2: tools as OpenAI has them, a plan before the calls, typed frames, citations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Reply, Request, ToolResult
from dragoman.types import Message as Message
from dragoman.types import Tool as Tool
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, Reader, as_object
from dragoman.wire.cohere.client import CohereReader, write_messages, write_result, write_tools
from dragoman.wire.cohere.parts import WIRE, read_settings, write_failure, write_settings
from dragoman.wire.cohere.server import FrameWriter, MessageReader, write_reply
from dragoman.wire.failures import Loss
from dragoman.wire.framing import SseDecoder as SseDecoder
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_chat.client import write_definitions
from dragoman.wire.openai_chat.parts import read_failure
from dragoman.wire.openai_chat.server import read_tools
from dragoman.wire.values import BROKEN, as_dict, parse

RULES = HistoryRules(WIRE, system="first", keeps_empty_text=True, error_flags=False)


class Cohere(Codec):
    name: ClassVar[str] = WIRE
    rules: ClassVar[HistoryRules] = RULES

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return "/chat"

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        messages = write_messages(draft.history.messages, self.quirks, losses)
        tools = write_tools(request, draft.offered, self.quirks, losses)
        settings = write_settings(request.options, self.quirks, losses, with_tools="tools" in tools)
        return {"model": request.model, "messages": messages, **tools, **settings}

    def open_reader(self, sent: Prepared | None) -> Reader:
        return CohereReader(sent, self.quirks)

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields = as_object(body)
        tools, others = read_tools({"tools": fields.get("tools")})
        options = read_settings(fields, others)
        if stream:
            options["stream"] = True
        named = fields.get("model")
        messages = MessageReader().read(fields.get("messages"))
        return Request(named if isinstance(named, str) else model, messages, tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_reply(reply, RULES.ids)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return FrameWriter(RULES.ids, id)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, False)

    def find_calls(self, body: Any) -> JsonObject:
        if isinstance(body, bytes | str):
            body = parse(body)
        if body is BROKEN:
            return {}
        if isinstance(body, list):
            body = {"tool_calls": body}
        fields = as_dict(body)
        if "message" in fields or "error" in fields:
            return fields
        if "tool_calls" not in fields and ("function" in fields or ("name" in fields and "arguments" in fields)):
            fields = {"tool_calls": [fields]}
        given = fields.get("tool_calls")
        if isinstance(given, dict):
            # A single call, as it stands in the frames of a stream.
            fields = {**fields, "tool_calls": [given]}
        return {"message": fields}

    def write_result(self, result: ToolResult) -> JsonObject:
        return write_result(result, self.quirks)
