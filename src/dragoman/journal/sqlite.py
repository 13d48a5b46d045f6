"""The journal in a file: append-only tables of SQLite, one thread that writes, one that reads."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from dragoman.journal.entries import check_entries, check_name, new_run_id
from dragoman.journal.errors import RunBusy, RunExists, RunLost, RunOver, SessionExists, UnknownSession
from dragoman.journal.exporting import export_session
from dragoman.journal.journal import DURABLE, Entry, Record, RunSummary, SessionSummary
from dragoman.journal.leases import LEASE_SECONDS, Holder, is_held, is_running, this_process
from dragoman.journal.reading import fork_plan, summarise
from dragoman.journal.rows import Row, encode_calls, find_last_run, find_run, find_runs, link, read_first, read_records
from dragoman.journal.worker import Worker
from dragoman.journal.writer import Reader, Settings, Writer

_INSERT = "INSERT INTO records (run, number, at, kind, call_id, calls, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteJournal:
    """A journal that survives the process. Nothing is opened before it is used; many processes may share the file.

    `most_bytes` limits the size of the file, `busy_seconds` the wait for another process that writes. A claim falls
    when its process is gone, or `lease_seconds` after its machine was last heard of.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        most_bytes: int | None = None,
        busy_seconds: float = 10.0,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_run_id,
        is_alive: Callable[[Holder], bool] = is_running,
    ) -> None:
        self.path = Path(path)
        self._place = str(self.path)
        self._clock = clock
        self._new_id = new_id
        self._is_alive = is_alive
        self._lease_seconds = lease_seconds
        settings = Settings(
            self.path, busy_seconds=busy_seconds, most_bytes=most_bytes, clock=clock, lease_seconds=lease_seconds
        )
        self._writer = Writer(settings)
        self._writing = Worker("dragoman-journal-writer", self._writer)
        self._reading = Worker("dragoman-journal-reader", Reader(settings))
        # The threads know nothing of this object, so forgetting it ends them.
        self._finalizer = weakref.finalize(self, _close, self._writing, self._reading)

    # ---- one run -----------------------------------------------------------------------------------------------

    async def begin(
        self, run_id: str, session: str | None, body: bytes, *, parent: str | None = None, owner: str = ""
    ) -> int:
        check_name("run", run_id)
        named = check_name("session", session or run_id)
        holder = this_process(owner)

        def work(connection: sqlite3.Connection) -> int:
            if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
                raise RunExists(run_id)
            row = self._insert_run(connection, run_id, named, parent, None)
            self._insert(connection, row, [Record(0, "run", body, at=row.begun)])
            return self._take(connection, row, holder)

        return await self._writing.do(work, durable=True)

    async def append(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        check_entries(entries)
        if not entries:
            return await self.renew(run_id, token=token)
        at = self._clock()

        def work(connection: sqlite3.Connection) -> None:
            row = self._held(connection, run_id, token)
            if row.ended:
                raise RunOver(run_id)
            records = [
                Record(number, entry.kind, entry.body, entry.call_id, at, entry.calls)
                for number, entry in enumerate(entries, row.records)
            ]
            self._insert(connection, row, records)

        await self._writing.do(work, durable=any(entry.kind in DURABLE for entry in entries))

    async def read(self, run_id: str) -> list[Record]:
        def work(connection: sqlite3.Connection) -> list[Record]:
            return read_records(connection, find_run(connection, run_id, self._place), self._place)

        return await self._reading.do(work)

    async def first(self, run_id: str) -> Record:
        def work(connection: sqlite3.Connection) -> Record:
            return read_first(connection, find_run(connection, run_id, self._place), self._place)

        return await self._reading.do(work)

    # ---- who holds it ------------------------------------------------------------------------------------------

    async def claim(self, run_id: str, owner: str = "") -> int:
        holder = this_process(owner)

        def work(connection: sqlite3.Connection) -> int:
            row = find_run(connection, run_id, self._place)
            if self._is_held(row):
                raise RunBusy(run_id, str(row.lease.holder))
            return self._take(connection, row, holder)

        return await self._writing.do(work, durable=True)

    async def renew(self, run_id: str, *, token: int) -> None:
        until = self._clock() + self._lease_seconds

        def work(connection: sqlite3.Connection) -> None:
            row = self._held(connection, run_id, token)
            connection.execute("UPDATE runs SET until = ? WHERE id = ?", (until, row.id))

        await self._writing.do(work)

    async def release(self, run_id: str, *, token: int) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if self._writer.held.get(run_id) == token:
                del self._writer.held[run_id]
            connection.execute("UPDATE runs SET holder = NULL WHERE run_id = ? AND token = ?", (run_id, token))

        await self._writing.do(work)

    def _is_held(self, row: Row) -> bool:
        return is_held(row.lease, self._clock(), self._is_alive)

    def _take(self, connection: sqlite3.Connection, row: Row, holder: Holder) -> int:
        token = row.lease.token + 1
        until = self._clock() + self._lease_seconds
        connection.execute(
            "UPDATE runs SET token = ?, holder = ?, until = ?, seconds = ? WHERE id = ?",
            (token, msgspec.json.encode(holder).decode(), until, self._lease_seconds, row.id),
        )
        self._writer.held[row.run_id] = token
        return token

    def _held(self, connection: sqlite3.Connection, run_id: str, token: int) -> Row:
        """The run, if this token is the one that holds it; a lease that ran out unnoticed does not matter then."""
        row = find_run(connection, run_id, self._place)
        if row.lease.token != token or row.lease.holder is None:
            raise RunLost(run_id, token, str(row.lease.holder or ""))
        return row

    # ---- what there is -----------------------------------------------------------------------------------------

    async def run(self, run_id: str) -> RunSummary:
        def work(connection: sqlite3.Connection) -> RunSummary:
            return self._summary(find_run(connection, run_id, self._place))

        return await self._reading.do(work)

    async def runs(self, session: str | None = None, *, unfinished: bool = False) -> list[RunSummary]:
        def work(connection: sqlite3.Connection) -> list[RunSummary]:
            found = find_runs(connection, self._place, session)
            return [self._summary(row) for row in found if not (unfinished and row.ended)]

        return await self._reading.do(work)

    async def last_run(self, session: str) -> RunSummary | None:
        def work(connection: sqlite3.Connection) -> RunSummary | None:
            row = find_last_run(connection, self._place, session)
            return None if row is None else self._summary(row)

        return await self._reading.do(work)

    async def sessions(self) -> list[SessionSummary]:
        found = await self.runs()
        return summarise(found, {run.run_id: run.session for run in found})

    def _summary(self, row: Row) -> RunSummary:
        return row.summary(str(row.lease.holder) if self._is_held(row) else "")

    # ---- whole sessions ----------------------------------------------------------------------------------------

    async def fork(self, session: str, turn: int | None, new_session: str) -> RunSummary:
        check_name("session", new_session)

        def work(connection: sqlite3.Connection) -> RunSummary:
            found = self._session(connection, session)
            if find_runs(connection, self._place, new_session):
                raise SessionExists(new_session)
            history = [(row.summary(""), read_records(connection, row, self._place)) for row in found]
            names: dict[str, str] = {}
            for run, records in fork_plan(history, turn):
                names[run.run_id] = self._new_id()
                parent = names.get(run.parent or "", run.parent)
                row = self._insert_run(connection, names[run.run_id], new_session, parent, run.run_id)
                self._insert(connection, row, records)
            return find_run(connection, row.run_id, self._place).summary("")

        return await self._writing.do(work, durable=True)

    async def delete(self, session: str) -> int:
        def work(connection: sqlite3.Connection) -> int:
            found = self._session(connection, session)
            for row in found:
                if self._is_held(row):
                    raise RunBusy(row.run_id, str(row.lease.holder))
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            count = 0
            for row in found:
                connection.execute("INSERT INTO deletions VALUES (?)", (row.id,))
                count += connection.execute("DELETE FROM records WHERE run = ?", (row.id,)).rowcount
                connection.execute("DELETE FROM runs WHERE id = ?", (row.id,))
            connection.execute("DELETE FROM deletions")
            self._writer.fold = True
            connection.execute("PRAGMA secure_delete = OFF").fetchall()
            return count

        return await self._writing.do(work, durable=True)

    def export(self, session: str) -> AsyncIterator[dict[str, Any]]:
        return export_session(self, session)

    def _session(self, connection: sqlite3.Connection, session: str) -> list[Row]:
        found = find_runs(connection, self._place, session)
        if not found:
            raise UnknownSession(session)
        return found

    # ---- rows --------------------------------------------------------------------------------------------------

    def _insert_run(
        self, connection: sqlite3.Connection, run_id: str, session: str, parent: str | None, copied_from: str | None
    ) -> Row:
        now = self._clock()
        connection.execute(
            "INSERT INTO runs (run_id, session, parent, copied_from, begun, last, records, turns, ended, checksum,"
            " token, holder, until, seconds) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, x'', 0, NULL, 0, ?)",
            (run_id, session, parent, copied_from, now, now, self._lease_seconds),
        )
        row = find_run(connection, run_id, self._place)
        row.checksum = row.seed()
        return row

    def _insert(self, connection: sqlite3.Connection, row: Row, records: Sequence[Record]) -> None:
        """Write records behind the ones that are there, and carry the counts of the run forward."""
        rows = []
        for record in records:
            row.checksum = link(row.checksum, record)
            calls = encode_calls(record.calls)
            rows.append(
                (row.id, record.number, record.at, record.kind, record.call_id, calls, row.checksum, record.body)
            )
        connection.executemany(_INSERT, rows)
        turns = row.turns + sum(record.kind == "reply" for record in records)
        connection.execute(
            "UPDATE runs SET last = ?, records = ?, turns = ?, ended = ?, checksum = ?, until = ? WHERE id = ?",
            (
                max(row.last, records[-1].at),
                row.records + len(records),
                turns,
                records[-1].kind == "ended",
                row.checksum,
                self._clock() + self._lease_seconds,
                row.id,
            ),
        )

    # ---- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what was asked for, give back what is held, end the threads. Safe to call twice."""
        self._finalizer.detach()
        _close(self._writing, self._reading)

    async def __aenter__(self) -> SqliteJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> SqliteJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(writing: Worker, reading: Worker) -> None:
    # The reader first: the last connection that closes folds the log into the file, and only the writer may.
    reading.close()
    writing.close()
