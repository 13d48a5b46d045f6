"""The SQLite file: tables, checksums, and the conversion of rows to records."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from struct import pack
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from dragoman.journal.journal import (
    KINDS,
    JournalDamaged,
    JournalError,
    JournalFailed,
    JournalTooNew,
    Record,
    RunSummary,
    UnknownRun,
)
from dragoman.journal.leases import Holder, Lease
from dragoman.state_files import flush_folder, make_folder

# --------------------------------------------------------------------------------------------------------------------
# The chain of checksums of a run. Each covers its record and the one before: no change or removal stays unnoticed.

SIZE = 16


def first_checksum(run_id: str, session: str, begun: float, parent: str | None, copied_from: str | None) -> bytes:
    """Return the checksum before the first record. It binds the chain to its run."""
    texts = [text.encode() for text in (run_id, session, parent or "", copied_from or "")]
    lengths = pack(">dIIII", begun, *map(len, texts))
    return blake2b(lengths + b"".join(texts), digest_size=SIZE).digest()


def checksum(previous: bytes, number: int, at: float, kind: str, call_id: str, calls: str, body: bytes) -> bytes:
    """Return the checksum of one record that follows the record with checksum `previous`."""
    texts = [text.encode() for text in (kind, call_id, calls)]
    # With the lengths, two different records cannot give the same bytes.
    head = previous + pack(">QdIII", number, at, *map(len, texts)) + b"".join(texts)
    digest = blake2b(head, digest_size=SIZE)
    digest.update(body)
    return digest.digest()


# --------------------------------------------------------------------------------------------------------------------
# The file: its tables, how it is opened, and the meaning of SQLite errors.

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
    version, application = stamps(connection)
    if writing and is_blank(connection):
        use_write_ahead_log(connection, busy_seconds)
        connection.execute("BEGIN EXCLUSIVE")
        try:
            if is_blank(connection):
                _make_tables(connection)
        finally:
            connection.execute("COMMIT" if connection.in_transaction else "SELECT 1")
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


# --------------------------------------------------------------------------------------------------------------------
# Conversion of rows to records and summaries. Text arrives as bytes, because damaged text may not be valid.

_Stored = TypeVar("_Stored", bytes, int)
_NAMES = "id, run_id, session, parent, copied_from, begun, last"
_RUN = f"{_NAMES}, records, turns, ended, checksum, token, holder, until, seconds"


_RECORDS = "SELECT number, at, kind, call_id, calls, checksum, body FROM records WHERE run = ? ORDER BY number"


class Row(Struct):
    """A row of `runs`."""

    id: int
    run_id: str
    session: str
    parent: str | None
    copied_from: str | None
    begun: float
    last: float
    records: int
    turns: int
    ended: bool
    checksum: bytes
    lease: Lease

    def seed(self) -> bytes:
        return first_checksum(self.run_id, self.session, self.begun, self.parent, self.copied_from)

    def summary(self, holder: str) -> RunSummary:
        return structs.replace(msgspec.convert(self, RunSummary, from_attributes=True), holder=holder)


def find_run(connection: sqlite3.Connection, run_id: str, place: str) -> Row:
    found = connection.execute(f"SELECT {_RUN} FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if found is None:
        raise UnknownRun(run_id)
    return _row(found, place)


def find_runs(
    connection: sqlite3.Connection, place: str, session: str | None = None, *, last: bool = False
) -> list[Row]:
    """Return the runs of a session, or of all sessions, in order; with `last` only the last one."""
    where, values = ("WHERE session = ?", (session,)) if session is not None else ("", ())
    order = "ORDER BY id DESC LIMIT 1" if last else "ORDER BY id"
    found = connection.execute(f"SELECT {_RUN} FROM runs {where} {order}", values).fetchall()
    return [_row(each, place) for each in found]


def _row(values: tuple[Any, ...], place: str) -> Row:
    try:
        key, run_id, session, parent, copied_from, begun, last, records, turns, ended, checksum, *lease = values
        token, holder, until, seconds = lease
        if ended not in {0, 1}:
            raise TypeError("a flag is neither 0 nor 1")
        return Row(
            _whole(key),
            _text(run_id),
            _text(session),
            None if parent is None else _text(parent),
            None if copied_from is None else _text(copied_from),
            _moment(begun),
            _moment(last),
            _whole(records),
            _whole(turns),
            ended == 1,
            _proper(checksum, bytes, "a blob is no blob"),
            Lease(
                _whole(token),
                None if holder is None else msgspec.json.decode(holder, type=Holder),
                _moment(until),
                _moment(seconds),
            ),
        )
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise JournalDamaged(place, f"a row of `runs` cannot be read ({error})") from error


def read_records(connection: sqlite3.Connection, row: Row, place: str) -> list[Record]:
    """Yield the records of a run, each verified by the chain; anything else is damage."""
    records: list[Record] = []
    checksum = row.seed()
    # A half-read cursor in an error would keep the file open for as long as the error exists.
    with closing(connection.execute(_RECORDS, (row.id,))) as found:
        for values in found:
            record, checksum = _proved(values, row, len(records), checksum, place)
            records.append(record)
    _compare(row, records, checksum, place)
    return records


def read_first(connection: sqlite3.Connection, row: Row, place: str) -> Record:
    """Return the first record of a run, verified."""
    values = connection.execute(f"{_RECORDS} LIMIT 1", (row.id,)).fetchone()
    if values is None:
        raise JournalDamaged(place, "it is missing", run_id=row.run_id, number=0)
    return _proved(values, row, 0, row.seed(), place)[0]


def _proved(values: tuple[Any, ...], row: Row, number: int, previous: bytes, place: str) -> tuple[Record, bytes]:
    """Return the verified record with this number, and its checksum."""
    try:
        record, stored = _record(values)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise JournalDamaged(place, f"it cannot be read ({error})", run_id=row.run_id, number=number) from error
    if record.number != number:
        raise JournalDamaged(place, "it is missing", run_id=row.run_id, number=number)
    checksum = link(previous, record)
    if checksum != stored:
        raise JournalDamaged(place, "its checksum is wrong", run_id=row.run_id, number=number)
    return record, checksum


def _compare(row: Row, records: list[Record], checksum: bytes, place: str) -> None:
    """Check the counts of a run, which are stored separately: only they show missing records at the end."""
    if len(records) != row.records:
        why = f"{row.records} records were written, {len(records)} are there"
        raise JournalDamaged(place, why, run_id=row.run_id, number=len(records))
    turns = sum(record.kind == "reply" for record in records)
    ended = bool(records) and records[-1].kind == "ended"
    if checksum != row.checksum or turns != row.turns or ended != row.ended:
        raise JournalDamaged(place, "its row in `runs` does not match its records", run_id=row.run_id)


def _record(values: tuple[Any, ...]) -> tuple[Record, bytes]:
    number, at, kind, call_id, calls, checksum, body = values
    name = _text(kind)
    if name not in KINDS:
        raise ValueError(f"the kind {name!r} is unknown")
    named = _text(calls)
    listed = msgspec.json.decode(named, type=tuple[str, ...]) if named else ()
    if encode_calls(listed) != named:
        raise ValueError("the list of calls is not in the written form")
    text = _proper(body, bytes, "a blob is no blob")
    record = Record(_whole(number), name, text, _text(call_id), _moment(at), listed)  # type: ignore[arg-type]
    return record, _proper(checksum, bytes, "a blob is no blob")


def link(previous: bytes, record: Record) -> bytes:
    calls = encode_calls(record.calls)
    return checksum(previous, record.number, record.at, record.kind, record.call_id, calls, record.body)


def encode_calls(calls: tuple[str, ...]) -> str:
    return msgspec.json.encode(calls).decode() if calls else ""


def _text(value: Any) -> str:
    # TEXT arrives as bytes, like BLOB: the chain distinguishes both from what was written.
    return _proper(value, bytes, "a text is not valid").decode()


def _whole(value: Any) -> int:
    return _proper(value, int, "a count is not a number")


def _moment(value: Any) -> float:
    if not isinstance(value, float | int):
        raise TypeError("a time is not a number")
    return float(value)


def _proper(value: Any, kind: type[_Stored], fault: str) -> _Stored:
    if not isinstance(value, kind):
        raise TypeError(fault)
    return value
