"""The one connection that writes: jobs of many runs share a transaction, and the disk is waited for once."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from dragoman.journal.errors import JournalError
from dragoman.journal.leases import LEASE_SECONDS
from dragoman.journal.schema import connect, empty, explain, is_broken_disk
from dragoman.journal.worker import Job


class Settings:
    """How a file is opened; the same for its writer and its reader."""

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float,
        most_bytes: int | None,
        clock: Callable[[], float],
        lease_seconds: float = LEASE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self.most_bytes = most_bytes
        self.clock = clock
        self.lease_seconds = lease_seconds
        self.monotonic = monotonic


class Writer:
    """Serves jobs that write. A job refuses before it writes anything, so a refusal leaves the others untouched."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: sqlite3.Connection | None = None
        self._synchronous = ""
        self._failure: JournalError | None = None
        self._renewed = self._settings.monotonic()
        self.held: dict[str, int] = {}
        """The runs that were claimed through this connection, with their tokens. Only the thread touches it."""
        self.fold = False

    def serve(self, jobs: list[Job]) -> None:
        try:
            connection = self._open()
        except JournalError as error:
            for job in jobs:
                job.outcome = (None, error)
            return
        if not self._try(connection, jobs) and len(jobs) > 1:
            # One of them failed in a way that undoes the whole transaction: each has to stand for itself.
            for job in jobs:
                self._try(connection, [job])
        self._fold(connection)

    def _try(self, connection: sqlite3.Connection, jobs: list[Job]) -> bool:
        """Do the jobs in one transaction; False, and the failure as everyone's outcome, if it was undone."""
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
            # What cannot even be undone is undone by opening the file again.
            connection.close()
            self._connection = None
            self._synchronous = ""

    def _fold(self, connection: sqlite3.Connection) -> None:
        """Empty the log behind a deletion: until then it still holds what was deleted."""
        if not self.fold:
            return
        self.fold = False
        with contextlib.suppress(sqlite3.Error):
            # A reader in another process can keep it from happening; the next checkpoint does it then.
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
            settings = self._settings
            self._connection = connect(
                settings.path, busy_seconds=settings.busy_seconds, writing=True, most_bytes=settings.most_bytes
            )
        assert self._connection is not None
        return self._connection

    def rest(self) -> float | None:
        """Keep the claims alive: a process that runs a tool for minutes has not gone away."""
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
            # The next append meets the same obstacle and reports it; a lost claim is refused by its token.
            self._undo(connection)
        self._renewed = self._settings.monotonic()

    def close(self) -> None:
        """Give back what is still held, so that the next process need not wait, and close the file."""
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
            # They fall by themselves when the process is gone.
            pass
        finally:
            self.held.clear()
            connection.close()


class Reader:
    """Serves jobs that read, each from one consistent state of the file, without keeping a writer waiting."""

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
            # Nothing was written yet, so whatever is asked for is not there.
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

    def rest(self) -> float | None:
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
