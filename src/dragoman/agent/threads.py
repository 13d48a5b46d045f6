"""Threads for blocking tools. They are daemons: a tool that never comes back does not keep the program from ending."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_IDLE_SECONDS = 10.0


class Workers:
    """Threads that are kept for a while after their work, and made anew when none is free."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run something in a thread, in the context of the caller; the future belongs to the running loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = _Job(work, contextvars.copy_context(), loop, future)
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self)
            worker.start()
        worker.jobs.put(job)
        return future

    def keep(self, worker: _Worker) -> None:
        """Have a worker wait for its next job."""
        with self._lock:
            self._idle.append(worker)

    def dismiss(self, worker: _Worker) -> bool:
        """Whether a worker that has waited long may go; not if it was just given a job."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False


class _Job:
    def __init__(
        self,
        work: Callable[[], Any],
        context: contextvars.Context,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
    ) -> None:
        self._work = work
        self._context = context
        self._loop = loop
        self._future = future

    def do(self) -> None:
        value: Any = None
        problem: BaseException | None = None
        try:
            value = self._context.run(self._work)
        except BaseException as raised:  # Nothing may end the thread of everybody's tools.
            problem = raised
        try:
            self._loop.call_soon_threadsafe(self._settle, value, problem)
        except RuntimeError:
            return  # the loop is closed, and nobody waits any more

    def _settle(self, value: Any, problem: BaseException | None) -> None:
        if self._future.done():
            return  # given up meanwhile
        if problem is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(_carry(problem))


def _carry(problem: BaseException) -> BaseException:
    """A future refuses StopIteration, and would end the loop with an exit or an interrupt."""
    if isinstance(problem, Exception) and not isinstance(problem, StopIteration):
        return problem
    return RuntimeError(f"{type(problem).__name__}: {problem}")


class _Worker(threading.Thread):
    def __init__(self, workers: Workers) -> None:
        super().__init__(name="dragoman-tool", daemon=True)
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._workers = workers

    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                if self._workers.dismiss(self):
                    return
                continue
            # It counts as free before the caller learns of the result: the next call may then have this thread.
            job.do()
            del job
            self._workers.keep(self)


shared = Workers()
"""The threads of the process."""
