"""The engine in one process: runs are tasks of the event loop, and a journal holds them."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from dragoman.agent.agent import Agent
from dragoman.agent.approvals import Approval, ApprovalRequest, answer_request
from dragoman.agent.handle import Task, read_task
from dragoman.engine.engine import RunStatus
from dragoman.engine.execution import Executor, Submission
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal import open_journal
from dragoman.journal.journal import Journal, UnknownRun
from dragoman.journal.leases import new_run_id

CONCURRENCY = 50


class EmbeddedEngine:
    """Executes runs in this process. What was submitted and not begun is lost with the process; the rest resumes.

    `concurrency` is the number of runs that are executed at the same time.
    """

    def __init__(self, journal: Journal | str | os.PathLike[str], *, concurrency: int = CONCURRENCY) -> None:
        opened = open_journal(journal)
        assert opened is not None
        self._journal = opened
        self._owns_journal = opened is not journal
        self._concurrency = concurrency
        self._queue: deque[Submission] = deque()
        self._submissions: dict[str, Submission] = {}
        self._states: dict[str, RunStatus] = {}
        self._changed = asyncio.Condition()
        self._executor: Executor | None = None

    @property
    def journal(self) -> Journal:
        return self._journal

    async def submit(self, agent: str, task: Task, *, session: str | None = None, run_id: str | None = None) -> str:
        submission = Submission(agent, run_id or new_run_id(), read_task(task), session)
        if submission.run_id not in self._submissions:
            self._submissions[submission.run_id] = submission
            await self._enqueue(submission)
        return submission.run_id

    async def status(self, run_id: str) -> RunStatus:
        if run_id not in self._states:
            raise UnknownRun(run_id)
        return self._states[run_id]

    async def wait(self, run_id: str) -> RunStatus:
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_settled(run_id))
        return await self.status(run_id)

    def _is_settled(self, run_id: str) -> bool:
        status = self._states.get(run_id)
        return status is None or status.is_over or status.state == "waiting"

    async def answer(self, request_id: str, approval: Approval | bool) -> ApprovalRequest:
        given = approval if isinstance(approval, Approval) else Approval(approval)
        request = await answer_request(self._journal, request_id, given, now=time.time())
        submission = self._submissions.get(request.run_id)
        if submission is not None:
            await self._enqueue(submission)
        return request

    async def cancel(self, run_id: str, reason: str = "") -> None:
        status = await self.status(run_id)
        if status.is_over:
            return
        if self._executor is not None and run_id in self._executor.live:
            self._executor.cancel(run_id, reason)
            return
        self._queue = deque(each for each in self._queue if each.run_id != run_id)
        await self._set(self._submissions[run_id], "cancelled", reason)

    async def work(self, agents: Mapping[str, Agent[Any]], stop: asyncio.Event) -> None:
        if self._executor is not None:
            raise ConfigError("this engine already works", hint="start one worker per engine")
        executor = self._executor = Executor(self._journal, agents)
        stopped = asyncio.create_task(stop.wait())
        running: set[asyncio.Task[None]] = set()
        try:
            while not stop.is_set():
                while self._queue and len(running) < self._concurrency:
                    running.add(asyncio.create_task(self._execute(executor, self._queue.popleft())))
                waiting = asyncio.create_task(self._wait_for_work(len(running) < self._concurrency))
                await asyncio.wait({*running, stopped, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                running = {task for task in running if not task.done()}
        finally:
            stopped.cancel()
            executor.abandon()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._executor = None

    async def _wait_for_work(self, has_room: bool) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: has_room and bool(self._queue))

    async def _execute(self, executor: Executor, submission: Submission) -> None:
        await self._set(submission, "running")
        try:
            while (progress := await executor.advance(submission)).state == "goes_on":
                pass
        except DragomanError as error:
            await self._set(submission, "failed", str(error))
        except KeyError:
            await self._set(submission, "failed", f"no agent is named {submission.agent!r}")
        else:
            is_cancelled = progress.outcome == "cancelled"
            state = "cancelled" if is_cancelled else "waiting" if progress.state == "waiting" else "ended"
            await self._set(submission, state, progress.outcome)

    async def _enqueue(self, submission: Submission) -> None:
        self._queue.append(submission)
        await self._set(submission, "queued")

    async def _set(self, submission: Submission, state: Any, why: str = "") -> None:
        worker = str(os.getpid()) if state == "running" else ""
        self._states[submission.run_id] = RunStatus(submission.run_id, submission.agent, state, worker, why)
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        if self._owns_journal:
            self._journal.close()
