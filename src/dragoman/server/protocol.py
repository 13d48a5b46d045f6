"""HTTP of the gateway, stricter than uvicorn: heads of limited size, and nothing that can be read in two ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.server.asgi import DISCONNECTION, WHOLE

MOST_OF_A_HEAD = 64 * 1024
MOST_HEADERS = 100
SECONDS_FOR_A_HEAD = 30.0
"""From the connection, or from the first byte of a further request, until the head is complete."""
_VERSIONS = ("1.1", "1.0")
_ALONE = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""Headers that decide who is meant, and where a request ends."""


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
    _unread = 0
    """The bytes since the last part that was complete: of a head, of the line of a chunk, of trailers."""
    _is_too_large = False
    _is_closed = False
    _timer: asyncio.TimerHandle | None = None
    _is_lost = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._waiting: set[Callable[[], None]] = set()
        self._joined: Any = JoinedWrites(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
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

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(SECONDS_FOR_A_HEAD, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self._is_answering():
            self._start_timer()
        else:
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
        if self._unread > MOST_OF_A_HEAD:
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_timer()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers would be added to the headers, behind those that a proxy has checked.
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._in_head, self._unread = False, 0
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_OF_A_HEAD or len(self.headers) > MOST_HEADERS:
            self._is_too_large = True
            raise _Refused
        if not self.url.startswith(b"/") or b"#" in self.url or self.parser.get_http_version() not in _VERSIONS:
            raise _Refused
        names = [name for name, _ in self.headers if name in _ALONE]
        if len(names) != len(set(names)) or b"host" not in names:
            raise _Refused
        if b"transfer-encoding" in names and not self._is_chunked():
            raise _Refused
        super().on_headers_complete()
        self.cycle.transport = self._joined
        extensions: Any = {DISCONNECTION: self._tell_disconnection, WHOLE: self._joined.hold}
        self.scope["extensions"] = extensions

    def _is_chunked(self) -> bool:
        """Whether the body is in chunks and nothing else, of a version that has chunks."""
        values = [value for name, value in self.headers if name == b"transfer-encoding"]
        is_plain = values[0].strip().lower() == b"chunked" and self.parser.get_http_version() == "1.1"
        return is_plain and all(name != b"content-length" for name, _ in self.headers)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._unread = 0

    def send_400_response(self, msg: str) -> None:
        """Answer once, and close."""
        if self._is_closed:
            return
        self._is_closed = True
        # A request before this one is being answered: a second answer in the middle would be read as part of it.
        if self._is_answering():
            self.transport.close()
            return
        status = b"431 Request Header Fields Too Large" if self._is_too_large else b"400 Bad Request"
        self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
