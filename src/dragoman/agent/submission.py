"""Runs on an engine: the handle of a run that another process may execute, and its result from the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from dragoman.agent.approvals import read_requests
from dragoman.agent.events import RunEnded, RunEvent
from dragoman.agent.handle import Run
from dragoman.agent.protocol import Postponed
from dragoman.agent.result import AnswerT, RunResult, end
from dragoman.agent.resume import read_header, read_sources, read_start, restore
from dragoman.errors import ConfigError
from dragoman.events import TextDelta
from dragoman.journal.journal import Journal, Record, UnknownRun
from dragoman.toolset import Toolset
from dragoman.types import Tool

if TYPE_CHECKING:
    from dragoman.agent.config import RunConfig
    from dragoman.types import Message

_PAUSE_SECONDS = 0.05


class RunEngine(Protocol):
    """What an agent needs of an engine. `dragoman.engine` has two."""

    runs_here: bool
    """Whether the runs of an agent are executed by the process that starts them."""

    @property
    def journal(self) -> Journal: ...

    async def submit(
        self, agent: str, task: list[Message], *, session: str | None = None, run_id: str | None = None
    ) -> str: ...

    async def wait(self, run_id: str) -> Any: ...

    async def cancel(self, run_id: str, reason: str = "") -> None: ...


def as_engine(given: RunEngine | str, journal: Any) -> RunEngine:
    """Return the engine of an agent: an engine, or the address of a database."""
    if journal is not None:
        raise ConfigError("an engine has a journal of its own", hint="leave out journal=")
    if isinstance(given, str):
        # The engines are built on the agent, so the agent knows them only by name.
        engine: RunEngine = import_module("dragoman.engine").open_engine(given)
        return engine
    if not hasattr(given, "runs_here"):
        raise ConfigError(
            f"an engine is an address or an engine, not {type(given).__name__}", hint='write engine="postgres://..."'
        )
    return given


def check_portable(agent: str, given: dict[str, Any]) -> None:
    """Refuse what only this process has, for a run that another process may execute."""
    if not agent:
        raise ConfigError("an agent on an engine needs a name", hint='create it with name="...", as its workers do')
    kept = [name for name, value in given.items() if value not in (None, ())]
    if kept:
        raise ConfigError(
            f"{', '.join(kept)}: a run on an engine cannot be given this, because another process executes it",
            hint="give it to the agent, in the code that the workers load",
        )


class SubmittedRun(Run[AnswerT]):
    """A run that an engine executes. Its events are the answer and the end; `dragoman logs` shows the rest.

    If the task that waits for it is cancelled, the run goes on. `agent.resume(run_id)` waits for it again.
    """

    def __init__(
        self,
        run_id: str,
        session: str | None,
        engine: RunEngine,
        submit: Callable[[], Awaitable[object]],
        make_config: Callable[[str | None], RunConfig],
        on_event: Callable[[RunEvent], object] | None,
    ) -> None:
        super().__init__(run_id, session, _not_here)
        self._engine = engine
        self._submit = submit
        self._make_config = make_config
        self._on_event = on_event
        self._cancelling = asyncio.Event()

    async def advance(self) -> bool:
        if self._result is None:
            self._has_begun = True
            await self._submit()
            self._result = await self._follow()
            self._tell(TextDelta(text=self._result.text))
            self._tell(RunEnded(self._result))
        return False

    async def _follow(self) -> RunResult[Any]:
        while True:
            status = await self._wait()
            found = await read_result(self._engine.journal, self.run_id, self._make_config, status)
            if found is not None:
                return found
            # It waited for an answer, which has come meanwhile.
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _wait(self) -> Any:
        waiting = asyncio.ensure_future(self._engine.wait(self.run_id))
        cancelling = asyncio.ensure_future(self._cancelling.wait())
        try:
            await asyncio.wait((waiting, cancelling), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await self._engine.cancel(self.run_id, self._cancelled or "")
            return await waiting
        finally:
            waiting.cancel()
            cancelling.cancel()

    def _tell(self, event: Any) -> None:
        if self._is_followed:
            self.put(event)
        if self._on_event is not None:
            self._on_event(event)

    def cancel(self, reason: str = "") -> None:
        self._cancelled = reason
        self._cancelling.set()

    def steer(self, words: Any) -> None:
        raise ConfigError("a run on an engine cannot be steered", hint="submit another task in the same session")


async def _not_here(_: Any) -> Any:
    raise AssertionError("an engine executes this run")


async def read_result(
    journal: Journal, run_id: str, make_config: Callable[[str | None], RunConfig], status: Any = None
) -> RunResult[Any] | None:
    """Return the result of a run from its records; None if it goes on.

    `status` is that of an engine. A run that was cancelled or failed there may have no end in the journal.
    """
    is_lost = status is not None and status.state in ("cancelled", "failed")
    lost = end("cancelled" if is_lost and status.state == "cancelled" else "interrupted", status.why if is_lost else "")
    try:
        records, summary = await journal.read(run_id), await journal.run(run_id)
    except UnknownRun:
        return RunResult(lost, run_id=run_id) if is_lost else None
    session = summary.session if summary.session != run_id else None
    start = await read_start(journal, run_id, records)
    sources = await read_sources(journal, summary.parent)
    config = _with_recorded_tools(make_config(session), records)
    machine = restore(records, config, start=start, sources=sources).machine
    if machine.result is None and not is_lost:
        for request in read_requests(records).values():
            if request.answer is None:
                machine.receive(Postponed(request.call.id, request.id))
    if machine.result is None and is_lost:
        return RunResult(lost, messages=machine.messages, run_id=run_id, session=session)
    return machine.result


def _with_recorded_tools(config: RunConfig, records: Sequence[Record]) -> RunConfig:
    """Return the configuration with the tools that only the worker knew, such as those of MCP servers.

    Without them, the replay would take their calls for calls of unknown tools, which were not run.
    """
    known = config.tools.names
    more = [Tool(name, run=_not_here) for name in read_header(records).tools if name not in known]
    return replace(config, tools=Toolset([*config.tools, *more])) if more else config
