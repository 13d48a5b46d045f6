"""What each client has used, and whether it may send another request: rates, concurrency, and budgets of a day."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from dragoman.client.rate_limit import RateLimiter, Slot
from dragoman.pipeline.report import Report
from dragoman.providers import Endpoint
from dragoman.providers.prices import Prices
from dragoman.providers.tokens import Estimate
from dragoman.server.keys import ClientKey, KeyLimits
from dragoman.server.settings import CHARACTERS_PER_TOKEN
from dragoman.state_files import replace_file
from dragoman.types import Failure, Request, Usage

if TYPE_CHECKING:
    from dragoman.server.shared import SharedStore

log = logging.getLogger("dragoman.server")

USAGE_FILE = "gateway-usage.json"
_BYTES_OF_A_STREAMED_TOKEN = 64
"""A streamed token is in a frame of 30 to 300 bytes; the estimate errs on the side of more tokens."""
_LARGEST_USAGE = 16 * 1024 * 1024
_SECONDS_BETWEEN_WRITES = 5.0
_A_SECOND = 1.0
_WAIT_FOR_OTHERS = 2.0
_LONGEST_ANSWER = 10_000_000
"""No model writes more; a client may ask for any number."""
_USUAL_ANSWER = 4096
"""The tokens that are reserved for an answer without a limit of its own."""
_FIRST_ERROR = 400
Clock = Callable[[], datetime]
Candidate = tuple[Endpoint, str]
"""An endpoint that may answer a request, and the name of its model."""
Candidates = Callable[[], Sequence[Candidate]]
"""Finds the candidates of a request; only a budget of dollars needs them."""


class Spent(Struct):
    """What one client has used on one day."""

    day: str = ""
    tokens: int = 0
    dollars: float = 0.0


SomeSpent = TypeVar("SomeSpent", bound=Spent)


class Amount(Struct):
    """Tokens and dollars."""

    tokens: int = 0
    dollars: float = 0.0


class Account:
    """What one client has used today, and what its running requests may use."""

    def __init__(self, spent: Spent | None = None) -> None:
        self.spent = spent or Spent()
        self.running = 0
        """The requests with a reservation."""
        self.reserved = Amount()

    def open_day(self, now: datetime) -> None:
        """Begin anew if the day is over."""
        day = now.date().isoformat()
        if self.spent.day != day:
            self.spent.day, self.spent.tokens, self.spent.dollars = day, 0, 0.0

    def add(self, amount: Amount, sign: int) -> None:
        """Reserve an amount, or end its reservation."""
        self.running += sign
        self.reserved.tokens += sign * amount.tokens
        self.reserved.dollars += sign * amount.dollars
        if not self.running:
            # Sums of fractions leave a rest.
            self.reserved = Amount()

    def as_spent(self) -> Spent:
        """Return what is used if every running request uses all that it may. It is stored, in case of a crash."""
        reserved = self.reserved
        return Spent(self.spent.day, self.spent.tokens + reserved.tokens, self.spent.dollars + reserved.dollars)


class Quota:
    """The limits of one client, and what it has used of them."""

    def __init__(self, limits: KeyLimits, account: Account, clock: Clock, limiter: RateLimiter | None = None) -> None:
        self.limits = limits
        self.account = account
        self._clock = clock
        self._limiter = limiter or open_limiter(limits)

    @property
    def has_budget(self) -> bool:
        return self.limits.tokens_per_day is not None or self.limits.dollars_per_day is not None

    def admit(self, tokens: int) -> Slot | Failure:
        """Admit a request of about this many tokens at once, or say why not, and for how long."""
        if self.has_budget and (failure := self._check_budget(Amount())) is not None:
            return failure
        slot = self._limiter.slot_now(tokens)
        if isinstance(slot, Slot):
            return slot
        if slot == inf:
            most = self.limits.max_concurrent
            return _refuse(f"this key may have {most} requests at the same time, and no more", _A_SECOND)
        return _refuse("this key has reached its limit for one minute", slot)

    def reserve(self, prompt: Amount, whole: Amount) -> Failure | None:
        """Reserve what a request may use, or say why not. `prompt` is the part that is certain.

        A request whose answer may be longer than what is left is admitted alone. Most answers are far shorter than
        their limit, and a budget that nobody can use up would be none.
        """
        failure = self._check_budget(prompt)
        if failure is None and self.account.running:
            failure = self._check_budget(whole, is_certain=False)
        if failure is None:
            self.account.add(whole, 1)
        return failure

    def _check_budget(self, amount: Amount, *, is_certain: bool = True) -> Failure | None:
        now = self._clock()
        account = self.account
        account.open_day(now)
        spent, reserved = account.spent, account.reserved
        sums = (
            ("tokens", self.limits.tokens_per_day, spent.tokens, reserved.tokens, amount.tokens),
            ("dollars", self.limits.dollars_per_day, spent.dollars, reserved.dollars, amount.dollars),
        )
        for unit, most, used, held, more in sums:
            # What is used up exactly admits nothing more, not even a request without a size.
            if most is None or (used + held + more <= most and used < most):
                continue
            said = f"this key may use {most:g} {unit} a day, and has used {round(used, 4):g}"
            if is_certain and used + more > most:
                return _refuse(f"{said}; this request needs more than the rest", _until_day(now))
            if is_certain and used >= most:
                return _refuse(said, _until_day(now))
            return _refuse(f"{said}; its other requests may need {round(held, 4):g} more", _WAIT_FOR_OTHERS)
        return None

    def charge(self, tokens: int, dollars: float) -> None:
        """Count what a request has used."""
        self.account.open_day(self._clock())
        self.account.spent.tokens += tokens
        self.account.spent.dollars += dollars


def open_limiter(limits: KeyLimits, clock: Callable[[], float] = time.monotonic) -> RateLimiter:
    """Return a limiter for the rates of a client."""
    requests, tokens, concurrent = limits.requests_per_minute, limits.tokens_per_minute, limits.max_concurrent
    return RateLimiter(requests=requests, tokens=tokens, concurrent=concurrent, clock=clock)


def _refuse(message: str, wait: float) -> Failure:
    return Failure("rate_limited", message, 429, "rate_limit_exceeded", max(_A_SECOND, wait))


def _until_day(now: datetime) -> float:
    tomorrow = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (tomorrow - now).total_seconds()


class Sent(Struct, frozen=True):
    """The sizes of a request and its answer in bytes, and the status of the answer; 0 if there was none."""

    request: int
    answer: int
    status: int


class Permit:
    """The permission for one request. Without keys, all requests share one that allows everything."""

    is_shared = False
    """Whether other processes count too, so that each step has to be settled."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        """The name of the client's key."""

    async def settle(self) -> Failure | None:
        """Ask the other processes about the last step, if the permit is shared, or say why it is refused."""
        return None

    def reserve(self, request: Request, candidates: Candidates) -> Failure | None:
        """Reserve what a request may use at these endpoints, or return why the client must not send it."""
        return None

    def refuse_unmeasured(self, path: str) -> Failure | None:
        """Return why the client must not use a path whose usage nobody counts."""
        return None

    def charge(self, sent: Sent, report: Report, candidates: Candidates) -> None:
        """Count what an exchange has used."""

    def close(self) -> None:
        """End the request."""


EVERYTHING = Permit()


class LimitedPermit(Permit):
    """The permission of a client with limits."""

    def __init__(self, name: str, quota: Quota, slot: Slot, quotas: Quotas) -> None:
        super().__init__(name)
        self._quota, self._slot, self._quotas = quota, slot, quotas
        self._reserved: Amount | None = None

    def reserve(self, request: Request, candidates: Candidates) -> Failure | None:
        if not self._quota.has_budget:
            return None
        amounts = self.estimate(request, candidates)
        if isinstance(amounts, Failure):
            return amounts
        return self._hold(*amounts)

    def _hold(self, prompt: Amount, whole: Amount) -> Failure | None:
        failure = self._quota.reserve(prompt, whole)
        if failure is None:
            self._reserved = whole
            self._quotas.changed()
        return failure

    def estimate(self, request: Request, candidates: Candidates) -> tuple[Amount, Amount] | Failure:
        """Return what a request uses for its prompt, and at most for all, or why that is unknown."""
        prompt, whole = Amount(Estimate().count(request.messages, request.tools)), Amount()
        limit = request.options.get("max_tokens")
        answer = min(limit, _LONGEST_ANSWER) if isinstance(limit, int) and limit > 0 else _USUAL_ANSWER
        whole.tokens = prompt.tokens + answer
        if self._quota.limits.dollars_per_day is not None:
            for endpoint, model in candidates():
                # An unknown price would make the budget endless without a word.
                if (cost := self._quotas.prices.cost(endpoint, model, Usage(prompt.tokens))) is None:
                    shown = f"{endpoint.provider.name}:{model}"
                    message = f"this key has a budget in dollars, and the gateway has no price of {shown} in [prices]"
                    return Failure("unauthorized", message, 403, "unknown_price")
                # A fallback may answer, so the dearest endpoint counts.
                full = self._quotas.prices.cost(endpoint, model, Usage(prompt.tokens, answer))
                prompt.dollars, whole.dollars = max(prompt.dollars, cost), max(whole.dollars, full or 0.0)
        return prompt, whole

    def refuse_unmeasured(self, path: str) -> Failure | None:
        if not self._quota.has_budget:
            return None
        return Failure("unauthorized", f"this key has a budget, and {path} reports no usage", 403, "not_measured")

    def charge(self, sent: Sent, report: Report, candidates: Candidates) -> None:
        used = self.measure(sent, report, candidates)
        self._slot.report(used.tokens)
        if self._quota.has_budget and used.tokens:
            self._quota.charge(used.tokens, used.dollars)
            self._quotas.changed()

    def measure(self, sent: Sent, report: Report, candidates: Candidates) -> Amount:
        """Return what an exchange has used. Only a key with a budget in dollars needs these."""
        usage = report.usage
        if not usage.input_tokens + usage.output_tokens and sent.status < _FIRST_ERROR:
            # The client left before the endpoint counted, or the endpoint does not count.
            usage = Usage(sent.request // CHARACTERS_PER_TOKEN, sent.answer // _BYTES_OF_A_STREAMED_TOKEN)
        tokens = usage.input_tokens + usage.output_tokens
        has_price = self._quota.limits.dollars_per_day is not None and tokens
        return Amount(tokens, self._quotas.find_cost(report.model, usage, candidates()) if has_price else 0.0)

    def close(self) -> None:
        self._slot.release()
        if self._reserved is not None:
            self._quota.account.add(self._reserved, -1)
            self._reserved = None


class Quotas:
    """The quotas of all clients. Daily budgets are kept in a file, so that a restart does not renew them."""

    def __init__(
        self,
        path: Path | None = None,
        prices: Prices | None = None,
        clock: Clock | None = None,
        store: SharedStore | None = None,
    ) -> None:
        """With a `store`, several processes count together, and the file is not used."""
        self._path = path if store is None else None
        self._store = store
        self._prices = prices
        self._clock = clock or (lambda: datetime.now(UTC))
        self._quotas: dict[str, Quota] = {}
        stored = _read_usage(self._path) if self._path is not None else {}
        self._accounts = {name: Account(spent) for name, spent in stored.items()}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def prices(self) -> Prices:
        """The prices; the shipped ones are read when a key with a budget in dollars is used."""
        if self._prices is None:
            self._prices = Prices.default()
        return self._prices

    def admit(self, key: ClientKey, tokens: int) -> Permit | Failure:
        """Admit a request of a client, or say why not."""
        if key.limits == _NO_LIMITS:
            return Permit(key.name)
        quota = self._find(key)
        if self._store is not None:
            return self._store.admit(key.name, _account_of(key), quota, tokens, self)
        slot = quota.admit(tokens)
        return slot if isinstance(slot, Failure) else LimitedPermit(key.name, quota, slot, self)

    def _find(self, key: ClientKey) -> Quota:
        account = _account_of(key)
        quota = self._quotas.get(account)
        if quota is None or quota.limits != key.limits:
            kept = self._accounts.setdefault(account, Account())
            quota = self._quotas[account] = Quota(key.limits, kept, self._clock)
        return quota

    def find_cost(self, model: str, usage: Usage, candidates: Sequence[Candidate]) -> float:
        """Return the price of a request. If it is not certain which endpoint answered, the dearest one counts."""
        named = [each for each in candidates if model in (each[1], f"{each[0].provider.name}:{each[1]}")]
        costs = [self.prices.cost(endpoint, name, usage) for endpoint, name in named or candidates]
        return max((cost for cost in costs if cost is not None), default=0.0)

    # ---- the file ---------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Write the file within the next seconds."""
        if self._path is not None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_SECONDS_BETWEEN_WRITES, self._write_in_thread, loop)

    def _write_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        loop.run_in_executor(None, self._write, self._encode())

    def _encode(self) -> bytes:
        today = self._clock().date().isoformat()
        kept = {name: account.as_spent() for name, account in self._accounts.items()}
        return msgspec.json.encode({name: spent for name, spent in kept.items() if spent.day == today})

    def _write(self, data: bytes) -> None:
        assert self._path is not None
        try:
            replace_file(self._path, data)
        except OSError as error:
            log.error("the usage of the keys was not written: %s", error.strerror)

    def close(self) -> None:
        """Write the file now, if something was used since the last time. Close the store."""
        if self._store is not None:
            self._store.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._write(self._encode())


_NO_LIMITS = KeyLimits()


def _account_of(key: ClientKey) -> str:
    # A key that was revoked and added again is another key.
    return f"{key.name} {key.digest[:16]}"


def read_usage(path: Path, kind: type[SomeSpent]) -> dict[str, SomeSpent]:
    """Read the usage of all clients. A file that is damaged counts as an empty one. Raises OSError."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_LARGEST_USAGE), type=dict[str, kind])  # type: ignore[valid-type]
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        log.error("the usage of the keys is unknown, and begins at zero: %s", error)
        return {}


def _read_usage(path: Path) -> dict[str, Spent]:
    try:
        return read_usage(path, Spent)
    except OSError as error:
        log.error("the usage of the keys is unknown, and begins at zero: %s", error)
        return {}


def estimate_tokens(headers: Mapping[str, str]) -> int:
    """Return about how many tokens a request has, by the size that it announces."""
    size = headers.get("content-length", "")
    return int(size) // CHARACTERS_PER_TOKEN if size.isascii() and size.isdigit() and len(size) < 16 else 0
