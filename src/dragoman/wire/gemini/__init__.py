"""The wire `gemini`: Google's generateContent, in the Gemini API and Vertex."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Reply, Request, Tool, ToolResult
from dragoman.wire.aliases import NameRule
from dragoman.wire.codec import Codec, Draft, Offer, offer
from dragoman.wire.failures import Loss
from dragoman.wire.gemini import client, parts, server
from dragoman.wire.history import HistoryRules
from dragoman.wire.values import as_dict, as_text, parse, write_model


def wrap_calls(body: Any) -> JsonObject:
    """A whole response around a response, its chunks, a content, a list of parts, a part or a bare call."""
    if isinstance(body, bytes | str):
        body = parse(body)
    entries = [parts.camel(entry) for entry in (body if isinstance(body, list) else [body]) if isinstance(entry, dict)]
    if len(entries) == 1 and ("candidates" in entries[0] or "error" in entries[0]):
        return entries[0]
    found = [part for entry in entries for part in _find_parts(entry)]
    return {"candidates": [{"content": {"role": "model", "parts": found}}]}


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


class Gemini(Codec):
    name = parts.WIRE
    rules = HistoryRules(
        parts.WIRE,
        names=NameRule(r"[^a-zA-Z0-9_.:-]", r"[a-zA-Z_][a-zA-Z0-9_.:-]*", 128),
        system="front",
        # Where a result cannot hold them, the encoder puts them beside it, in the same turn.
        result_images=True,
        result_files=True,
        text_after_calls=True,
        first_user=True,
        merges=True,
    )
    reader = client.GeminiReader
    decode_failure = staticmethod(parts.read_failure)
    encode_failure = staticmethod(parts.write_failure)
    find_calls = staticmethod(wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        path = write_model(model if model.startswith(("models/", "tunedModels/")) else f"models/{model}")
        return f"/{path}:streamGenerateContent?alt=sse" if stream else f"/{path}:generateContent"

    def _offer(self, tools: Iterable[Tool]) -> Offer:
        return offer(tools, self.rules.names, lambda tool: client.target_of(tool, self.quirks), self.quirks)

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        body = client.write_history(draft.history, self.quirks, losses)
        body |= client.write_tools(request, draft.offered, self.quirks, losses)
        body |= client.write_config(request, self.quirks, losses)
        return client.add_own(body, request, losses)

    def _as_body(self, plain: Any) -> Any:
        # A list of chunks, and an error wrapped in a list, are read too.
        return plain if isinstance(plain, dict | list) else {}

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        fields = parts.camel(fields)
        tools, others = server.read_tools(fields)
        options = server.read_options(fields, others)
        return Request(model or as_text(fields.get("model")), server.read_contents(fields, tools), tools, options)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_response(reply)

    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        return server.ChunkWriter(model, id)

    def keep_alive(self, model: str = "", created: int = 0) -> bytes:
        # The vendor's client for JavaScript cannot read comments in a stream.
        return b'data: {"candidates": []}\r\n\r\n'

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return client.write_definitions(offered, self.quirks)

    def write_result(self, result: ToolResult) -> JsonObject:
        """One result as a content of its own."""
        writer = parts.ResultWriter([], holds_media=self.quirks.result_images)
        return {"role": "user", "parts": writer.write([(result, True)])}
