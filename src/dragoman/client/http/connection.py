"""Connections: opening, sending, reading, pooling."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from ipaddress import ip_address
from math import inf
from typing import cast

from dragoman.client.http.addresses import Address, Proxy
from dragoman.client.http.parser import END, Decoder, Head, Limits, ResponseParser, decoder_for
from dragoman.client.transport import EXHAUSTED, Timeouts, TransportFault

# --------------------------------------------------------------------------------------------------------------------
# One connection: an asyncio protocol that sends a request, feeds the parser, and passes the body to a response.
#
# It uses protocols and not streams: a stream copies every piece into a buffer and back, and wakes a task for each. One
# lazy timer per connection watches the timeouts, which costs nothing while answers arrive in time.

# Backpressure for a slow reader: above the first mark the connection stops reading, below the second it continues.
_HIGH, _LOW = 256 * 1024, 64 * 1024
_TOGETHER = 64 * 1024

_TOO_LARGE = "the body of the answer is larger than allowed"
_MESSAGES = {
    "first_byte": "the server did not start its answer within {seconds:g} s",
    "idle": "no data arrived for {seconds:g} s in the middle of an answer",
}


class Response:
    """An answer whose head has arrived; the body is read on demand."""

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
                    self._give_up(TransportFault("too_large", _TOO_LARGE, code="body"))
                    raise TransportFault("too_large", _TOO_LARGE, code="body")
                return piece

    def _take(self) -> bytes:
        if self._decoder is None and len(self._pieces) > 1:
            # What arrived together is read together: a reader that is slower than the server has less to do.
            piece = b"".join(self._pieces)
            self._pieces.clear()
        else:
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
            self._give_up(fault)
            raise

    def _give_up(self, fault: TransportFault) -> None:
        self._pieces.clear()
        self._steps = None
        self.ended = True
        self._fault = fault.copy()
        self._drop()

    def _check_end(self) -> None:
        if self._fault is not None:
            raise self._fault.copy()
        if self._decoder is not None:
            decoder, self._decoder = self._decoder, None
            try:
                decoder.close()
            except TransportFault as fault:
                self._fault = fault.copy()
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
        """Drop the connection, unless the whole body has arrived: then it is already available for the next request."""
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
            self._fault = fault.copy() if fault is not None else None
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
        """Whether it has already transferred a complete answer."""
        self.opened = False
        """Whether requests may use it. A tunnel through a proxy needs TLS before."""
        self._limits = limits
        self._on_free = on_free
        self._on_lost = on_lost
        self.transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        self._head: asyncio.Future[Response] | None = None
        self._response: Response | None = None
        self._timeouts = Timeouts()
        self._paused = False
        self.lost = False
        """Whether it was dropped, or the server closed it."""
        self._idle_limit = limits.idle_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = inf
        self._waits_for = ""
        self._seconds = 0.0
        self.closed: asyncio.Future[None] = loop.create_future()

    @property
    def usable(self) -> bool:
        return not self.lost and self._parser is None and self.transport is not None and not self.transport.is_closing()

    # ---- one exchange ----------------------------------------------------------------------------------------------

    async def exchange(self, method: str, head: bytes, body: bytes, timeouts: Timeouts) -> Response:
        """Send a request and wait for the head of the answer."""
        transport = self.transport
        if transport is None or self.lost:
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
            # A head may arrive together with the cancellation; the connection may already belong to another request.
            if self._head is waiting:
                self._head = None
                self.drop()
            elif waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                waiting.result().abandon()
            raise
        finally:
            # The future refers to a fault, the fault to this frame, and this frame to the body of the request.
            del waiting

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            # Unsolicited data: an answer after it could belong to another request.
            self.drop()
            return
        try:
            for event in parser.feed(data):
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
        if parser.fault is not None:
            self._fail(parser.fault)
            return
        response = self._response
        if response is not None:
            self._deadline = inf
            response.wake()
            if response.buffered > _HIGH and not self._paused and self.transport is not None:
                self._paused = True
                self.transport.pause_reading()

    def _begin(self, head: Head) -> None:
        response = Response(head, self, self._limits, self._timeouts)
        self._response = response
        self._idle_limit = _keep_alive(head.headers, self._limits.idle_seconds)
        waiting, self._head = self._head, None
        if waiting is not None and not waiting.done():
            waiting.set_result(response)
        else:
            # The request was cancelled in the same iteration of the event loop, so nobody will read the answer.
            response.abandon()

    def _finish(self, parser: ResponseParser) -> None:
        response = self._response
        self._response = self._parser = None
        assert response is not None
        response.end()
        # A server that answers before it has the whole request may never read the rest of it.
        is_unsent = self.transport is not None and self.transport.get_write_buffer_size() > 0
        if self.lost or not parser.keeps or parser.stray or is_unsent:
            self.drop()
            return
        self.resume()
        if not self.opened:
            self._deadline = inf
            return
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
            waiting.set_exception(fault.copy())
        self.drop()

    # ---- the ends of a connection ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Other event loops have transports of their own, with the same methods.
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        parser = self._parser
        if parser is not None:
            try:
                if error is not None or not parser.seen:
                    raise self._fault_of_loss(error)
                parser.close()
                self._parser = None
                if self._response is not None:
                    self._response.end()
                    self._response = None
            except TransportFault as fault:
                self._fail(fault)
        self._stop_timer()
        self.transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        self._on_lost(self)

    def _fault_of_loss(self, error: Exception | None) -> TransportFault:
        seen = self._parser is not None and self._parser.seen
        # The server closed an idle connection: it did not see the request, or did not start to answer.
        code = "stale" if self.used and not seen else "reset"
        why = f": {error}" if error is not None else ""
        return TransportFault("stream_cut", f"the connection was lost before the answer was complete{why}", code=code)

    def drop(self) -> None:
        """Close at once, and fail the current exchange."""
        self.lost = True
        if self.transport is not None:
            self.transport.abort()
        self._stop_timer()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            if self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()

    # ---- time ------------------------------------------------------------------------------------------------------

    def watch(self, seconds: float, what: str) -> None:
        """Start the timeout of `what`."""
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
        if self.lost or self._deadline == inf:
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
    """Return how long to keep a connection: slightly less than the server announces."""
    told = headers.get("keep-alive")
    if told is None:
        return usual
    for entry in told.split(","):
        name, _, value = entry.strip().partition("=")
        if name.lower() == "timeout" and value.isascii() and value.isdigit() and len(value) < 6:
            return max(0.0, min(usual, int(value) - 1.0))
    return usual


# --------------------------------------------------------------------------------------------------------------------
# How a connection is opened: names, sockets, TLS, and the tunnel through a proxy. Every failure has its own code.

_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "HTTPS_PROXY_REQUEST")
"""What OpenSSL says of an answer that is not TLS, by version."""
_REFUSED = f"[Errno {errno.ECONNREFUSED}]"


async def open_connection(
    connection: Connection,
    address: Address,
    proxy: Proxy | None,
    context: ssl.SSLContext | None,
    timeouts: Timeouts,
    at: str = "",
) -> None:
    """Connect, with TLS for https. Raises a TransportFault that names the reason.

    `at` is the numeric address to connect to, if it is already known. Then no name is resolved, but the certificate
    still has to match the name.
    """
    place = address.authority if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
    try:
        async with asyncio.timeout(timeouts.connect):
            if proxy is None:
                await _connect(connection, at or address.host, address.port, context, address.host)
                if at:
                    _check_peer(connection, at, place)
            else:
                await _connect(connection, proxy.host, proxy.port, None, "")
                if context is not None:
                    await _tunnel(connection, address, proxy, context, timeouts)
    except TransportFault:
        raise
    except TimeoutError:
        message = f"no connection to {place} within {timeouts.connect:g} s"
        raise TransportFault("timed_out", message, code="connect") from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or error
        if error.reason in _NOT_TLS:
            reason = "the server does not use TLS at this port; write http:// instead of https://"
        raise TransportFault("insecure", f"TLS with {address.authority} failed: {reason}", code="tls") from None
    except socket.gaierror as error:
        code = "dns" if proxy is None else "proxy"
        raise TransportFault("unreachable", f"no address for {place}: {error.strerror}", code=code) from None
    except OSError as error:
        if error.errno in EXHAUSTED:
            message = f"no connection to {place} can be opened: {error.strerror}"
            raise TransportFault("overloaded", message, code="pool") from None
        refused = isinstance(error, ConnectionRefusedError) or _REFUSED in str(error)
        why = "nothing listens there" if refused else error.strerror or str(error)
        code = "proxy" if proxy is not None else "refused" if refused else "connect"
        raise TransportFault("unreachable", f"cannot connect to {place}: {why}", code=code) from None


async def _connect(connection: Connection, host: str, port: int, context: ssl.SSLContext | None, name: str) -> None:
    certified = name if context is not None else None
    await connection.loop.create_connection(lambda: connection, host, port, ssl=context, server_hostname=certified)


def _check_peer(connection: Connection, at: str, place: str) -> None:
    """Check that the peer has the chosen address, before anything is sent."""
    transport = connection.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    found = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if not found or ip_address(found) != ip_address(at):
        message = f"the connection to {place} went to {found or 'an unknown address'} and not to {at}"
        raise TransportFault("insecure", message, code="peer")


async def _tunnel(
    connection: Connection, address: Address, proxy: Proxy, context: ssl.SSLContext, timeouts: Timeouts
) -> None:
    host = f"[{address.host}]" if ":" in address.host else address.host
    place = f"{host}:{address.port}"
    credentials = f"Proxy-Authorization: {proxy.credentials}\r\n" if proxy.credentials else ""
    head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{credentials}\r\n".encode("ascii")
    response = await connection.exchange("CONNECT", head, b"", timeouts)
    if not 200 <= response.status < 300:
        message = f"the proxy {proxy.host}:{proxy.port} refused a tunnel to {place}: status {response.status}"
        raise TransportFault("unreachable", message, code="proxy")
    transport = connection.transport
    if transport is None:
        raise TransportFault("unreachable", f"the proxy {proxy.host}:{proxy.port} closed the tunnel", code="proxy")
    secured = await connection.loop.start_tls(transport, connection, context, server_hostname=address.host)
    if secured is None:
        raise TransportFault("unreachable", f"the proxy {proxy.host}:{proxy.port} closed the tunnel", code="proxy")
    connection.transport = secured


# --------------------------------------------------------------------------------------------------------------------
# The connections of one event loop: they are kept for the next request to the same origin, and their number is limited.

Opener = Callable[[Connection], Awaitable[None]]


class Pool:
    """Connections by key (an origin and its proxy)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self._loop = loop
        self._limits = limits
        self._idle: dict[object, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._guard: AsyncIterator[None] | None = None

    def take(self, key: object) -> Connection | None:
        """Return the idle connection that was used last, or None."""
        stack = self._idle.get(key)
        while stack:
            connection = stack.pop()
            if connection.usable:
                return connection
        return None

    async def open(self, key: object, opener: Opener, patience: float) -> Connection:
        """Return a new connection when the limit allows it, or one that becomes free in the meantime."""
        if self._guard is None:
            await self._watch_loop()
        while len(self._all) + self._opening >= self._limits.connections:
            if not self._close_one_idle():
                await self._wait_for_room(patience)
                kept = self.take(key)
                if kept is not None:
                    return kept
        connection = Connection(self._loop, self._limits, self._on_free, self._on_lost)
        connection.key = key
        self._opening += 1
        try:
            await opener(connection)
        except BaseException:
            connection.drop()
            self._wake_one()
            raise
        finally:
            self._opening -= 1
        connection.opened = True
        if connection.lost:
            self._wake_one()
        else:
            self._all.add(connection)
        return connection

    async def close(self) -> None:
        """Drop every connection and wait until all are closed."""
        connections = list(self._all)
        for connection in connections:
            connection.drop()
        self._idle.clear()
        if connections:
            await asyncio.wait([connection.closed for connection in connections])

    # ---- callbacks of connections ----------------------------------------------------------------------------------

    def _on_free(self, connection: Connection) -> None:
        self._idle.setdefault(connection.key, []).append(connection)
        if self._waiters:
            self._wake_one()

    def _on_lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        stack = self._idle.get(connection.key)
        if stack is not None and connection in stack:
            stack.remove(connection)
            if not stack:
                del self._idle[connection.key]
        self._wake_one()

    # ---- waiting for a free connection -----------------------------------------------------------------------------

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _wait_for_room(self, patience: float) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(patience):
                await waiter
        except TimeoutError:
            message = f"no connection became free within {patience:g} s; {self._limits.connections} are in use"
            raise TransportFault("timed_out", message, code="pool") from None
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # This waiter was next: wake another one instead.
                self._wake_one()
            raise

    def _close_one_idle(self) -> bool:
        for stack in self._idle.values():
            for connection in stack:
                stack.remove(connection)
                connection.drop()
                self._all.discard(connection)
                return True
        return False

    # ---- the end of the loop ---------------------------------------------------------------------------------------

    async def _watch_loop(self) -> None:
        """Close the connections together with the loop, even if nobody closes the transport.

        At its end, a loop (`asyncio.run`) closes the asynchronous generators that are still open; this is one of them.
        """
        self._guard = self._wait_for_end()
        await anext(self._guard)

    async def _wait_for_end(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.close()
