"""The execution of submitted runs by a worker, one command at a time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.agent.agent import Agent
from dragoman.agent.handle import Run
from dragoman.journal.journal import Journal, RunBusy, RunExists, RunLost, UnknownRun
from dragoman.types import Message

log = logging.getLogger("dragoman.engine")

GRACE_SECONDS = 5.0
"""How long a worker that stops waits for the tools and requests that it has begun."""
_DRAIN_SECONDS = 0.02
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class Submission(Struct, frozen=True):
    """A run that was asked for. It is stored as JSON until a worker takes it."""

    agent: str
    run_id: str
    messages: list[Message]
    session: str | None = None


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
        self._is_closing = False
        self._abandoned = asyncio.Event()
        self.busy = 0
        """The number of commands that are executed now."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the runs are executed."""

    async def advance(self, submission: Submission) -> Progress:
        """Execute the next command of a run. The first call in this process begins the run, or takes it over."""
        run_id = submission.run_id
        self.loop = asyncio.get_running_loop()
        if self._is_closing:
            # The run stays where it is until this worker is gone.
            await self._abandoned.wait()
            raise asyncio.CancelledError
        self.busy += 1
        goes_on = False
        try:
            goes_on = await self._step(submission)
        except RunLost as lost:
            # Another worker has it, or had it for a while. The next step finds out.
            log.warning("%s", lost)
            return Progress("goes_on")
        finally:
            self.busy -= 1
            run = self.live.get(run_id) if goes_on else self.live.pop(run_id, None)
        if goes_on or run is None or run.outcome is None:
            return Progress("goes_on")
        outcome = run.outcome.outcome
        return Progress("waiting" if outcome.category == "waiting" else "ended", outcome.kind)

    async def _step(self, submission: Submission) -> bool:
        run_id, pause = submission.run_id, _FIRST_PAUSE
        agent = self._agents[submission.agent]
        if run_id not in self.live:
            self.live[run_id] = await self._open(agent, submission)
        while True:
            try:
                return await self.live[run_id].advance()
            except RunExists:
                log.info("run %s was begun before", run_id)
            except RunBusy as busy:
                # Its last holder has ended without a release, or was paused. The lease ends soon.
                log.info("run %s: %s", run_id, busy)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
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

    async def drain(self) -> None:
        """Begin no more commands, and give those that are executed some time to finish."""
        self._is_closing = True
        deadline = time.monotonic() + GRACE_SECONDS
        while self.busy and time.monotonic() < deadline:
            await asyncio.sleep(_DRAIN_SECONDS)

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
            self.loop.call_soon_threadsafe(run.cancel, reason)
