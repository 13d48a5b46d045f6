"""Which run a command goes on with, and how: where it broke off, or with another run behind one that ended."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.agent import Agent, Run, RunEvent
from dragoman.agent.records import Ended, Header, decode
from dragoman.errors import ConfigError
from dragoman.journal import Journal, RunSummary, UnknownSession

GO_ON = "You were interrupted. Go on with the task where you were."
_LOOKED_AT = 50
"""How many of the last runs are looked at for one that can go on."""


class Found(Struct, frozen=True):
    """A run of the journal."""

    summary: RunSummary
    header: Header
    ended: Ended | None

    @property
    def can_go_on(self) -> bool:
        return self.ended is None or self.ended.category != "success"


async def read_run(journal: Journal, summary: RunSummary) -> Found:
    """A run with what it was begun with, and how it ended."""
    records = await journal.read(summary.run_id)
    last = records[-1]
    ended: Ended | None = decode(last.body, Ended) if last.kind == "ended" else None
    return Found(summary, decode(records[0].body, Header), ended)


async def find_run(journal: Journal, run_id: str | None, session: str | None) -> Found:
    """The run of this id, or the last one that has no answer yet, of a session if one is named."""
    if run_id is not None:
        found = await read_run(journal, await journal.run(run_id))
        if not found.can_go_on:
            name = found.summary.session
            raise ConfigError(
                f"run {run_id} is done: it has its answer",
                hint=f'ask something else in the same session: dragoman run --session {name} "..."',
            )
        return found
    runs = await journal.runs(session)
    if session is not None and not runs:
        raise UnknownSession(session)
    gone_on_from: set[str | None] = set()
    for summary in reversed(runs[-_LOOKED_AT:]):
        # Whatever another run went on from is no longer where its conversation stands.
        if not summary.holder and summary.run_id not in gone_on_from:
            found = await read_run(journal, summary)
            if found.can_go_on:
                return found
        gone_on_from.add(summary.parent)
    where = f"in session {session!r}" if session else "in the journal"
    raise ConfigError(f"there is no unfinished run {where}", hint="`dragoman sessions list` shows what there is")


def go_on(agent: Agent, found: Found, on_event: Callable[[RunEvent], object]) -> Run:
    """The rest of a run. One that was ended in good order is followed by another one in its session."""
    missing = [name for name in found.header.tools if agent.tools.find(name) is None]
    if missing:
        raise ConfigError(
            f"the run had tools that are not there now: {', '.join(missing)}", hint="give the same --tools again"
        )
    if found.ended is None:
        return agent.restart(found.summary.run_id, streaming=True, on_event=on_event)
    return agent.stream(GO_ON, session=found.summary.session, on_event=on_event)
