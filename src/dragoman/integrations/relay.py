"""One request of an SDK: sent to the endpoint that it was meant for, and the repaired answer. Without an HTTP library.

What needs no repair stays as it is. A request is sent with its own bytes unless its tools or its messages have to
change. Of a whole answer, only the values change that the repair changes. An answer that is no reply, such as an error,
is returned with its status, its headers and its body, so that the SDK raises its own error.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import DecodeError, Struct
from msgspec.json import decode
from msgspec.structs import replace

from dragoman.client.exchange import AnswerReader
from dragoman.client.retry import ClientEvent, RequestPrepared, RequestRetried
from dragoman.client.transport import HttpResponse
from dragoman.errors import DragomanError
from dragoman.events import Event, ReplyEnded, ReplyFailed, ReplyStarted
from dragoman.extraction.tool_mode import ComposedRequest
from dragoman.pipeline import Verdict
from dragoman.pipeline.exchange import Exchange
from dragoman.pipeline.report import Report
from dragoman.pipeline.requests import settle_fields
from dragoman.pipeline.writers import EXCHANGE_HEADER, is_json_array, open_writer, stream_type, write_reply
from dragoman.providers import Endpoint
from dragoman.providers.endpoint import codec_of
from dragoman.replies import fold
from dragoman.secrets.exchanges import RequestRedactor
from dragoman.stage import Stage
from dragoman.types import Failure, InvalidCall, JsonObject, Request
from dragoman.wire import registry
from dragoman.wire.aliases import Aliases
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.failures import Loss
from dragoman.wire.values import parse, write_bytes

_FIRST_ERROR = 300
_FRAMED = frozenset({"content-length", "content-encoding", "transfer-encoding"})
"""The headers that describe a body which is not passed on as it came."""
_CLOSED_EARLY = "the stream was closed before its end"


class Answered(HttpResponse, Protocol):
    """The answer of an endpoint, with all of its headers."""

    @property
    def pairs(self) -> list[tuple[str, str]]: ...


Send = Callable[[bytes | None], Awaitable[Answered]]
"""Sends a request of the SDK, with another body or, for None, with its own."""


class Answer(Struct):
    """What the SDK receives. The body is whole, or a stream."""

    status: int
    pairs: list[tuple[str, str]]
    body: bytes | Body


class Asked(Struct, frozen=True):
    """A request of an SDK, as it came."""

    codec: Codec
    request: Request
    fields: JsonObject
    query: str
    endpoint: Endpoint
    redactor: RequestRedactor


class Body:
    """The body of an answer. `close` ends it at any time, and the exchange with it."""

    def __init__(self, pieces: AsyncGenerator[bytes], close: Callable[[], Awaitable[None]]) -> None:
        self._pieces = pieces
        self._close = close
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._pieces.aclose()
        finally:
            # A generator that never began does not run its own end.
            await self._close()


class _Recorded:
    """An answer whose bytes are kept as they are read, until somebody has received some of them."""

    def __init__(self, response: Answered) -> None:
        self.response = response
        self.is_kept = True
        self._kept: list[bytes] = []
        self._pieces = response.pieces()

    async def pull(self) -> bytes | None:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            return None
        if self.is_kept:
            self._kept.append(piece)
        return piece

    async def read(self) -> None:
        """Read the rest."""
        while await self.pull() is not None:
            pass

    @property
    def data(self) -> bytes:
        return b"".join(self._kept)

    def forget(self) -> None:
        self.is_kept = False
        self._kept.clear()

    def note_failure(self, asked: Asked, report: Report) -> None:
        """Note the error that the endpoint told, without the keys of the request."""
        status, headers = self.response.status, self.response.headers
        if status >= _FIRST_ERROR:
            report.fail(asked.codec.decode_failure(status, parse(self.data), headers))
            report.failure = asked.redactor.text(report.failure)

    def pairs(self, report: Report, *, is_same: bool = False) -> list[tuple[str, str]]:
        """Return the headers for the SDK. The ids and limits of the endpoint are among them.

        `is_same` is for a body that stays as it is. An error keeps its headers, too.
        """
        kept = self.response.pairs
        if not is_same or "content-encoding" in self.response.headers:
            kept = [(name, value) for name, value in kept if name.lower() not in _FRAMED]
        return kept if self.response.status >= _FIRST_ERROR else [*kept, (EXCHANGE_HEADER, report.id)]


class EndpointSender:
    """Sends the requests of an exchange through the HTTP client of the SDK. It neither retries nor signs."""

    def __init__(self, asked: Asked, send: Send) -> None:
        self.endpoint = asked.endpoint
        self.last: _Recorded | None = None
        """The last answer of the endpoint."""
        self.read: _Recorded | None = None
        """The last answer that is a reply."""
        self._records = True
        self._asked = asked
        self._send = send
        self._codec = codec_of(asked.endpoint)
        self._codec.is_shared = True

    def stop_recording(self) -> None:
        """Keep no bytes from now on: the SDK has received a part of the reply, so no answer can replace it."""
        self._records = False
        if self.last is not None:
            self.last.forget()

    def note(self, _: ComposedRequest, verdict: Verdict) -> None:
        """Note that a reply was read."""
        if verdict.failure is None:
            self.read = self.last

    async def fetch(self, request: Request) -> tuple[list[RequestPrepared | RequestRetried], list[Event]]:
        notices: list[RequestPrepared | RequestRetried] = []
        events: list[Event] = []
        async for batch in self._receive(request, notices, whole=True):
            events += batch
        return notices, events

    async def stream_batches(self, request: Request) -> AsyncGenerator[Sequence[ClientEvent]]:
        notices: list[RequestPrepared | RequestRetried] = []
        received = self._receive(request, notices, whole=False)
        try:
            async for batch in received:
                yield [*notices, *batch]
                notices.clear()
        finally:
            await received.aclose()

    def _change(self, prepared: Prepared) -> tuple[JsonObject, tuple[Loss, ...]]:
        """Return the body of the SDK with what has to change in it, and what was lost: not what no codec knows."""
        if prepared.aliases.names or prepared.aliases.undo:
            # The messages and the reply have the names and the schemas of the codec.
            return prepared.body, prepared.losses
        asked = self._asked
        plain = self._codec.prepare(settle_fields(asked.request, asked.codec.name, self.endpoint.wire)[0])
        losses = tuple(loss for loss in prepared.losses if loss not in plain.losses)
        return patch(asked.fields, plain.body, prepared.body), losses

    async def _receive(
        self, request: Request, notices: list[RequestPrepared | RequestRetried], *, whole: bool
    ) -> AsyncGenerator[list[Event]]:
        asked = self._asked.request
        prepared = self._codec.prepare(request)
        body: bytes | None = None
        losses = prepared.losses
        if request.messages == asked.messages and request.tools == asked.tools:
            # Its own bytes have its own names and schemas, so nothing in the reply is an alias.
            prepared, losses = replace(prepared, aliases=Aliases()), ()
        else:
            changed, losses = self._change(prepared)
            body = write_bytes({**self.endpoint.body, **changed})
        name = f"{self.endpoint.provider.name}:{request.model}"
        notices.append(RequestPrepared(losses, len(body or b""), name))
        response = await self._send(body)
        self.last = recorded = _Recorded(response)
        recorded.is_kept = self._records
        try:
            redactor = self._asked.redactor
            reader = AnswerReader(self._codec, prepared, redactor, response, recorded.pull, whole, time.time())
            while (events := await reader.next()) is not None:
                yield events
            if self._records:
                # The reader stops at an answer that it cannot use. The SDK receives all of it.
                await recorded.read()
        finally:
            await response.close()


class OpenExchange(Protocol):
    """Opens the exchange of a request. `asks_again` says whether a repair turn may replace the reply."""

    def __call__(self, request: Request, sender: EndpointSender, report: Report, *, asks_again: bool) -> Exchange: ...


class Relay:
    """Answers one request of an SDK."""

    def __init__(
        self, asked: Asked, send: Send, open_exchange: OpenExchange, report: Report, end: Callable[[], None]
    ) -> None:
        """`end` is called once, when the answer is complete or was closed."""
        self._asked = asked
        self._send = send
        self._report = report
        self._end = end
        self._sender = EndpointSender(asked, send)
        self._open_exchange = open_exchange
        self._began = time.monotonic()
        self._created = int(time.time())
        self._has_ended = False

    async def answer(self) -> Answer:
        """Return the answer. Its body is a stream if the request asks for one."""
        try:
            answer = await self._answer()
        except BaseException as error:
            self._finish(type(error).__name__)
            raise
        if isinstance(answer.body, bytes):
            self._finish()
        return answer

    async def _answer(self) -> Answer:
        request, report = self._asked.request, self._report
        streams = bool(request.options.get("stream"))
        settled, left_out = settle_fields(request, self._asked.codec.name, self._asked.endpoint.wire)
        if not request.tools:
            return await self._pass_on()
        if streams and left_out:
            report.notes.append("passed on as it came: a repaired stream has one reply, without likelihoods")
            return await self._pass_on()
        # A repair turn asks for one reply, and the SDK has asked for several, or for likelihoods.
        exchange = self._open_exchange(replace(settled, model=""), self._sender, report, asks_again=not left_out)
        try:
            return await (self._stream(exchange) if streams else self._ask(exchange))
        except DragomanError as error:
            if self._sender.last is not None:
                raise
            return await self._give_up(str(error))

    def _finish(self, failure: str = "") -> None:
        if self._has_ended:
            return
        self._has_ended = True
        report = self._report
        report.failure = report.failure or failure
        report.seconds = report.seconds or round(time.monotonic() - self._began, 4)
        self._end()

    # ---- whole ------------------------------------------------------------------------------------------------------

    async def _ask(self, exchange: Exchange) -> Answer:
        reply = await exchange.ask()
        if reply.failure is not None:
            return await self._return_failure(reply.failure)
        last, codec, request = self._find_answer(exchange), self._asked.codec, self._asked.request
        reply = replace(reply, model=exchange.reply_model or request.model, id=exchange.reply_id)
        body: Any = write_reply(codec, request, reply, self._created)
        raw = parse(last.data)
        if last.response.status < _FIRST_ERROR and isinstance(raw, dict):
            received = codec.decode_reply(raw)
            # A call that is truncated or cannot be read is written as text. The call itself must not remain next to it.
            is_broken = any(isinstance(part, InvalidCall) for part in received.message.parts)
            before = {} if is_broken else write_reply(codec, request, received, self._created)
            row = registry.ROWS.get(codec.name)
            body = replace_calls(patch(raw, before, body), body, needs_ids=row is None or row.call_ids)
            if body == raw:
                return Answer(last.response.status, last.pairs(self._report, is_same=True), last.data)
        pairs = _with_type(last.pairs(self._report), "application/json")
        return Answer(200, pairs, write_bytes(body))

    def _find_answer(self, exchange: Exchange) -> _Recorded:
        """Return the answer that the SDK receives, repaired: the last one, unless a repair turn failed."""
        answer = self._sender.read if exchange.has_fallen_back else self._sender.last
        assert answer is not None
        return answer

    async def _return_failure(self, failure: Failure) -> Answer:
        """Return an answer that is no reply as it came, or an error of our own in the form of the wire."""
        last, report = self._sender.last, self._report
        if last is not None:
            last.note_failure(self._asked, report)
            return Answer(last.response.status, last.pairs(report, is_same=True), last.data)
        if failure.kind == "bad_request":
            return await self._give_up(failure.message)
        status, body = self._asked.codec.encode_failure(failure)
        return Answer(status, [("content-type", "application/json"), (EXCHANGE_HEADER, report.id)], write_bytes(body))

    async def _give_up(self, why: str) -> Answer:
        """Pass on a request that cannot be written for a repair. Only the endpoint can tell what is wrong with it."""
        self._report.notes.append(f"passed on as it came: {why}")
        self._report.failure = ""
        return await self._pass_on()

    # ---- streams ----------------------------------------------------------------------------------------------------

    async def _stream(self, exchange: Exchange) -> Answer:
        batches = exchange.stream()
        try:
            first = await anext(batches)
        except BaseException:
            await batches.aclose()
            raise
        if isinstance(first[0], ReplyFailed):
            await batches.aclose()
            return await self._return_failure(first[0].failure)
        last, codec, request = self._find_answer(exchange), self._asked.codec, self._asked.request
        self._sender.stop_recording()
        is_array = is_json_array(codec, self._asked.query)
        writer = open_writer(codec, request, exchange.reply_id, self._created, is_array=is_array)
        started = ReplyStarted(exchange.reply_model or request.model, exchange.reply_id)
        pieces = self._write([started, *first], batches, writer)
        pairs = _with_type(last.pairs(self._report), stream_type(codec, is_array=is_array))
        return Answer(200, pairs, Body(pieces, lambda: self._close(batches)))

    async def _write(
        self, first: list[Event], batches: AsyncGenerator[list[Event]], writer: Stage[Event, bytes]
    ) -> AsyncGenerator[bytes]:
        yield b"".join([frame for event in first for frame in writer.feed(event)])
        try:
            async for batch in batches:
                if data := b"".join([frame for event in batch for frame in writer.feed(event)]):
                    yield data
        except Exception as error:
            # The SDK raises its own error for a connection that breaks.
            self._finish(type(error).__name__)
            raise
        if last := b"".join(writer.close()):
            yield last
        self._finish()

    async def _close(self, batches: AsyncGenerator[Any]) -> None:
        try:
            await batches.aclose()
        finally:
            if not self._report.stop and not self._has_ended:
                self._report.notes.append(_CLOSED_EARLY)
            self._finish()

    # ---- answers that are passed on as they came --------------------------------------------------------------------

    async def _pass_on(self) -> Answer:
        """Pass on an answer as it came, and note what it contains."""
        asked = self._asked
        self._report.model = f"{asked.endpoint.provider.name}:{asked.request.model}"
        self._report.streamed = bool(asked.request.options.get("stream"))
        watched = _Watched(asked, await self._send(None), self._report, self._finish)
        pairs = watched.pairs(self._report, is_same=True)
        return Answer(watched.response.status, pairs, Body(self._copy(watched), watched.close))

    async def _copy(self, watched: _Watched) -> AsyncGenerator[bytes]:
        try:
            while (piece := await watched.pull()) is not None:
                yield piece
        except Exception as error:
            self._finish(type(error).__name__)
            raise


class _Watched(_Recorded):
    """An answer that is passed on as it came. At its end, its content is noted in the report."""

    def __init__(self, asked: Asked, response: Answered, report: Report, end: Callable[[], None]) -> None:
        super().__init__(response)
        self._asked = asked
        self._report = report
        self._end = end
        self._stream = asked.codec.reply_stream() if report.streamed and response.status < _FIRST_ERROR else None
        self._events: list[Event] = []
        self._is_whole = False
        self.is_kept = self._stream is None

    async def pull(self) -> bytes | None:
        piece = await super().pull()
        if piece is not None and self._stream is not None:
            self._events += self._stream.feed(piece)
        self._is_whole = piece is None
        return piece

    async def close(self) -> None:
        try:
            await self.response.close()
        finally:
            self._note()
            self._end()

    def _note(self) -> None:
        if self._stream is not None and self._is_whole:
            self._events += self._stream.close()
        if self.response.status >= _FIRST_ERROR:
            self.note_failure(self._asked, self._report)
        elif self._stream is None:
            self._report.add_reply(self._asked.codec.decode_reply(self.data))
        elif any(isinstance(event, ReplyEnded) for event in self._events):
            self._report.add_reply(fold(self._events))
        else:
            self._report.notes.append(_CLOSED_EARLY)


def patch(raw: Any, before: Any, after: Any) -> Any:
    """Return `raw` with the changes that lead from `before` to `after`.

    Codecs write what they know. What only the endpoint knows stays in the answer.
    """
    if before == after:
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        kept = {name: value for name, value in raw.items() if name in after or name not in before}
        fresh = {name: value for name, value in after.items() if name not in before or before[name] != value}
        return {**kept, **{name: patch(raw.get(name), before.get(name), value) for name, value in fresh.items()}}
    if (
        isinstance(raw, list)
        and isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after) <= len(raw)
    ):
        changed = [patch(*each) for each in zip(raw, before, after, strict=False)]
        return [*changed, *raw[len(after) :]]
    return after


_ARGUMENTS = ("arguments", "input", "args")


def replace_calls(answer: Any, written: Any, *, needs_ids: bool) -> Any:
    """Return an answer with its calls as they are written, where they differ from that in more than their layout.

    A codec repairs what it reads: broken JSON in arguments, objects where the wire has text, missing ids. `patch` sees
    the same values before and after, so the fault would stay in the answer.
    """
    if isinstance(answer, list) and isinstance(written, list) and len(written) <= len(answer):
        changed = [replace_calls(*each, needs_ids=needs_ids) for each in zip(answer, written, strict=False)]
        return [*changed, *answer[len(written) :]]
    if not (isinstance(answer, dict) and isinstance(written, dict)):
        return answer
    is_call = _is_call(written) and answer.get("name") == written.get("name")
    mended = dict(answer)
    for name, value in written.items():
        if isinstance(answer.get(name), dict | list) and isinstance(value, dict | list) and name not in _ARGUMENTS:
            mended[name] = replace_calls(answer[name], value, needs_ids=needs_ids)
        elif is_call and (name in _ARGUMENTS or (needs_ids and name == "id")) and not _is_same(answer.get(name), value):
            mended[name] = value
    return mended


def _is_call(written: dict[str, Any]) -> bool:
    """Whether an object is a call, or holds one as its `function`."""
    inner = written.get("function")
    return any(name in written for name in _ARGUMENTS) or (isinstance(inner, dict) and _is_call(inner))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal, or JSON texts of equal values."""
    if one == other or not (isinstance(one, str) and isinstance(other, str)):
        return type(one) is type(other) and one == other
    try:
        return bool(decode(one) == decode(other))
    except DecodeError:
        return False


def _with_type(pairs: list[tuple[str, str]], kind: str) -> list[tuple[str, str]]:
    """Return the headers with a content type, unless they have it already."""
    given = next((value for name, value in pairs if name.lower() == "content-type"), "")
    if given.partition(";")[0].strip().lower() == kind.partition(";")[0]:
        return pairs
    return [*((name, value) for name, value in pairs if name.lower() != "content-type"), ("content-type", kind)]
