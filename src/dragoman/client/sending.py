"""One request on its way: sent, read within its deadline, shown to whoever debugs, and always closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from dragoman.client.debugging import Debugger, Record
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.secrets.exchanges import RequestRedactor

T = TypeVar("T")


class Exchange:
    """A request and its answer, until `close`."""

    def __init__(
        self,
        transport: Transport,
        timeouts: Timeouts,
        clock: Callable[[], float],
        deadline: float | None,
        debugger: Debugger | None,
    ) -> None:
        self._transport = transport
        self._timeouts = timeouts
        self._clock = clock
        self._deadline = deadline
        self._debugger = debugger
        self._record: Record | None = None
        self._response: HttpResponse | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._note = "the answer was not read to its end"
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._expired = False

    async def within(self, work: Awaitable[T]) -> T:
        """The value of a wait that the deadline ends.

        As `asyncio.timeout`, but with one timer for all waits of the exchange: a stream has thousands of them.
        """
        if self._deadline is None:
            return await work
        if self._timer is None:
            left = max(0.0, self._deadline - self._clock())
            self._timer = asyncio.get_running_loop().call_later(left, self._expire)
        task = self._task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            return await work
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= before:
                raise TransportFault("timed_out", "the deadline of the request passed", code="deadline") from None
            raise
        finally:
            self._task = None

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    def _check_deadline(self) -> None:
        if self._expired:
            raise TransportFault("timed_out", "the deadline of the request passed", code="deadline")

    async def send(self, request: HttpRequest, scrubber: RequestRedactor) -> HttpResponse:
        """The answer, as soon as its head is there."""
        if self._debugger is not None:
            self._record = self._debugger.open(request, scrubber)
        try:
            self._check_deadline()
            response = self._response = await self.within(self._transport.send(request, self._timeouts))
        except TransportFault as fault:
            self._note = f"{fault.kind}: {fault.message}"
            raise
        self._pieces = response.pieces()
        if self._record is not None:
            self._record.begin(response.status, response.headers)
        return response

    async def next_piece(self) -> bytes | None:
        """The next piece of the body; None behind the last. Raises TransportFault where it breaks off."""
        assert self._pieces is not None
        try:
            self._check_deadline()
            piece = await self.within(anext(self._pieces))
        except StopAsyncIteration:
            self._note = ""
            return None
        except TransportFault as fault:
            self._note = f"{fault.kind}: {fault.message}"
            raise
        if self._record is not None:
            self._record.add(piece)
        return piece

    async def close(self) -> None:
        """Give the connection back or drop it, and write down what was seen."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._response is not None:
                await self._response.close()
        finally:
            if self._debugger is not None and self._record is not None:
                self._debugger.close(self._record, self._note)
                self._record = None
