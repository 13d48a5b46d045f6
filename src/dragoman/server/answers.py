"""The answer to one request: whole or streamed, with signs of life, in the wire of the client."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.events import Event, ReplyEnded, ReplyFailed, ReplyStarted
from dragoman.pipeline.writers import EXCHANGE_HEADER, is_json_array, open_writer, stream_type, write_reply
from dragoman.server.asgi import HttpCall, KeepAlive
from dragoman.types import Failure, Request
from dragoman.wire.codec import Codec

if TYPE_CHECKING:
    from dragoman.pipeline import Exchange

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
        body = write_reply(self._codec, self._request, reply, self._created)
        await self._call.answer_json(200, body, self._headers)


class StreamAnswer(_Answer):
    """A reply as a stream. It begins with the first event, or with the first sign of life."""

    def __init__(
        self, call: HttpCall, codec: Codec, request: Request, exchange: Exchange, *, keep_alive: float
    ) -> None:
        super().__init__(call, codec, request, exchange)
        self._interval = keep_alive
        self._is_array = is_json_array(codec, call.query)
        self._writer = open_writer(codec, request, self._id, self._created, is_array=self._is_array)
        self._alive: KeepAlive | None = None

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
        kind = stream_type(self._codec, is_array=self._is_array)
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
