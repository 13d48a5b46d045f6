"""The engine in one process: runs are tasks of the event loop, and a journal holds them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from dragoman.agent.agent import Agent
from dragoman.agent.approvals import Approval, ApprovalRequest, answer_request
from dragoman.agent.handle import Task
from dragoman.agent.journal import record_cancellation
from dragoman.engine.engine import Rate, RunStatus
from dragoman.engine.execution import CANCELLED, Executor, Submission, make_submission
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal import open_journal
from dragoman.journal.journal import Journal, UnknownRun
from dragoman.logs import get_log, write_traceback

CONCURRENCY = 50


class EmbeddedEngine:
    """Executes runs in this process. What was submitted and not begun is lost with the process; the rest resumes.

    `concurrency` is the number of runs that are executed at the same time, and `rate` limits how many start.
    """

    runs_here = True

    def __init__(
        self, journal: Journal | str | os.PathLike[str], *, concurrency: int = CONCURRENCY, rate: Rate | None = None
    ) -> None:
        opened = open_journal(journal)
        assert opened is not None
        self._journal = opened
        self._owns_journal = opened is not journal
        self._concurrency = concurrency
        self._rate = rate
        self._starts: deque[float] = deque()
        self._queue: deque[Submission] = deque()
        self._submissions: dict[str, Submission] = {}
        self._states: dict[str, RunStatus] = {}
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}
        self._wake = asyncio.Event()
        self._executor: Executor | None = None

    @property
    def journal(self) -> Journal:
        return self._journal

    # ---- from the program --------------------------------------------------------------------------------------------

    async def submit(self, agent: str, task: Task, *, session: str | None = None, run_id: str | None = None) -> str:
        submission = make_submission(agent, task, session, run_id)
        if submission.run_id not in self._submissions:
            self._submissions[submission.run_id] = submission
            self._enqueue(submission)
        return submission.run_id

    async def status(self, run_id: str) -> RunStatus:
        if run_id not in self._states:
            raise UnknownRun(run_id)
        return self._states[run_id]

    async def wait(self, run_id: str) -> RunStatus:
        while not (status := await self.status(run_id)).is_settled:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(run_id, []).append(changed)
            await changed
        return status

    async def follow(self, run_ids: Iterable[str]) -> AsyncIterator[RunStatus]:
        waits = [asyncio.ensure_future(self.wait(run_id)) for run_id in run_ids]
        try:
            for each in asyncio.as_completed(waits):
                yield await each
        finally:
            for wait in waits:
                wait.cancel()

    async def retry(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            status = self._states.get(run_id)
            if status is not None and status.state in ("failed", "cancelled"):
                self._enqueue(self._submissions[run_id])

    async def answer(self, request_id: str, approval: Approval | bool) -> ApprovalRequest:
        given = approval if isinstance(approval, Approval) else Approval(approval)
        request = await answer_request(self._journal, request_id, given, now=time.time())
        submission = self._submissions.get(request.run_id)
        if submission is not None:
            self._enqueue(submission)
        return request

    async def cancel(self, run_id: str, reason: str = "") -> None:
        status = await self.status(run_id)
        if status.is_over:
            return
        if self._executor is not None and run_id in self._executor.live:
            self._executor.cancel(run_id, reason)
            return
        self._queue = deque(each for each in self._queue if each.run_id != run_id)
        await record_cancellation(self._journal, run_id, reason or CANCELLED)
        if self._executor is not None and status.state == "waiting":
            # The worker ends it.
            self._enqueue(self._submissions[run_id])
        else:
            self._set(self._submissions[run_id], "cancelled", reason)

    # ---- the worker --------------------------------------------------------------------------------------------------

    async def work(self, agents: Mapping[str, Agent[Any]], stop: asyncio.Event) -> None:
        if self._executor is not None:
            raise ConfigError("this engine already works", hint="start one worker per engine")
        executor = self._executor = Executor(self._journal, agents)
        stopped = asyncio.create_task(self._wake_at(stop))
        running: set[asyncio.Task[None]] = set()
        try:
            while not stop.is_set():
                self._wake.clear()
                pause = self._start_runs(executor, running)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), pause)
            await executor.drain()
        finally:
            stopped.cancel()
            executor.abandon()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._executor = None

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    def _start_runs(self, executor: Executor, running: set[asyncio.Task[None]]) -> float | None:
        """Start what may start now. Return the number of seconds until the rate allows another run."""
        while self._queue and len(running) < self._concurrency:
            if (pause := self._count_start()) > 0:
                return pause
            task = asyncio.create_task(self._execute(executor, self._queue.popleft()))
            running.add(task)
            task.add_done_callback(running.discard)
            task.add_done_callback(lambda _: self._wake.set())
        return None

    def _count_start(self) -> float:
        """Count a start of a run, or return how long it has to wait."""
        rate, now = self._rate, time.monotonic()
        if rate is None:
            return 0.0
        while self._starts and self._starts[0] <= now - rate.seconds:
            self._starts.popleft()
        if len(self._starts) >= rate.runs:
            return self._starts[0] + rate.seconds - now
        self._starts.append(now)
        return 0.0

    async def _execute(self, executor: Executor, submission: Submission) -> None:
        self._set(submission, "running")
        try:
            while (progress := await executor.advance(submission)).state == "goes_on":
                pass
        except DragomanError as error:
            self._set(submission, "failed", str(error))
        except KeyError:
            self._set(submission, "failed", f"no agent is named {submission.agent!r}")
        except Exception as error:
            # A bug, or an error of the system. It has to reach the code that waits for the run.
            get_log("agent").error("%s could not be executed\n%s", submission.run_id, write_traceback(error))
            self._set(submission, "failed", f"{type(error).__name__}: {error}")
        else:
            is_cancelled = progress.outcome == "cancelled"
            state = "cancelled" if is_cancelled else "waiting" if progress.state == "waiting" else "ended"
            self._set(submission, state, progress.outcome)

    def _enqueue(self, submission: Submission) -> None:
        self._queue.append(submission)
        self._set(submission, "queued")
        self._wake.set()

    def _set(self, submission: Submission, state: Any, why: str = "") -> None:
        worker = str(os.getpid()) if state == "running" else ""
        status = RunStatus(submission.run_id, submission.agent, state, worker, why)
        self._states[submission.run_id] = status
        if status.is_settled:
            for waiter in self._waiters.pop(submission.run_id, ()):
                if not waiter.done():
                    waiter.set_result(None)

    async def close(self) -> None:
        if self._owns_journal:
            self._journal.close()
