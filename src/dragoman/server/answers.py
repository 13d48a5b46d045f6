"""The answer to one request: whole or streamed, with signs of life, in the wire of the client."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dragoman.events import Event, ReplyEnded, ReplyFailed, ReplyStarted
from dragoman.server.asgi import HttpCall, KeepAlive
from dragoman.stage import Stage
from dragoman.types import Failure, Request
from dragoman.wire.codec import Codec
from dragoman.wire.registry import ROWS

if TYPE_CHECKING:
    from dragoman.pipeline import Exchange

EXCHANGE_HEADER = "x-dragoman-exchange"
REPORT_TRAILER = "x-dragoman-report"
_IDS = {"openai_chat": "chatcmpl-", "openai_responses": "resp_", "anthropic": "msg_"}


async def answer_failure(call: HttpCall, codec: Codec, failure: Failure, headers: dict[str, str] | None = None) -> None:
    """Send an error in the form of a wire."""
    if failure.code == "pool":
        # The gateway itself has no connection left. It may have one soon.
        failure = replace(failure, status=503, retry_after=1.0)
    status, body = codec.encode_failure(failure)
    wait = {"retry-after": str(max(1, round(failure.retry_after)))} if failure.retry_after is not None else {}
    await call.answer_json(status, body, {**wait, **(headers or {})})


class _Answer:
    """What a whole and a streamed answer share."""

    def __init__(self, call: HttpCall, codec: Codec, request: Request, exchange: Exchange) -> None:
        self._call = call
        self._codec = codec
        self._request = request
        self._exchange = exchange
        self._headers = {EXCHANGE_HEADER: exchange.report.id}
        self._id = _IDS.get(codec.name, "") + exchange.report.id.rpartition("_")[2]
        self._created = int(time.time())

    def _tools(self) -> dict[str, Any]:
        """Calls of tools that came in a namespace go back with it, on the one wire that has namespaces."""
        return {"tools": self._request.tools} if self._codec.name == "openai_responses" else {}

    def _name_reply(self) -> str:
        """Return the id of the reply. A client of Responses can refer to the id of an endpoint that remembers it."""
        is_kept = self._codec.name == "openai_responses" == self._exchange.wire
        return (self._exchange.reply_id if is_kept else "") or self._id

    async def _fail(self, failure: Failure) -> None:
        await answer_failure(self._call, self._codec, failure, self._headers)


class WholeAnswer(_Answer):
    """A reply in one piece."""

    async def send(self) -> None:
        reply = await self._exchange.ask()
        if reply.failure is not None:
            await self._fail(reply.failure)
            return
        reply = replace(reply, model=self._request.model, id=self._name_reply())
        body = self._codec.encode_reply(reply, created=self._created, **self._tools())
        await self._call.answer_json(200, body, self._headers)


class StreamAnswer(_Answer):
    """A reply as a stream. It begins with the first event, or with the first sign of life."""

    def __init__(
        self, call: HttpCall, codec: Codec, request: Request, exchange: Exchange, *, keep_alive: float
    ) -> None:
        super().__init__(call, codec, request, exchange)
        self._interval = keep_alive
        writer = codec.event_stream(
            model=request.model, id=self._id, created=self._created, **self._tools(), **self._usage()
        )
        # Gemini sends events only to a client that asks for them.
        self._is_array = codec.name == "gemini" and "alt=sse" not in call.query
        self._writer: Stage[Event, bytes] = JsonArray(writer) if self._is_array else writer
        self._alive: KeepAlive | None = None

    def _usage(self) -> dict[str, Any]:
        """A client of the chat wire receives the usage of a stream if it asked for it."""
        if self._codec.name != "openai_chat":
            return {}
        own = self._request.options.get("openai_chat")
        asked = own.get("stream_options", {"include_usage": True}) if isinstance(own, dict) else {"include_usage": True}
        return {"include_usage": isinstance(asked, dict) and asked.get("include_usage") is True}

    async def send(self) -> None:
        self._alive = KeepAlive(self._interval, self._beat)
        try:
            async with aclosing(self._exchange.stream()) as batches:
                async for batch in batches:
                    if not self._call.has_begun:
                        if isinstance(batch[0], ReplyFailed):
                            await self._fail(batch[0].failure)
                            return
                        await self._begin()
                    await self._write(batch)
            last = b"".join(self._writer.close())
            if self._call.accepts_trailers:
                await self._call.end(last, {REPORT_TRAILER: self._exchange.report.shorten()})
            else:
                await self._call.send(last, more=False)
        finally:
            await self._alive.close()

    async def _begin(self) -> None:
        kind = "application/json; charset=UTF-8" if self._is_array else ROWS[self._codec.name].stream_type
        head = {"content-type": kind, "cache-control": "no-cache", "x-accel-buffering": "no", **self._headers}
        self._call.cut_off = self._cut_off
        if self._call.accepts_trailers:
            await self._call.begin_with_trailers(200, head, REPORT_TRAILER)
        else:
            await self._call.begin(200, head)
        await self._write([ReplyStarted(self._request.model, self._name_reply())])

    async def _write(self, batch: list[Event]) -> None:
        data = b"".join([frame for event in batch for frame in self._writer.feed(event)])
        if data:
            if self._alive is not None:
                self._alive.sent()
            await self._call.send(data)

    async def _cut_off(self, failure: Failure) -> None:
        frames = [*self._writer.feed(ReplyFailed(failure)), *self._writer.feed(ReplyEnded("error"))]
        await self._call.send(b"".join([*frames, *self._writer.close()]), more=False)

    async def _beat(self) -> None:
        """Send a sign of life. A client that waits for a model to load would otherwise give up."""
        if not self._call.has_begun:
            await self._begin()
        sign = b"\n" if self._is_array else self._codec.keep_alive(self._request.model, self._created)
        await self._call.send(sign)


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
