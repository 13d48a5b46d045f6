"""Retry decisions, delays that servers ask for, the circuit breaker, and the events about them.

Pure: the clock and the random draw are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from dragoman.events import Event
from dragoman.providers.facts import cannot_read_call
from dragoman.types import FAILURE_CAUSES, TRANSIENT_FAILURES, Failure
from dragoman.wire.failures import Loss

# --------------------------------------------------------------------------------------------------------------------
# The delay that a server requests, in the notations that servers use.

_duration = re.compile(
    r"(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6}(?:\.\d+)?)s)?(?:(\d{1,9}(?:\.\d+)?)ms)?"
).fullmatch
_LIMITED = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
)
NEVER = 1e9
"""The value for a delay that is not a number: longer than any wait."""


def read_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait, by `retry-after-ms`, `retry-after` (seconds or a date) or an exhausted `x-ratelimit`.

    `now` is the time in seconds since 1970. Returns None without such a header, and 0 for a time in the past.
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
    """Parse a duration such as `6m0s` or `20ms`, or plain seconds."""
    found = _duration(text)
    if not text or found is None:
        return _number(text)
    hours, minutes, seconds, thousandths = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


# --------------------------------------------------------------------------------------------------------------------
# Whether a failed request is sent again, and when. Pure: the clock and the random draw are arguments.

_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# A request that timed out may still be running: a retry would be billed as well.
_FINAL_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "circuit_open"}
    | {"first_byte", "idle", "pool", "deadline", "proxy"}
)


class Retries(Struct, frozen=True):
    """The number of attempts and the delays between them. `attempts` includes the first one; 1 means no retries."""

    attempts: int = 3
    base: float = 0.5
    """The maximum first delay, in seconds; the maximum doubles with each attempt."""
    cap: float = 30.0
    """The maximum delay without a request of the server."""
    patience: float = 120.0
    """The maximum delay that a server may request."""


class Decision(Struct, frozen=True):
    """Retry after `wait` seconds, or give up if `wait` is None. `why` is the reason, if it is of interest."""

    wait: float | None = None
    why: str = ""


def is_passing(failure: Failure) -> bool:
    """Whether a failure may be temporary."""
    if failure.code in _FINAL_CODES or cannot_read_call(failure):
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
    """Decide what to do after attempt number `attempt` (from 1) failed. `draw` is a random number in [0, 1)."""
    if delivered or not is_passing(failure):
        return Decision()
    if attempt >= retries.attempts:
        return Decision(None, f"after {attempt} attempts" if attempt > 1 else "")
    asked = failure.retry_after
    if asked is not None and asked > retries.patience:
        return Decision(
            None, f"the server requests a delay of {asked:g} s, more than the maximum of {retries.patience:g} s"
        )
    # Full jitter: clients that failed at the same time do not retry at the same time.
    wait = draw * min(retries.cap, retries.base * 2.0 ** (attempt - 1))
    if asked is not None:
        wait = max(0.0, asked) + draw * min(retries.base, 1.0)
    if deadline is not None and now + wait >= deadline:
        return Decision(None, f"the next attempt would be in {wait:.1f} s, after the deadline")
    return Decision(wait)


# --------------------------------------------------------------------------------------------------------------------
# A circuit breaker: it stops requests to an origin that fails repeatedly, and tries one request after a pause.
#
# While it is closed, requests pass. After `failures` consecutive failures it opens, and requests fail at once. After
# `pause` seconds it lets one request pass (half open): its success closes the circuit, its failure opens it again. The
# clock is an argument.

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
        """Return 0 if a request may be sent now (the probe, if one is due), else the seconds to wait."""
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
        """Record a cancelled request: it proves nothing, and another request may be the probe."""
        self._probing = False


class Breakers:
    """One breaker per origin. Clients that share this value share the state of the origins."""

    def __init__(self, failures: int = 5, pause: float = 30.0) -> None:
        self._failures = failures
        self._pause = pause
        self._by_origin: dict[str, Breaker] = {}

    def of(self, origin: str) -> Breaker:
        """Return the breaker of an origin."""
        breaker = self._by_origin.get(origin)
        if breaker is None:
            breaker = self._by_origin[origin] = Breaker(self._failures, self._pause)
        return breaker


def counts(failure: Failure) -> bool:
    """Whether a failure means that the origin is unhealthy, and not that it rejects this request."""
    is_outage = FAILURE_CAUSES.get(failure.kind) == "outage" and failure.code not in ("deadline", "pool")
    return is_outage and not cannot_read_call(failure)


# --------------------------------------------------------------------------------------------------------------------
# The events of the client, in addition to those of the reply.


class RequestPrepared(Struct, frozen=True):
    """The body of a request is encoded. `losses` are those of the conversion to this wire, `bytes` is its size."""

    losses: tuple[Loss, ...] = ()
    bytes: int = 0
    model: str = ""


class RequestRetried(Struct, frozen=True):
    """A request failed before any output was delivered, and is sent again after `wait` seconds."""

    attempt: int
    wait: float
    failure: Failure
    model: str = ""


class ModelReplaced(Struct, frozen=True):
    """A model failed before any output was delivered, and the next one of the list is used."""

    from_model: str
    to_model: str
    failure: Failure


ClientEvent = Event | RequestPrepared | RequestRetried | ModelReplaced
"""What a client reports: the events of replies, and what it did around them."""
NOTICES = (RequestPrepared, RequestRetried, ModelReplaced)
"""The events that are not part of a reply."""
