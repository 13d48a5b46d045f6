"""What a client has used, if several processes serve it: a ledger in a store that they share, and its permits.

The rules are those of `quotas`. A ledger contains what a quota remembers, so each operation makes a quota of it, asks
that, and notes the result. A store applies one operation to a ledger at a time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from msgspec import Struct, field

from dragoman.client.rate_limit import WINDOW, RateLimiter, Slot
from dragoman.pipeline.report import Report
from dragoman.server.keys import KeyLimits
from dragoman.server.quotas import (
    Account,
    Amount,
    Candidates,
    LimitedPermit,
    Quota,
    Quotas,
    Sent,
    Spent,
    open_limiter,
)
from dragoman.types import Failure

LEASE_SECONDS = 30.0
"""A request whose process has not renewed it for so long has ended with its process."""
_AWAY = "the limits of this key are shared, and their database does not answer"


class Admission(Struct, array_like=True):
    """A request of the last minute."""

    id: str
    at: float
    tokens: int


class Hold(Struct, array_like=True):
    """A request that runs, and what it may use."""

    until: float
    tokens: int = 0
    dollars: float = 0.0
    has_reserved: bool = False


class Ledger(Spent, omit_defaults=True):
    """What one client has used today, its requests of the last minute, and those that run. Times are of the store."""

    admitted: list[Admission] = field(default_factory=list)
    running: dict[str, Hold] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.tokens or self.dollars or self.admitted or self.running)

    def open_at(self, now: float) -> float:
        """Remove what is over. Return the time, which never goes back in one ledger."""
        now = max(now, self.admitted[-1].at) if self.admitted else now
        self.admitted = [each for each in self.admitted if now - each.at < WINDOW]
        account = Account(self)
        account.open_day(_as_date(now))
        for id in [id for id, hold in self.running.items() if hold.until < now]:
            # Its process has ended, and nobody knows what the request has used.
            lost = self.running.pop(id)
            self.tokens += lost.tokens
            self.dollars += lost.dollars
        return now

    def as_quota(self, limits: KeyLimits, now: float) -> Quota:
        """Return a quota with this content. Its account is this ledger."""
        account = Account(self)
        for hold in self.running.values():
            if hold.has_reserved:
                account.add(Amount(hold.tokens, hold.dollars), 1)
        limiter = open_limiter(limits, clock=lambda: now)
        limiter.restore(((each.at, each.tokens) for each in self.admitted), running=len(self.running))
        return Quota(limits, account, lambda: _as_date(now), limiter)


def _as_date(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)


Operation = Callable[[Ledger, float], Failure | None]
"""Changes a ledger at a time, or says why not. It changes nothing else, so that a store may give it up."""


class StoreAway(Exception):
    """The store does not answer in time."""


class LedgerStore(Protocol):
    """Ledgers that several processes share."""

    async def apply(self, account: str, operation: Operation) -> Failure | None:
        """Apply an operation. Raises StoreAway after a short time; whether it was applied is then unknown."""

    def send(self, account: str, operation: Operation) -> None:
        """Apply an operation soon, again and again until that succeeds."""

    def keep(self, account: str, id: str) -> None:
        """Renew a running request until it is dropped."""

    def drop(self, account: str, id: str) -> None: ...


# ---- operations ------------------------------------------------------------------------------------------------------


def admit(limits: KeyLimits, id: str, tokens: int, ledger: Ledger, now: float) -> Failure | None:
    """Admit a request of about this many tokens."""
    now = ledger.open_at(now)
    slot = ledger.as_quota(limits, now).admit(tokens)
    if isinstance(slot, Failure):
        return slot
    if limits.requests_per_minute is not None or limits.tokens_per_minute is not None:
        ledger.admitted.append(Admission(id, now, tokens))
    ledger.running[id] = Hold(now + LEASE_SECONDS)
    return None


def reserve(limits: KeyLimits, id: str, prompt: Amount, whole: Amount, ledger: Ledger, now: float) -> Failure | None:
    """Reserve what an admitted request may use."""
    now = ledger.open_at(now)
    failure = ledger.as_quota(limits, now).reserve(prompt, whole)
    if failure is None:
        ledger.running[id] = Hold(now + LEASE_SECONDS, whole.tokens, whole.dollars, True)
    return failure


def renew(id: str, ledger: Ledger, now: float) -> None:
    """Note that the process of a request still lives."""
    if (hold := ledger.running.get(id)) is not None:
        hold.until = now + LEASE_SECONDS


def close(id: str, used: Amount | None, has_budget: bool, ledger: Ledger, now: float) -> None:
    """End a request, and count what it has used. It may be applied twice.

    A request that is not there was counted already: by the first time, or because its process seemed dead.
    """
    now = ledger.open_at(now)
    if ledger.running.pop(id, None) is None or used is None:
        return
    for each in ledger.admitted:
        if each.id == id:
            each.tokens = used.tokens
    if has_budget:
        ledger.tokens += used.tokens
        ledger.dollars += used.dollars


# ---- permits ---------------------------------------------------------------------------------------------------------

_PROCESS = os.urandom(6).hex()
_NUMBERS = itertools.count(1)


def _renew_process() -> None:
    global _PROCESS
    _PROCESS = os.urandom(6).hex()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_process)


class SharedPermit(LimitedPermit):
    """The permission of a client with limits that several processes share. The caller awaits `settle` after each step.

    If the store does not answer, a key with a budget is refused: nobody knows what is left of it. The other limits then
    count in this process alone.
    """

    is_shared = True

    def __init__(self, name: str, account: str, quota: Quota, tokens: int, quotas: Quotas, store: LedgerStore) -> None:
        """`quota` has the limits, and counts while the store is away."""
        super().__init__(name, quota, _NO_SLOT, quotas)
        self._account, self._store = account, store
        self._id = f"{_PROCESS}-{next(_NUMBERS)}"
        self._tokens = tokens
        self._used: Amount | None = None
        self._is_noted = False
        """Whether the ledger may contain the request."""
        self._next: Operation | None = partial(admit, quota.limits, self._id, tokens)

    async def settle(self) -> Failure | None:
        operation, self._next = self._next, None
        if operation is None:
            return None
        try:
            failure = await self._store.apply(self._account, operation)
        except StoreAway:
            return self._do_without()
        if failure is None and not self._is_noted:
            self._is_noted = True
            self._store.keep(self._account, self._id)
        return failure

    def _do_without(self) -> Failure | None:
        # The operation may have been applied all the same.
        self._is_noted = True
        if self._quota.has_budget:
            return Failure("overloaded", _AWAY, 503, "limits_unavailable", 1.0)
        slot = self._quota.admit(self._tokens)
        if isinstance(slot, Failure):
            return slot
        self._slot = slot
        return None

    def _hold(self, prompt: Amount, whole: Amount) -> Failure | None:
        self._next = partial(reserve, self._quota.limits, self._id, prompt, whole)
        return None

    def charge(self, sent: Sent, report: Report, candidates: Candidates) -> None:
        self._used = self.measure(sent, report, candidates)
        self._slot.report(self._used.tokens)

    def close(self) -> None:
        self._slot.release()
        if self._is_noted:
            self._is_noted = False
            self._store.drop(self._account, self._id)
            self._store.send(self._account, partial(close, self._id, self._used, self._quota.has_budget))


_NO_SLOT = Slot(RateLimiter(), 0)
