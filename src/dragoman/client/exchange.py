"""One attempt at a request: it is signed, sent, decoded into events, and always closed."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from html import unescape
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from dragoman.characters import escape_text
from dragoman.client.auth import Auth
from dragoman.client.rate_limit import RateLimiter, Slot
from dragoman.client.retry import Breaker, counts, read_delay
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.events import Event, ReplyEnded, ReplyFailed, UsageReported
from dragoman.secrets.exchanges import RequestRedactor, RequestRedactors
from dragoman.types import Failure
from dragoman.wire.codec import Codec, Prepared, ReplyStream, read_streamed
from dragoman.wire.framing import may_precede_content, skip_to_content
from dragoman.wire.registry import ROWS
from dragoman.wire.values import BROKEN, parse, parse_frame

# --------------------------------------------------------------------------------------------------------------------
# `DRAGOMAN_DEBUG` shows the exact bytes of every request and answer, without the secrets.
#
# `1` writes to stderr, a path appends to that file, a function is called with each block. One block contains one
# request and its answer. It is written at the end of the answer, so that blocks of concurrent requests do not mix.

VARIABLE = "DRAGOMAN_DEBUG"
SHOWN = 1024 * 1024
"""How many bytes of a body are shown."""
_OFF = frozenset({"", "0", "false", "no", "off"})
_ON = frozenset({"1", "true", "yes", "on", "stderr", "-"})

Writer = Callable[[str], object]


def choose_writer(given: bool | str | Path | Writer | None, environment: Mapping[str, str]) -> Writer | None:
    """Return the function that receives the blocks; None without debug output."""
    setting = environment.get(VARIABLE, "") if given is None else given
    if callable(setting):
        return setting
    text = "1" if setting is True else "" if setting is False else str(setting).strip()
    if text.lower() in _OFF:
        return None
    if text.lower() in _ON:
        return _write_to_stderr

    def append(block: str) -> None:
        with Path(text).open("a", encoding="utf-8") as file:
            file.write(block + "\n")

    return append


class Record:
    """One request and its answer, for debug output."""

    def __init__(self, request: HttpRequest, scrubber: RequestRedactor) -> None:
        self._scrubber = scrubber
        self._parts: list[bytes] = []
        self._size = 0
        self._missing = 0
        self._request = request
        self._head = "no answer"

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._head = self._show_head(f"HTTP/1.1 {status}", headers)

    def add(self, piece: bytes) -> None:
        room = SHOWN - self._size
        if room > 0:
            self._parts.append(piece[:room])
            self._size += min(len(piece), room)
        self._missing += max(0, len(piece) - max(0, room))

    def write(self, number: int, note: str = "") -> str:
        """Return the block. Each body is redacted as a whole, so that a secret in two pieces is found."""
        request = self._request
        head = self._show_head(f"{request.method} {self._scrubber.address(request.url)}", request.headers)
        sent = self._show(request.body[:SHOWN], max(0, len(request.body) - SHOWN))
        came = self._show(b"".join(self._parts), self._missing)
        end = f"\n--- {self._scrubber.text(note)}" if note else ""
        return f"=== request {number}\n{head}\n\n{sent}\n--- answer {number}\n{self._head}\n\n{came}{end}\n"

    def _show_head(self, first: str, headers: Mapping[str, str]) -> str:
        return "\n".join([first, *(f"{name}: {self._scrubber.header(name, value)}" for name, value in headers.items())])

    def _show(self, data: bytes, missing: int) -> str:
        text = self._scrubber.data(data).decode("utf-8", "backslashreplace")
        return f"{text}\n... and {missing} bytes more" if missing else text


class Debugger:
    """Numbers the blocks of one client and passes them to the writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._count = 0

    def close(self, record: Record, note: str = "") -> None:
        self._count += 1
        self._writer(record.write(self._count, note))


def _write_to_stderr(block: str) -> None:
    print(escape_text(block), file=sys.stderr, flush=True)


# --------------------------------------------------------------------------------------------------------------------
# Decoding of an HTTP answer into the events of a reply, for any kind of answer.

_STREAMS = frozenset(
    {
        "text/event-stream",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/json-lines",
        "application/stream+json",
        "application/vnd.amazon.eventstream",
    }
)
# Generic content types of careless servers: the body decides instead.
_VAGUE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
# With one of these the transport knows where the body ends.
_ENDS = frozenset({"content-length", "transfer-encoding"})
_MOST_OF_AN_ERROR = 1024 * 1024
_QUOTED = 200

Pull = Callable[[], Awaitable[bytes | None]]


def fail_reply(failure: Failure) -> list[Event]:
    """Return the events of a reply that failed before it started."""
    return [ReplyFailed(failure), ReplyEnded("error")]


def from_fault(fault: TransportFault) -> Failure:
    return Failure(fault.kind, fault.message, code=fault.code)


class AnswerReader(Struct, eq=False):
    """Decodes one answer. `next` returns the events as they arrive, and None after the last; it raises nothing.

    `pull` returns the pieces of the body, and None after the last.
    """

    codec: Codec
    prepared: Prepared
    scrubber: RequestRedactor
    response: HttpResponse
    pull: Pull
    whole: bool
    now: float
    _stage: ReplyStream | None = None
    _began: bool = False

    async def next(self) -> list[Event] | None:
        if not self._began:
            self._began = True
            return await self._begin()
        return await self._read_on() if self._stage is not None else None

    async def _begin(self) -> list[Event] | None:
        """Determine the kind of the answer by its status, its content type, or its first bytes."""
        status = self.response.status
        if status >= 300 or status < 200:
            return fail_reply(await self._read_failure())
        kind = self.response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _STREAMS:
            return await self._open_stream()
        if kind in _VAGUE:
            return await self._sniff()
        if kind == "application/json" or kind.endswith("+json"):
            return await self._read_whole()
        return fail_reply(await self._refuse(f"the answer has the unexpected type {kind}"))

    # ---- streams ----------------------------------------------------------------------------------------------------

    async def _open_stream(self, head: bytes = b"") -> list[Event] | None:
        stage = self._stage = self.codec.reply_stream(self.prepared)
        return (stage.feed(head) if head else None) or await self._read_on()

    async def _read_on(self) -> list[Event] | None:
        stage = self._stage
        assert stage is not None
        try:
            while (piece := await self.pull()) is not None:
                if events := stage.feed(piece):
                    return events
        except TransportFault as fault:
            self._stage = None
            return blame(stage.cut(), fault)
        self._stage = None
        # A body that only the end of the connection ends may have been cut anywhere.
        return stage.cut() if _ENDS.isdisjoint(self.response.headers) else stage.close()

    async def _sniff(self) -> list[Event] | None:
        """Detect one JSON object or frames, if the server did not declare the type."""
        head = b""
        try:
            while may_precede_content(head) and (piece := await self.pull()) is not None:
                head = skip_to_content(head + piece)
        except TransportFault as fault:
            return fail_reply(from_fault(fault))
        if self.whole or (head[:1] in (b"{", b"<") and not ROWS[self.codec.name].streams_objects):
            return await self._read_whole(head)
        return await self._open_stream(head)

    # ---- whole bodies -----------------------------------------------------------------------------------------------

    async def _read_whole(self, head: bytes = b"") -> list[Event]:
        parts = [head] if head else []
        try:
            while (piece := await self.pull()) is not None:
                parts.append(piece)
        except TransportFault as fault:
            return fail_reply(from_fault(fault))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        body = parse_frame(data)
        if body is BROKEN:
            # Bytes that are no characters are replaced, as they are in a stream.
            body = parse_frame(data.decode("utf-8", "replace"))
        if isinstance(body, dict):
            return self.codec.read_body(body, self.prepared)
        # Some servers stream whatever the request says, and some proxies of Ollama declare a stream as JSON.
        streamed = read_streamed(self.codec.reply_stream(self.prepared), data)
        if streamed is not None:
            return streamed
        what = "is not JSON" if body is BROKEN else "is not a JSON object"
        return fail_reply(self._broken(f"the answer {what}", data))

    async def _refuse(self, message: str) -> Failure:
        return self._broken(message, await self._read_some(64 * _QUOTED), "content_type")

    def _broken(self, message: str, data: bytes, code: str = "") -> Failure:
        # Redacted before it is cut: half of a secret would not be recognised.
        begins = self.scrubber.data(data[: 64 * _QUOTED]).decode("utf-8", "replace")[:_QUOTED]
        return Failure("broken_protocol", f"{message}; it begins: {begins!r}", code=code, body=begins)

    # ---- errors -----------------------------------------------------------------------------------------------------

    async def _read_failure(self) -> Failure:
        status, headers = self.response.status, self.response.headers
        if 300 <= status < 400:
            return self._redirect(status, headers)
        data = self.scrubber.data(await self._read_some(_MOST_OF_AN_ERROR))
        body: Any = parse(data)
        if body is BROKEN:
            body = data.decode("utf-8", "replace")[: 5 * _QUOTED]
        failure = self.codec.decode_failure(status, body, headers)
        message = failure.message
        if isinstance(body, str) and message in ("", body):
            message = _read_page(body)[:_QUOTED]
        message = message or f"status {status}: no message"
        delay = read_delay(headers, self.now)
        return structs.replace(failure, message=message, status=status, retry_after=delay)

    async def _read_some(self, most: int) -> bytes:
        """Return the beginning of a body. A broken connection ends it: the beginning of an error message is enough."""
        parts: list[bytes] = []
        size = 0
        try:
            while size < most and (piece := await self.pull()) is not None:
                parts.append(piece)
                size += len(piece)
        except TransportFault:
            pass
        return b"".join(parts)[:most]

    def _redirect(self, status: int, headers: Mapping[str, str]) -> Failure:
        place = self.scrubber.address(headers.get("location", ""))[:_QUOTED] or "nowhere"
        message = f"the server redirects to {place}; redirects are not followed, so that no other server gets the key"
        return Failure("broken_protocol", message, status=status, code="redirect")


_UNSEEN = re.compile(r"<(style|script)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


def _read_page(text: str) -> str:
    """The words of an error that is no JSON on one line; those of a web page, such as that of a proxy, without tags."""
    if text.lstrip().startswith("<"):
        text = unescape(_TAG.sub(" ", _UNSEEN.sub(" ", text)))
    return " ".join(text.split())


def blame(events: list[Event], fault: TransportFault) -> list[Event]:
    """Return the end of a reply with the real cause: the codec only knows that the stream was cut."""
    failure = from_fault(fault)
    return [
        ReplyFailed(failure) if isinstance(event, ReplyFailed) and event.failure.kind == "stream_cut" else event
        for event in events
    ]


# --------------------------------------------------------------------------------------------------------------------
# One exchange: it sends a request, reads the answer within the deadline, records it for debug output, and closes.

T = TypeVar("T")


class Exchange(Struct, eq=False):
    """A request and its answer, until `close`."""

    transport: Transport
    timeouts: Timeouts
    clock: Callable[[], float]
    deadline: float | None
    debugger: Debugger | None
    _record: Record | None = None
    _response: HttpResponse | None = None
    _pieces: AsyncIterator[bytes] | None = None
    _note: str = "the answer was not read to the end"
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[Any] | None = None
    _expired: bool = False

    async def within(self, work: Awaitable[T]) -> T:
        """Wait for a value until the deadline.

        Like `asyncio.timeout`, but with one timer for all waits of the exchange: a stream has thousands of them.
        """
        if self.deadline is None:
            return await work
        if self._timer is None:
            left = max(0.0, self.deadline - self.clock())
            self._timer = asyncio.get_running_loop().call_later(left, self._expire)
        task = self._task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            return await work
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= before:
                raise TransportFault("timed_out", "the deadline of the request passed", code="deadline") from None
            raise
        finally:
            self._task = None

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    def _check_deadline(self) -> None:
        if self._expired:
            raise TransportFault("timed_out", "the deadline of the request passed", code="deadline")

    async def send(self, request: HttpRequest, scrubber: RequestRedactor) -> HttpResponse:
        """Send the request and return the answer when its head has arrived."""
        if self.debugger is not None:
            self._record = Record(request, scrubber)
        try:
            self._check_deadline()
            sent = self.transport.send(request, self.timeouts)
            response = self._response = await (sent if self.deadline is None else self.within(sent))
        except TransportFault as fault:
            self._note = f"{fault.kind}: {fault.message}"
            raise
        self._pieces = response.pieces()
        if self._record is not None:
            self._record.begin(response.status, response.headers)
        return response

    async def next_piece(self) -> bytes | None:
        """Return the next piece of the body; None after the last. Raises TransportFault if the connection breaks."""
        assert self._pieces is not None
        try:
            self._check_deadline()
            arrival = anext(self._pieces)
            piece = await (arrival if self.deadline is None else self.within(arrival))
        except StopAsyncIteration:
            self._note = ""
            return None
        except TransportFault as fault:
            self._note = f"{fault.kind}: {fault.message}"
            raise
        if self._record is not None:
            self._record.add(piece)
        return piece

    async def close(self) -> None:
        """Release or drop the connection, and write the debug block."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._response is not None:
                await self._response.close()
        finally:
            if self.debugger is not None and self._record is not None:
                self.debugger.close(self._record, self._note)
                self._record = None


# --------------------------------------------------------------------------------------------------------------------
# One attempt: it signs and sends the request once, decodes the answer, and reports the outcome to the circuit breaker.


_BYTES_PER_TOKEN = 4
"""The estimate for a rate limiter, until the endpoint reports the tokens."""
_LONGEST_PAUSE = 60.0


class Plan(Struct):
    """One request, ready to be sent any number of times."""

    request: HttpRequest
    prepared: Prepared
    whole: bool
    model: str
    origin: str


class Attempt(Struct, eq=False):
    """`next` returns the events as they arrive, and None after the last. Every fault becomes a failure event.

    It is not a nested generator, so that `close` is the only place that ends a connection, at once.
    """

    plan: Plan
    exchange: Exchange
    auth: Auth
    breaker: Breaker
    scrubbers: RequestRedactors
    codec: Codec
    clock: Callable[[], float]
    calendar: Callable[[], float]
    limiter: RateLimiter | None = None
    _slot: Slot | None = None
    _reader: AnswerReader | None = None
    _failure: Failure | None = None
    _began: bool = False
    _ended: bool = False
    _counted: bool = False
    _names_key: bool = False

    async def next(self) -> list[Event] | None:
        if self._ended:
            return None
        if not self._began:
            self._began = True
            refusal = await self._begin()
            if refusal is not None:
                self._ended = True
                return fail_reply(self._hide_keys(refusal))
        assert self._reader is not None
        events = await self._reader.next()
        if events is None:
            self._ended = True
            return None
        if self._slot is not None:
            self._count_tokens(self._slot, events)
        # An end event always follows a failure event.
        if len(events) > 1 and ReplyFailed in map(type, events):
            events = [self._look(event) if type(event) is ReplyFailed else event for event in events]
        return events

    async def close(self) -> None:
        """Drop the unread rest, and report the outcome to the circuit breaker."""
        if self._counted:
            if not self._ended:
                self.breaker.abandoned()
            elif self._failure is not None and counts(self._failure):
                self.breaker.failed(self.clock())
            else:
                self.breaker.succeeded()
            self._counted = False
        if self._slot is not None:
            if self.limiter is not None and self._failure is not None and self._failure.kind == "rate_limited":
                # The other requests of this limiter would be rejected as well.
                self.limiter.hold(min(self._failure.retry_after or 0.0, _LONGEST_PAUSE))
            self._slot.release()
        await self.exchange.close()

    async def _begin(self) -> Failure | None:
        """Send the request. Returns the failure if no answer arrived."""
        if self.limiter is not None:
            self._slot = self.limiter.slot(len(self.plan.request.body) // _BYTES_PER_TOKEN)
            try:
                await self.exchange.within(self._slot.acquire())
            except TransportFault as fault:
                return from_fault(fault)
        wait = self.breaker.allow(self.clock())
        if wait:
            message = f"{self.plan.origin} failed repeatedly; no requests are sent to it for {wait:.0f} s"
            return Failure("overloaded", message, code="circuit_open", retry_after=wait)
        self._counted = True
        try:
            signed = self.auth.sign(self.plan.request)
            request = await (signed if self.exchange.deadline is None else self.exchange.within(signed))
            scrubber = self.scrubbers.knowing(self.auth.secrets)
            response = await self.exchange.send(request, scrubber)
        except TransportFault as fault:
            self._failure = from_fault(fault)
            return self._failure
        self._names_key = response.status in (401, 403)
        self._reader = AnswerReader(
            self.codec,
            self.plan.prepared,
            scrubber,
            response,
            self.exchange.next_piece,
            self.plan.whole,
            self.calendar(),
        )
        return None

    def _count_tokens(self, slot: Slot, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, UsageReported):
                slot.report(event.usage.input_tokens + event.usage.output_tokens)

    def _look(self, event: ReplyFailed) -> ReplyFailed:
        """Store the failure. For a rejected key, add the name of its variable, never its value."""
        failure = self._hide_keys(event.failure)
        if self._names_key and self.auth.source:
            failure = structs.replace(failure, message=f"{failure.message} (key: {self.auth.source})")
        self._failure = failure
        return ReplyFailed(failure)

    def _hide_keys(self, failure: Failure) -> Failure:
        """Hide the keys. A server may repeat them inside a reply, or in an answer that is not HTTP."""
        scrubber = self.scrubbers.latest
        message, body = scrubber.text(failure.message), scrubber.structure(failure.body)
        return structs.replace(failure, message=message, code=scrubber.text(failure.code), body=body)
