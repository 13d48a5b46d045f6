"""A session as lines of JSON: one for the session, one for each run, one for each record."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import msgspec

from dragoman.journal.errors import UnknownSession
from dragoman.journal.journal import Journal, Record, RunSummary

VERSION = 1


async def export_session(journal: Journal, session: str) -> AsyncIterator[dict[str, Any]]:
    """The lines, one run in memory at a time."""
    runs = await journal.runs(session)
    if not runs:
        raise UnknownSession(session)
    yield {"type": "session", "version": VERSION, "session": session, "runs": len(runs)}
    for run in runs:
        records = await journal.read(run.run_id)
        yield run_line(run)
        for record in records:
            yield record_line(run.run_id, record)


async def write_export(journal: Journal, session: str, file: BinaryIO) -> int:
    """Write a session into an open file, one object per line: how many lines."""
    count = 0
    async for line in journal.export(session):
        file.write(msgspec.json.encode(line) + b"\n")
        count += 1
    return count


def run_line(run: RunSummary) -> dict[str, Any]:
    kept = ("run_id", "parent", "copied_from", "begun", "last", "records", "turns", "ended")
    return {"type": "run"} | {name: getattr(run, name) for name in kept}


def record_line(run_id: str, record: Record) -> dict[str, Any]:
    line: dict[str, Any] = {"type": "record", "run_id": run_id, "number": record.number, "kind": record.kind}
    line["at"] = record.at
    if record.call_id:
        line["call_id"] = record.call_id
    if record.calls:
        line["calls"] = list(record.calls)
    try:
        line["body"] = msgspec.json.decode(record.body)
    except (msgspec.DecodeError, RecursionError):
        # Bodies are JSON by agreement only; what is not is kept all the same.
        line["body_base64"] = b64encode(record.body).decode()
    return line
