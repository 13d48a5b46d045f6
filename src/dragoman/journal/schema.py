"""The SQLite file: its tables, how it is opened, and the meaning of SQLite errors."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from dragoman.journal.journal import JournalDamaged, JournalError, JournalFailed, JournalTooNew
from dragoman.state_files import flush_folder, make_folder

VERSION = 2
APPLICATION = 0x6472676D
"""Marks the file as a journal, so that dragoman never writes to the database of another program."""

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
    """Open the journal. The writer creates it, readable only by its owner. None: there is nothing to read yet."""
    if writing:
        _make_file(path)
    try:
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        connection.text_factory = bytes
        if not writing and is_blank(connection):
            connection.close()
            return None
        _check_version(connection, path, writing=writing, busy_seconds=busy_seconds)
        # On macOS a write may still be in the cache of the drive, unless full sync is requested.
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
    """Return an empty journal in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = bytes
    _make_tables(connection)
    return connection


def _make_file(path: Path) -> None:
    try:
        make_folder(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.suppress(OSError):
            # Not every system supports this for folders.
            flush_folder(path)
    except FileExistsError as error:
        if not path.is_file():
            raise _cannot_make(path, error) from error
    except OSError as error:
        raise _cannot_make(path, error) from error


def _cannot_make(path: Path, error: OSError) -> JournalFailed:
    why = error.strerror or str(error)
    return JournalFailed(
        f"the journal {path} cannot be created: {why}", hint="name a file in a folder that you may write"
    )


def _check_version(connection: sqlite3.Connection, path: Path, *, writing: bool, busy_seconds: float) -> None:
    if writing and is_blank(connection):
        use_write_ahead_log(connection, busy_seconds)
        connection.execute("BEGIN EXCLUSIVE")
        try:
            if is_blank(connection):
                _make_tables(connection)
        finally:
            connection.execute("COMMIT" if connection.in_transaction else "SELECT 1")
    # Read last: another process may have made the tables since this one began.
    version, application = stamps(connection)
    if application != APPLICATION:
        raise JournalFailed(f"{path} is a database, but not a journal of dragoman", hint="name another file")
    if version > VERSION:
        raise JournalTooNew(str(path), version, VERSION)
    if writing:
        use_write_ahead_log(connection, busy_seconds)
        if version < VERSION:
            # The tables are the same. Records of version 2 may refer to an earlier run, which 0.1.0 cannot read: the
            # version makes it refuse the file instead.
            connection.execute(f"PRAGMA user_version = {VERSION}")


def stamps(connection: sqlite3.Connection) -> tuple[int, int]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return version, connection.execute("PRAGMA application_id").fetchone()[0]


def is_blank(connection: sqlite3.Connection) -> bool:
    """Whether the file is still empty, as between the creation of the file and of its tables."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return stamps(connection) == (0, 0) and tables == 0


def _make_tables(connection: sqlite3.Connection) -> None:
    # `executescript` would commit first, and then two processes could both create the tables.
    statement = ""
    for line in _TABLES.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Enable WAL mode: readers never wait for the writer. While two processes switch, SQLite reports busy at once."""
    end = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_broken_disk(error: BaseException) -> bool:
    """Whether the system failed. A retry proves nothing: the system may forget what it lost."""
    return isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_IOERR


def explain(error: sqlite3.Error, path: Path) -> JournalError:
    """Convert an error of SQLite to a message with the next step."""
    code = _code(error)
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}:
        return JournalDamaged(str(path), str(error))
    known = {
        sqlite3.SQLITE_FULL: ("the disk is full", "free space on the disk, then resume the run"),
        sqlite3.SQLITE_READONLY: ("it is read-only", "make it writable, or name another file"),
        sqlite3.SQLITE_PERM: ("it is read-only", "make it writable, or name another file"),
        sqlite3.SQLITE_BUSY: (
            "another process has locked it",
            "wait for that process or end it; do not keep a journal in a shared network folder",
        ),
        sqlite3.SQLITE_LOCKED: ("another connection has locked it", "try again"),
        sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "name a file in a folder that you may write"),
        sqlite3.SQLITE_IOERR: (f"the disk failed ({error})", "check the disk, then open the journal again"),
        sqlite3.SQLITE_TOOBIG: ("a record is too large", "limit the output of the tools (max_output)"),
    }
    why, hint = known.get(code, (str(error), JournalFailed.hint))
    return JournalFailed(f"the journal {path} failed: {why}", hint=hint)
