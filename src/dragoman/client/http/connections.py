"""One connection: an asyncio protocol that sends a request, feeds the parser, and hands the body to a response.

Protocols and not streams: a stream copies every piece into a buffer and back, and wakes a task for each. Waiting is
watched by one lazy timer per connection, which costs nothing while answers come in time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from math import inf

from dragoman.client.http.decoding import Decoder, decoder_for
from dragoman.client.http.limits import Limits
from dragoman.client.http.parsing import END, Head, ResponseParser
from dragoman.client.transport import Timeouts, TransportFault

# When a reader is slow, the server has to wait: above the first mark we stop reading, below the second we go on.
_HIGH, _LOW = 256 * 1024, 64 * 1024
_TOGETHER = 64 * 1024

_MESSAGES = {
    "first_byte": "the server took more than {seconds:g} s to begin its answer",
    "idle": "nothing came for {seconds:g} s in the middle of an answer",
}


class Response:
    """An answer whose head has arrived; the body comes as it is asked for."""

    __slots__ = (
        "_connection",
        "_decoder",
        "_fault",
        "_left",
        "_pieces",
        "_steps",
        "_timeouts",
        "_wire_left",
        "buffered",
        "ended",
        "headers",
        "status",
        "waiter",
    )

    def __init__(self, head: Head, connection: Connection, limits: Limits, timeouts: Timeouts) -> None:
        self.status = head.status
        self.headers = head.headers
        self._connection: Connection | None = connection
        self._decoder: Decoder | None = decoder_for(head.headers)
        self._steps: Iterator[bytes] | None = None
        self._left = limits.body_bytes
        self._wire_left = limits.wire_bytes
        self._timeouts = timeouts
        self._pieces: deque[bytes] = deque()
        self._fault: TransportFault | None = None
        self.buffered = 0
        self.ended = False
        self.waiter: asyncio.Future[None] | None = None

    # ---- the reader's side -----------------------------------------------------------------------------------------

    def pieces(self) -> Response:
        return self

    def __aiter__(self) -> Response:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._steps is not None:
                piece = self._next_step()
            elif self._pieces:
                piece = self._take()
                if self._decoder is not None:
                    self._steps = self._decoder.decode(piece)
                    continue
            elif self.ended:
                self._check_end()
                raise StopAsyncIteration
            else:
                await self._wait()
                continue
            if piece:
                self._left -= len(piece)
                if self._left < 0:
                    self._give_up(
                        TransportFault("too_large", "the body of the answer is larger than allowed", code="body")
                    )
                return piece

    def _take(self) -> bytes:
        piece = self._pieces.popleft()
        self.buffered -= len(piece)
        if self._connection is not None and self.buffered < _LOW:
            self._connection.resume()
        return piece

    def _next_step(self) -> bytes:
        assert self._steps is not None
        try:
            return next(self._steps)
        except StopIteration:
            self._steps = None
            return b""
        except TransportFault as fault:
            return self._give_up(fault)

    def _give_up(self, fault: TransportFault) -> bytes:
        self._pieces.clear()
        self._steps = None
        self.ended = True
        self._fault = fault
        self._drop()
        raise fault

    def _check_end(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._decoder is not None:
            decoder, self._decoder = self._decoder, None
            try:
                decoder.close()
            except TransportFault as fault:
                self._fault = fault
                raise

    async def _wait(self) -> None:
        connection = self._connection
        assert connection is not None
        self.waiter = connection.loop.create_future()
        connection.watch(self._timeouts.idle, "idle")
        try:
            await self.waiter
        finally:
            self.waiter = None

    async def close(self) -> None:
        """Drop the connection unless the whole body has come, in which case it is already free for the next request."""
        self.abandon()

    def abandon(self) -> None:
        self._pieces.clear()
        self._steps = None
        self.buffered = 0
        if not self.ended:
            self.ended = True
            self._fault = TransportFault("stream_cut", "the answer was closed before its end", code="closed")
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    # ---- the connection's side -------------------------------------------------------------------------------------

    def add(self, piece: bytes) -> None:
        if not self.ended:
            self._wire_left -= len(piece)
            if self._wire_left < 0 and self._decoder is not None:
                raise TransportFault(
                    "too_large", "the compressed body of the answer is larger than allowed", code="wire"
                )
            self._pieces.append(piece)
            self.buffered += len(piece)

    def end(self, fault: TransportFault | None = None) -> None:
        if not self.ended:
            self.ended = True
            self._fault = fault
        self._connection = None
        self.wake()

    def wake(self) -> None:
        waiter = self.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Connection(asyncio.Protocol):
    """A connection to an origin, for one request at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        on_free: Callable[[Connection], None],
        on_lost: Callable[[Connection], None],
    ) -> None:
        self.loop = loop
        self.key: object = None
        self.used = False
        """Whether it has carried a whole answer before."""
        self._limits = limits
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        self._head: asyncio.Future[Response] | None = None
        self._response: Response | None = None
        self._timeouts = Timeouts()
        self._paused = False
        self._lost = False
        self._idle_limit = limits.idle_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = inf
        self._waits_for = ""
        self._seconds = 0.0
        self.closed: asyncio.Future[None] = loop.create_future()

    @property
    def usable(self) -> bool:
        return (
            not self._lost and self._parser is None and self._transport is not None and not self._transport.is_closing()
        )

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    # ---- one exchange ----------------------------------------------------------------------------------------------

    async def exchange(self, method: str, head: bytes, body: bytes, timeouts: Timeouts) -> Response:
        """Send a request and wait for the head of the answer."""
        transport = self._transport
        if transport is None or self._lost:
            raise self._fault_of_loss(None)
        self._parser = ResponseParser(self._limits, method)
        self._timeouts = timeouts
        waiting: asyncio.Future[Response] = self.loop.create_future()
        self._head = waiting
        if len(body) <= _TOGETHER:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        self.watch(timeouts.first_byte, "first_byte")
        try:
            return await waiting
        except BaseException:
            # A head may have come with the news that it is not wanted; then the connection may be another's by now.
            if self._head is waiting:
                self._head = None
                self.drop()
            elif waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                waiting.result().abandon()
            raise

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            # Nobody asked: whatever it is, an answer read after it could be somebody else's.
            self.drop()
            return
        try:
            events = parser.feed(data)
            for event in events:
                if type(event) is bytes:
                    assert self._response is not None
                    self._response.add(event)
                elif event is END:
                    self._finish(parser)
                else:
                    assert isinstance(event, Head)
                    self._begin(event)
        except TransportFault as fault:
            self._fail(fault)
            return
        response = self._response
        if response is not None:
            self._deadline = inf
            response.wake()
            if response.buffered > _HIGH and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()

    def _begin(self, head: Head) -> None:
        response = Response(head, self, self._limits, self._timeouts)
        self._response = response
        self._idle_limit = _keep_alive(head.headers, self._limits.idle_seconds)
        waiting, self._head = self._head, None
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def _finish(self, parser: ResponseParser) -> None:
        response = self._response
        self._response = self._parser = None
        assert response is not None
        response.end()
        if not parser.keeps or parser.stray:
            self.drop()
            return
        self.resume()
        self.used = True
        self.watch(self._idle_limit, "kept")
        self._on_free(self)

    def _fail(self, fault: TransportFault) -> None:
        self._parser = None
        waiting, response = self._head, self._response
        self._response = self._head = None
        if response is not None:
            response.end(fault)
        elif waiting is not None and not waiting.done():
            waiting.set_exception(fault)
        self.drop()

    # ---- the ends of a connection ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        parser = self._parser
        if parser is not None:
            try:
                if error is None and parser.seen:
                    parser.close()
                    self._finish_at_close()
                else:
                    self._fail(self._fault_of_loss(error))
            except TransportFault as fault:
                self._fail(fault)
        self._stop_timer()
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        self._on_lost(self)

    def _finish_at_close(self) -> None:
        self._parser = None
        response, self._response = self._response, None
        if response is not None:
            response.end()

    def _fault_of_loss(self, error: Exception | None) -> TransportFault:
        seen = self._parser is not None and self._parser.seen
        # A kept connection that was closed meanwhile: the server never saw the request, or did not begin to answer.
        code = "stale" if self.used and not seen else "reset"
        why = f": {error}" if error is not None else ""
        return TransportFault("stream_cut", f"the connection was lost before the answer was complete{why}", code=code)

    def drop(self) -> None:
        """Close at once. Whatever was going on here is over."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()
        self._stop_timer()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def upgrade(self, transport: asyncio.Transport) -> None:
        """Go on over TLS, behind a proxy that made a tunnel."""
        self._transport = transport
        self.used = False

    # ---- time ------------------------------------------------------------------------------------------------------

    def watch(self, seconds: float, what: str) -> None:
        """From now on, `what` may take this long."""
        self._waits_for = what
        self._seconds = seconds
        deadline = self._deadline = self.loop.time() + seconds
        timer = self._timer
        if timer is None:
            self._timer = self.loop.call_at(deadline, self._tick)
        elif timer.when() > deadline:
            timer.cancel()
            self._timer = self.loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._lost or self._deadline == inf:
            return
        if self._deadline > self.loop.time():
            self._timer = self.loop.call_at(self._deadline, self._tick)
        elif self._waits_for == "kept":
            self.drop()
        else:
            message = _MESSAGES[self._waits_for].format(seconds=self._seconds)
            self._fail(TransportFault("timed_out", message, code=self._waits_for))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _keep_alive(headers: dict[str, str], usual: float) -> float:
    """How long to keep a connection: a little less than the server says it does."""
    told = headers.get("keep-alive")
    if told is None:
        return usual
    for entry in told.split(","):
        name, _, value = entry.strip().partition("=")
        if name.lower() == "timeout" and value.isascii() and value.isdigit() and len(value) < 6:
            return max(0.0, min(usual, int(value) - 1.0))
    return usual
