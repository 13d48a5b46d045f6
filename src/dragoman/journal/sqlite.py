"""The journal in an SQLite file: append-only tables, one writer thread, one reader thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman.journal.history import export_session, fork_plan, summarise
from dragoman.journal.journal import (
    DURABLE,
    Entry,
    JournalError,
    JournalFailed,
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
from dragoman.journal.leases import LEASE_SECONDS, Holder, is_held, is_running, new_run_id, this_process
from dragoman.journal.schema import (
    Row,
    connect,
    empty,
    encode_calls,
    explain,
    find_run,
    find_runs,
    is_broken_disk,
    link,
    read_first,
    read_records,
)

# --------------------------------------------------------------------------------------------------------------------
# A worker thread for many tasks, so that no event loop waits for the disk.

T = TypeVar("T")
MOST_AT_ONCE = 256


class Job:
    """One job, and the task that waits for it."""

    __slots__ = ("durable", "future", "loop", "outcome", "work")

    def __init__(self, work: Callable[[Any], Any], durable: bool) -> None:
        self.work = work
        self.durable = durable
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.outcome: tuple[Any, BaseException | None] = (None, JournalFailed("the journal did not answer"))


class Worker:
    """The thread of one servant. It starts with the first job and ends with `close`."""

    def __init__(self, name: str, handler: Writer | Reader) -> None:
        self._name = name
        # All methods of the servant are called in the thread, `close` last.
        self._handler = handler
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False

    async def do(self, work: Callable[[Any], T], *, durable: bool = False) -> T:
        """Run a job with the servant's connection. A queued job runs even if the waiting task is cancelled."""
        job = Job(work, durable)
        with self._lock:
            self._check_usable()
            if self._thread is None:
                self._process = os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(self._queue, self._handler), name=self._name, daemon=True
                )
                self._thread.start()
            self._queue.put(job)
        result: T = await job.future
        return result

    def _check_usable(self) -> None:
        if self._closed:
            raise JournalFailed("the journal is closed", hint="open it again")
        if self._thread is not None and self._process != os.getpid():
            # Neither the thread nor an SQLite connection survives a fork of the process.
            raise JournalFailed("the journal was opened before this process was forked", hint="open it in the child")

    def close(self) -> None:
        """Finish the queued jobs, then end the thread."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and self._process == os.getpid():
            self._queue.put(None)
            # The final reference may be dropped on the worker thread itself, and a thread cannot join itself.
            if thread is not threading.current_thread():
                thread.join()


def _serve(jobs: queue.SimpleQueue[Job | None], handler: Writer | Reader) -> None:
    try:
        open_ = True
        while open_:
            batch, open_ = _next_batch(jobs, handler)
            if batch:
                handler.serve(batch)
                _answer(batch)
            # While it waits, the thread must not keep the waiting task alive.
            batch = []
    finally:
        handler.close()


def _next_batch(jobs: queue.SimpleQueue[Job | None], handler: Writer | Reader) -> tuple[list[Job], bool]:
    """Return all waiting jobs, so that they share one commit; and whether there may be more."""
    batch: list[Job] = []
    wait = handler.rest()
    try:
        job = jobs.get(timeout=wait)
        while job is not None and len(batch) < MOST_AT_ONCE - 1:
            batch.append(job)
            job = jobs.get_nowait()
    except queue.Empty:
        return batch, True
    if job is not None:
        batch.append(job)
    return batch, job is not None


def _answer(batch: list[Job]) -> None:
    """Wake the tasks, with one callback per event loop for all of its tasks."""
    waiting: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in batch:
        waiting.setdefault(job.loop, []).append(job)
    for loop, jobs in waiting.items():
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:
            # The loop is closed: no task waits any more.
            continue


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        value, error = job.outcome
        # The waiting task was cancelled; the write still happens.
        if job.future.done():
            continue
        if error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)


# --------------------------------------------------------------------------------------------------------------------
# The single connection that writes: jobs of many runs share a transaction, and wait for the disk once.


class Settings(Struct, frozen=True):
    """How a file is opened, by its writer and its reader."""

    path: Path
    busy_seconds: float
    most_bytes: int | None
    clock: Callable[[], float]
    lease_seconds: float = LEASE_SECONDS
    monotonic: Callable[[], float] = time.monotonic


class Writer:
    """Executes jobs that write. A job is refused before it writes anything, so a refusal does not affect the others."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: sqlite3.Connection | None = None
        self._synchronous = ""
        self._failure: JournalError | None = None
        self._renewed = self._settings.monotonic()
        self.held: dict[str, int] = {}
        """The runs that were claimed through this connection, with their tokens. Only the thread uses it."""
        self.fold = False

    def serve(self, jobs: list[Job]) -> None:
        """Execute the jobs and set the outcome of each."""
        try:
            connection = self._open()
        except JournalError as error:
            for job in jobs:
                job.outcome = (None, error)
            return
        if not self._try(connection, jobs) and len(jobs) > 1:
            # One job failed in a way that rolls back the whole transaction: execute each in its own transaction.
            for job in jobs:
                self._try(connection, [job])
        self._fold(connection)

    def _try(self, connection: sqlite3.Connection, jobs: list[Job]) -> bool:
        """Execute the jobs in one transaction. After a rollback, every job gets the error, and the result is False."""
        held = dict(self.held)
        try:
            self._be_durable(connection, any(job.durable for job in jobs))
            connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                try:
                    job.outcome = (job.work(connection), None)
                except JournalError as refusal:
                    job.outcome = (None, refusal)
            connection.execute("COMMIT")
        except BaseException as error:
            failure = explain(error, self._settings.path) if isinstance(error, sqlite3.Error) else error
            self.held = held
            self._undo(connection)
            if is_broken_disk(error) and isinstance(failure, JournalError):
                self._failure = failure
            for job in jobs:
                job.outcome = (None, failure)
            return False
        return True

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # If even the rollback fails, a new connection discards the transaction.
            connection.close()
            self._connection = None
            self._synchronous = ""

    def _fold(self, connection: sqlite3.Connection) -> None:
        """Checkpoint the write-ahead log after a deletion: until then it still contains the deleted data."""
        if not self.fold:
            return
        self.fold = False
        with contextlib.suppress(sqlite3.Error):
            # A reader in another process can prevent this; the next checkpoint does it then.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _be_durable(self, connection: sqlite3.Connection, durable: bool) -> None:
        wanted = "FULL" if durable else "NORMAL"
        if wanted != self._synchronous:
            connection.execute(f"PRAGMA synchronous = {wanted}").close()
            self._synchronous = wanted

    def _open(self) -> sqlite3.Connection:
        if self._failure is not None:
            raise self._failure
        if self._connection is None:
            at = self._settings
            self._connection = connect(at.path, busy_seconds=at.busy_seconds, writing=True, most_bytes=at.most_bytes)
        assert self._connection is not None
        return self._connection

    def rest(self) -> float | None:
        """Renew the leases: a process that runs a tool for minutes is still alive.

        Returns the number of seconds until the next call, or None for never.
        """
        if not self.held or self._connection is None:
            return None
        due = self._renewed + self._settings.lease_seconds / 3
        if self._settings.monotonic() >= due:
            self._renew(self._connection)
            due = self._renewed + self._settings.lease_seconds / 3
        return max(0.0, due - self._settings.monotonic())

    def _renew(self, connection: sqlite3.Connection) -> None:
        until = self._settings.clock() + self._settings.lease_seconds
        try:
            self._be_durable(connection, False)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "UPDATE runs SET until = ? WHERE run_id = ? AND token = ? AND holder IS NOT NULL",
                [(until, run_id, token) for run_id, token in self.held.items()],
            )
            connection.execute("COMMIT")
        except sqlite3.Error:
            # The next append meets the same obstacle and reports it. A lost claim is refused by its token.
            self._undo(connection)
        self._renewed = self._settings.monotonic()

    def close(self) -> None:
        """Release the held runs, so that the next process need not wait, and close the file."""
        connection = self._connection
        if connection is None:
            return
        try:
            if self.held:
                self._be_durable(connection, False)
                connection.executemany(
                    "UPDATE runs SET holder = NULL WHERE run_id = ? AND token = ?", list(self.held.items())
                )
        except sqlite3.Error:
            # The leases expire when the process has ended.
            pass
        finally:
            self.held.clear()
            connection.close()


class Reader:
    """Executes jobs that read, each from one consistent snapshot of the file, without blocking a writer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: sqlite3.Connection | None = None

    def serve(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                job.outcome = (self._read(job), None)
            except sqlite3.Error as error:
                job.outcome = (None, explain(error, self._settings.path))
            except Exception as error:
                job.outcome = (None, error)

    def _read(self, job: Job) -> object:
        connection = self._connection or self._open()
        if connection is None:
            # Nothing is written yet, so the requested data does not exist.
            with contextlib.closing(empty()) as nothing:
                return job.work(nothing)
        connection.execute("BEGIN")
        try:
            return job.work(connection)
        finally:
            connection.execute("ROLLBACK")

    def _open(self) -> sqlite3.Connection | None:
        settings = self._settings
        if settings.path.exists():
            self._connection = connect(settings.path, busy_seconds=settings.busy_seconds, writing=False)
        return self._connection

    def rest(self) -> None:
        """There is no periodic work."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


# --------------------------------------------------------------------------------------------------------------------
# The journal in a file: append-only SQLite tables, one thread that writes, one that reads.

_INSERT = "INSERT INTO records (run, number, at, kind, call_id, calls, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteJournal:
    """A journal that survives the process. The first use opens the file; many processes may share it.

    `most_bytes` limits the size of the file, `busy_seconds` the wait for another process that writes. A claim ends when
    its process ends, or `lease_seconds` after the last renewal if its machine is unreachable.
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
        settings = Settings(self.path, busy_seconds, most_bytes, clock, lease_seconds)
        self._writer = Writer(settings)
        self._writing = Worker("dragoman-journal-writer", self._writer)
        self._reading = Worker("dragoman-journal-reader", Reader(settings))
        # The threads have no reference to this object, so they end when it is garbage-collected.
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

        def work(connection: sqlite3.Connection) -> int:
            row = self._find(connection, run_id)
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

    def _find(self, connection: sqlite3.Connection, run_id: str) -> Row:
        return find_run(connection, run_id, self._place)

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
        """Return the run, if this token holds it. An expired lease does not matter if nobody has claimed the run."""
        row = self._find(connection, run_id)
        if row.lease.token != token or row.lease.holder is None:
            raise RunLost(run_id, token, str(row.lease.holder or ""))
        return row

    # ---- queries -----------------------------------------------------------------------------------------------

    async def run(self, run_id: str) -> RunSummary:
        return await self._reading.do(lambda connection: self._summary(self._find(connection, run_id)))

    async def runs(self, session: str | None = None, *, unfinished: bool = False) -> list[RunSummary]:
        def work(connection: sqlite3.Connection) -> list[RunSummary]:
            found = find_runs(connection, self._place, session)
            return [self._summary(row) for row in found if not (unfinished and row.ended)]

        return await self._reading.do(work)

    async def last_run(self, session: str) -> RunSummary | None:
        def work(connection: sqlite3.Connection) -> list[RunSummary]:
            return [self._summary(row) for row in find_runs(connection, self._place, session, last=True)]

        return next(iter(await self._reading.do(work)), None)

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
        row = self._find(connection, run_id)
        row.checksum = row.seed()
        return row

    def _insert(self, connection: sqlite3.Connection, row: Row, records: Sequence[Record]) -> None:
        """Append records, and update the counts of the run."""
        rows = []
        for record in records:
            row.checksum = link(row.checksum, record)
            calls = encode_calls(record.calls)
            told = (record.number, record.at, record.kind, record.call_id, calls, row.checksum, record.body)
            rows.append((row.id, *told))
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

    # ---- close -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish queued jobs, release held runs, end the threads. Safe to call twice."""
        self._finalizer.detach()
        _close(self._writing, self._reading)

    async def __aenter__(self) -> SqliteJournal:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def __enter__(self) -> SqliteJournal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _close(writing: Worker, reading: Worker) -> None:
    # The reader first: the last connection that closes checkpoints the log into the file, and only the writer may do
    # so.
    reading.close()
    writing.close()
