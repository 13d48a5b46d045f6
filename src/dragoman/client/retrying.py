"""Whether a failed request is sent again, and when. A decision, and nothing else: time and lots are passed in."""

from __future__ import annotations

from msgspec import Struct

from dragoman.types import Failure

_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_KINDS = frozenset({"rate_limited", "overloaded", "server_error", "unreachable", "stream_cut", "timed_out"})
# A request that was sent and waited for may still be running: another one would be paid for as well.
_FINAL_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "circuit_open",
        "first_byte",
        "idle",
        "pool",
        "deadline",
        "proxy",
    }
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
    return failure.kind in _KINDS


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
