"""What the processes of a gateway share: ledgers and facts, in a Postgres database or in a file of this machine.

One thread of each process talks to the store. It takes all operations that wait, so that many requests of one client
need one transaction. A request waits for it at most `WAIT_SECONDS`, and not at all while the store is known to be away.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError, DragomanError
from dragoman.journal.postgres import ADVISORY_LOCK, describe_url, explain
from dragoman.providers import Fact, Facts
from dragoman.providers.endpoint import read_quirks
from dragoman.providers.provider import from_mapping
from dragoman.secrets.exchanges import strip_login
from dragoman.server.access import find_keys_file
from dragoman.server.ledger import LEASE_SECONDS, Ledger, Operation, SharedPermit, StoreAway, renew
from dragoman.server.quotas import USAGE_FILE, Quota, Quotas, read_usage
from dragoman.server.settings import ServerSettings
from dragoman.state_files import make_folder, open_alone, replace_file
from dragoman.types import Failure

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("dragoman.server")

WAIT_SECONDS = 2.0
"""How long a request waits for the store."""
_SECONDS_BETWEEN_TRIES = 1.0
_SECONDS_BETWEEN_FACTS = 5.0
_SECONDS_TO_RENEW = LEASE_SECONDS / 3
_MOST_WAITING = 100_000
"""The ends of requests that are kept while the store is away. What is dropped is counted when its lease ends."""
_DAYS_OF_A_FACT = 7
_SCHEMA = "dragoman_gateway"
_LOCK_OF_TABLES = 1
_SESSION = (
    f"-c search_path={_SCHEMA} -c statement_timeout=2s -c lock_timeout=2s -c idle_in_transaction_session_timeout=5s"
)
_KEEP_ALIVE = {"keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 2, "tcp_user_timeout": 3000}
_TABLES = f"""
CREATE SCHEMA IF NOT EXISTS {_SCHEMA};
CREATE TABLE IF NOT EXISTS {_SCHEMA}.ledgers (account TEXT PRIMARY KEY, content BYTEA NOT NULL) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {_SCHEMA}.facts (
    url TEXT NOT NULL, model TEXT NOT NULL, content BYTEA NOT NULL, learned TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (url, model)
);
CREATE TABLE IF NOT EXISTS {_SCHEMA}.secret (one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one), content BYTEA NOT NULL);
"""

_FIND_TABLES = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'secret'"

Change = Callable[[Ledger, float], None]
FactRows = dict[tuple[str, str], Fact]


class Backend(Protocol):
    """Where ledgers are stored. One thread uses it, and every call may block for a short time."""

    def change(self, account: str, change: Change) -> None:
        """Change a ledger; no other process changes it meanwhile."""

    def check(self) -> None:
        """Raise an exception if the store is away."""

    def close(self) -> None: ...


# ---- a file ----------------------------------------------------------------------------------------------------------


class FileBackend:
    """Ledgers in the usage file of the gateway, for the processes of one machine. A single process reads it as well."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def change(self, account: str, change: Change) -> None:
        with open_alone(self._path.with_name(f".{self._path.name}.lock")):
            ledgers = read_usage(self._path, Ledger)
            now = time.time()
            ledger = ledgers.setdefault(account, Ledger())
            change(ledger, now)
            for each in ledgers.values():
                each.open_at(now)
            kept = {name: each for name, each in ledgers.items() if not each.is_empty}
            # Each request would wait for the disk. A loss of power may lose the usage of the last seconds.
            replace_file(self._path, msgspec.json.encode(kept), sync=False)

    def check(self) -> None:
        make_folder(self._path)

    def close(self) -> None:
        pass


# ---- Postgres --------------------------------------------------------------------------------------------------------


class PostgresBackend:
    """Ledgers and facts in a database, for processes on any number of machines. The clock is that of the database."""

    def __init__(self, url: str) -> None:
        """Raises a ConfigError for an address that cannot be read."""
        self._url = url
        self.place = describe_url(url)
        self._connection: psycopg.Connection[Any] | None = None

    def open(self) -> bytes:
        """Create the tables. Return the secret of all processes. Raises a JournalFailed for an unusable database.

        No connection is open afterwards: a process that forks must not have one.
        """
        import psycopg

        try:
            with self._connected() as connection, connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY_LOCK, _LOCK_OF_TABLES))
                if connection.execute(_FIND_TABLES, (_SCHEMA,)).fetchone() is None:
                    # Only the first start needs the right to do this.
                    connection.execute(_TABLES)
                made = secrets.token_bytes(32)
                connection.execute("INSERT INTO secret (content) VALUES (%s) ON CONFLICT DO NOTHING", (made,))
                row = connection.execute("SELECT content FROM secret").fetchone()
        except psycopg.Error as error:
            raise explain(error, self.place) from None
        finally:
            self.close()
        assert row is not None
        return bytes(row[0])

    def change(self, account: str, change: Change) -> None:
        with self._connected() as connection, connection.transaction():
            find = "SELECT content, extract(epoch FROM clock_timestamp())::float8 FROM ledgers WHERE account = %s"
            row = connection.execute(f"{find} FOR UPDATE", (account,)).fetchone()
            if row is None:
                make = "INSERT INTO ledgers VALUES (%s, %s) ON CONFLICT DO NOTHING"
                connection.execute(make, (account, msgspec.json.encode(Ledger())))
                row = connection.execute(f"{find} FOR UPDATE", (account,)).fetchone()
            assert row is not None
            ledger = msgspec.json.decode(row[0], type=Ledger)
            change(ledger, row[1])
            update = "UPDATE ledgers SET content = %s WHERE account = %s"
            connection.execute(update, (msgspec.json.encode(ledger), account))

    def check(self) -> None:
        with self._connected() as connection:
            connection.execute("SELECT 1")

    def read_facts(self) -> FactRows:
        with self._connected() as connection:
            recent = f"learned > now() - interval '{_DAYS_OF_A_FACT} days'"
            rows = connection.execute(f"SELECT url, model, content FROM facts WHERE {recent}").fetchall()
        found: FactRows = {}
        for url, model, content in rows:
            try:
                fact = msgspec.json.decode(content, type=Fact)
                read_quirks(fact.quirks, "a row")
                from_mapping(fact.capabilities)
            except (msgspec.MsgspecError, DragomanError):
                # Another version wrote it.
                continue
            found[url, model] = fact
        return found

    def write_fact(self, url: str, model: str, fact: Fact) -> None:
        with self._connected() as connection, connection.transaction():
            find = "SELECT content FROM facts WHERE url = %s AND model = %s FOR UPDATE"
            row = connection.execute(find, (url, model)).fetchone()
            whole = fact if row is None else msgspec.json.decode(row[0], type=Fact) | fact
            put = "INSERT INTO facts VALUES (%s, %s, %s) ON CONFLICT (url, model) DO UPDATE"
            statement = f"{put} SET content = excluded.content, learned = now()"
            connection.execute(statement, (url, model, msgspec.json.encode(whole)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection. After an error, the next call opens another one."""
        import psycopg

        if self._connection is None:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=2,
                application_name="dragoman gateway",
                options=_SESSION,
                **_KEEP_ALIVE,  # type: ignore[arg-type]
            )
        try:
            yield self._connection
        except BaseException:
            self.close()
            raise


# ---- the thread ------------------------------------------------------------------------------------------------------


class _Job(Struct, eq=False):
    account: str
    operation: Operation
    answer: Callable[[Failure | None, bool], None] | None = None
    """Tells the request the result, and whether the store was there. Without it, nobody waits."""


class SharedStore:
    """Applies operations to the ledgers of a backend, in a thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._kept: dict[str, set[str]] = {}
        self._late: list[_Job] = []
        """Operations for which nobody waits, and which did not succeed yet."""
        self._renewed = time.monotonic()
        self.regularly: Callable[[], None] | None = None
        """Called in the thread every few seconds."""
        self.is_away = False

    def admit(self, name: str, account: str, quota: Quota, tokens: int, quotas: Quotas) -> SharedPermit:
        """Return the permit of a request, which has to be settled."""
        return SharedPermit(name, account, quota, tokens, quotas, self)

    async def apply(self, account: str, operation: Operation) -> Failure | None:
        if self.is_away:
            raise StoreAway
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Failure | None] = loop.create_future()

        def finish(failure: Failure | None, was_there: bool) -> None:
            if result.done():
                return
            if was_there:
                result.set_result(failure)
            else:
                result.set_exception(StoreAway())

        def answer(failure: Failure | None, was_there: bool) -> None:
            try:
                loop.call_soon_threadsafe(finish, failure, was_there)
            except RuntimeError:
                # The loop has ended, and so has the request.
                return

        self._put(_Job(account, operation, answer))
        try:
            return await asyncio.wait_for(result, WAIT_SECONDS)
        except TimeoutError:
            # The thread may wait for a server that is only silent. The next requests must not wait as well.
            self._note_away("no answer")
            raise StoreAway from None

    def send(self, account: str, operation: Operation) -> None:
        self._put(_Job(account, operation))

    def keep(self, account: str, id: str) -> None:
        with self._lock:
            self._kept.setdefault(account, set()).add(id)

    def drop(self, account: str, id: str) -> None:
        with self._lock:
            ids = self._kept.get(account, set())
            ids.discard(id)
            if not ids:
                self._kept.pop(account, None)

    def start(self) -> None:
        """Start the thread, unless it runs. A process that forks must not have it yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="dragoman-shared", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Apply what waits, for a short time, and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(2 * WAIT_SECONDS)
            self._thread = None

    def _put(self, job: _Job) -> None:
        self._jobs.put(job)
        self.start()

    def _work(self) -> None:
        while True:
            jobs, is_last = self._take()
            self._late, waiting = [], [*self._late, *jobs]
            self._try(waiting)
            if is_last:
                self._backend.close()
                return

    def _take(self) -> tuple[list[_Job], bool]:
        """Return all jobs that wait, and whether the thread ends; wait a while for the first one."""
        jobs: list[_Job] = []
        try:
            job = self._jobs.get(timeout=_SECONDS_BETWEEN_TRIES)
            while job is not None:
                jobs.append(job)
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True

    def _try(self, jobs: list[_Job]) -> None:
        """Apply jobs, those of one ledger together, and note whether the store is there."""
        by_account: dict[str, list[_Job]] = {}
        for job in jobs:
            by_account.setdefault(job.account, []).append(job)
        try:
            while by_account:
                account = next(iter(by_account))
                self._apply_all(account, by_account[account])
                del by_account[account]
            self._do_regular_work()
        except Exception as error:
            for each in by_account.values():
                self._give_up(each)
            self._note_away(str(error).partition("\n")[0][:200])
            return
        if self.is_away:
            self.is_away = False
            log.error("the shared limits are there again")

    def _note_away(self, why: str) -> None:
        if not self.is_away:
            self.is_away = True
            log.error("the shared limits are away: %s", why)

    def _apply_all(self, account: str, jobs: list[_Job]) -> None:
        results: list[Failure | None] = []

        def change(ledger: Ledger, now: float) -> None:
            results.extend(job.operation(ledger, now) for job in jobs)

        self._backend.change(account, change)
        for job, result in zip(jobs, results, strict=True):
            if job.answer is not None:
                job.answer(result, True)

    def _give_up(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if job.answer is not None:
                job.answer(None, False)
            elif len(self._late) < _MOST_WAITING:
                self._late.append(job)

    def _do_regular_work(self) -> None:
        if self.is_away:
            self._backend.check()
        now = time.monotonic()
        if now - self._renewed >= _SECONDS_TO_RENEW:
            self._renewed = now
            with self._lock:
                kept = {account: sorted(ids) for account, ids in self._kept.items()}
            for account, ids in kept.items():
                self._backend.change(account, functools.partial(_renew_all, ids))
        if self.regularly is not None:
            self.regularly()


def _renew_all(ids: list[str], ledger: Ledger, now: float) -> None:
    for id in ids:
        renew(id, ledger, now)


# ---- facts -----------------------------------------------------------------------------------------------------------


class SharedFacts:
    """Facts of all processes of a gateway, beside those of this machine. Without the database, only the latter."""

    def __init__(self, own: Facts, backend: PostgresBackend, store: SharedStore) -> None:
        self._own, self._backend, self._store = own, backend, store
        self._others: FactRows = {}
        self._learned: queue.SimpleQueue[tuple[str, str, Fact]] = queue.SimpleQueue()
        self._read_at = -_SECONDS_BETWEEN_FACTS
        store.regularly = self.exchange

    def get(self, endpoint_url: str, model: str) -> Fact | None:
        own, other = self._own.get(endpoint_url, model), self._others.get((strip_login(endpoint_url), model))
        return other | own if own is not None and other is not None else own or other

    def put(self, endpoint_url: str, model: str, fact: Fact) -> None:
        self._own.put(endpoint_url, model, fact)
        self._learned.put((strip_login(endpoint_url), model, fact))

    def exchange(self, *, at_once: bool = False) -> None:
        """Write what was learned here, and read what was learned elsewhere. The thread of the store calls it often."""
        while not self._learned.empty():
            learned = self._learned.get()
            try:
                self._backend.write_fact(*learned)
            except Exception:
                self._learned.put(learned)
                raise
        now = time.monotonic()
        if at_once or now - self._read_at >= _SECONDS_BETWEEN_FACTS:
            self._read_at = now
            self._others = self._backend.read_facts()

    def close(self) -> None:
        self._backend.close()


class Sharing(Struct, frozen=True):
    """What the processes of a gateway have in common."""

    store: SharedStore | None = None
    """Without it, there are no keys, and so no limits."""
    database: PostgresBackend | None = None
    secret: bytes | None = None
    """Makes the boundaries of results unpredictable, and equal in all processes."""

    def share_facts(self, own: Facts) -> Facts:
        """Return facts that the processes share; those of one machine already share a file."""
        if self.database is None or self.store is None:
            return own
        return SharedFacts(own, self.database, self.store)


def open_sharing(settings: ServerSettings, environment: Mapping[str, str]) -> Sharing:
    """Open the database of the settings; without one, the file that the processes of this machine share.

    Raises a ConfigError or a JournalFailed if the database cannot be used. No thread and no connection is open
    afterwards, so that the process may fork.
    """
    address = settings.shared
    if settings.shared_env and not (address := environment.get(settings.shared_env, "")):
        hint = "put the address of the database there"
        raise ConfigError(f"the environment variable {settings.shared_env} has no value", hint=hint)
    if address:
        if not address.startswith(("postgres://", "postgresql://")):
            raise ConfigError(
                "`shared` is not the address of a Postgres database", hint="write postgres://user@host/name"
            )
        database = PostgresBackend(address)
        return Sharing(SharedStore(database), database, database.open())
    keys = find_keys_file(settings.keys, environment)
    return Sharing(SharedStore(FileBackend(keys.with_name(USAGE_FILE))) if keys is not None else None)
