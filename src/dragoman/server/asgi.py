"""HTTP on ASGI, as far as the gateway needs it: a request, a whole response and a stream.

Starlette's stream response starts a task group for each stream and wraps every message. Here one timer keeps a stream
alive, and the protocol says when the client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

import msgspec

from dragoman.client.http.parser import decoder_for
from dragoman.client.transport import TransportFault
from dragoman.server.quotas import EVERYTHING, Permit
from dragoman.types import Failure

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

Watch = Callable[[Callable[[], None]], Callable[[], None]]
DISCONNECTION = "dragoman.disconnection"
"""The extension of a scope that calls a function when the connection is lost, and returns what ends that."""
WHOLE = "dragoman.whole"
"""The extension of a scope that announces a whole response, so that its head and its body are sent together."""
MOST_OF_A_BODY = 64 * 1024 * 1024
TRAILERS = "http.response.trailers"
"""The extension of ASGI, and its message: headers after the body, for a client that asked for them."""
LATE = "dragoman.late"
"""The key of a scope that says that the time for the body is over, so that it ends before its end."""
_NO_CONTENT = 204
_encode = msgspec.json.Encoder().encode


class BodyTooLarge(Exception):
    """The body of a request is larger than the limit."""


class UnreadableBody(Exception):
    """The body is compressed in a way that is not accepted, or damaged."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class BodyTooSlow(Exception):
    """The client has not sent the whole body in time."""


class ClientDisconnected(Exception):
    """The client closed the connection before its request was complete."""


class HttpCall:
    """One request of a client, and the means to answer it."""

    __slots__ = (
        "_receive",
        "_send",
        "added",
        "cut_off",
        "has_begun",
        "headers",
        "method",
        "path",
        "permit",
        "query",
        "scope",
        "sent",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope.get("query_string", b"").decode("latin-1")
        given = scope["headers"]
        self.headers: dict[str, str] = {name.decode("latin-1"): value.decode("latin-1") for name, value in given}
        """The values of a header that is repeated are joined."""
        if len(self.headers) != len(given):
            self.headers = _join_repeated(given)
        self._receive, self._send = receive, send
        self.has_begun = False
        self.status = 0
        self.sent = 0
        self.permit: Permit = EVERYTHING
        self.added: dict[str, str] | None = None
        """Headers of every answer to this request."""
        self.cut_off: Callable[[Failure], Awaitable[None]] | None = None
        """Ends a stream that has begun with a failure, in the wire of the client."""

    async def read_body(self, most: int = MOST_OF_A_BODY) -> bytes:
        """Return the body, decompressed. Raises BodyTooLarge, BodyTooSlow, UnreadableBody and ClientDisconnected."""
        if self.headers.get("content-encoding"):
            return _decompress(await self._read_raw(most), self.headers, most)
        return await self._read_raw(most)

    async def _read_raw(self, most: int) -> bytes:
        announced = self.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > most:
            raise BodyTooLarge
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise BodyTooLarge
            if not message.get("more_body"):
                if LATE in self.scope:
                    raise BodyTooSlow
                return piece if not parts else b"".join([*parts, piece])
            parts.append(piece)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of the response."""
        self.has_begun = True
        self.status = status
        if self.added:
            headers = {**self.added, **headers}
        await self._send({"type": "http.response.start", "status": status, "headers": _encode_headers(headers)})

    @property
    def accepts_trailers(self) -> bool:
        """Whether `begin_with_trailers` and `end` may be used instead of `begin` and a last piece."""
        return TRAILERS in self.scope.get("extensions", ())

    async def begin_with_trailers(self, status: int, headers: Mapping[str, str], names: str) -> None:
        """Send the head of a response that ends with trailers of these names."""
        self.has_begun, self.status = True, status
        pairs = _encode_headers({**(self.added or {}), **headers, "trailer": names})
        await self._send({"type": "http.response.start", "status": status, "headers": pairs, "trailers": True})

    async def end(self, data: bytes, trailers: Mapping[str, str]) -> None:
        """Send the last piece of the body, and the trailers."""
        await self.send(data, more=False)
        await self._send({"type": TRAILERS, "headers": _encode_headers(trailers), "more_trailers": False})

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a piece of the body. The last piece has `more=False`."""
        self.sent += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        """Send a whole response."""
        data = b"" if self.method == "HEAD" else body
        self.has_begun, self.status, self.sent = True, status, len(data)
        pairs: list[tuple[bytes, bytes]] = []
        if status != _NO_CONTENT:
            pairs = [(b"content-type", kind.encode("latin-1")), (b"content-length", b"%d" % len(body))]
        for added in (self.added, headers):
            if added:
                pairs += _encode_headers(added)
        if data and (announce := self.scope.get("extensions", {}).get(WHOLE)) is not None:
            announce()
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})
        await self._send({"type": "http.response.body", "body": data})

    async def answer_json(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        """Send a value as JSON."""
        await self.answer(status, _encode(value), headers)

    def watch(self, leave: Callable[[], None]) -> Callable[[], None]:
        """Call `leave` when the client closes the connection. Return what ends that."""
        tell: Watch | None = self.scope.get("extensions", {}).get(DISCONNECTION)
        return tell(leave) if tell is not None else self._watch_messages(leave)

    def _watch_messages(self, leave: Callable[[], None]) -> Callable[[], None]:
        """The same on a server that tells the end of a connection only to who asks for the next message."""

        def hear(_: asyncio.Future[None]) -> None:
            leave()

        def stop() -> None:
            watch.remove_done_callback(hear)
            if not watch.cancel():
                # Its result, so that an error of a client that has gone is not logged as one that nobody saw.
                watch.cancelled() or watch.exception()

        watch = asyncio.ensure_future(self._wait_for_disconnect())
        watch.add_done_callback(hear)
        return stop

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _join_repeated(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in given:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _decompress(data: bytes, headers: dict[str, str], most: int) -> bytes:
    """Return a decompressed body. It is produced in small steps, so that a small body cannot become a huge one."""
    try:
        decoder = decoder_for(headers)
    except TransportFault:
        raise UnreadableBody("bodies may be compressed with gzip or deflate, and nothing else", 415) from None
    if decoder is None:
        return data
    parts: list[bytes] = []
    size = 0
    try:
        for piece in decoder.decode(data):
            size += len(piece)
            if size > most:
                raise BodyTooLarge
            parts.append(piece)
        decoder.close()
    except TransportFault as fault:
        raise UnreadableBody(fault.message, 400) from None
    return b"".join(parts)


class KeepAlive:
    """Calls `beat` whenever nothing was sent for `interval` seconds. One timer serves the whole stream."""

    def __init__(self, interval: float, beat: Callable[[], Awaitable[None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._interval = interval
        self._beat = beat
        self._last = self._loop.time()
        self._task: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(interval, self._check)

    def sent(self) -> None:
        """Note that something was sent now."""
        self._last = self._loop.time()

    def _check(self) -> None:
        now = self._loop.time()
        due = self._last + self._interval
        if now >= due and (self._task is None or self._task.done()):
            self._last = due = now
            self._task = asyncio.ensure_future(self._beat())
        self._timer = self._loop.call_later(
            max(0.01, due + self._interval - now if due == now else due - now), self._check
        )

    async def close(self) -> None:
        """Stop the timer, and wait for a beat that is being sent."""
        self._timer.cancel()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
        if self._task is not None and not self._task.cancelled():
            self._task.exception()


async def run_until_disconnect(call: HttpCall, work: Awaitable[None]) -> bool:
    """Do the work of one request, and cancel it if the client disconnects. Return whether it was completed.

    The work runs in the task of the request: a second task and a wait for both cost more than a short request.
    """
    task = asyncio.current_task()
    assert task is not None
    before, is_gone = task.cancelling(), False

    def leave() -> None:
        nonlocal is_gone
        is_gone = True
        task.cancel()

    stop = call.watch(leave)
    try:
        await work
    except asyncio.CancelledError:
        # Somebody else may cancel the request as well: the server does, when it ends.
        if not is_gone or task.cancelling() > before + 1:
            raise
        return False
    finally:
        stop()
        if is_gone:
            task.uncancel()
    return True
