"""The file: its tables, how it is opened, and what SQLite's complaints mean for a person."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from dragoman.journal.errors import JournalDamaged, JournalError, JournalFailed, JournalTooNew

VERSION = 1
APPLICATION = 0x6472676D
"""Marks the file as ours, so that no other program's database is ever written to."""

_TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    parent TEXT,
    copied_from TEXT,
    begun REAL NOT NULL,
    last REAL NOT NULL,
    records INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    token INTEGER NOT NULL,
    holder TEXT,
    until REAL NOT NULL,
    seconds REAL NOT NULL
);
CREATE INDEX runs_of_session ON runs (session, id);
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (id),
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    call_id TEXT NOT NULL,
    calls TEXT NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, number)
);
CREATE TABLE deletions (run INTEGER PRIMARY KEY);
CREATE TRIGGER records_stay BEFORE UPDATE ON records
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER records_remain BEFORE DELETE ON records
WHEN NOT EXISTS (SELECT 1 FROM deletions WHERE run = OLD.run)
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER runs_remain BEFORE DELETE ON runs
WHEN NOT EXISTS (SELECT 1 FROM deletions WHERE run = OLD.id)
BEGIN SELECT RAISE(ABORT, 'runs are only deleted with their session'); END;
CREATE TRIGGER runs_keep_their_names BEFORE UPDATE OF id, run_id, session, parent, copied_from, begun ON runs
BEGIN SELECT RAISE(ABORT, 'the beginning of a run is append-only'); END;
"""


def connect(
    path: Path, *, busy_seconds: float, writing: bool, most_bytes: int | None = None
) -> sqlite3.Connection | None:
    """Open the journal; the writer makes it first, readable by its owner only. None: nothing to read in it yet."""
    if writing:
        _make_file(path)
    try:
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        connection.text_factory = bytes
        if not writing and _is_blank(connection):
            connection.close()
            return None
        _check_version(connection, path, writing=writing, busy_seconds=busy_seconds)
        # macOS calls a write done that is still in the cache of the drive, unless it is asked.
        for pragma in ("fullfsync = 1", "checkpoint_fullfsync = 1", f"query_only = {0 if writing else 1}"):
            connection.execute(f"PRAGMA {pragma}").close()
        if most_bytes is not None:
            page = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {max(1, most_bytes // page)}").fetchall()
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def empty() -> sqlite3.Connection:
    """A journal without anything in it, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = bytes
    _make_tables(connection)
    return connection


def _make_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _sync_folder(path.parent)
    except FileExistsError as error:
        if not path.is_file():
            raise _cannot_make(path, error) from error
    except OSError as error:
        raise _cannot_make(path, error) from error


def _cannot_make(path: Path, error: OSError) -> JournalFailed:
    why = error.strerror or str(error)
    return JournalFailed(f"the journal {path} cannot be made: {why}", hint="name a file in a folder that you may write")


def _sync_folder(folder: Path) -> None:
    """Put the name of the new file on the disk, not only its content; not every system has this for folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_version(connection: sqlite3.Connection, path: Path, *, writing: bool, busy_seconds: float) -> None:
    version, application = _stamps(connection)
    if writing and _is_blank(connection):
        _use_write_ahead_log(connection, busy_seconds)
        connection.execute("BEGIN EXCLUSIVE")
        try:
            if _is_blank(connection):
                _make_tables(connection)
        finally:
            connection.execute("COMMIT" if connection.in_transaction else "SELECT 1")
        version, application = _stamps(connection)
    if application != APPLICATION:
        raise _foreign(path)
    if version > VERSION:
        raise JournalTooNew(str(path), version, VERSION)
    if writing:
        _use_write_ahead_log(connection, busy_seconds)


def _stamps(connection: sqlite3.Connection) -> tuple[int, int]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return version, connection.execute("PRAGMA application_id").fetchone()[0]


def _is_blank(connection: sqlite3.Connection) -> bool:
    """Whether nobody has written anything, as in the moment between the making of a file and of its tables."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return _stamps(connection) == (0, 0) and tables == 0


def _make_tables(connection: sqlite3.Connection) -> None:
    # `executescript` would commit first, and two processes could both make the tables.
    statement = ""
    for line in _TABLES.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Readers then never wait for the writer. While two processes switch, SQLite says busy without waiting."""
    end = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _foreign(path: Path) -> JournalFailed:
    return JournalFailed(f"{path} is a database, but no journal of dragoman", hint="name another file")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_broken_disk(error: BaseException) -> bool:
    """Whether the system could not do what it was told. Trying again proves nothing: it may forget what it lost."""
    return isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_IOERR


def explain(error: sqlite3.Error, path: Path) -> JournalError:
    """SQLite's complaint in words, with the next step."""
    code = _code(error)
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}:
        return JournalDamaged(str(path), str(error))
    known = {
        sqlite3.SQLITE_FULL: ("the disk is full", "make room, then resume the run"),
        sqlite3.SQLITE_READONLY: ("it is read-only", "make it writable, or name another file"),
        sqlite3.SQLITE_PERM: ("it is read-only", "make it writable, or name another file"),
        sqlite3.SQLITE_BUSY: (
            "another process keeps it locked",
            "wait for that process or end it; a shared folder on the network is no place for a journal",
        ),
        sqlite3.SQLITE_LOCKED: ("another connection keeps it locked", "try again"),
        sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "name a file in a folder that you may write"),
        sqlite3.SQLITE_IOERR: (f"the disk failed ({error})", "check the disk, then open the journal again"),
        sqlite3.SQLITE_TOOBIG: ("a record is too large", "limit the output of the tools (max_output)"),
    }
    why, hint = known.get(code, (str(error), JournalFailed.hint))
    return JournalFailed(f"the journal {path} failed: {why}", hint=hint)
