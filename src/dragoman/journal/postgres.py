"""The journal in a Postgres database: one store for many machines."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from dragoman.errors import ConfigError
from dragoman.extras import missing_extra
from dragoman.journal.journal import JournalError, JournalFailed, JournalTooNew, JournalUnreachable
from dragoman.journal.leases import Holder, is_running, new_run_id
from dragoman.journal.rows import Connection, Cursor, Row
from dragoman.journal.schema import empty
from dragoman.journal.store import SqlJournal
from dragoman.journal.threads import Handler, Job, LeaseClock, Writer
from dragoman.logs import get_log

if TYPE_CHECKING:
    import psycopg

_log = get_log("journal")

VERSION = 1
LEASE_SECONDS = 10.0
"""Shorter than that of a file: other machines cannot see that a process has ended, and wait for the lease."""
WAIT_SECONDS = 30.0
IDLE_SECONDS = 5.0
"""How long a session may be idle in a transaction. A process that was paused in one must not keep its locks."""
ADVISORY_LOCK = 0x6472676D
"""The first half of the key of all advisory locks of dragoman. It is the application id of the SQLite file."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

# A process that was cut off from the server must notice it.
_SESSION = f"-c search_path=dragoman -c idle_in_transaction_session_timeout={IDLE_SECONDS:g}s -c lock_timeout=10s"
# A server that fails does not end this process, which would go on without the lost record. So every commit waits for
# the disk, whatever the server's own setting is.
_SESSION += " -c synchronous_commit=on"
KEEP_ALIVE: dict[str, Any] = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15000,
}

_GIVEN = "(?::bigint, ?::float8, ?::text, ?::bytea, ?::bytea, ?::bytea, ?::bytea)"
# Ids of calls are written by models, and a TEXT of Postgres cannot hold every character of them. A record has no
# foreign key: the statement that writes it also updates its run, and the check would take a tenth of its time.
_TABLES = """
CREATE SCHEMA IF NOT EXISTS dragoman;
CREATE TABLE dragoman.version (number INTEGER NOT NULL);
CREATE TABLE dragoman.runs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    parent TEXT,
    copied_from TEXT,
    begun DOUBLE PRECISION NOT NULL,
    last DOUBLE PRECISION NOT NULL,
    records BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    ended INTEGER NOT NULL,
    checksum BYTEA NOT NULL,
    token BIGINT NOT NULL,
    holder TEXT,
    until DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION NOT NULL
);
CREATE INDEX runs_of_session ON dragoman.runs (session, id);
CREATE INDEX unfinished_runs ON dragoman.runs (id) WHERE ended <> 1;
CREATE TABLE dragoman.records (
    run BIGINT NOT NULL,
    number BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    call_id BYTEA NOT NULL,
    calls BYTEA NOT NULL,
    checksum BYTEA NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (run, number)
);
CREATE TABLE dragoman.deletions (run BIGINT PRIMARY KEY);
CREATE FUNCTION dragoman.keep_records() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM dragoman.deletions WHERE run = OLD.run) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'records are append-only';
END $$;
CREATE TRIGGER records_remain BEFORE UPDATE OR DELETE ON dragoman.records
FOR EACH ROW EXECUTE FUNCTION dragoman.keep_records();
CREATE FUNCTION dragoman.keep_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN RAISE EXCEPTION 'the beginning of a run is append-only'; END IF;
    IF EXISTS (SELECT 1 FROM dragoman.deletions WHERE run = OLD.id) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'runs are only deleted with their session';
END $$;
CREATE TRIGGER runs_remain BEFORE DELETE ON dragoman.runs FOR EACH ROW EXECUTE FUNCTION dragoman.keep_runs();
CREATE TRIGGER runs_keep_their_names BEFORE UPDATE OF id, run_id, session, parent, copied_from, begun
ON dragoman.runs FOR EACH ROW EXECUTE FUNCTION dragoman.keep_runs();
"""


class Settings(LeaseClock, frozen=True, kw_only=True):
    """How the database is reached, by the writer and the reader."""

    url: str
    place: str
    """The address without user and password, for messages."""
    wait_seconds: float


class PostgresConnection:
    """A connection that accepts the statements of the journal: parameters are `?`, and text arrives as bytes."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        return self.raw.execute(statement.replace("?", "%s"), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        # Not `executemany` of psycopg: it is a pipeline, and the server does not see that a process which was paused in
        # one is idle. The process would keep its locks.
        for row in rows:
            self.execute(statement, row)


def describe_url(url: str) -> str:
    """Return the address of a database without its user and password."""
    _, conninfo = _load_psycopg()
    try:
        parts = conninfo.conninfo_to_dict(url)
    except Exception as error:
        # The message of the parser may repeat the password.
        raise ConfigError(
            "the address of the database cannot be read", hint="write postgres://user@host:5432/name"
        ) from error.__class__(type(error).__name__)
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    port = f":{parts['port']}" if "port" in parts else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


def _load_psycopg() -> tuple[Any, Any]:
    try:
        import psycopg
        from psycopg import conninfo
    except ImportError as error:
        raise missing_extra("a database in Postgres needs psycopg", "durable") from error
    return psycopg, conninfo


@functools.cache
def _bytes_loader() -> type[Any]:
    from psycopg.adapt import Loader

    class BytesLoader(Loader):
        def load(self, data: Any) -> bytes:
            return bytes(data)

    return BytesLoader


def connect(settings: Settings, *, writing: bool) -> PostgresConnection | None:
    """Open the database. The writer creates the tables. None: there is nothing to read yet."""
    psycopg, _ = _load_psycopg()

    raw = psycopg.connect(
        settings.url,
        autocommit=True,
        connect_timeout=max(2, int(settings.wait_seconds)),
        application_name="dragoman journal",
        options=_SESSION,
        **KEEP_ALIVE,
    )
    try:
        raw.adapters.register_loader("text", _bytes_loader())
        if writing:
            make_tables(raw)
        if not _has_tables(raw):
            raw.close()
            return None
        check_version(raw, settings.place)
    except BaseException:
        raw.close()
        raise
    return PostgresConnection(raw)


def check_version(raw: psycopg.Connection[Any], place: str) -> None:
    """Raise JournalTooNew for tables that this version does not know."""
    number = raw.execute("SELECT number FROM dragoman.version").fetchone()
    if number is None or number[0] > VERSION:
        raise JournalTooNew(place, number[0] if number else 0, VERSION)


def _has_tables(raw: psycopg.Connection[Any]) -> bool:
    # `to_regclass` reads a cache that does not yet know what was committed since the transaction began.
    where = "schemaname = 'dragoman' AND tablename = 'version'"
    return raw.execute(f"SELECT 1 FROM pg_catalog.pg_tables WHERE {where}").fetchone() is not None


def make_tables(raw: psycopg.Connection[Any]) -> None:
    """Create the tables, once, even if many processes start at the same time."""
    if _has_tables(raw):
        return
    with raw.transaction():
        raw.execute("SELECT pg_advisory_xact_lock(%s, 0)", (ADVISORY_LOCK,))
        if not _has_tables(raw):
            raw.execute(_TABLES)
            raw.execute("INSERT INTO dragoman.version VALUES (%s)", (VERSION,))


def explain(error: BaseException, place: str) -> BaseException:
    """Convert an error of Postgres to a message with the next step. Other errors stay as they are."""
    import psycopg

    if not isinstance(error, psycopg.Error):
        return error
    code = _code_of(error)
    if is_away(error) and code != _FULL:
        return _away(error, place)
    known = {
        "28": ("the login was refused", "check the user and the password in the address"),
        "3D": ("there is no such database", "create it: createdb NAME"),
        "42501": (
            _first_line(error),
            "grant the user CREATE on the database for its first use, and the rights on its tables after it",
        ),
        "25006": ("it is read-only", "name the primary server, not a replica"),
        "53100": ("its disk is full", "free space on the disk of the database, then try again"),
        _FULL: (
            "it accepts no more connections",
            "raise max_connections or the limit of the user, or run fewer workers",
        ),
    }
    why, hint = known.get(code) or known.get(code[:2]) or (_first_line(error), "check the database, then try again")
    if error.sqlstate is None and "FATAL:" in str(error):
        why = str(error).rpartition("FATAL:")[2].strip().partition("\n")[0][:200]
    return JournalFailed(f"the database {place} cannot be used: {why}", hint=hint)


def _first_line(error: psycopg.Error) -> str:
    # The later lines repeat statements and values.
    return (error.diag.message_primary or str(error).partition("\n")[0] or type(error).__name__)[:200]


def _is_lost(error: BaseException, raw: psycopg.Connection[Any] | None) -> bool:
    return bool(raw.closed or raw.broken) if raw is not None else is_away(error)


_FULL = "53300"
"""The code of a server that accepts no more connections."""
_OF_A_LOGIN = {
    "too many ": _FULL,
    "connection slots": _FULL,
    "authentication": "28",
    "no password": "28",
    "no pg_hba.conf": "28",
    "role ": "28",
    "does not exist": "3D",
}
"""Words of a refused login, and its code; the first that occurs counts. The client has only the text before a
connection exists."""


def _code_of(error: psycopg.Error) -> str:
    return error.sqlstate or next((code for word, code in _OF_A_LOGIN.items() if word in str(error)), "")


def is_away(error: BaseException) -> bool:
    """Whether the server is away: a new connection may succeed. A refused login does not change by waiting."""
    import psycopg

    # 08: connection failures, 57P: the server stops or starts.
    return isinstance(error, psycopg.OperationalError) and (_code_of(error) or "08").startswith(("08", "57P", _FULL))


def is_refused_for_now(error: BaseException) -> bool:
    """Whether the server has refused a statement for a reason that may go away."""
    import psycopg

    return isinstance(error, psycopg.Error) and _code_of(error).startswith(_FOR_NOW)


class Retry(Struct):
    """The waiting time between two attempts to reach the server: it doubles, up to a limit."""

    place: str
    seconds: float
    deadline: float = 0.0
    pause: float = _FIRST_PAUSE

    def wait(self, stop: threading.Event) -> bool:
        """Wait before the next attempt. False: the time is over."""
        if not self.deadline:
            # The first new connection usually succeeds: the server ended the old one while nobody used it.
            self.deadline = time.monotonic() + self.seconds
        elif self.pause == 2 * _FIRST_PAUSE:
            _log.warning("the database %s cannot be used now; trying for %.0f seconds", self.place, self.seconds)
        left = self.deadline - time.monotonic()
        if left <= 0 or stop.is_set():
            return False
        stop.wait(min(self.pause, left))
        self.pause = min(self.pause * 2, _LONGEST_PAUSE)
        return True


class PostgresWriter(Writer[PostgresConnection]):
    """Executes jobs in one transaction, and again after the server was away."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._settings = settings
        self.stop = threading.Event()

    def serve(self, jobs: list[Job]) -> None:
        retry = Retry(self._settings.place, self._settings.wait_seconds)
        while True:
            super().serve(jobs)
            jobs = [job for job in jobs if isinstance(job.outcome[1], JournalUnreachable)]
            if not jobs:
                return
            if self._connection is not None:
                # Another server may be the primary one by now.
                self._connection.raw.close()
                self._connection = None
            if not retry.wait(self.stop):
                return

    def _open(self) -> PostgresConnection:
        if self._connection is None:
            try:
                self._connection = connect(self._settings, writing=True)
            except JournalError:
                raise
            except Exception as error:
                raise _unreachable(error, None, self._settings.place) from error
        assert self._connection is not None
        return self._connection

    def _begin(self, connection: PostgresConnection, durable: bool) -> None:
        connection.raw.execute("BEGIN")

    def _commit(self, connection: PostgresConnection) -> None:
        connection.raw.execute("COMMIT")

    def _execute(self, connection: PostgresConnection, jobs: list[Job]) -> None:
        # Each statement of a transaction is a round trip to the server. The usual append is only one of them.
        done = jobs[0].statement(connection) if len(jobs) == 1 and jobs[0].statement is not None else None
        if done is None:
            super()._execute(connection, jobs)
        else:
            jobs[0].outcome = (done, None)

    def _undo(self, connection: PostgresConnection) -> None:
        with contextlib.suppress(Exception):
            connection.raw.execute("ROLLBACK")
        if connection.raw.closed or connection.raw.broken:
            connection.raw.close()
            self._connection = None

    def _explain(self, error: BaseException) -> BaseException:
        raw = self._connection.raw if self._connection is not None else None
        return _unreachable(error, raw, self._settings.place)

    def _renew(self, connection: PostgresConnection) -> None:
        try:
            connection.executemany(
                "UPDATE runs SET until = extract(epoch FROM clock_timestamp()) + ?"
                " WHERE run_id = ? AND token = ? AND holder IS NOT NULL",
                [(self._settings.lease_seconds, run_id, token) for run_id, token in self.held.items()],
            )
        except Exception:
            # The next append meets the same obstacle and reports it. A lost claim is refused by its token.
            self._undo(connection)

    def _release(self, connection: PostgresConnection) -> None:
        with contextlib.suppress(Exception):
            connection.executemany(
                "UPDATE runs SET holder = NULL WHERE run_id = ? AND token = ?", list(self.held.items())
            )

    def _disconnect(self, connection: PostgresConnection) -> None:
        connection.raw.close()


_LOCKED = "55P03"
_FOR_NOW = ("25006", "53")
"""Read-only, as after a failover, or without disk, memory or connections: this may change by waiting."""


def _unreachable(error: BaseException, raw: psycopg.Connection[Any] | None, place: str) -> BaseException:
    if getattr(error, "sqlstate", None) == _LOCKED:
        return JournalUnreachable(f"the journal in the database {place} is locked", hint="try again")
    if is_refused_for_now(error):
        told = explain(error, place)
        return JournalUnreachable(str(told), hint=getattr(told, "hint", ""))
    return _away(error, place) if _is_lost(error, raw) else explain(error, place)


def _away(error: BaseException, place: str) -> BaseException:
    return JournalUnreachable(f"the database {place} cannot be reached: {str(error).partition(chr(10))[0][:200]}")


class PostgresReader(Handler):
    """Executes jobs that read, each from one consistent snapshot."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: PostgresConnection | None = None
        self.stop = threading.Event()

    def serve(self, jobs: list[Job]) -> None:
        retry = Retry(self._settings.place, self._settings.wait_seconds)
        for job in jobs:
            while True:
                self._try(job)
                if not isinstance(job.outcome[1], JournalUnreachable) or not retry.wait(self.stop):
                    break

    def _try(self, job: Job) -> None:
        try:
            job.outcome = (self._read(job), None)
        except JournalError as refusal:
            job.outcome = (None, refusal)
        except Exception as error:
            raw = self._connection.raw if self._connection is not None else None
            job.outcome = (None, _unreachable(error, raw, self._settings.place))
            self.close()

    def _read(self, job: Job) -> object:
        if self._connection is None:
            self._connection = connect(self._settings, writing=False)
        connection = self._connection
        if connection is None:
            # Nothing is written yet. The statements are the same for SQLite, and find nothing in an empty file.
            with contextlib.closing(empty()) as nothing:
                return job.work(nothing)
        connection.raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return job.work(connection)
        finally:
            connection.raw.execute("ROLLBACK")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.raw.close()


class PostgresJournal(SqlJournal):
    """A journal in a Postgres database, in the schema `dragoman`. Workers on many machines may share it.

    `url` is an address such as `postgres://user@host:5432/name`. Leases end by the clock of the database. While the
    server is away, the journal tries again for `wait_seconds`.
    """

    lock = " FOR UPDATE"

    def __init__(
        self,
        url: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_run_id,
        is_alive: Callable[[Holder], bool] = is_running,
    ) -> None:
        place = describe_url(url)
        settings = Settings(url=url, place=place, wait_seconds=wait_seconds, clock=clock, lease_seconds=lease_seconds)
        writer, reader = PostgresWriter(settings), PostgresReader(settings)
        self._stops = (writer.stop, reader.stop)
        super().__init__(
            place,
            writer,
            reader,
            lease_seconds=lease_seconds,
            clock=clock,
            new_id=new_id,
            is_alive=is_alive,
        )

    def _now(self, connection: Connection) -> float:
        found = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        return float(found[0])

    def _lease_end(self) -> tuple[str, float]:
        return "extract(epoch FROM clock_timestamp()) + ?", self._lease_seconds

    def _encode(self, text: str) -> bytes:
        return text.encode()

    def _create_at_once(self, connection: Connection, row: Row, rows: Sequence[tuple[Any, ...]]) -> Row | None:
        create, values = self._create(row)
        found = connection.execute(
            f"WITH made AS ({create} RETURNING id) INSERT INTO records SELECT made.id, given.*"
            f" FROM made, (VALUES {', '.join([_GIVEN] * len(rows))}) AS given RETURNING run",
            (*values, *(value for each in rows for value in each)),
        ).fetchone()
        return structs.replace(row, id=found[0]) if found is not None else None

    def _insert_at_once(self, connection: Connection, row: Row, new: Row, rows: Sequence[tuple[Any, ...]]) -> bool:
        update, values = self._update(new)
        given = ", ".join([_GIVEN] * len(rows))
        done = connection.execute(
            f"WITH held AS ({update} WHERE id = ? AND token = ? AND holder IS NOT NULL AND checksum = ? RETURNING id)"
            f" INSERT INTO records SELECT held.id, given.* FROM held, (VALUES {given}) AS given",
            (*values, row.id, row.lease.token, row.checksum, *(value for each in rows for value in each)),
        )
        return done.rowcount == len(rows)

    def _lock_name(self, connection: Connection, session: str) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(?, hashtext(?))", (ADVISORY_LOCK, session))

    def close(self) -> None:
        """Finish queued jobs, release held runs, end the threads. An attempt to reach the server ends."""
        for stop in self._stops:
            stop.set()
        super().close()
