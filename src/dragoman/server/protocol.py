"""HTTP of the gateway, stricter than uvicorn: heads of limited size, and nothing that can be read in two ways."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_OF_A_HEAD = 64 * 1024
MOST_HEADERS = 100
_VERSIONS = ("1.1", "1.0")
_ALONE = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""Headers that decide who is meant, and where a request ends."""


class _Refused(Exception):
    """A head that is not accepted."""


class StrictProtocol(HttpToolsProtocol):
    """Refuses heads that another server on the way could read differently.

    The parser refuses most of them. It has no limit for the size of a head, and accepts targets with a host in them.
    """

    _in_head = True
    _head_size = 0
    _is_too_large = False
    _is_closed = False

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            # What follows a malformed request is not a request.
            return
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        if self._in_head and self._head_size > MOST_OF_A_HEAD:
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_size = True, 0

    def on_headers_complete(self) -> None:
        self._in_head, self._head_size = False, 0
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

    def _is_chunked(self) -> bool:
        """Whether the body is in chunks and nothing else, of a version that has chunks."""
        values = [value for name, value in self.headers if name == b"transfer-encoding"]
        is_plain = values[0].strip().lower() == b"chunked" and self.parser.get_http_version() == "1.1"
        return is_plain and all(name != b"content-length" for name, _ in self.headers)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_size = True, 0

    def send_400_response(self, msg: str) -> None:
        """Answer once, and close."""
        if self._is_closed:
            return
        self._is_closed = True
        # A request before this one is being answered: a second answer in the middle would be read as part of it.
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.close()
            return
        status = b"431 Request Header Fields Too Large" if self._is_too_large else b"400 Bad Request"
        self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
