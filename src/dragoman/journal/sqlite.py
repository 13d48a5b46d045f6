"""The journal in an SQLite file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.journal.journal import JournalError
from dragoman.journal.leases import LEASE_SECONDS, Holder, is_running, new_run_id
from dragoman.journal.rows import Connection, Row
from dragoman.journal.schema import connect, empty, explain, is_broken_disk
from dragoman.journal.store import SqlJournal
from dragoman.journal.threads import Handler, Job, LeaseClock, Writer


class Settings(LeaseClock, frozen=True, kw_only=True):
    """How a file is opened, by its writer and its reader."""

    path: Path
    busy_seconds: float
    most_bytes: int | None


class SqliteWriter(Writer[sqlite3.Connection]):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._settings = settings
        self._synchronous = ""
        self._failure: JournalError | None = None
        self.fold = False

    def serve(self, jobs: list[Job]) -> None:
        super().serve(jobs)
        if self.fold and self._connection is not None:
            self.fold = False
            # Until the checkpoint, the write-ahead log still contains the deleted data. A reader in another process can
            # prevent it; the next checkpoint does it then.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _open(self) -> sqlite3.Connection:
        if self._failure is not None:
            raise self._failure
        if self._connection is None:
            at = self._settings
            self._connection = connect(at.path, busy_seconds=at.busy_seconds, writing=True, most_bytes=at.most_bytes)
        assert self._connection is not None
        return self._connection

    def _begin(self, connection: sqlite3.Connection, durable: bool) -> None:
        self._be_durable(connection, durable)
        connection.execute("BEGIN IMMEDIATE")

    def _commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # If even the rollback fails, a new connection discards the transaction.
            connection.close()
            self._connection = None
            self._synchronous = ""

    def _explain(self, error: BaseException) -> BaseException:
        failure = explain(error, self._settings.path) if isinstance(error, sqlite3.Error) else error
        if is_broken_disk(error) and isinstance(failure, JournalError):
            self._failure = failure
        return failure

    def _be_durable(self, connection: sqlite3.Connection, durable: bool) -> None:
        wanted = "FULL" if durable else "NORMAL"
        if wanted != self._synchronous:
            connection.execute(f"PRAGMA synchronous = {wanted}").close()
            self._synchronous = wanted

    def _renew(self, connection: sqlite3.Connection) -> None:
        until = self._settings.clock() + self._settings.lease_seconds
        try:
            self._begin(connection, False)
            connection.executemany(
                "UPDATE runs SET until = ? WHERE run_id = ? AND token = ? AND holder IS NOT NULL",
                [(until, run_id, token) for run_id, token in self.held.items()],
            )
            connection.execute("COMMIT")
        except sqlite3.Error:
            # The next append meets the same obstacle and reports it. A lost claim is refused by its token.
            self._undo(connection)

    def _release(self, connection: sqlite3.Connection) -> None:
        # If this fails, the leases expire when the process has ended.
        with contextlib.suppress(sqlite3.Error):
            self._be_durable(connection, False)
            connection.executemany(
                "UPDATE runs SET holder = NULL WHERE run_id = ? AND token = ?", list(self.held.items())
            )

    def _disconnect(self, connection: sqlite3.Connection) -> None:
        connection.close()


class SqliteReader(Handler):
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

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class SqliteJournal(SqlJournal):
    """A journal in a file. The first use opens the file; many processes may share it.

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
        settings = Settings(
            path=self.path, busy_seconds=busy_seconds, most_bytes=most_bytes, clock=clock, lease_seconds=lease_seconds
        )
        self._file_writer = SqliteWriter(settings)
        super().__init__(
            str(self.path),
            self._file_writer,
            SqliteReader(settings),
            lease_seconds=lease_seconds,
            clock=clock,
            new_id=new_id,
            is_alive=is_alive,
        )

    def _erase(self, connection: Connection, rows: Sequence[Row]) -> int:
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        count = super()._erase(connection, rows)
        self._file_writer.fold = True
        connection.execute("PRAGMA secure_delete = OFF").fetchall()
        return count
