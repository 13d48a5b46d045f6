"""The workers of a database: which ones are alive, what they serve, and who takes over the runs of those that died."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from dragoman.agent.records import CANCELLATION
from dragoman.journal.postgres import ADVISORY_LOCK, check_version, describe_url, make_tables

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("dragoman.engine")

BEAT_SECONDS = 0.5
DEAD_AFTER_SECONDS = 3.0
_CLAIMED_SECONDS = 1.0
"""The age of the beat of a dead worker whose runs are being taken over."""
_TABLES_LOCK = 1

_TABLE = """
CREATE SCHEMA IF NOT EXISTS dragoman;
CREATE TABLE IF NOT EXISTS dragoman.workers (
    worker TEXT PRIMARY KEY,
    beat TIMESTAMPTZ NOT NULL,
    agents TEXT NOT NULL
);
"""


def connect(url: str) -> psycopg.Connection[Any]:
    """Open a connection, and create the tables of the journal and of the workers if they are missing."""
    import psycopg

    connection = psycopg.connect(url, autocommit=True, application_name="dragoman worker", connect_timeout=10)
    try:
        make_tables(connection)
        check_version(connection, describe_url(url))
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY_LOCK, _TABLES_LOCK))
            connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


class WorkerStatus(Struct, frozen=True):
    """A worker, and what it serves: the digest of the tools of each agent."""

    worker: str
    seconds: float
    """The age of its last heartbeat."""
    agents: dict[str, str]


def find_workers(connection: psycopg.Connection[Any]) -> list[WorkerStatus]:
    """Return the live workers, the one with the newest heartbeat first."""
    rows = connection.execute(
        "SELECT worker, extract(epoch FROM clock_timestamp() - beat)::float8, agents FROM dragoman.workers"
        " WHERE beat > clock_timestamp() - make_interval(secs => %s) ORDER BY beat DESC",
        (DEAD_AFTER_SECONDS,),
    ).fetchall()
    return [
        WorkerStatus(worker, seconds, msgspec.json.decode(agents, type=dict[str, str]))
        for worker, seconds, agents in rows
    ]


def find_parked(connection: psycopg.Connection[Any]) -> tuple[list[str], list[str]]:
    """Return the runs that nobody holds and that were answered, and those that were cancelled, by their last record."""
    rows = connection.execute(
        "SELECT run_id, kind FROM dragoman.runs JOIN dragoman.records ON run = id AND number = records - 1"
        " WHERE ended <> 1 AND holder IS NULL AND (kind = 'answered'"
        " OR kind = 'input' AND substring(body FROM 1 FOR %s) = %s)",
        (len(CANCELLATION), CANCELLATION),
    ).fetchall()
    answered = [run_id for run_id, kind in rows if kind == "answered"]
    return answered, [run_id for run_id, kind in rows if kind != "answered"]


class Heartbeat:
    """A thread that keeps a worker alive in the table, and lets it take over the runs of workers that died.

    `take_over` gets the names of dead workers, and returns those of which nothing is left. One worker at a time calls
    it for a name. `look` is called with each beat.
    """

    def __init__(
        self,
        url: str,
        worker: str,
        agents: Mapping[str, str],
        *,
        take_over: Callable[[list[str]], Iterable[str]],
        look: Callable[[psycopg.Connection[Any]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._worker = worker
        self._agents = msgspec.json.encode(agents).decode()
        self._take_over = take_over
        self._look = look
        self._clock = clock
        self._stop = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_away = False
        self._judges_from = 0.0
        self._thread = threading.Thread(target=self._run, name="dragoman-heartbeat", daemon=True)

    def start(self) -> None:
        self._beat(connect(self._url))
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and leave the table. What the worker still holds is free at once."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        with contextlib.suppress(Exception):
            connection = self._connection or connect(self._url)
            connection.execute("DELETE FROM dragoman.workers WHERE worker = %s", (self._worker,))
            connection.close()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                connection = self._connection or connect(self._url)
                self._connection = connection
                self._beat(connection)
                if self._is_away:
                    log.info("the database is back")
                    self._is_away = False
                if self._clock() >= self._judges_from:
                    self._replace_dead(connection)
                self._look(connection)
            except Exception as error:
                # The database is away, or restarts. The next beat tries again.
                if not self._is_away:
                    log.warning("the heartbeat failed, and is tried again: %s", str(error).partition("\n")[0])
                    self._is_away = True
                # The database may be away for all workers. The others get time to come back before they count as dead.
                self._judges_from = self._clock() + DEAD_AFTER_SECONDS
                with contextlib.suppress(Exception):
                    if self._connection is not None:
                        self._connection.close()
                self._connection = None

    def _beat(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute(
            "INSERT INTO dragoman.workers VALUES (%s, clock_timestamp(), %s)"
            " ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat, agents = excluded.agents",
            (self._worker, self._agents),
        )

    def _replace_dead(self, connection: psycopg.Connection[Any]) -> None:
        # A newer beat claims the row of a dead worker. If this worker stops before it has finished, the row soon counts
        # as dead again.
        dead = connection.execute(
            "UPDATE dragoman.workers SET beat = clock_timestamp() - make_interval(secs => %s)"
            " WHERE beat < clock_timestamp() - make_interval(secs => %s) RETURNING worker",
            (_CLAIMED_SECONDS, DEAD_AFTER_SECONDS),
        ).fetchall()
        if not dead:
            return
        gone = list(self._take_over([name for (name,) in dead]))
        for name in gone:
            # A worker that was only paused has a new beat by now.
            connection.execute(
                "DELETE FROM dragoman.workers"
                " WHERE worker = %s AND beat <= clock_timestamp() - make_interval(secs => %s)",
                (name, _CLAIMED_SECONDS),
            )
        log.info("took over from %s", ", ".join(gone))
