"""The execution of submitted runs by a worker, one command at a time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from dragoman.agent.agent import Agent
from dragoman.agent.handle import Run, Task, read_task
from dragoman.journal.journal import (
    Journal,
    JournalError,
    JournalUnreachable,
    RunBusy,
    RunExists,
    RunLost,
    UnknownRun,
    check_name,
)
from dragoman.journal.leases import new_run_id
from dragoman.types import Message

log = logging.getLogger("dragoman.engine")

GRACE_SECONDS = 5.0
"""How long a worker that stops waits for the tools and requests that it has begun."""
CANCELLED = "cancelled from outside"
_DRAIN_SECONDS = 0.02
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class Submission(Struct, frozen=True):
    """A run that was asked for. It is stored as JSON until a worker takes it."""

    agent: str
    run_id: str
    messages: list[Message]
    session: str | None = None
    digest: str = ""
    """The digest of the tools that the run needs."""


def make_submission(agent: str, task: Task, session: str | None, run_id: str | None, digest: str = "") -> Submission:
    """Return a submission with valid names. The journal would refuse others when a worker begins the run."""
    if session is not None:
        check_name("session", session)
    named = check_name("run", run_id) if run_id is not None else new_run_id()
    return Submission(agent, named, read_task(task), session, digest)


class Progress(Struct, frozen=True):
    """What one step of a run led to. `goes_on`: there are more commands."""

    state: Literal["goes_on", "waiting", "ended"]
    outcome: str = ""
    """The kind of the outcome of an ended run."""


def digest_tools(agent: Agent[Any]) -> str:
    """Return a digest of the tools of an agent. A run continues only on workers with the same tools."""
    known = [[tool.name, tool.parameters] for tool in sorted(agent.tools, key=lambda each: each.name)]
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()[:12]


class Executor:
    """Executes runs of some agents in this process. The journal decides who holds a run, and what has happened."""

    def __init__(self, journal: Journal, agents: Mapping[str, Agent[Any]]) -> None:
        self._journal = journal
        self._agents = {name: agent.here(journal) for name, agent in agents.items()}
        self.live: dict[str, Run[Any]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._attendants: Counter[str] = Counter()
        self._is_closing = False
        self._abandoned = asyncio.Event()
        self.busy = 0
        """The number of commands that are executed now."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the runs are executed."""

    async def advance(self, submission: Submission) -> Progress:
        """Execute the next command of a run. The first call in this process begins the run, or takes it over."""
        while True:
            # Not under the lock: what waits here until the worker is gone executes nothing.
            await self._stay_open()
            async with self._turn(submission.run_id):
                if not self._is_closing:
                    return await self._advance(submission)

    def _turn(self, run_id: str) -> asyncio.Lock:
        """Return the lock under which one command of a run is executed at a time."""
        return self._turns.setdefault(run_id, asyncio.Lock())

    async def _advance(self, submission: Submission) -> Progress:
        run_id = submission.run_id
        self.loop = asyncio.get_running_loop()
        self.busy += 1
        goes_on = False
        try:
            goes_on = await self._step(submission)
        except (RunLost, JournalUnreachable) as lost:
            # Another worker has it, or had it for a while, or nobody could. The next step finds out.
            log.warning("%s", lost)
            return Progress("goes_on")
        finally:
            self.busy -= 1
            run = self.live.get(run_id) if goes_on else self.live.pop(run_id, None)
        if goes_on or run is None or run.outcome is None:
            return Progress("goes_on")
        outcome = run.outcome.outcome
        return Progress("waiting" if outcome.category == "waiting" else "ended", outcome.kind)

    async def _stay_open(self) -> None:
        """Do not return if this worker stops: the run stays where it is until the worker is gone."""
        if self._is_closing:
            await self._abandoned.wait()
            raise asyncio.CancelledError

    async def _step(self, submission: Submission) -> bool:
        run_id, pause, seen = submission.run_id, _FIRST_PAUSE, ""
        agent = self._agents[submission.agent]
        if run_id not in self.live:
            self.live[run_id] = await self._open(agent, submission)
        while True:
            try:
                return await self.live[run_id].advance()
            except RunExists:
                log.info("run %s was begun before, and continues here", run_id)
            except RunBusy as busy:
                # Its last holder has ended without a release, was paused, or finishes a command. The lease ends soon.
                if seen != busy.holder:
                    seen = busy.holder
                    log.info("%s; waiting for it", busy)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            await self._stay_open()
            self.live[run_id] = agent.restart(run_id)

    async def _open(self, agent: Agent[Any], submission: Submission) -> Run[Any]:
        run_id, session = submission.run_id, submission.session
        # Most runs are new, and the journal refuses to begin a run twice, so only a run of a session is searched for:
        # it would take its own messages for those before it.
        if session is not None and await self._has_begun(run_id):
            return agent.restart(run_id)
        return agent.start(submission.messages, run_id=run_id, session=session)

    async def _has_begun(self, run_id: str) -> bool:
        try:
            await self._journal.run(run_id)
        except UnknownRun:
            return False
        return True

    @contextlib.asynccontextmanager
    async def attend(self, run_id: str) -> AsyncIterator[None]:
        """Surround the commands of a run. If the engine takes the run away, the journal releases it at once.

        The engine may give a run that it has taken away to the same process again, while a command is still executed.
        Then the new caller waits for the end of this command, and continues with the same run.
        """
        self._attendants[run_id] += 1
        try:
            yield
        finally:
            self._attendants[run_id] -= 1
            if not self._attendants[run_id]:
                del self._attendants[run_id]
                run = self.live.pop(run_id, None)
                if run is not None and not self._is_closing:
                    await run.leave()

    def attends(self, run_id: str) -> bool:
        """Whether this process executes the run. Any thread may call this."""
        return run_id in self._attendants

    async def end(self, run_id: str) -> None:
        """End a run that was cancelled between two commands."""
        async with self._turn(run_id):
            run = self.live.get(run_id)
            if run is not None and self._attendants[run_id] == 1 and not self._is_closing:
                run.cancel(CANCELLED)
                await run.advance()

    async def drain(self) -> None:
        """Begin no more commands, and give those that are executed some time to finish."""
        self._is_closing = True
        deadline = time.monotonic() + GRACE_SECONDS
        while self.busy and time.monotonic() < deadline:
            await asyncio.sleep(_DRAIN_SECONDS)
        if self.loop is not None:
            # The writes that `flush` waits for belong to that loop.
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._flush_idle(), self.loop))

    async def _flush_idle(self) -> None:
        """Store what the journal of each run holds back that executes no command."""
        for run_id, run in list(self.live.items()):
            if not self._turn(run_id).locked():
                # A run that another worker has, or that cannot be stored, is continued without its last records.
                with contextlib.suppress(JournalError):
                    await run.flush()

    def abandon(self) -> None:
        """Leave all runs as they are when their tasks are cancelled. Another worker continues them."""
        self._is_closing = True
        for run in list(self.live.values()):
            run.abandon()
        if self.loop is not None:
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._abandoned.set)

    def cancel(self, run_id: str, reason: str) -> None:
        """Cancel a run that this process executes. Any thread may call this."""
        run = self.live.get(run_id)
        if run is not None and self.loop is not None:
            log.info("run %s is cancelled", run_id)
            self.loop.call_soon_threadsafe(run.cancel, reason)
