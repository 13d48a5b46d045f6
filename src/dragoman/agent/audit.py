"""The audit records of a run: every decision, approval, start and end. Arguments appear only as a digest.

The auditor is not a listener: an action without a record is not allowed, so a failed write stops the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

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
from dragoman.agent.records import canonical

if TYPE_CHECKING:
    from dragoman.journal.audit import Kind

_IGNORED = frozenset({"approval_ignored", "approval_stale"})


class AuditSink(Protocol):
    """The destination of audit records: `dragoman.journal.audit.AuditLog`, or your own implementation."""

    def append(self, kind: Kind, *, run: str = "", call: str = "", **fields: Any) -> Any: ...


class Auditor:
    """Writes the audit records of runs."""

    def __init__(self, log: AuditSink) -> None:
        self._log = log

    def note(self, run_id: str, event: RunEvent) -> None:
        """Write the record of an event, if the audit log contains events of its type."""
        row = _ROWS.get(type(event))
        if row is None or (isinstance(event, Noticed) and event.kind not in _IGNORED):
            return
        kind, describe = row
        self._log.append(kind, run=run_id, **describe(event))


def _about(event: Any) -> dict[str, str]:
    return {"call": event.call.id, "tool": event.call.name}


def _request(event: ApprovalNeeded | ApprovalGiven) -> dict[str, str]:
    return {**_about(event), "request": event.request, "digest": event.digest}


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


_ROWS: dict[type, tuple[Kind, Callable[[Any], dict[str, Any]]]] = {
    RunStarted: (
        "run_started",
        lambda event: {
            "model": f"{event.provider}:{event.model}",
            "session": event.session,
            "resumed": event.resumed,
        },
    ),
    CallDecided: (
        "decision",
        lambda event: {
            **_about(event),
            "verdict": event.verdict,
            "rule": event.rule,
            "code": event.code,
            "arguments": _digest(event.call.arguments),
            "level": event.call.provenance and event.call.provenance.level,
        },
    ),
    ApprovalNeeded: ("approval_asked", _request),
    ApprovalGiven: ("approval_given", lambda event: {**_request(event), "approved": event.approved, "by": event.by}),
    ToolStarted: ("started", lambda event: {**_about(event), "arguments": _digest(event.call.arguments)}),
    ToolEnded: (
        "ended",
        lambda event: {
            **_about(event),
            "ran": event.ran,
            "failed": event.result.is_error,
            "result": _digest(event.result.content),
        },
    ),
    Noticed: ("approval_ignored", lambda event: {"reason": event.message}),
    RunEnded: ("run_ended", lambda event: {"outcome": event.result.outcome.kind, "turns": event.result.turns}),
}
"""The recorded event types, the kind of each record, and its fields."""
