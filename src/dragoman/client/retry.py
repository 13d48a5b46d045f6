"""Retry decisions, delays that servers ask for, the circuit breaker, and the events about them.

Pure: the clock and the random draw are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from dragoman.events import Event
from dragoman.types import FAILURE_CAUSES, TRANSIENT_FAILURES, Failure
from dragoman.wire.failures import Loss

# --------------------------------------------------------------------------------------------------------------------
# How long a server asks to wait, in the spellings that servers use.

_duration = re.compile(
    r"(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6}(?:\.\d+)?)s)?(?:(\d{1,9}(?:\.\d+)?)ms)?"
).fullmatch
_LIMITED = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
)
NEVER = 1e9
"""What stands for a delay that is no number at all: later than anybody waits."""


def read_delay(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait, by `retry-after-ms`, `retry-after` (seconds or a date) or a spent `x-ratelimit`.

    `now` is the time of day, in seconds since 1970. None where nothing is said; what lies in the past is 0.
    """
    exact = _number(headers.get("retry-after-ms", ""))
    if exact is not None:
        return exact / 1000
    told = headers.get("retry-after", "").strip()
    if told:
        seconds = _number(told)
        return seconds if seconds is not None else _until(told, now)
    for remaining, reset in _LIMITED:
        if headers.get(remaining, "").strip() == "0" and reset in headers:
            return _read_duration(headers[reset].strip())
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if value != value else max(0.0, min(value, NEVER))


def _until(text: str, now: float) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - now, NEVER))
    except (ValueError, OverflowError, TypeError):
        return None


def _read_duration(text: str) -> float | None:
    """A duration such as `6m0s` or `20ms`, or plain seconds."""
    found = _duration(text)
    if not text or found is None:
        return _number(text)
    hours, minutes, seconds, thousandths = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


# --------------------------------------------------------------------------------------------------------------------
# Whether a failed request is sent again, and when. Pure: the clock and the random draw are arguments.

_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# A request that was sent and waited for may still be running: another one would be paid for as well.
_FINAL_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "circuit_open"}
    | {"first_byte", "idle", "pool", "deadline", "proxy"}
)


class Retries(Struct, frozen=True):
    """How often and how patiently. `attempts` counts the first one; 1 means never again."""

    attempts: int = 3
    base: float = 0.5
    """The longest first wait, in seconds; each further one may be twice as long."""
    cap: float = 30.0
    """The longest wait that is chosen here."""
    patience: float = 120.0
    """The longest wait that a server may ask for."""


class Decision(Struct, frozen=True):
    """Wait so many seconds and try again; or give up (`wait` is None), and why, where that is worth telling."""

    wait: float | None = None
    why: str = ""


def is_passing(failure: Failure) -> bool:
    """Whether a failure may be gone the next time."""
    if failure.code in _FINAL_CODES:
        return False
    if failure.status is not None and failure.status >= 300:
        return failure.status in _STATUSES
    return failure.kind in TRANSIENT_FAILURES


def decide(
    retries: Retries,
    failure: Failure,
    attempt: int,
    *,
    delivered: bool,
    now: float,
    deadline: float | None,
    draw: float,
) -> Decision:
    """What to do after attempt number `attempt` (from 1) failed. `draw` is a number in [0, 1)."""
    if delivered or not is_passing(failure):
        return Decision()
    if attempt >= retries.attempts:
        return Decision(None, f"after {attempt} attempts" if attempt > 1 else "")
    asked = failure.retry_after
    if asked is not None and asked > retries.patience:
        return Decision(None, f"the server asks to wait {asked:g} s, which is more than {retries.patience:g} s")
    # Full jitter: clients that failed together do not come back together.
    wait = draw * min(retries.cap, retries.base * 2.0 ** (attempt - 1))
    if asked is not None:
        wait = max(0.0, asked) + draw * min(retries.base, 1.0)
    if deadline is not None and now + wait >= deadline:
        return Decision(None, f"the next attempt would be in {wait:.1f} s, behind the deadline")
    return Decision(wait)


# --------------------------------------------------------------------------------------------------------------------
# A circuit breaker: an origin that fails again and again is left alone for a while, then asked once.
#
# Closed, requests go through. After `failures` in a row it opens, and requests fail at once. After `pause` seconds
# one request may try (half open): its success closes the circuit, its failure opens it again. The clock is passed in.

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
    return FAILURE_CAUSES.get(failure.kind) == "outage" and failure.code not in ("deadline", "pool")


# --------------------------------------------------------------------------------------------------------------------
# What the client tells besides the events of the reply.


class RequestPrepared(Struct, frozen=True):
    """The body of a request is written: what was lost or changed on the way to this wire, and its size in bytes."""

    losses: tuple[Loss, ...] = ()
    bytes: int = 0
    model: str = ""


class RequestRetried(Struct, frozen=True):
    """A request failed before anything of its reply was delivered, and is sent again after `wait` seconds."""

    attempt: int
    wait: float
    failure: Failure
    model: str = ""


class ModelReplaced(Struct, frozen=True):
    """A model gave up before anything was delivered, and the next one of the list is asked."""

    from_model: str
    to_model: str
    failure: Failure


ClientEvent = Event | RequestPrepared | RequestRetried | ModelReplaced
NOTICES = (RequestPrepared, RequestRetried, ModelReplaced)
"""The events that are no part of a reply."""
