"""The rows of a journal in an SQL database: checksums, and the conversion of rows to records and summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from struct import pack
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, structs

from dragoman.journal.journal import KINDS, JournalDamaged, Record, RunSummary, UnknownRun
from dragoman.journal.leases import Holder, Lease

# --------------------------------------------------------------------------------------------------------------------
# What the statements need from a connection. They are the same for every database; parameters are written as `?`.


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def close(self) -> None: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection in a transaction. Text arrives as bytes, because damaged text may not be valid."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object: ...


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


def find_run(connection: Connection, run_id: str, place: str, lock: str = "") -> Row:
    """Return the row of a run. `lock` is the clause that locks it for the transaction."""
    found = connection.execute(f"SELECT {_RUN} FROM runs WHERE run_id = ?{lock}", (run_id,)).fetchone()
    if found is None:
        raise UnknownRun(run_id)
    return _row(found, place)


def find_runs(
    connection: Connection,
    place: str,
    session: str | None = None,
    *,
    last: bool = False,
    unfinished: bool = False,
    lock: str = "",
) -> list[Row]:
    """Return the runs of a session, or of all sessions, in order; with `last` only the last one."""
    tests = [*(["session = ?"] if session is not None else []), *(["ended <> 1"] if unfinished else [])]
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    values = (session,) if session is not None else ()
    order = "ORDER BY id DESC LIMIT 1" if last else "ORDER BY id"
    found = connection.execute(f"SELECT {_RUN} FROM runs {where} {order}{lock}", values).fetchall()
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


def read_records(connection: Connection, row: Row, place: str) -> list[Record]:
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


def read_first(connection: Connection, row: Row, place: str) -> Record:
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
