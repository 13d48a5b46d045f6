"""Rows of the file as records and summaries. Text comes as bytes, because a damaged one need not be text."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.journal import chain
from dragoman.journal.errors import JournalDamaged, UnknownRun
from dragoman.journal.journal import KINDS, Record, RunSummary
from dragoman.journal.leases import Holder, Lease

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
        return chain.seed(self.run_id, self.session, self.begun, self.parent, self.copied_from)

    def summary(self, holder: str) -> RunSummary:
        return RunSummary(
            self.run_id,
            self.session,
            self.begun,
            self.last,
            self.records,
            self.turns,
            self.ended,
            self.parent,
            self.copied_from,
            holder,
        )


def find_run(connection: sqlite3.Connection, run_id: str, place: str) -> Row:
    found = connection.execute(f"SELECT {_RUN} FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if found is None:
        raise UnknownRun(run_id)
    return _row(found, place)


def find_runs(connection: sqlite3.Connection, place: str, session: str | None = None) -> list[Row]:
    where, values = ("WHERE session = ?", (session,)) if session is not None else ("", ())
    found = connection.execute(f"SELECT {_RUN} FROM runs {where} ORDER BY id", values).fetchall()
    return [_row(each, place) for each in found]


def find_last_run(connection: sqlite3.Connection, place: str, session: str) -> Row | None:
    query = f"SELECT {_RUN} FROM runs WHERE session = ? ORDER BY id DESC LIMIT 1"
    found = connection.execute(query, (session,)).fetchone()
    return None if found is None else _row(found, place)


def _row(values: tuple[Any, ...], place: str) -> Row:
    try:
        key, run_id, session, parent, copied_from, begun, last, records, turns, ended, checksum, *lease = values
        token, holder, until, seconds = lease
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
            _yes_or_no(ended),
            _blob(checksum),
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
    """The records of a run, each proved by the chain; anything else is damage."""
    records: list[Record] = []
    checksum = row.seed()
    # A cursor that an error leaves half read would keep the file open for as long as the error is kept.
    with closing(connection.execute(_RECORDS, (row.id,))) as found:
        for values in found:
            record, checksum = _proved(values, row, len(records), checksum, place)
            records.append(record)
    _compare(row, records, checksum, place)
    return records


def read_first(connection: sqlite3.Connection, row: Row, place: str) -> Record:
    """The first record of a run, proved."""
    values = connection.execute(f"{_RECORDS} LIMIT 1", (row.id,)).fetchone()
    if values is None:
        raise JournalDamaged(place, "it is missing", run_id=row.run_id, number=0)
    return _proved(values, row, 0, row.seed(), place)[0]


def _proved(values: tuple[Any, ...], row: Row, number: int, previous: bytes, place: str) -> tuple[Record, bytes]:
    """The record with this number and its checksum."""
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
    """The end of a run can only be missed by its counts, which stand apart."""
    if len(records) != row.records:
        why = f"{row.records} records were written, {len(records)} are there"
        raise JournalDamaged(place, why, run_id=row.run_id, number=len(records))
    turns = sum(record.kind == "reply" for record in records)
    ended = bool(records) and records[-1].kind == "ended"
    if checksum != row.checksum or turns != row.turns or ended != row.ended:
        raise JournalDamaged(place, "its row in `runs` does not fit its records", run_id=row.run_id)


def _record(values: tuple[Any, ...]) -> tuple[Record, bytes]:
    number, at, kind, call_id, calls, checksum, body = values
    name = _text(kind)
    if name not in KINDS:
        raise ValueError(f"the kind {name!r} is unknown")
    named = _text(calls)
    listed = msgspec.json.decode(named, type=tuple[str, ...]) if named else ()
    if encode_calls(listed) != named:
        raise ValueError("the list of calls was not written so")
    record = Record(_whole(number), name, _blob(body), _text(call_id), _moment(at), listed)  # type: ignore[arg-type]
    return record, _blob(checksum)


def link(previous: bytes, record: Record) -> bytes:
    calls = encode_calls(record.calls)
    return chain.link(previous, record.number, record.at, record.kind, record.call_id, calls, record.body)


def encode_calls(calls: tuple[str, ...]) -> str:
    return msgspec.json.encode(calls).decode() if calls else ""


def _text(value: Any) -> str:
    # TEXT comes as bytes, and so does a BLOB: the chain tells them apart from what was written.
    if not isinstance(value, bytes):
        raise TypeError("a text is no text")
    return value.decode()


def _blob(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a blob is no blob")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError("a count is no number")
    return value


def _yes_or_no(value: Any) -> bool:
    if value not in {0, 1}:
        raise TypeError("a flag is neither 0 nor 1")
    return bool(value)


def _moment(value: Any) -> float:
    if not isinstance(value, float | int):
        raise TypeError("a time is no number")
    return float(value)
