"""The review of approvals by people: a request as they may see it, and an answer that is recorded.

The command line and the pages of `dragoman approvals serve` use the same functions, so an answer has the same effect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import Approval, ApprovalRefused, ApprovalRequest, answer_request, list_requests_of
from dragoman.agent.changes import find_change
from dragoman.agent.redaction import redact_arguments, redact_command, redact_place
from dragoman.journal.audit import AuditFailed, AuditLog, digest_of
from dragoman.journal.journal import Journal, RunBusy, RunOver
from dragoman.secrets import HumanSink
from dragoman.types import Operand

# ---- what a person sees ----------------------------------------------------------------------------------------------


def request_as_data(
    request: ApprovalRequest, sink: HumanSink, now: float, *, with_change: bool = True
) -> dict[str, Any]:
    """One request as JSON. Secrets in it are hidden; `hidden` lists where. `with_change` reads the file of a diff."""
    known = request.arguments or request.call.arguments
    shown = replace(request, arguments=redact_arguments(sink, known, request.operands))
    before = request.hidden if request.arguments else ()
    shown = replace(shown, redacted=tuple(dict.fromkeys((*before, *shown.hidden))))
    data: dict[str, Any] = {
        "id": request.id,
        "state": state_of(request, now),
        "run_id": request.run_id,
        "session": request.session,
        "agent": sink.text(request.agent),
        "model": sink.text(request.model),
        "task": sink.text(request.task),
        "tool": request.tool,
        "call": request.call.id,
        "arguments": shown.arguments,
        "hidden": list(shown.hidden),
        "operands": [show_operand(operand, sink) for operand in shown_operands(request)],
        "why": sink.text(request.why),
        "digest": request.digest,
        "asked": request.asked,
        "expires": request.expires,
        "change": _change_as_data(request, sink) if with_change else None,
        "rule": redact_command(sink, request.suggestion),
        "answered": None,
    }
    if request.answer is not None:
        given = msgspec.to_builtins(request.answer)
        data["answered"] = sink.value({name: given[name] for name in given if name not in ("request", "digest")})
    return data


def _change_as_data(request: ApprovalRequest, sink: HumanSink) -> dict[str, Any] | None:
    change = find_change(request, sink) if request.answer is None else None
    return None if change is None else msgspec.to_builtins(change)


def state_of(request: ApprovalRequest, now: float) -> str:
    """The state of a request: open, expired, approved, denied or answered."""
    if request.answer is not None:
        return request.answer.verdict
    return "expired" if request.expires is not None and now > request.expires else "open"


def shown_operands(request: ApprovalRequest) -> list[Operand]:
    """The operands that a person sees; a command that is an argument is shown as such."""
    given = [value for value in request.call.arguments.values() if isinstance(value, str)]
    return [operand for operand in request.operands if operand.kind != "command" or operand.value not in given]


def show_operand(operand: Operand, sink: HumanSink) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(operand)
    hide = partial(redact_command if operand.kind == "command" else redact_place, sink)
    return data | {"value": hide(operand.value), "real": hide(operand.real)}


# ---- what a person answers -------------------------------------------------------------------------------------------

RememberRule = Callable[[ApprovalRequest, str], str]
"""Saves the rule of an answer, and returns where it applies, as text."""


class SubmittedAnswer(Struct, frozen=True):
    """An answer to a request, and whether it was accepted and recorded."""

    request: ApprovalRequest
    verdict: str = ""
    """`approved`, `denied` or `answered`; empty if it was refused."""
    refusal: str = ""
    hint: str = ""
    audit_error: str = ""
    """Why the audit log has no record of it."""
    pending_ids: tuple[str, ...] = ()
    """The requests of the same run that have no answer yet."""
    rule_scope: str = ""
    """Where the rule of the answer applies, as text."""


async def submit_answers(
    journal: Journal,
    audit: AuditLog,
    answers: Sequence[tuple[ApprovalRequest, Approval]],
    by: str,
    remember_rule: RememberRule,
) -> list[SubmittedAnswer]:
    """Submit answers one after the other. A refused one does not stop the others."""
    submitted = []
    for request, approval in answers:
        done = await submit_answer(journal, audit, request, approval, by)
        if done.verdict and approval.rule:
            done = replace(done, rule_scope=remember_rule(request, approval.rule))
        submitted.append(done)
    now = time.time()
    pending: dict[str, tuple[str, ...]] = {}
    for run_id in {each.request.run_id for each in submitted}:
        left = await list_requests_of(journal, run_id)
        pending[run_id] = tuple(each.id for each in left if state_of(each, now) == "open")
    return [replace(each, pending_ids=pending[each.request.run_id]) for each in submitted]


async def submit_answer(
    journal: Journal, audit: AuditLog, request: ApprovalRequest, approval: Approval, by: str
) -> SubmittedAnswer:
    """Answer a request as it was shown, and record in the audit log what became of it."""
    fields: dict[str, Any] = {
        "request": request.id,
        "tool": request.tool,
        "digest": request.digest,
        "by": by,
        "user": user_name(),
    }
    now = time.time()
    try:
        answered = await answer_request(
            journal, request.id, approval, now=now, by=by, digest=request.digest, run_id=request.run_id
        )
    except (ApprovalRefused, RunBusy, RunOver) as error:
        said = _record(audit, "approval_ignored", request, fields | {"reason": str(error)})
        return SubmittedAnswer(request, refusal=str(error), hint=error.next_step, audit_error=said)
    verdict = state_of(answered, now)
    fields |= {
        "verdict": verdict,
        "rule": approval.rule or None,
        "arguments": approval.arguments,
        "result": None if approval.result is None else digest_of(approval.result),
    }
    return SubmittedAnswer(answered, verdict, audit_error=_record(audit, "approval_given", request, fields))


def _record(audit: AuditLog, kind: Any, request: ApprovalRequest, fields: dict[str, Any]) -> str:
    try:
        audit.append(kind, run=request.run_id, call=request.call.id, **fields)
    except AuditFailed as error:
        return error.explain()
    return ""


def user_name() -> str:
    """The name of the user according to the system. The environment is not used, because it can contain any name."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        return f"user {os.getuid()}" if hasattr(os, "getuid") else getpass.getuser()
