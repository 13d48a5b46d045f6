"""Google's generateContent, as the Gemini API and Vertex speak it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.events import Event
from dragoman.replies import fold
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Reply, Request, ToolResult
from dragoman.types import Message as Message
from dragoman.types import Tool as Tool
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.aliases import NameRule
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, as_object
from dragoman.wire.failures import Loss
from dragoman.wire.gemini.client import (
    ChunkDecoder,
    GeminiReader,
    add_own,
    write_config,
    write_definitions,
    write_history,
    write_result,
    write_tools,
)
from dragoman.wire.gemini.parts import camel, read_failure, write_failure
from dragoman.wire.gemini.server import ChunkWriter, read_contents, read_options, read_tools, write_response
from dragoman.wire.history import HistoryRules
from dragoman.wire.values import BROKEN, as_dict, as_text, parse

RULES = HistoryRules(
    "gemini",
    names=NameRule(r"[^a-zA-Z0-9_.:-]", r"[a-zA-Z_][a-zA-Z0-9_.:-]*", 128),
    system="front",
    # Where a result cannot hold them, the encoder puts them beside it, in the same turn.
    result_images=True,
    result_files=True,
    text_after_calls=True,
    first_user=True,
    merges=True,
)


class Gemini(Codec):
    name: ClassVar[str] = "gemini"
    rules: ClassVar[HistoryRules] = RULES

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return f"/{path}:streamGenerateContent?alt=sse" if stream else f"/{path}:generateContent"

    def _schema_target(self) -> str:
        return "gemini_json" if self.quirks.json_schema else "gemini"

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        body = write_history(draft.history, self.quirks, losses)
        body |= write_tools(request, draft.offered, self.quirks, losses)
        body |= write_config(request, self.quirks, losses)
        return add_own(body, request, losses)

    def open_framing(self) -> Stage[bytes, Any]:
        return ChunkDecoder()

    def open_reader(self, sent: Prepared | None) -> GeminiReader:
        return GeminiReader(sent)

    def decode_reply(self, body: JsonObject | bytes | str, sent: Prepared | None = None) -> Reply:
        """As for every wire; a list of chunks, and an error wrapped in a list, are read too."""
        found = parse(body) if isinstance(body, bytes | str) else body
        return fold(self.open_reader(sent).read_whole({} if found is BROKEN else found))

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields = camel(as_object(body))
        tools, others = read_tools(fields)
        options = read_options(fields, others)
        if stream:
            options["stream"] = True
        return Request(model or as_text(fields.get("model")), read_contents(fields), tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_response(reply)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return ChunkWriter(model, id)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return write_definitions(offered, self.quirks)

    def find_calls(self, body: Any) -> JsonObject:
        return wrap_calls(body)

    def write_result(self, result: ToolResult) -> JsonObject:
        return write_result(result, self.quirks)


def wrap_calls(body: Any) -> JsonObject:
    """A whole response around a response, its chunks, a content, a list of parts, a part or a bare call."""
    if isinstance(body, bytes | str):
        body = parse(body)
    entries = [camel(entry) for entry in (body if isinstance(body, list) else [body]) if isinstance(entry, dict)]
    if len(entries) == 1 and ("candidates" in entries[0] or "error" in entries[0]):
        return entries[0]
    parts = [part for entry in entries for part in _find_parts(entry)]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def _find_parts(entry: JsonObject) -> list[Any]:
    if isinstance(entry.get("candidates"), list):
        candidate = next((found for found in entry["candidates"] if isinstance(found, dict)), {})
        return _find_parts(candidate)
    if isinstance(entry.get("content"), dict):
        return _find_parts(entry["content"])
    if isinstance(entry.get("parts"), list):
        return list(entry["parts"])
    if "name" in entry and "functionCall" not in entry:
        return [{"functionCall": entry}]
    return [as_dict(entry)]
