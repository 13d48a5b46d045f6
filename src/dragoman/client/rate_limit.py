"""A rate limiter: requests per minute, tokens per minute, and requests at the same time.

The limits hold for every window of one minute, not on average: after a burst, the next request waits until the first
one is a minute old. Requests are admitted in the order of their arrival. A request with many tokens is not overtaken by
smaller ones, so it cannot wait for ever.

One limiter may serve any number of clients, event loops and threads. The time is an argument (`clock`, `sleep`), so
that tests need no waits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from types import TracebackType
from typing import Self

from msgspec import Struct

from dragoman.client import portal
from dragoman.errors import ConfigError

WINDOW = 60.0
"""The length of the window of the limits, in seconds."""


class _Entry(Struct, eq=False):
    """An admitted request: its time, and its tokens, which are an estimate until they are reported."""

    at: float
    tokens: int


class _Waiter(Struct, eq=False):
    """A request that waits. `wake` may be called from every thread."""

    tokens: int
    wake: Callable[[], object]


class RateLimiter:
    """Limits the requests to one endpoint. None means no limit.

    `requests` and `tokens` are per minute, `concurrent` is the number of requests that may run at the same time.
    """

    def __init__(
        self,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        concurrent: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        for name, limit in (("requests", requests), ("tokens", tokens), ("concurrent", concurrent)):
            if limit is not None and limit < 1:
                raise ConfigError(f"{name} is {limit}", hint="give a number from 1, or None for no limit")
        self._requests, self._tokens, self._concurrent = requests, tokens, concurrent
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._admitted: deque[_Entry] = deque()
        self._spent = 0
        self._running = 0
        self._waiting: deque[_Waiter] = deque()
        self._held_until = -inf

    def __repr__(self) -> str:
        limits = {"requests": self._requests, "tokens": self._tokens, "concurrent": self._concurrent}
        shown = ", ".join(f"{name}={limit}" for name, limit in limits.items() if limit is not None)
        return f"<rate limiter: {shown or 'no limits'}>"

    @property
    def running(self) -> int:
        """The number of admitted requests that have not ended."""
        return self._running

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def slot(self, tokens: int = 0) -> Slot:
        """Return a context manager that waits until a request may be sent: `async with` or, in blocking code, `with`.

        `tokens` is an estimate; `Slot.report` replaces it by the actual number.
        """
        return Slot(self, tokens)

    def slot_now(self, tokens: int = 0) -> Slot | float:
        """Return a slot that is acquired already, or the seconds to wait: infinity if another request has to end."""
        with self._lock:
            now = self._clock()
            wait = inf if self._waiting else self._wait_for_room(tokens, now)
            return wait if wait > 0 else Slot(self, tokens, self._enter(tokens, now))

    def restore(self, admitted: Iterable[tuple[float, int]], *, running: int) -> None:
        """Continue with requests that were admitted elsewhere: their times by the clock, and their tokens, in order."""
        with self._lock:
            self._admitted.extend(_Entry(at, tokens) for at, tokens in admitted)
            self._spent = sum(entry.tokens for entry in self._admitted)
            self._running += running

    def hold(self, seconds: float) -> None:
        """Admit no request for this time, because the endpoint requested a pause."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)

    # ---- admission: the caller holds the lock ------------------------------------------------------------------------

    def _forget_old(self, now: float) -> None:
        while self._admitted and now - self._admitted[0].at >= WINDOW:
            self._spent -= self._admitted.popleft().tokens

    def _wait_for_room(self, tokens: int, now: float) -> float:
        """Return the seconds until a request fits; 0 if it fits now, infinity if only the end of another one helps."""
        self._forget_old(now)
        if self._concurrent is not None and self._running >= self._concurrent:
            return inf
        until = self._held_until
        if self._requests is not None and len(self._admitted) >= self._requests:
            until = max(until, self._admitted[len(self._admitted) - self._requests].at + WINDOW)
        if self._tokens is not None:
            # A request above the limit is admitted alone: it could never be admitted otherwise.
            excess = self._spent + min(tokens, self._tokens) - self._tokens
            for entry in self._admitted:
                if excess <= 0:
                    break
                excess -= entry.tokens
                until = max(until, entry.at + WINDOW) if entry.tokens else until
        return max(0.0, until - now)

    def _admit(self, waiter: _Waiter) -> _Entry | float:
        """Admit a request if it is the next one and fits, else return the seconds to wait."""
        with self._lock:
            if self._waiting[0] is not waiter:
                return inf
            now = self._clock()
            wait = self._wait_for_room(waiter.tokens, now)
            if wait > 0:
                return wait
            self._waiting.popleft()
            entry = self._enter(waiter.tokens, now)
            self._wake_next()
            return entry

    def _enter(self, tokens: int, now: float) -> _Entry:
        entry = _Entry(now, tokens)
        if self._requests is not None or self._tokens is not None:
            self._admitted.append(entry)
            self._spent += entry.tokens
        self._running += 1
        return entry

    def _wake_next(self) -> None:
        while self._waiting:
            try:
                self._waiting[0].wake()
                return
            except RuntimeError:
                # The event loop of this request is closed: nobody waits any more.
                self._waiting.popleft()

    async def _acquire(self, tokens: int) -> _Entry:
        event = asyncio.Event()
        loop = asyncio.get_running_loop()
        waiter = _Waiter(max(0, tokens), lambda: loop.call_soon_threadsafe(event.set))
        with self._lock:
            self._waiting.append(waiter)
        try:
            while isinstance(admitted := self._admit(waiter), float):
                await self._pause(event, admitted)
            return admitted
        except BaseException:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                self._wake_next()
            raise

    async def _pause(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for a while, or until the event."""
        if seconds == inf:
            await event.wait()
        else:
            tasks = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._sleep(seconds))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        event.clear()

    def _release(self) -> None:
        with self._lock:
            self._running -= 1
            self._wake_next()

    def _report(self, entry: _Entry, tokens: int) -> None:
        with self._lock:
            self._forget_old(self._clock())
            if self._admitted and entry.at >= self._admitted[0].at:
                self._spent += tokens - entry.tokens
            entry.tokens = tokens
            self._wake_next()


class Slot:
    """The permission to send one request. It ends with its block, or with `release`."""

    def __init__(self, limiter: RateLimiter, tokens: int, entry: _Entry | None = None) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._entry = entry

    async def acquire(self) -> Self:
        """Wait for the permission."""
        self._entry = await self._limiter._acquire(self._tokens)
        return self

    def report(self, tokens: int) -> None:
        """Replace the estimated number of tokens by the actual one. It may be called several times."""
        if self._entry is not None:
            self._limiter._report(self._entry, max(0, tokens))

    def release(self) -> None:
        """End the request. It may be called twice."""
        if self._entry is not None:
            self._entry = None
            self._limiter._release()

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __enter__(self) -> Self:
        return portal.run(self.acquire())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
