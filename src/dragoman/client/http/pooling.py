"""The connections of one event loop: kept for the next request to the same origin, and never more than allowed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

from dragoman.client.http.connections import Connection
from dragoman.client.http.limits import Limits
from dragoman.client.transport import TransportFault

Opener = Callable[[Connection], Awaitable[None]]


class Pool:
    """Connections by key (an origin, and the way there)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self._loop = loop
        self._limits = limits
        self._idle: dict[object, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._guard: AsyncIterator[None] | None = None

    def take(self, key: object) -> Connection | None:
        """A kept connection, the one that was used last."""
        stack = self._idle.get(key)
        while stack:
            connection = stack.pop()
            if connection.usable:
                return connection
        return None

    async def open(self, key: object, opener: Opener, patience: float) -> Connection:
        """A new connection, as soon as there may be one more; or one that became free in the meantime."""
        if self._guard is None:
            await self._watch_loop()
        while len(self._all) + self._opening >= self._limits.connections:
            if not self._close_one_idle():
                await self._wait_for_room(patience)
                kept = self.take(key)
                if kept is not None:
                    return kept
        connection = Connection(self._loop, self._limits, self._on_free, self._on_lost)
        connection.key = key
        self._opening += 1
        try:
            await opener(connection)
        except BaseException:
            connection.drop()
            self._wake_one()
            raise
        finally:
            self._opening -= 1
        self._all.add(connection)
        return connection

    async def close(self) -> None:
        """Drop every connection and wait until they are gone."""
        connections = list(self._all)
        for connection in connections:
            connection.drop()
        self._idle.clear()
        if connections:
            await asyncio.wait([connection.closed for connection in connections])

    # ---- what connections report -----------------------------------------------------------------------------------

    def _on_free(self, connection: Connection) -> None:
        self._idle.setdefault(connection.key, []).append(connection)
        if self._waiters:
            self._wake_one()

    def _on_lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        stack = self._idle.get(connection.key)
        if stack is not None and connection in stack:
            stack.remove(connection)
            if not stack:
                del self._idle[connection.key]
        self._wake_one()

    # ---- waiting for room ------------------------------------------------------------------------------------------

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _wait_for_room(self, patience: float) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(patience):
                await waiter
        except TimeoutError:
            message = f"no connection became free within {patience:g} s; {self._limits.connections} are in use"
            raise TransportFault("timed_out", message, code="pool") from None
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # It was this one's turn: somebody else takes it.
                self._wake_one()
            raise

    def _close_one_idle(self) -> bool:
        for stack in self._idle.values():
            for connection in stack:
                stack.remove(connection)
                connection.drop()
                self._all.discard(connection)
                return True
        return False

    # ---- the end of the loop ---------------------------------------------------------------------------------------

    async def _watch_loop(self) -> None:
        """Have the connections closed with the loop, also when nobody closes the transport.

        A loop that ends (`asyncio.run`) first closes the asynchronous generators that are still open; this is one.
        """
        self._guard = self._wait_for_end()
        await anext(self._guard)

    async def _wait_for_end(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.close()
