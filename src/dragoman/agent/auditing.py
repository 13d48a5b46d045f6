"""What of a run goes into the audit log: every decision, approval, start and end. Arguments only as their digest.

It is no listener: a record that cannot be written stops the run, because nothing may happen that is not on record.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from dragoman.agent.binding import canonical
from dragoman.agent.events import (
    ApprovalGiven,
    ApprovalNeeded,
    CallDecided,
    Noticed,
    RunEnded,
    RunEvent,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from dragoman.types import ToolCall

_IGNORED = frozenset({"approval_ignored", "approval_stale"})


class AuditSink(Protocol):
    """Where records go: `dragoman.audit.AuditLog`, or something of your own."""

    def append(self, kind: Any, *, run: str = "", call: str = "", **fields: Any) -> Any: ...


class Auditor:
    """Writes the records of runs."""

    def __init__(self, log: AuditSink) -> None:
        self._log = log

    def note(self, run_id: str, event: RunEvent) -> None:
        """Write down what an event says, if it is one of those that count."""
        write = _WRITERS.get(type(event))
        if write is not None:
            write(self._log, run_id, event)


def _begin(log: AuditSink, run_id: str, event: RunStarted) -> None:
    log.append(
        "run_started", run=run_id, model=f"{event.provider}:{event.model}", session=event.session, resumed=event.resumed
    )


def _end(log: AuditSink, run_id: str, event: RunEnded) -> None:
    outcome = event.result.outcome
    log.append("run_ended", run=run_id, outcome=outcome.kind, turns=event.result.turns)


def _decide(log: AuditSink, run_id: str, event: CallDecided) -> None:
    log.append(
        "decision",
        run=run_id,
        call=event.call.id,
        tool=event.call.name,
        verdict=event.verdict,
        rule=event.rule,
        code=event.code,
        arguments=_digest(event.call),
        level=event.call.provenance.level if event.call.provenance is not None else None,
    )


def _ask(log: AuditSink, run_id: str, event: ApprovalNeeded) -> None:
    log.append(
        "approval_asked",
        run=run_id,
        call=event.call.id,
        tool=event.call.name,
        request=event.request,
        digest=event.digest,
    )


def _give(log: AuditSink, run_id: str, event: ApprovalGiven) -> None:
    log.append(
        "approval_given",
        run=run_id,
        call=event.call.id,
        tool=event.call.name,
        request=event.request,
        digest=event.digest,
        approved=event.approved,
        by=event.by,
    )


def _start(log: AuditSink, run_id: str, event: ToolStarted) -> None:
    log.append("started", run=run_id, call=event.call.id, tool=event.call.name, arguments=_digest(event.call))


def _finish(log: AuditSink, run_id: str, event: ToolEnded) -> None:
    content = event.result.content
    log.append(
        "ended",
        run=run_id,
        call=event.call.id,
        tool=event.call.name,
        ran=event.ran,
        failed=event.result.is_error,
        result=hashlib.sha256(canonical(content)).hexdigest(),
    )


def _ignore(log: AuditSink, run_id: str, event: Noticed) -> None:
    if event.kind in _IGNORED:
        log.append("approval_ignored", run=run_id, reason=event.message)


def _digest(call: ToolCall) -> str:
    return hashlib.sha256(canonical(call.arguments)).hexdigest()


_WRITERS: dict[type, Any] = {
    RunStarted: _begin,
    RunEnded: _end,
    CallDecided: _decide,
    ApprovalNeeded: _ask,
    ApprovalGiven: _give,
    ToolStarted: _start,
    ToolEnded: _finish,
    Noticed: _ignore,
}
