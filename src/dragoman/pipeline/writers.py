"""Replies in the wire of a client: whole, or as the bytes of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Reply, Request
from dragoman.wire.codec import Codec
from dragoman.wire.registry import ROWS

EXCHANGE_HEADER = "x-dragoman-exchange"
"""The header with the id of the exchange, by which its report is found."""


def write_reply(codec: Codec, request: Request, reply: Reply, created: int) -> JsonObject:
    """Return the body of a whole reply to a request."""
    return codec.encode_reply(reply, created=created, **_tools(codec, request))


def open_writer(
    codec: Codec, request: Request, id: str, created: int, *, is_array: bool = False
) -> Stage[Event, bytes]:
    """Return a stage from the events of a reply to the bytes of its stream."""
    fields = {**_tools(codec, request), **_usage(codec, request)}
    writer = codec.event_stream(model=request.model, id=id, created=created, **fields)
    return JsonArray(writer) if is_array else writer


def is_json_array(codec: Codec, query: str) -> bool:
    """Whether a client expects the frames of a stream in a JSON array: Gemini has events for those who ask for them."""
    return codec.name == "gemini" and "alt=sse" not in query


def stream_type(codec: Codec, *, is_array: bool = False) -> str:
    """Return the content type of a stream."""
    return "application/json; charset=UTF-8" if is_array else ROWS[codec.name].stream_type


def _tools(codec: Codec, request: Request) -> dict[str, Any]:
    """Calls of tools that came in a namespace go back with it, on the one wire that has namespaces."""
    return {"tools": request.tools} if codec.name == "openai_responses" else {}


def _usage(codec: Codec, request: Request) -> dict[str, Any]:
    """A client of the chat wire receives the usage of a stream if it asked for it."""
    if codec.name != "openai_chat":
        return {}
    own = request.options.get("openai_chat")
    asked = own.get("stream_options", {"include_usage": True}) if isinstance(own, dict) else {"include_usage": True}
    return {"include_usage": isinstance(asked, dict) and asked.get("include_usage") is True}


class JsonArray:
    """Writes the frames of a stream of events as the elements of one JSON array."""

    def __init__(self, writer: Stage[Event, bytes]) -> None:
        self._writer = writer
        self._before = b"["

    def feed(self, event: Event, /) -> list[bytes]:
        return self._convert(self._writer.feed(event))

    def close(self) -> list[bytes]:
        ended = self._convert(self._writer.close())
        return [*ended, b"[]" if self._before == b"[" else b"]"]

    def _convert(self, frames: Iterable[bytes]) -> list[bytes]:
        written: list[bytes] = []
        for frame in frames:
            written += (self._before, frame.removeprefix(b"data: ").rstrip())
            self._before = b",\r\n"
        return written
