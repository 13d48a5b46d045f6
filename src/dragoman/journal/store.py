"""The journal in an SQL database: claims, appends and queries, the same for SQLite and Postgres."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

import msgspec
from msgspec import structs

from dragoman.journal.history import export_session, fork_plan, summarise
from dragoman.journal.journal import (
    DURABLE,
    Entry,
    JournalError,
    Record,
    RunBusy,
    RunExists,
    RunLost,
    RunOver,
    RunSummary,
    SessionExists,
    SessionSummary,
    UnknownSession,
    check_entries,
    check_name,
)
from dragoman.journal.leases import LEASE_SECONDS, Holder, Lease, is_held, is_running, new_run_id, this_process
from dragoman.journal.rows import Connection, Row, encode_calls, find_run, find_runs, link, read_first, read_records
from dragoman.journal.threads import Handler, Job, JobThread, Writer

_INSERT = "INSERT INTO records (run, number, at, kind, call_id, calls, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_RUN = (
    "INSERT INTO runs (run_id, session, parent, copied_from, begun, last, records, turns, ended, checksum, token,"
    " holder, seconds, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {until}) ON CONFLICT (run_id) DO NOTHING"
)


class SqlJournal:
    """A journal that survives the process. The first use opens the database; many processes may share it.

    A claim ends when its process ends, or `lease_seconds` after the last renewal if its machine is unreachable.

    A transaction whose answer was lost is executed again. So each change first checks whether it is already there.
    """

    lock = ""
    """The clause that locks the selected rows until the end of the transaction."""

    def __init__(
        self,
        place: str,
        writer: Writer[Any],
        reader: Handler,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_run_id,
        is_alive: Callable[[Holder], bool] = is_running,
    ) -> None:
        self._place = place
        self._clock = clock
        self._new_id = new_id
        self._is_alive = is_alive
        self._lease_seconds = lease_seconds
        self._writer = writer
        self._known: dict[str, Row] = {}
        """The rows of held runs as this journal wrote them last. Only the thread that writes uses it."""
        self._writing = JobThread("dragoman-journal-writer", writer)
        self._reading = JobThread("dragoman-journal-reader", reader)
        # The threads have no reference to this object, so they end when it is garbage-collected.
        self._finalizer = weakref.finalize(self, _close, self._writing, self._reading)

    # ---- what differs between databases --------------------------------------------------------------------------

    def _now(self, connection: Connection) -> float:
        """Return the time by the clock that all processes of this journal share."""
        return self._clock()

    def _lease_end(self) -> tuple[str, float]:
        """Return the expression for the end of a lease that begins now, and its parameter."""
        return "?", self._clock() + self._lease_seconds

    def _encode(self, text: str) -> str | bytes:
        """Return an id of a call as the database stores it."""
        return text

    def _lock_name(self, connection: Connection, session: str) -> None:
        """Keep other transactions from using a new name until this one ends."""

    def _erase(self, connection: Connection, rows: Sequence[Row]) -> int:
        """Delete the runs and their records. Return the number of records."""
        count = 0
        for row in rows:
            connection.execute("INSERT INTO deletions VALUES (?)", (row.id,))
            count += connection.execute("DELETE FROM records WHERE run = ?", (row.id,)).rowcount
            connection.execute("DELETE FROM runs WHERE id = ?", (row.id,))
        connection.execute("DELETE FROM deletions")
        return count

    # ---- one run -----------------------------------------------------------------------------------------------

    async def begin(
        self, run_id: str, session: str | None, body: bytes, *, parent: str | None = None, owner: str = ""
    ) -> int:
        check_name("run", run_id)
        named = check_name("session", session or run_id)
        holder = this_process(owner)
        at = self._clock()
        row = self._new_row(run_id, named, parent, None, at)
        row.lease = Lease(1, holder, at, self._lease_seconds)
        new, rows = self._extend(row, [Entry("run", body)], at)
        written: bytes | None = None

        def work_at_once(connection: Connection) -> int | None:
            nonlocal written
            if written is not None:
                return None
            # If the connection fails now, the run may be there. `work` looks for this checksum then.
            written = new.checksum
            made = self._create_at_once(connection, new, rows)
            if made is None:
                written = None
                return None
            return self._keep(made)

        def work(connection: Connection) -> int:
            nonlocal written
            made = self._create_run(connection, new, rows)
            if made is None:
                return self._begun(connection, run_id, holder, written)
            written = new.checksum
            return self._keep(made)

        return await self._take_claim(run_id, work, work_at_once)

    async def _take_claim(
        self, run_id: str, work: Callable[[Any], int], statement: Callable[[Any], int | None] | None = None
    ) -> int:
        """Execute a job that claims a run. Return the token.

        A queued job is executed even if the waiting task is cancelled. Nobody has the token then, and this process
        would hold the run for as long as it lives. So a second job releases it.
        """
        claim = Job(work, True, statement)
        try:
            token: int = await self._writing.submit(claim)
        except asyncio.CancelledError:
            release = Job(lambda connection: self._release(connection, run_id, claim.outcome[0]), False)
            with contextlib.suppress(JournalError):
                self._writing.submit(release).cancel()  # nobody waits for its result
            raise
        return token

    def _keep(self, row: Row) -> int:
        """Note that this process holds the run. Return its token."""
        self._writer.held[row.run_id] = row.lease.token
        self._remember(row)
        return row.lease.token

    def _begun(self, connection: Connection, run_id: str, holder: Holder, written: bytes | None) -> int:
        """Return the token of a run that an earlier execution of the same job began."""
        row = self._find(connection, run_id, self.lock)
        if written is None or row.lease.holder != holder or not self._is_written(connection, row, written):
            raise RunExists(run_id)
        self._writer.held[run_id] = row.lease.token
        return row.lease.token

    async def append(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        check_entries(entries)
        if not entries:
            return await self.renew(run_id, token=token)
        at = self._clock()
        written: bytes | None = None

        def work_at_once(connection: Connection) -> bool | None:
            nonlocal written
            row = self._known.get(run_id)
            if row is None or row.lease.token != token or written is not None:
                return None
            new, rows = self._extend(row, entries, at)
            # If the connection fails now, the records may be there. `work` looks for this checksum then.
            written = new.checksum
            if not self._insert_at_once(connection, row, new, rows):
                written = None
                return None
            self._note_stored(new)
            return True

        def work(connection: Connection) -> None:
            nonlocal written
            if work_at_once(connection):
                return
            row = self._find(connection, run_id, self.lock)
            if written is not None and self._is_written(connection, row, written):
                return self._note_stored(row)
            if row.ended and row.lease.token == token:
                raise RunOver(run_id)
            self._check_held(row, token)
            written = self._insert(connection, *self._extend(row, entries, at)).checksum

        durable = any(entry.kind in DURABLE for entry in entries)
        await self._writing.do(work, durable=durable, statement=work_at_once)

    def _is_written(self, connection: Connection, row: Row, checksum: bytes) -> bool:
        """Whether the run has the record with this checksum, which covers all records before it."""
        found = connection.execute("SELECT 1 FROM records WHERE run = ? AND checksum = ?", (row.id, checksum))
        return found.fetchone() is not None

    async def read(self, run_id: str) -> list[Record]:
        return await self._reading.do(
            lambda connection: read_records(connection, self._find(connection, run_id), self._place)
        )

    async def first(self, run_id: str) -> Record:
        return await self._reading.do(
            lambda connection: read_first(connection, self._find(connection, run_id), self._place)
        )

    # ---- claims ------------------------------------------------------------------------------------------------

    async def claim(self, run_id: str, owner: str = "") -> int:
        holder = this_process(owner)
        written = 0

        def work(connection: Connection) -> int:
            nonlocal written
            row = self._find(connection, run_id, self.lock)
            if row.lease.token == written and row.lease.holder == holder:
                self._writer.held[run_id] = written
                return written
            if self._is_held(row, self._now(connection)):
                raise RunBusy(run_id, str(row.lease.holder))
            written = self._take(connection, row, holder)
            return written

        return await self._take_claim(run_id, work)

    async def renew(self, run_id: str, *, token: int) -> None:
        def work(connection: Connection) -> None:
            row = self._held(connection, run_id, token)
            end, value = self._lease_end()
            connection.execute(f"UPDATE runs SET until = {end} WHERE id = ?", (value, row.id))

        await self._writing.do(work)

    async def release(self, run_id: str, *, token: int) -> None:
        def work(connection: Connection) -> bool:
            return self._release(connection, run_id, token)

        await self._writing.do(work, statement=work)

    def _release(self, connection: Connection, run_id: str, token: int | None) -> bool:
        # The end of a run releases it, so nothing is left to do then.
        if token is not None and self._writer.held.get(run_id) == token:
            del self._writer.held[run_id]
            self._known.pop(run_id, None)
            connection.execute("UPDATE runs SET holder = NULL WHERE run_id = ? AND token = ?", (run_id, token))
        return True

    def _find(self, connection: Connection, run_id: str, lock: str = "") -> Row:
        return find_run(connection, run_id, self._place, lock)

    def _is_held(self, row: Row, now: float) -> bool:
        return is_held(row.lease, now, self._is_alive)

    def _take(self, connection: Connection, row: Row, holder: Holder) -> int:
        token = row.lease.token + 1
        end, value = self._lease_end()
        connection.execute(
            f"UPDATE runs SET token = ?, holder = ?, until = {end}, seconds = ? WHERE id = ?",
            (token, msgspec.json.encode(holder).decode(), value, self._lease_seconds, row.id),
        )
        return self._keep(structs.replace(row, lease=structs.replace(row.lease, token=token, holder=holder)))

    def _held(self, connection: Connection, run_id: str, token: int) -> Row:
        """Return the run, if this token holds it. An expired lease does not matter if nobody has claimed the run."""
        row = self._find(connection, run_id, self.lock)
        self._check_held(row, token)
        return row

    def _check_held(self, row: Row, token: int) -> None:
        if row.lease.token != token or row.lease.holder is None:
            self._known.pop(row.run_id, None)
            raise RunLost(row.run_id, token, str(row.lease.holder or ""))

    # ---- queries -----------------------------------------------------------------------------------------------

    async def run(self, run_id: str) -> RunSummary:
        return await self._reading.do(
            lambda connection: self._summaries(connection, [self._find(connection, run_id)])[0]
        )

    async def runs(self, session: str | None = None, *, unfinished: bool = False) -> list[RunSummary]:
        def work(connection: Connection) -> list[RunSummary]:
            found = find_runs(connection, self._place, session, unfinished=unfinished)
            return self._summaries(connection, found)

        return await self._reading.do(work)

    async def last_run(self, session: str) -> RunSummary | None:
        def work(connection: Connection) -> list[RunSummary]:
            return self._summaries(connection, find_runs(connection, self._place, session, last=True))

        return next(iter(await self._reading.do(work)), None)

    async def sessions(self) -> list[SessionSummary]:
        found = await self.runs()
        return summarise(found, {run.run_id: run.session for run in found})

    def _summaries(self, connection: Connection, rows: Sequence[Row]) -> list[RunSummary]:
        now = self._now(connection) if rows else 0.0
        return [row.summary(str(row.lease.holder) if self._is_held(row, now) else "") for row in rows]

    # ---- whole sessions ----------------------------------------------------------------------------------------

    async def fork(self, session: str, turn: int | None, new_session: str) -> RunSummary:
        check_name("session", new_session)
        written: list[str] = []

        def work(connection: Connection) -> RunSummary:
            self._lock_name(connection, new_session)
            found = self._session(connection, session)
            there = find_runs(connection, self._place, new_session)
            if there and [row.run_id for row in there] == written:
                return there[-1].summary("")
            if there:
                raise SessionExists(new_session)
            history = [(row.summary(""), read_records(connection, row, self._place)) for row in found]
            written[:] = self._copy(connection, fork_plan(history, turn), new_session)
            return self._find(connection, written[-1]).summary("")

        return await self._writing.do(work, durable=True)

    def _copy(
        self, connection: Connection, plan: Sequence[tuple[RunSummary, Sequence[Record]]], new_session: str
    ) -> list[str]:
        """Write the kept records of each run as a new run. Return the ids of the new runs."""
        names: dict[str, str] = {}
        for run, records in plan:
            names[run.run_id] = self._new_id()
            parent = names.get(run.parent or "", run.parent)
            row = self._new_row(names[run.run_id], new_session, parent, run.run_id, self._clock())
            if self._create_run(connection, *self._extend(row, records, row.begun)) is None:
                raise RunExists(names[run.run_id])
        return list(names.values())

    async def delete(self, session: str) -> int:
        count = 0

        def work(connection: Connection) -> int:
            nonlocal count
            found = find_runs(connection, self._place, session, lock=self.lock)
            if not found and count:
                return count
            if not found:
                raise UnknownSession(session)
            now = self._now(connection)
            for row in found:
                if self._is_held(row, now):
                    raise RunBusy(row.run_id, str(row.lease.holder))
            count = self._erase(connection, found)
            return count

        return await self._writing.do(work, durable=True)

    def export(self, session: str) -> AsyncIterator[dict[str, Any]]:
        return export_session(self, session)

    def _session(self, connection: Connection, session: str) -> list[Row]:
        found = find_runs(connection, self._place, session)
        if not found:
            raise UnknownSession(session)
        return found

    # ---- rows --------------------------------------------------------------------------------------------------

    def _new_row(self, run_id: str, session: str, parent: str | None, copied_from: str | None, at: float) -> Row:
        lease = Lease(0, None, 0.0, self._lease_seconds)
        row = Row(0, run_id, session, parent, copied_from, at, at, 0, 0, False, b"", lease)
        row.checksum = row.seed()
        return row

    def _create_run(self, connection: Connection, row: Row, rows: Sequence[tuple[Any, ...]]) -> Row | None:
        """Write a new run with its records. Return its row with its id, or None if there is a run of this name."""
        if connection.execute(*self._create(row)).rowcount == 0:
            return None
        made = structs.replace(row, id=self._find(connection, row.run_id).id)
        connection.executemany(_INSERT, [(made.id, *each) for each in rows])
        return made

    def _create(self, row: Row) -> tuple[str, tuple[Any, ...]]:
        """Return the statement that writes the row of a new run, and its parameters."""
        names = (row.run_id, row.session, row.parent, row.copied_from, row.begun, row.last, row.records, row.turns)
        holder = msgspec.json.encode(row.lease.holder).decode() if row.lease.holder is not None else None
        end, until = self._lease_end() if holder is not None else ("?", 0.0)
        values = (*names, int(row.ended), row.checksum, row.lease.token, holder, row.lease.seconds, until)
        return _INSERT_RUN.format(until=end), values

    def _create_at_once(self, connection: Connection, row: Row, rows: Sequence[tuple[Any, ...]]) -> Row | None:
        """Do the same with one statement. None: nothing was written."""
        return None

    def _extend(self, row: Row, entries: Sequence[Entry | Record], at: float) -> tuple[Row, list[tuple[Any, ...]]]:
        """Return the row of a run with more records, and the rows of these records. A copied record keeps its time."""
        new, rows = structs.replace(row), []
        for number, entry in enumerate(entries, row.records):
            when = entry.at if isinstance(entry, Record) else at
            record = Record(number, entry.kind, entry.body, entry.call_id, when, entry.calls)
            new.checksum = link(new.checksum, record)
            ids = (self._encode(record.call_id), self._encode(encode_calls(record.calls)))
            rows.append((number, when, record.kind, *ids, new.checksum, record.body))
            new.last = max(new.last, when)
        new.records += len(rows)
        new.turns += sum(entry.kind == "reply" for entry in entries)
        new.ended = entries[-1].kind == "ended"
        return new, rows

    def _insert(self, connection: Connection, row: Row, rows: Sequence[tuple[Any, ...]]) -> Row:
        """Append records, and update the counts of the run."""
        connection.executemany(_INSERT, [(row.id, *each) for each in rows])
        update, values = self._update(row)
        connection.execute(f"{update} WHERE id = ?", (*values, row.id))
        self._note_stored(row)
        return row

    def _update(self, row: Row) -> tuple[str, tuple[Any, ...]]:
        """Return the statement that stores the counts of a run and renews its lease, and its parameters.

        A run that has ended is released: one statement less than to do it later.
        """
        end, until = self._lease_end()
        release = ", holder = NULL" if row.ended else ""
        return (
            f"UPDATE runs SET last = ?, records = ?, turns = ?, ended = ?, checksum = ?, until = {end}{release}",
            (row.last, row.records, row.turns, int(row.ended), row.checksum, until),
        )

    def _insert_at_once(self, connection: Connection, row: Row, new: Row, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Append records to a run that is still as in `row`, with one statement. False: nothing was written."""
        return False

    def _remember(self, row: Row) -> None:
        """Keep the row of a held run, so that the next append need not read it."""
        if row.run_id in self._writer.held and not row.ended:
            self._known[row.run_id] = row
        else:
            self._known.pop(row.run_id, None)

    def _note_stored(self, row: Row) -> None:
        """Note that records were appended to a run. With its end, they released it."""
        if row.ended:
            self._writer.held.pop(row.run_id, None)
        self._remember(row)

    # ---- close -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish queued jobs, release held runs, end the threads. Safe to call twice."""
        self._finalizer.detach()
        _close(self._writing, self._reading)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _close(writing: JobThread, reading: JobThread) -> None:
    # The reader first: the last connection to an SQLite file that closes checkpoints the log into the file, and only
    # the writer may do so.
    reading.close()
    writing.close()
