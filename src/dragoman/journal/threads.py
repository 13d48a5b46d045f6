"""The threads of a journal in an SQL database: one that writes and one that reads, so that no event loop waits."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from dragoman.journal.journal import JournalError, JournalFailed
from dragoman.journal.leases import LEASE_SECONDS

# --------------------------------------------------------------------------------------------------------------------
# A thread that executes the jobs of many tasks.

T = TypeVar("T")
C = TypeVar("C")
MOST_AT_ONCE = 256


class Job:
    """One job, and the task that waits for it. It may run twice, if the first transaction was rolled back or lost."""

    __slots__ = ("durable", "future", "loop", "outcome", "statement", "work")

    def __init__(
        self, work: Callable[[Any], Any], durable: bool, statement: Callable[[Any], Any] | None = None
    ) -> None:
        self.work = work
        self.statement = statement
        """Does the same with one statement, which is a transaction of its own. None: `work` has to do it."""
        self.durable = durable
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.outcome: tuple[Any, BaseException | None] = (None, JournalFailed("the journal did not answer"))


class Handler(ABC):
    """Executes the jobs of a thread. All methods are called in the thread, `close` last."""

    @abstractmethod
    def serve(self, jobs: list[Job]) -> None:
        """Execute the jobs and set the outcome of each."""

    def rest(self) -> float | None:
        """Do the periodic work. Return the number of seconds until the next call, or None for never."""
        return None

    @abstractmethod
    def close(self) -> None: ...


class JobThread:
    """The thread of one handler. It starts with the first job and ends with `close`."""

    def __init__(self, name: str, handler: Handler) -> None:
        self._name = name
        self._handler = handler
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False

    async def do(
        self, work: Callable[[Any], T], *, durable: bool = False, statement: Callable[[Any], Any] | None = None
    ) -> T:
        """Run a job with the handler's connection. A queued job runs even if the waiting task is cancelled."""
        result: T = await self.submit(Job(work, durable, statement))
        return result

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Queue a job. Return the future of its result."""
        with self._lock:
            self._check_usable()
            if self._thread is None:
                self._process = os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(self._queue, self._handler), name=self._name, daemon=True
                )
                self._thread.start()
            self._queue.put(job)
        return job.future

    def _check_usable(self) -> None:
        if self._closed:
            raise JournalFailed("the journal is closed", hint="open it again")
        if self._thread is not None and self._process != os.getpid():
            # Neither the thread nor a connection survives a fork of the process.
            raise JournalFailed("the journal was opened before this process was forked", hint="open it in the child")

    def close(self) -> None:
        """Finish the queued jobs, then end the thread."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and self._process == os.getpid():
            self._queue.put(None)
            # The final reference may be dropped on this thread itself, and a thread cannot join itself.
            if thread is not threading.current_thread():
                thread.join()


def _serve(jobs: queue.SimpleQueue[Job | None], handler: Handler) -> None:
    try:
        open_ = True
        while open_:
            batch, open_ = _next_batch(jobs, handler)
            if batch:
                handler.serve(batch)
                _answer(batch)
            # While it waits, the thread must not keep the waiting task alive.
            batch = []
    finally:
        handler.close()


def _next_batch(jobs: queue.SimpleQueue[Job | None], handler: Handler) -> tuple[list[Job], bool]:
    """Return all waiting jobs, so that they share one commit; and whether there may be more."""
    batch: list[Job] = []
    wait = handler.rest()
    try:
        job = jobs.get(timeout=wait)
        while job is not None and len(batch) < MOST_AT_ONCE - 1:
            batch.append(job)
            job = jobs.get_nowait()
    except queue.Empty:
        return batch, True
    if job is not None:
        batch.append(job)
    return batch, job is not None


def _answer(batch: list[Job]) -> None:
    """Wake the tasks, with one callback per event loop for all of its tasks."""
    waiting: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in batch:
        waiting.setdefault(job.loop, []).append(job)
    for loop, jobs in waiting.items():
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:
            # The loop is closed: no task waits any more.
            continue


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        value, error = job.outcome
        # The waiting task was cancelled; the write still happens.
        if job.future.done():
            continue
        if error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)


# --------------------------------------------------------------------------------------------------------------------
# The single connection that writes: jobs of many runs share a transaction, and wait for the disk once.


class LeaseClock(Struct, frozen=True):
    """The clocks of the leases. `clock` gives the time that is stored, `monotonic` the time between renewals."""

    clock: Callable[[], float] = time.time
    lease_seconds: float = LEASE_SECONDS
    monotonic: Callable[[], float] = time.monotonic


class Writer(Handler, Generic[C]):
    """Executes jobs that write. A job is refused before it writes anything, so a refusal does not affect the others."""

    def __init__(self, leases: LeaseClock) -> None:
        self._leases = leases
        self._connection: C | None = None
        self._renewed = leases.monotonic()
        self.held: dict[str, int] = {}
        """The runs that were claimed through this connection, with their tokens. Only the thread uses it."""

    @abstractmethod
    def _open(self) -> C:
        """Return the open connection, or raise a `JournalError`."""

    @abstractmethod
    def _begin(self, connection: C, durable: bool) -> None: ...

    @abstractmethod
    def _commit(self, connection: C) -> None: ...

    @abstractmethod
    def _undo(self, connection: C) -> None:
        """Roll back, or discard the connection."""

    @abstractmethod
    def _explain(self, error: BaseException) -> BaseException:
        """Return the error for the tasks. An error of the database becomes a `JournalError`."""

    @abstractmethod
    def _renew(self, connection: C) -> None:
        """Write the new ends of the held leases."""

    @abstractmethod
    def _release(self, connection: C) -> None:
        """Release the held runs."""

    @abstractmethod
    def _disconnect(self, connection: C) -> None: ...

    def serve(self, jobs: list[Job]) -> None:
        try:
            connection = self._open()
        except JournalError as error:
            for job in jobs:
                job.outcome = (None, error)
            return
        if self._try(connection, jobs) is not None and len(jobs) > 1:
            # One job failed in a way that rolls back the whole transaction: execute each in its own transaction.
            for job in jobs:
                self._try(connection, [job])

    def _try(self, connection: C, jobs: list[Job]) -> BaseException | None:
        """Execute the jobs in one transaction. After a rollback, every job gets the error, which is returned."""
        held = dict(self.held)
        try:
            self._execute(connection, jobs)
        except BaseException as error:
            failure = self._explain(error)
            self.held = held
            self._undo(connection)
            for job in jobs:
                job.outcome = (None, failure)
            return error
        return None

    def _execute(self, connection: C, jobs: list[Job]) -> None:
        self._begin(connection, any(job.durable for job in jobs))
        for job in jobs:
            try:
                job.outcome = (job.work(connection), None)
            except JournalError as refusal:
                job.outcome = (None, refusal)
        self._commit(connection)

    def rest(self) -> float | None:
        """Renew the leases: a process that runs a tool for minutes is still alive."""
        if not self.held or self._connection is None:
            return None
        pause = self._leases.lease_seconds / 3
        if self._leases.monotonic() >= self._renewed + pause:
            self._renew(self._connection)
            self._renewed = self._leases.monotonic()
        return max(0.0, self._renewed + pause - self._leases.monotonic())

    def close(self) -> None:
        """Release the held runs, so that the next process need not wait, and close the connection."""
        if self._connection is None:
            return
        try:
            if self.held:
                self._release(self._connection)
        finally:
            self.held.clear()
            self._disconnect(self._connection)
