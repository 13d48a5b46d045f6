"""The engine protocol: where runs are executed, and how programs reach them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from dragoman.agent.agent import Agent
from dragoman.agent.approvals import Approval
from dragoman.agent.handle import Task
from dragoman.journal.journal import Journal

State = Literal["queued", "running", "waiting", "ended", "failed", "cancelled"]


class RunStatus(Struct, frozen=True):
    """The state of a submitted run. `ended` has an outcome in the journal, `failed` has an error outside the run."""

    run_id: str
    agent: str
    state: State
    worker: str = ""
    """The worker that executes the run, or executed it last."""
    why: str = ""
    """The outcome of an ended run, the error of a failed one, or what a queued one waits for."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.state in ("ended", "failed", "cancelled")

    @property
    def is_settled(self) -> bool:
        """Whether nothing happens until somebody acts."""
        return self.is_over or self.state == "waiting"


class Rate(Struct, frozen=True):
    """How many runs may start in a period, over all workers together."""

    runs: int
    seconds: float = 60.0


class Engine(Protocol):
    """Executes runs of named agents. The journal of the engine holds their records."""

    runs_here: bool
    """Whether `agent.run` executes a run in this process, instead of a worker."""

    @property
    def journal(self) -> Journal:
        """The journal with the records of the runs."""
        ...

    async def submit(self, agent: str, task: Task, *, session: str | None = None, run_id: str | None = None) -> str:
        """Queue a run and return its id. A second submission with the same id changes nothing."""
        ...

    async def status(self, run_id: str) -> RunStatus:
        """Return the state of a run. Raises UnknownRun."""
        ...

    async def wait(self, run_id: str) -> RunStatus:
        """Wait until a run is over, or waits for an approval."""
        ...

    def follow(self, run_ids: Iterable[str]) -> AsyncIterator[RunStatus]:
        """Yield the status of each submitted run once, as soon as it is over or waits for an approval."""
        ...

    async def retry(self, run_ids: Iterable[str]) -> None:
        """Queue those of the runs again that failed, or were cancelled, without an end in the journal."""
        ...

    async def answer(self, request_id: str, approval: Approval | bool) -> Any:
        """Answer an approval request, and continue its run."""
        ...

    async def cancel(self, run_id: str, reason: str = "") -> None:
        """Cancel a run. A run that is over stays as it is."""
        ...

    async def work(self, agents: Mapping[str, Agent[Any]], stop: asyncio.Event) -> None:
        """Execute the runs of these agents until `stop` is set."""
        ...

    async def close(self) -> None:
        """Close the engine and its journal. Runs stay in the journal."""
        ...
