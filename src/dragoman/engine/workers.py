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

from dragoman.agent.approvals import read_requests
from dragoman.agent.records import CANCELLATION
from dragoman.errors import ConfigError
from dragoman.journal.journal import Record
from dragoman.journal.postgres import ADVISORY_LOCK, KEEP_ALIVE, check_version, describe_url, make_tables

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
ALTER TABLE dragoman.workers ADD COLUMN IF NOT EXISTS began TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp();
"""
_HAS_TABLE = """
SELECT 1 FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'dragoman' AND relname = 'workers' AND attname = 'began'
"""


def connect(url: str) -> psycopg.Connection[Any]:
    """Open a connection, and create the tables of the journal and of the workers if they are missing."""
    import psycopg

    connection = psycopg.connect(
        url, autocommit=True, application_name="dragoman worker", connect_timeout=10, **KEEP_ALIVE
    )
    try:
        make_tables(connection)
        check_version(connection, describe_url(url))
        # Postgres refuses even CREATE ... IF NOT EXISTS to a user who may only use the tables.
        if connection.execute(_HAS_TABLE).fetchone() is None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY_LOCK, _TABLES_LOCK))
                connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def has_engine(connection: psycopg.Connection[Any]) -> bool:
    """Whether the database has the tables of DBOS, and not only a journal."""
    found = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'dbos' AND tablename = 'workflow_status'"
    return connection.execute(found).fetchone() is not None


class WorkerStatus(Struct, frozen=True):
    """A worker, and what it serves: the digest of the tools of each agent."""

    worker: str
    seconds: float
    """The age of its last heartbeat."""
    agents: dict[str, str]
    up: float = 0.0
    """The seconds since it started."""


def find_workers(connection: psycopg.Connection[Any]) -> list[WorkerStatus]:
    """Return the live workers, the one that started last first."""
    rows = connection.execute(
        "SELECT worker, extract(epoch FROM clock_timestamp() - beat)::float8, agents,"
        " extract(epoch FROM clock_timestamp() - began)::float8 FROM dragoman.workers"
        " WHERE beat > clock_timestamp() - make_interval(secs => %s) ORDER BY began DESC",
        (DEAD_AFTER_SECONDS,),
    ).fetchall()
    return [
        WorkerStatus(worker, seconds, msgspec.json.decode(agents, type=dict[str, str]), up)
        for worker, seconds, agents, up in rows
    ]


# --------------------------------------------------------------------------------------------------------------------
# The runs that nobody holds. An expired lease holds nothing: its process was killed before it released the run.

# A query of its own, so that the time is read once, and not for each run.
_NOW = "(SELECT extract(epoch FROM clock_timestamp())::float8)"
_FREE = f"(holder IS NULL OR until < {_NOW})"
_RECENT_SECONDS = 3.0


def find_parked(connection: psycopg.Connection[Any], *, recent: bool = False) -> tuple[list[str], list[str]]:
    """Return the runs that nobody holds and that were answered, and those that were cancelled, by their last record.

    With `recent`, only those that have changed in the last seconds: the last records of thousands of runs that wait are
    not read then.
    """
    # Every record renews the lease, and a release leaves its end as it is.
    recently = f" AND until > {_NOW} - {_RECENT_SECONDS}" if recent else ""
    # The limit makes Postgres look up one record for each run. Otherwise, it may read all records of the database.
    last = (
        "SELECT kind, substring(body FROM 1 FOR %s) AS beginning FROM dragoman.records"
        " WHERE run = runs.id AND number = runs.records - 1 LIMIT 1"
    )
    rows = connection.execute(
        f"SELECT run_id, kind FROM dragoman.runs, LATERAL ({last}) AS last WHERE ended <> 1 AND {_FREE}{recently}"
        " AND (kind = 'answered' OR kind = 'input' AND beginning = %s)",
        (len(CANCELLATION), CANCELLATION),
    ).fetchall()
    answered = [run_id for run_id, kind in rows if kind == "answered"]
    return answered, [run_id for run_id, kind in rows if kind != "answered"]


class IdleRun(Struct, frozen=True):
    """A run that has not ended and that nobody holds. Each claim and each record changes it."""

    run_id: str
    number: int
    records: int
    token: int


def find_idle(connection: psycopg.Connection[Any]) -> list[IdleRun]:
    """Return the runs that have not ended and that nobody holds."""
    rows = connection.execute(
        f"SELECT run_id, id, records, token FROM dragoman.runs WHERE ended <> 1 AND {_FREE}"
    ).fetchall()
    return [IdleRun(*row) for row in rows]


_KINDS = ("asked", "answered", "started", "denied", "finished", "input")


def find_expiries(connection: psycopg.Connection[Any], numbers: list[int]) -> dict[str, float]:
    """Return when the first request of each run expires that waits for an answer."""
    rows = connection.execute(
        "SELECT run_id, number, kind, call_id, CASE WHEN kind IN ('asked', 'answered', 'input') THEN body ELSE '' END"
        " FROM dragoman.runs JOIN dragoman.records ON run = id WHERE id = ANY(%s) AND kind = ANY(%s)"
        " ORDER BY id, number",
        (numbers, list(_KINDS)),
    ).fetchall()
    records: dict[str, list[Record]] = {}
    for run_id, number, kind, call_id, body in rows:
        records.setdefault(run_id, []).append(Record(number, kind, bytes(body), bytes(call_id).decode()))
    found: dict[str, float] = {}
    for run_id, those in records.items():
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            # Another version wrote a record that cannot be read. Nothing is done about this run.
            open_ones = [each for each in read_requests(those).values() if each.answer is None]
            if ends := [each.expires for each in open_ones if each.expires is not None]:
                found[run_id] = min(ends)
    return found


# --------------------------------------------------------------------------------------------------------------------
# The heartbeat.


class _Loop:
    """A thread that does its work twice a second, with a connection of its own, whatever fails."""

    def __init__(
        self,
        name: str,
        url: str,
        stop: threading.Event,
        work: Callable[[psycopg.Connection[Any]], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._name = name
        self._url = url
        self._stop = stop
        self._work = work
        self._on_failure = on_failure
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._run, name=f"dragoman-{name}", daemon=True)

    def start(self, connection: psycopg.Connection[Any] | None = None) -> None:
        self._connection = connection
        self._thread.start()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        is_away = False
        while not self._stop.wait(BEAT_SECONDS):
            try:
                self._connection = connection = self._connection or connect(self._url)
                self._work(connection)
                if is_away:
                    log.info("the %s is back", self._name)
                    is_away = False
            except Exception as error:
                # The database is away, or restarts. The next beat tries again.
                if not is_away:
                    log.warning("the %s failed, and is tried again: %s", self._name, str(error).partition("\n")[0])
                    is_away = True
                self._on_failure()
                self._disconnect()
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        with contextlib.suppress(Exception):
            if connection is not None:
                connection.close()


class Heartbeat:
    """Keeps a worker alive in the table, and lets it take over the runs of workers that died.

    `take_over` gets the names of dead workers, and returns those of which nothing is left. One worker at a time calls
    it for a name. `look` is called with each beat. Both are called in a second thread: a worker is not dead because
    they take long, for example after a thousand answers or with a slow database.
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
        self._began: Any = None
        self._stop = threading.Event()
        self._judges_from = 0.0
        self._beating = _Loop("heartbeat", url, self._stop, self._beat, self._forgive)
        self._caring = _Loop("care for other runs", url, self._stop, self._care, self._forgive)

    def start(self) -> None:
        """Enter the table, and start the threads. Raises ConfigError if another live worker has the name."""
        connection = connect(self._url)
        try:
            (self._began,) = connection.execute("SELECT clock_timestamp()").fetchone() or (None,)
            # A worker that was killed a moment ago may have had the same name.
            deadline = time.monotonic() + 2 * DEAD_AFTER_SECONDS
            while not self._enter(connection):
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"a worker named {self._worker!r} is alive", hint="give each worker a name of its own, or none"
                    )
                self._stop.wait(BEAT_SECONDS)
        except BaseException:
            connection.close()
            raise
        self._beating.start(connection)
        self._caring.start()

    def stop(self) -> None:
        """End the threads, and leave the table. What the worker still holds is free at once."""
        self._stop.set()
        self._beating.join()
        self._caring.join()
        with contextlib.suppress(Exception), connect(self._url) as connection:
            leave = "DELETE FROM dragoman.workers WHERE worker = %s AND began = %s"
            connection.execute(leave, (self._worker, self._began))

    def _forgive(self) -> None:
        """Judge no worker for some time: the database may be away for all of them, and they need time to come back."""
        self._judges_from = self._clock() + DEAD_AFTER_SECONDS

    def _beat(self, connection: psycopg.Connection[Any]) -> None:
        if not self._enter(connection):
            raise ConfigError(f"another worker is named {self._worker!r} now")

    def _enter(self, connection: psycopg.Connection[Any]) -> bool:
        """Write the row of this worker with a new beat. False: a live worker that started at another time has it."""
        done = connection.execute(
            "INSERT INTO dragoman.workers AS known (worker, beat, agents, began) VALUES (%s, clock_timestamp(), %s, %s)"
            " ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat, agents = excluded.agents, began = excluded.began"
            " WHERE known.began = excluded.began OR known.beat < clock_timestamp() - make_interval(secs => %s)",
            (self._worker, self._agents, self._began, DEAD_AFTER_SECONDS),
        )
        return done.rowcount == 1

    def _care(self, connection: psycopg.Connection[Any]) -> None:
        if self._clock() >= self._judges_from:
            self._replace_dead(connection)
        self._look(connection)

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
