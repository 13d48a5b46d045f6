"""What a client needs of HTTP: send one request, get a head at once and the body in pieces. Nothing else.

Everything that speaks this protocol can carry dragoman: the connections of `dragoman.client.http`, a script or a
recording of `dragoman.testing`, or an adapter around an HTTP library of your own. A transport follows no redirects,
retries no answer and reads no environment unless it is told to; those are decisions, and the client makes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from msgspec import Struct

from dragoman.types import FailureKind


class HttpRequest(Struct, frozen=True):
    """One request. `url` is absolute; header names are sent as they are written."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""


class Timeouts(Struct, frozen=True):
    """Seconds for each kind of waiting. A deadline for the whole is the caller's: it cancels."""

    connect: float = 10.0
    """Until the connection stands, TLS included."""
    first_byte: float = 300.0
    """From the last byte sent to the end of the response's head; a model may think for minutes before it answers."""
    idle: float = 120.0
    """Between two pieces of the body."""


class HttpResponse(Protocol):
    """A response whose head has arrived. Header names are in lower case; the body is decoded (gzip and its kin)."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, each piece not empty. Raises TransportFault where it breaks off."""
        ...

    async def close(self) -> None:
        """Give the connection back if the body was read to its end, else drop it. May be called twice."""
        ...


class Transport(Protocol):
    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        """Send a request and wait for the head of the response. Raises TransportFault."""
        ...

    async def close(self) -> None:
        """Drop every connection."""
        ...


class TransportFault(Exception):
    """The connection failed, by the fault of nobody in this process. `kind` is one of the kinds of a Failure."""

    def __init__(self, kind: FailureKind, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code
        """A finer name where one is known: `dns`, `refused`, `connect`, `first_byte`, `idle`, ..."""
