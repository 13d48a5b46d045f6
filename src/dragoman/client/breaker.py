"""A circuit breaker: an origin that fails again and again is left alone for a while, then asked once.

Closed, requests go through. After `failures` in a row it opens, and requests fail at once. After `pause` seconds one
request may try (half open): its success closes the circuit, its failure opens it again. The clock is passed in.
"""

from __future__ import annotations

from typing import Literal

from dragoman.types import Failure

_COUNTED = frozenset({"unreachable", "timed_out", "overloaded", "server_error", "stream_cut"})

State = Literal["closed", "open", "half_open"]


class Breaker:
    """The state of one origin."""

    __slots__ = ("_count", "_failures", "_opened", "_pause", "_probing")

    def __init__(self, failures: int = 5, pause: float = 30.0) -> None:
        self._failures = failures
        self._pause = pause
        self._count = 0
        self._opened: float | None = None
        self._probing = False

    def state(self, now: float) -> State:
        if self._opened is None:
            return "closed"
        return "half_open" if now - self._opened >= self._pause else "open"

    def allow(self, now: float) -> float:
        """0 if a request may go out now, which counts as the probe if one is due; else the seconds to wait."""
        if self._opened is None:
            return 0.0
        left = self._opened + self._pause - now
        if left > 0:
            return left
        if self._probing:
            return self._pause
        self._probing = True
        return 0.0

    def succeeded(self) -> None:
        self._count = 0
        self._opened = None
        self._probing = False

    def failed(self, now: float) -> None:
        self._count += 1
        if self._probing or self._count >= self._failures:
            self._opened = now
        self._probing = False

    def abandoned(self) -> None:
        """The request was cancelled: it says nothing, and another one may probe."""
        self._probing = False


class Breakers:
    """One breaker per origin. Share one value among clients that shall learn from one another."""

    def __init__(self, failures: int = 5, pause: float = 30.0) -> None:
        self._failures = failures
        self._pause = pause
        self._by_origin: dict[str, Breaker] = {}

    def of(self, origin: str) -> Breaker:
        breaker = self._by_origin.get(origin)
        if breaker is None:
            breaker = self._by_origin[origin] = Breaker(self._failures, self._pause)
        return breaker


def counts(failure: Failure) -> bool:
    """Whether a failure says that the origin is unwell, and not that it dislikes this request."""
    if failure.code in ("deadline", "pool"):
        return False
    return failure.kind in _COUNTED
