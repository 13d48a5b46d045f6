"""The state of the calls of a run according to its records, and the export of sessions as JSON lines."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, BinaryIO, Literal

import msgspec
from msgspec import Struct

from dragoman.journal.journal import CannotFork, Journal, Record, RunSummary, SessionSummary, UnknownSession

# --------------------------------------------------------------------------------------------------------------------
# The progress of each call, and the records that a fork keeps.

Stage = Literal["planned", "approved", "denied", "started", "finished", "delivered"]
_STAGES: tuple[Stage, ...] = ("planned", "approved", "denied", "started", "finished", "delivered")
_BEFORE: dict[str, tuple[Stage, ...]] = {
    "approved": ("planned", "approved", "started"),
    "denied": ("planned", "approved", "started"),
    "started": ("planned", "approved", "started"),
    "finished": ("started",),
    "delivered": ("planned", "approved", "denied", "finished", "delivered"),
}
"""The stages that a call may have before a record advances it.

A call that never ran is delivered with its refusal. A call with a stale approval is asked about again, even after a
record of its start. An interrupted repeatable call starts again. After a fork the results of the last turn are
delivered again.
"""


class CallTrace(Struct, frozen=True):
    """The stage of a call, and the numbers of its records."""

    call_id: str
    stage: Stage
    records: tuple[int, ...]
    settled: bool = False
    """Whether it has an answer: a result, a denial, or an input that names it."""


def was_ended(records: Sequence[Record]) -> bool:
    """Return whether the last record is the end of the run."""
    return bool(records) and records[-1].kind == "ended"


def calls(records: Iterable[Record]) -> dict[str, CallTrace]:
    """Return every call in the records, in order."""
    found: dict[str, CallTrace] = {}
    for record in records:
        stage: Stage | None = "planned" if record.kind == "reply" else None
        if record.kind in _STAGES:
            stage = record.kind
        for call_id in _named(record):
            if stage is None and call_id not in found:
                continue
            known = found.get(call_id)
            found[call_id] = CallTrace(
                call_id,
                stage or (known.stage if known else "planned"),
                (*(known.records if known else ()), record.number),
                settled=(known is not None and known.settled) or record.kind in {"finished", "denied", "input"},
            )
    return found


def _named(record: Record) -> tuple[str, ...]:
    return (record.call_id, *record.calls) if record.call_id else record.calls


def open_calls(records: Iterable[Record]) -> list[CallTrace]:
    """Return the calls without an answer. Planned and approved ones have not run; of started ones nothing is known."""
    return [call for call in calls(records).values() if not call.settled and call.stage != "delivered"]


def order_faults(records: Sequence[Record]) -> list[str]:
    """Return where a run violates the order planned, approved, started, finished, delivered; empty for a valid run."""
    faults = [] if records and records[0].kind == "run" else ["record 0: a run begins with its `run` record"]
    stages: dict[str, Stage] = {}
    for record in records:
        if record.kind == "ended" and record.number != len(records) - 1:
            faults.append(f"record {record.number}: a record follows the end")
        if record.kind == "run" and record.number:
            faults.append(f"record {record.number}: a second `run` record")
        for call_id in _named(record):
            if record.kind == "reply":
                if call_id in stages:
                    faults.append(f"record {record.number}: call {call_id} is planned twice")
                stages[call_id] = "planned"
            elif record.kind in _BEFORE:
                if stages.get(call_id) not in _BEFORE[record.kind]:
                    was = stages.get(call_id, "not planned")
                    faults.append(f"record {record.number}: call {call_id} is {record.kind}, but was {was}")
                stages[call_id] = record.kind  # type: ignore[assignment]
    return faults


def fork_plan(
    history: Sequence[tuple[RunSummary, Sequence[Record]]], turn: int | None
) -> list[tuple[RunSummary, Sequence[Record]]]:
    """Return the records that a fork up to the end of `turn` keeps: always a prefix, never with an open call."""
    total = sum(run.turns for run, _ in history)
    wanted = total if turn is None else turn
    session = history[0][0].session
    if not 0 <= wanted <= total:
        raise CannotFork(f"session {session!r} has {total} turns, so there is no turn {wanted}")
    kept: list[tuple[RunSummary, Sequence[Record]]] = []
    left = wanted
    for run, records in history:
        if kept and left == 0 and turn is not None:
            break
        prefix = _first_turns(records, left)
        # If the model has replied again, all its earlier calls had answers.
        is_last = len(prefix) == len(records) and not was_ended(prefix)
        unsettled = [call.call_id for call in open_calls(prefix)] if is_last else []
        if unsettled:
            raise CannotFork(
                f"turn {wanted} of session {session!r} is not finished: {', '.join(unsettled)} has no result"
            )
        kept.append((run, prefix))
        left -= min(left, run.turns)
    return kept


def _first_turns(records: Sequence[Record], wanted: int) -> Sequence[Record]:
    """Return the records up to the end of a turn; all of them if there are fewer turns."""
    places = [record.number for record in records if record.kind == "reply"]
    if len(places) <= wanted and (wanted > 0 or not places):
        return records
    return records[: places[wanted]]


def summarise(runs: Iterable[RunSummary], origins: dict[str, str] | None = None) -> list[SessionSummary]:
    """Return the sessions of some runs, the last used first. `origins` maps a run to its session."""
    grouped: dict[str, list[RunSummary]] = {}
    for run in runs:
        grouped.setdefault(run.session, []).append(run)
    sessions = [
        SessionSummary(
            session,
            begun=min(run.begun for run in members),
            last=max(run.last for run in members),
            runs=len(members),
            turns=sum(run.turns for run in members),
            records=sum(run.records for run in members),
            unfinished=sum(not run.ended for run in members),
            forked_from=next(
                (origins[run.copied_from] for run in members if origins and run.copied_from in origins), None
            ),
        )
        for session, members in grouped.items()
    ]
    return sorted(sessions, key=lambda each: each.last, reverse=True)


# --------------------------------------------------------------------------------------------------------------------
# A session as JSON lines: one for the session, one for each run, one for each record.

VERSION = 1
_RUN_FIELDS = ("run_id", "parent", "copied_from", "begun", "last", "records", "turns", "ended")


async def export_session(journal: Journal, session: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines, with one run in memory at a time."""
    runs = await journal.runs(session)
    if not runs:
        raise UnknownSession(session)
    yield {"type": "session", "version": VERSION, "session": session, "runs": len(runs)}
    for run in runs:
        records = await journal.read(run.run_id)
        yield {"type": "run"} | {name: getattr(run, name) for name in _RUN_FIELDS}
        for record in records:
            yield record_line(run.run_id, record)


async def write_export(journal: Journal, session: str, file: BinaryIO) -> int:
    """Write a session to an open file, one object per line. Return the number of lines."""
    count = 0
    async for line in journal.export(session):
        file.write(msgspec.json.encode(line) + b"\n")
        count += 1
    return count


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
        # Bodies are usually JSON, but the journal does not require it. Other bodies are exported as well.
        line["body_base64"] = b64encode(record.body).decode()
    return line
