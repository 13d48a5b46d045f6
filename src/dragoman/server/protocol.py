"""HTTP of the gateway, stricter than uvicorn: heads of limited size, and nothing that can be read in two ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from dragoman.server.asgi import DISCONNECTION, LATE, TRAILERS, WHOLE

MOST_OF_A_HEAD = 64 * 1024
MOST_HEADERS = 100
SECONDS_FOR_A_WRITE = 120.0
"""How long a client may accept nothing of what is ready for it."""
_EXCESS = 32
"""How many connections above the limit are told so. Further ones are closed at once."""
_VERSIONS = ("1.1", "1.0")
_ALONE = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""Headers that decide who is meant, and where a request ends."""
_READ = _ALONE | {b"te"}


class _TrailingCycle(RequestResponseCycle):
    """Answers with trailers, as the extension `http.response.trailers` of ASGI describes, which uvicorn does not have.

    Only a client that sent `TE: trailers` has it. It is used if the start of the answer says so and has no length.
    """

    _has_trailers = False

    async def send(self, message: Any) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self._has_trailers = message.get("trailers", False)
            await super().send(message)
        elif kind == TRAILERS and self._has_trailers:
            await self._end(message["headers"])
        elif self._has_trailers and self.chunked_encoding and not message.get("more_body", False):
            # The last chunk follows with the trailers.
            last: Any = {**message, "more_body": True}
            await super().send(last)
        else:
            await super().send(message)

    async def _end(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines = []
        for name, value in headers:
            if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                raise RuntimeError("a trailer has characters that no header may have")
            lines.append(name.lower() + b": " + value + b"\r\n")
        if not self.chunked_encoding or self.disconnected or self.response_complete:
            return
        self.transport.write(b"0\r\n" + b"".join(lines) + b"\r\n")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class _Refused(Exception):
    """A head that is not accepted."""


class JoinedWrites:
    """A transport that can write the head of a whole answer together with its body: one packet instead of two."""

    __slots__ = ("_held", "_holds", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._holds = False
        self._held = b""

    def hold(self) -> None:
        """Hold back what is written next, until more is written."""
        self._holds = True

    def write(self, data: bytes) -> None:
        if self._holds:
            self._holds, self._held = False, data
        elif self._held:
            self._held, held = b"", self._held
            self._transport.write(held + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._holds = False
        if self._held:
            self.write(b"")
        self._transport.close()

    def is_closing(self) -> bool:
        closing: bool = self._transport.is_closing()
        return closing


class StrictProtocol(HttpToolsProtocol):
    """Refuses heads that another server on the way could read differently.

    The parser refuses most of them. It has no limit for the size of a head, and accepts targets with a host in them.
    """

    _in_head = True
    _has_begun = False
    """Whether a part of a head has arrived."""
    _in_body = False
    _unread = 0
    """The bytes since the last part that was complete: of a head, of the line of a chunk, of trailers."""
    _is_too_large = False
    _is_closed = False
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _running: RequestResponseCycle | None = None
    """The request that is being answered."""
    _is_lost = False

    def __init__(
        self, *given: Any, head_seconds: float, body_seconds: float, most: int, excess: Any, **named: Any
    ) -> None:
        """`head_seconds` is the time from the connection, or from the first byte of a further request, until its head
        is complete; `body_seconds` that from there to the end of its body. `most` is the limit of connections, `excess`
        the application that answers above it."""
        super().__init__(*given, **named)
        self._head_seconds, self._body_seconds = head_seconds, body_seconds
        self._most, self._excess = most, excess
        self._waiting: set[Callable[[], None]] = set()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._joined: Any = JoinedWrites(transport)
        if len(self.connections) > self._most:
            if len(self.connections) > self._most + _EXCESS:
                transport.abort()
                return
            self.app = self._excess
        self._start_timer(self._head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_write_timer()
        if self._running is not None:
            # The server tells only the last request, and there may be one behind the one that runs.
            self._running.disconnected = not self._running.response_complete
            self._running.message_event.set()
        super().connection_lost(exc)
        self._is_lost = True
        for leave in tuple(self._waiting):
            leave()

    def _tell_disconnection(self, leave: Callable[[], None]) -> Callable[[], None]:
        """Call `leave` when the connection is lost. Return what ends that: a task for each request costs more."""
        if self._is_lost:
            self.loop.call_soon(leave)
        else:
            # The end of a connection that is not read remains unknown.
            self.flow.resume_reading()
        self._waiting.add(leave)
        return lambda: self._waiting.discard(leave)

    def on_response_complete(self) -> None:
        self._running = self.pipeline[-1][0] if self.pipeline else None
        if self._running is not None and self._timer is not None:
            # It was not read while it waited, so its time begins now.
            self._stop_timer()
            self._start_timer(self._body_seconds)
        super().on_response_complete()

    # The server sends nothing more while the client accepts nothing. Without an end, the client would hold the
    # connection to the endpoint for ever.

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_writing()

    def _watch_writing(self, before: float = inf) -> None:
        """Look again after a while whether the client has accepted anything."""
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
            return
        self._write_timer = self.loop.call_later(SECONDS_FOR_A_WRITE, self._watch_writing, left)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _start_timer(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self.pipeline or (self._in_head and self._is_answering()):
            # A request before this one is being answered, and this one is not read until then.
            self._start_timer(self._head_seconds)
        elif self._in_body and self._is_answering() and not self.cycle.response_started:
            # The application answers, in the form of the client's wire, and closes.
            self.cycle.scope[LATE] = True  # type: ignore[literal-required]
            self.cycle.more_body = False
            self.cycle.message_event.set()
        else:
            if self._has_begun and not self._is_closed:
                self._write_last(b"408 Request Timeout")
            self._is_closed = True
            self.transport.close()

    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            # What follows a malformed request is not a request.
            return
        self._unread += len(data)
        super().data_received(data)
        if self._in_body:
            self._start_timer(self._body_seconds)
        if self._unread > MOST_OF_A_HEAD:
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_timer(self._head_seconds)
        self._in_head = self._has_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers would be added to the headers, behind those that a proxy has checked.
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._in_head = self._has_begun = False
        self._in_body, self._unread = True, 0
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_OF_A_HEAD or len(self.headers) > MOST_HEADERS:
            self._is_too_large = True
            raise _Refused
        if not self.url.startswith(b"/") or b"#" in self.url or self.parser.get_http_version() not in _VERSIONS:
            raise _Refused
        names = [name for name, _ in self.headers if name in _READ]
        has_te = b"te" in names
        if has_te:
            names = [name for name in names if name != b"te"]
        if len(names) != len(set(names)) or b"host" not in names:
            raise _Refused
        if b"transfer-encoding" in names and not self._is_chunked():
            raise _Refused
        super().on_headers_complete()
        self.cycle.transport = self._joined
        extensions: Any = {DISCONNECTION: self._tell_disconnection, WHOLE: self._joined.hold}
        self.scope["extensions"] = extensions
        if not self.pipeline:
            self._running = self.cycle
        if has_te and self._accepts_trailers():
            # The task of the request has not begun yet.
            self.cycle.__class__ = _TrailingCycle
            extensions[TRAILERS] = {}

    def _accepts_trailers(self) -> bool:
        """Whether the client reads trailers. HTTP/1.0 has none."""
        values = b",".join(value for name, value in self.headers if name == b"te").lower().split(b",")
        return b"trailers" in map(bytes.strip, values) and self.parser.get_http_version() == "1.1"

    def _is_chunked(self) -> bool:
        """Whether the body is in chunks and nothing else, of a version that has chunks."""
        values = [value for name, value in self.headers if name == b"transfer-encoding"]
        is_plain = values[0].strip().lower() == b"chunked" and self.parser.get_http_version() == "1.1"
        return is_plain and all(name != b"content-length" for name, _ in self.headers)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body, self._unread = False, 0
        self._stop_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer once, and close."""
        if self._is_closed:
            return
        self._is_closed = True
        # A request before this one is being answered: a second answer in the middle would be read as part of it.
        if self._is_answering():
            self.transport.close()
            return
        self._write_last(b"431 Request Header Fields Too Large" if self._is_too_large else b"400 Bad Request")
        self.transport.close()

    def _write_last(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
