"""A thread that does what tasks ask of it, many at once, so that no event loop ever waits for the disk."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from dragoman.journal.errors import JournalFailed

T = TypeVar("T")
MOST_AT_ONCE = 256


class Job:
    """One piece of work, and the task that waits for it."""

    __slots__ = ("durable", "future", "loop", "outcome", "work")

    def __init__(self, work: Callable[[Any], Any], durable: bool) -> None:
        self.work = work
        self.durable = durable
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.outcome: tuple[Any, BaseException | None] = (None, JournalFailed("the journal did not answer"))

    def settle(self) -> None:
        # Whoever was cancelled while waiting does not want to know any more; the work is done all the same.
        if self.future.done():
            return
        value, error = self.outcome
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class Servant(Protocol):
    """What the thread does with the jobs. All of it is called in the thread, `close` last."""

    def serve(self, jobs: list[Job]) -> None:
        """Give each job its outcome."""
        ...

    def rest(self) -> float | None:
        """Do what is due while nobody asks: after how many seconds to call again, None for never."""
        ...

    def close(self) -> None: ...


class Worker:
    """The thread of one servant. It starts with the first job and ends with `close`."""

    def __init__(self, name: str, servant: Servant) -> None:
        self._name = name
        self._servant = servant
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False

    async def do(self, work: Callable[[Any], T], *, durable: bool = False) -> T:
        """Have work done with the servant's connection. Once asked for it is done, even if the waiting is cancelled."""
        job = Job(work, durable)
        with self._lock:
            self._check_usable()
            if self._thread is None:
                self._process = os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(self._queue, self._servant), name=self._name, daemon=True
                )
                self._thread.start()
            self._queue.put(job)
        result: T = await job.future
        return result

    def _check_usable(self) -> None:
        if self._closed:
            raise JournalFailed("the journal is closed", hint="open it again")
        if self._thread is not None and self._process != os.getpid():
            # Neither the thread nor a connection of SQLite survives a fork of the process.
            raise JournalFailed("the journal was opened before this process was forked", hint="open it in the child")

    def close(self) -> None:
        """Do what was asked for before, then end the thread."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and self._process == os.getpid():
            self._queue.put(None)
            # The last one to forget a journal may be its own thread.
            if thread is not threading.current_thread():
                thread.join()


def _serve(jobs: queue.SimpleQueue[Job | None], servant: Servant) -> None:
    try:
        open_ = True
        while open_:
            batch, open_ = _next_batch(jobs, servant)
            if batch:
                servant.serve(batch)
                _answer(batch)
            # While it waits, the thread must not keep alive whoever asked.
            batch = []
    finally:
        servant.close()


def _next_batch(jobs: queue.SimpleQueue[Job | None], servant: Servant) -> tuple[list[Job], bool]:
    """Whatever waits by now, so that it shares one commit; and whether there may be more."""
    batch: list[Job] = []
    wait = servant.rest()
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
    """Wake the tasks: one message per event loop, however many of its tasks wait."""
    waiting: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in batch:
        waiting.setdefault(job.loop, []).append(job)
    for loop, jobs in waiting.items():
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:
            # The loop was closed: nobody waits any more.
            continue


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()
