"""A journal in memory: for tests, and for runs that need claims but no disk."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.journal.history import export_session, fork_plan, summarise
from dragoman.journal.journal import (
    Entry,
    JournalFailed,
    Record,
    RunBusy,
    RunExists,
    RunLost,
    RunOver,
    RunSummary,
    SessionExists,
    SessionSummary,
    UnknownRun,
    UnknownSession,
    check_entries,
    check_name,
)
from dragoman.journal.leases import Holder, new_run_id, this_process


class _Run(Struct):
    run_id: str
    session: str
    begun: float
    parent: str | None = None
    copied_from: str | None = None
    records: list[Record] = []
    token: int = 0
    holder: Holder | None = None

    def extend(self, entries: Sequence[Entry], at: float) -> None:
        for entry in entries:
            number = len(self.records)
            self.records.append(Record(number, entry.kind, entry.body, entry.call_id, at, entry.calls))

    @property
    def ended(self) -> bool:
        return bool(self.records) and self.records[-1].kind == "ended"

    def summary(self) -> RunSummary:
        return RunSummary(
            self.run_id,
            self.session,
            self.begun,
            last=max(self.begun, self.records[-1].at),
            records=len(self.records),
            turns=sum(record.kind == "reply" for record in self.records),
            ended=self.ended,
            parent=self.parent,
            copied_from=self.copied_from,
            holder=str(self.holder or ""),
        )


class MemoryJournal:
    """The same guarantees as the file, but nothing survives the process. A claim is valid until its release."""

    def __init__(self, *, clock: Callable[[], float] = time.time, new_id: Callable[[], str] = new_run_id) -> None:
        self._clock = clock
        self._new_id = new_id
        self._runs: dict[str, _Run] = {}
        self._closed = False

    async def begin(
        self, run_id: str, session: str | None, body: bytes, *, parent: str | None = None, owner: str = ""
    ) -> int:
        self._check_open()
        run = _Run(check_name("run", run_id), check_name("session", session or run_id), self._clock(), parent)
        if run_id in self._runs:
            raise RunExists(run_id)
        run.extend([Entry("run", body)], run.begun)
        self._runs[run_id] = run
        return await self.claim(run_id, owner)

    async def append(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        self._check_open()
        check_entries(entries)
        run = self._held(run_id, token)
        if run.ended:
            raise RunOver(run_id)
        run.extend(entries, self._clock())

    async def read(self, run_id: str) -> list[Record]:
        return list(self._run(run_id).records)

    async def first(self, run_id: str) -> Record:
        return self._run(run_id).records[0]

    async def claim(self, run_id: str, owner: str = "") -> int:
        run = self._run(run_id)
        if run.holder is not None:
            raise RunBusy(run_id, str(run.holder))
        run.token += 1
        run.holder = this_process(owner)
        return run.token

    async def renew(self, run_id: str, *, token: int) -> None:
        self._held(run_id, token)

    async def release(self, run_id: str, *, token: int) -> None:
        self._check_open()
        run = self._runs.get(run_id)
        if run is not None and run.token == token:
            run.holder = None

    async def run(self, run_id: str) -> RunSummary:
        return self._run(run_id).summary()

    async def runs(self, session: str | None = None, *, unfinished: bool = False) -> list[RunSummary]:
        self._check_open()
        return [
            run.summary()
            for run in self._runs.values()
            if session in {None, run.session} and not (unfinished and run.ended)
        ]

    async def last_run(self, session: str) -> RunSummary | None:
        found = await self.runs(session)
        return found[-1] if found else None

    async def sessions(self) -> list[SessionSummary]:
        return summarise(await self.runs(), {run.run_id: run.session for run in self._runs.values()})

    async def fork(self, session: str, turn: int | None, new_session: str) -> RunSummary:
        history = [(run, self._runs[run.run_id].records) for run in await self.runs(session)]
        if not history:
            raise UnknownSession(session)
        if await self.runs(check_name("session", new_session)):
            raise SessionExists(new_session)
        names: dict[str, str] = {}
        for summary, records in fork_plan(history, turn):
            parent = names.get(summary.parent or "", summary.parent)
            run = _Run(self._new_id(), new_session, self._clock(), parent, summary.run_id, list(records))
            names[summary.run_id] = run.run_id
            self._runs[run.run_id] = run
        return run.summary()

    async def delete(self, session: str) -> int:
        found = await self.runs(session)
        if not found:
            raise UnknownSession(session)
        for run in found:
            if run.holder:
                raise RunBusy(run.run_id, run.holder)
        for run in found:
            del self._runs[run.run_id]
        return sum(run.records for run in found)

    def export(self, session: str) -> AsyncIterator[dict[str, Any]]:
        return export_session(self, session)

    def close(self) -> None:
        """Release all held runs and accept nothing more."""
        self._closed = True
        for run in self._runs.values():
            run.holder = None

    def _check_open(self) -> None:
        if self._closed:
            raise JournalFailed("the journal is closed", hint="open it again")

    def _run(self, run_id: str) -> _Run:
        self._check_open()
        run = self._runs.get(run_id)
        if run is None:
            raise UnknownRun(run_id)
        return run

    def _held(self, run_id: str, token: int) -> _Run:
        run = self._run(run_id)
        if run.holder is None or run.token != token:
            raise RunLost(run_id, token, str(run.holder or ""))
        return run
