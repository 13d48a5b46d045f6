"""What happens in one exchange, noted while it happens: nothing is copied, decoded or redacted here.

The parts of a reply must not wait for their record. So a recording holds references to the bytes that are passed on
anyway, up to a limit, and `redaction` reads them in another thread after the end of the exchange.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from dragoman.client.transport import HttpRequest, HttpResponse, PassedResponse, Timeouts, Transport, TransportFault
from dragoman.pipeline.report import Report
from dragoman.server.quotas import Candidate
from dragoman.types import Request

if TYPE_CHECKING:
    from dragoman.extraction.tool_mode import ComposedRequest
    from dragoman.pipeline import Verdict

MOST_OF_A_BODY = 1024 * 1024
"""How much of a body is kept, in characters."""
BEYOND = 64 * 1024
"""So much more is read, so that a secret at the end of what is kept is recognised."""
_MOST_HOPS = 16

Headers = list[tuple[bytes, bytes]]


class RawHop:
    """One request to an endpoint, and the pieces of its answer."""

    __slots__ = ("began", "ended", "fault", "head_at", "headers", "pieces", "request", "room", "size", "status", "wire")

    def __init__(self, request: HttpRequest, wire: str) -> None:
        self.request = request
        self.wire = wire
        self.began = time.monotonic()
        self.head_at = self.ended = 0.0
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.pieces: list[bytes] = []
        self.room = MOST_OF_A_BODY + BEYOND
        self.size = 0
        self.fault = ""

    def begin(self, response: HttpResponse) -> None:
        self.head_at = time.monotonic()
        self.status, self.headers = response.status, response.headers

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.room > 0:
            self.pieces.append(piece)
            self.room -= len(piece)

    def end(self, fault: str = "") -> None:
        self.ended = time.monotonic()
        self.fault = self.fault or fault


class Arrival(NamedTuple):
    """A request as the client sent it."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    raw_query: str = ""
    """With the key of the client, which is hidden wherever it occurs."""


class Recording:
    """One exchange while it runs."""

    def __init__(
        self, number: int, arrival: Arrival, request: Request, report: Report, profile: str, replay_of: str = ""
    ) -> None:
        self.number = number
        self.arrival = arrival
        self.request = request
        self.report = report
        self.profile = profile
        self.replay_of = replay_of
        self.began = time.time()
        self._clock = time.monotonic()
        self.seconds = 0.0
        self.hops: list[RawHop] = []
        self.turns: list[tuple[ComposedRequest, Verdict]] = []
        self.candidates: list[Candidate] = []

    def open_hop(self, request: HttpRequest, wire: str) -> RawHop:
        hop = RawHop(request, wire)
        if len(self.hops) < _MOST_HOPS:
            self.hops.append(hop)
        return hop

    def judge(self, composed: ComposedRequest, verdict: Verdict) -> None:
        """Note what the pipeline found in a reply."""
        if len(self.turns) < _MOST_HOPS:
            self.turns.append((composed, verdict))

    def end(self) -> None:
        self.seconds = time.monotonic() - self._clock

    @property
    def size(self) -> int:
        """The bytes that this recording keeps in memory."""
        return len(self.arrival.body) + sum(len(hop.request.body) + min(hop.size, MOST_OF_A_BODY) for hop in self.hops)


CURRENT: ContextVar[Recording | None] = ContextVar("dragoman.inspector.recording", default=None)
"""The recording of the exchange that the current task works on. All clients of a gateway share one transport."""


class ObservedTransport:
    """Notes the requests and answers of a transport in the current recording."""

    def __init__(self, inner: Transport, wire: str) -> None:
        self._inner = inner
        self._wire = wire

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        recording = CURRENT.get()
        if recording is None:
            return await self._inner.send(request, timeouts)
        hop = recording.open_hop(request, self._wire)
        try:
            response = await self._inner.send(request, timeouts)
        except TransportFault as fault:
            hop.end(fault.message)
            raise
        except BaseException:
            hop.end("the request was cancelled")
            raise
        hop.begin(response)
        return _ObservedResponse(response, hop)

    async def close(self) -> None:
        await self._inner.close()


class _ObservedResponse(PassedResponse):
    """A response whose pieces are noted when they are passed on."""

    def __init__(self, inner: HttpResponse, hop: RawHop) -> None:
        super().__init__(inner)
        self._hop = hop

    async def pieces(self) -> AsyncIterator[bytes]:
        hop = self._hop
        try:
            async for piece in self._inner.pieces():
                hop.add(piece)
                yield piece
        except TransportFault as fault:
            hop.end(fault.message)
            raise

    async def close(self) -> None:
        self._hop.end()
        await self._inner.close()
