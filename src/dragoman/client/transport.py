"""Transport: the HTTP interface of a client. It sends one request, and returns a head at once and the body in pieces.

Implementations are the connections of `dragoman.client.http`, the scripts and recordings of `dragoman.testing`, or
your own adapter for an HTTP library. A transport follows no redirects, does not retry, and reads no environment unless
it is configured to: these are decisions of the client.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from msgspec import Struct

from dragoman.types import FailureKind

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors that mean that this process or this machine has no room left, and say nothing about a server."""


class HttpRequest(Struct, frozen=True):
    """One request. `url` is absolute; header names are sent unchanged."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""


class Timeouts(Struct, frozen=True):
    """Seconds for each kind of wait. A transport knows the first three; the client watches the total."""

    connect: float = 10.0
    """To open the connection, including TLS."""
    first_byte: float = 300.0
    """From the last byte sent to the end of the response's head; a model may reason for minutes before it answers."""
    idle: float = 120.0
    """Between two pieces of the body."""
    total: float | None = None
    """From the start of an attempt to the end of its answer. A server can keep a connection alive without end."""


class HttpResponse(Protocol):
    """A response whose head has arrived. Header names are in lower case; the body is decompressed."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers. Their names are in lower case."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, without empty pieces. Raises TransportFault if the connection breaks."""
        ...

    async def close(self) -> None:
        """Release the connection if the body was read completely, else drop it. May be called twice."""
        ...


class PassedResponse:
    """A base class for a response around another one, whose head it shows."""

    def __init__(self, inner: HttpResponse) -> None:
        self._inner = inner

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers


class Transport(Protocol):
    """What sends HTTP requests for a client. Implement it to use another HTTP library."""

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        """Send a request and wait for the head of the response. Raises TransportFault."""
        ...

    async def close(self) -> None:
        """Drop every connection."""
        ...


class TransportFault(Exception):
    """A failure of the connection or the server. `kind` is one of the kinds of a Failure."""

    def __init__(self, kind: FailureKind, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code
        """A more specific name, if known: `dns`, `refused`, `connect`, `first_byte`, `idle`, ..."""

    def copy(self) -> TransportFault:
        """Return the same fault without its traceback.

        A fault that is kept after it was raised keeps the frames of all callers, and the bodies in them, until the
        next full garbage collection.
        """
        return TransportFault(self.kind, self.message, code=self.code)
