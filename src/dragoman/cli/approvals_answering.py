"""Giving answers to requests for approval: each is written into the journal and the audit log, or refused."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import Approval
from dragoman.agent.broker import ApprovalRefused, Parked, answer_request, list_requests
from dragoman.cli.approvals_view import reveal, state_of
from dragoman.cli.excerpts import one_line
from dragoman.cli.exits import FATAL, complain
from dragoman.cli.screen import Screen, write_json
from dragoman.journal import Journal, RunBusy, RunOver
from dragoman.journal.audit import AuditFailed, AuditLog, digest_of
from dragoman.paths import beside
from dragoman.secrets import HumanSink

Answering = Callable[[Parked], Approval]


class Given(Struct, frozen=True):
    """What became of an answer."""

    request: Parked
    verdict: str = ""
    """`approved`, `denied` or `answered`; empty if it was refused."""
    refused: str = ""
    hint: str = ""
    unrecorded: str = ""
    """Why the audit log does not tell of it."""
    waiting: tuple[str, ...] = ()
    """The requests of the same run that have no answer yet."""
    kept: str = ""
    """Where the rule of the answer is kept, or why it holds for this run alone."""


async def give_answers(
    journal: Journal, place: Path, answers: Sequence[tuple[Parked, Approval]], by: str, sink: HumanSink
) -> list[Given]:
    """Give answers one after the other. One that is refused does not keep the others back."""
    audit = AuditLog(beside(place), sink=sink)
    given = [await _give(journal, audit, request, approval, by) for request, approval in answers]
    now = time.time()
    still = [each for each in await list_requests(journal) if state_of(each, now) == "open"]
    return [_with_waiting(each, still) for each in given]


async def _give(journal: Journal, audit: AuditLog, request: Parked, approval: Approval, by: str) -> Given:
    told: dict[str, Any] = {
        "request": request.id,
        "tool": request.tool,
        "digest": request.digest,
        "by": by,
        "user": name_of_user(),
    }
    now = time.time()
    try:
        answered = await answer_request(journal, request.id, approval, now=now, by=by)
    except (ApprovalRefused, RunBusy, RunOver) as error:
        unrecorded = _record(audit, "approval_ignored", request, told | {"reason": str(error)})
        return Given(request, refused=str(error), hint=error.next_step, unrecorded=unrecorded)
    verdict = state_of(answered, now)
    told |= {
        "verdict": verdict,
        "rule": approval.rule or None,
        "arguments": approval.arguments,
        "result": None if approval.result is None else digest_of(approval.result),
    }
    kept = _keep_rule(request, approval.rule) if approval.rule else ""
    return Given(answered, verdict, unrecorded=_record(audit, "approval_given", request, told), kept=kept)


def _keep_rule(request: Parked, text: str) -> str:
    """Keep a rule for the workspace of the run, as `always` at a terminal does; in words, what came of it."""
    from dragoman.config import remember_rule
    from dragoman.errors import ConfigError
    from dragoman.policy import read_rule

    if request.workspace is None:
        return "for the rest of this run"
    try:
        path = remember_rule(os.environ, request.workspace, read_rule(text, "allow"))
    except ConfigError as problem:
        return f"for the rest of this run; it could not be kept: {problem}"
    return f"in {request.workspace} from now on ({path})"


def _record(audit: AuditLog, kind: Any, request: Parked, fields: dict[str, Any]) -> str:
    try:
        audit.append(kind, run=request.run_id, call=request.call.id, **fields)
    except AuditFailed as error:
        return error.explain()
    return ""


def _with_waiting(given: Given, still: Sequence[Parked]) -> Given:
    waiting = tuple(each.id for each in still if each.run_id == given.request.run_id)
    return replace(given, waiting=waiting)


def name_of_user() -> str:
    """Who runs this program, as the system says; the environment could say anything."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        return f"user {os.getuid()}" if hasattr(os, "getuid") else getpass.getuser()


# ---- telling of them -------------------------------------------------------------------------------------------------


def draw_answers(given: Sequence[Given], as_json: bool) -> int:
    """Say what became of each answer, and how the runs go on. The exit code is 1 if one was refused or not recorded."""
    if as_json:
        write_json([_as_data(each) for each in given])
    else:
        _draw(Screen(), given)
    failed = False
    for each in given:
        if each.refused:
            complain(each.refused, each.hint)
        if each.unrecorded:
            complain(f"the audit log does not tell of {each.request.id}: {each.unrecorded}")
        failed = failed or bool(each.refused or each.unrecorded)
    return FATAL if failed else 0


def _draw(screen: Screen, given: Sequence[Given]) -> None:
    done = [each for each in given if each.verdict]
    for each in done:
        request, given_rule = each.request, each.request.answered.rule if each.request.answered is not None else ""
        tool = one_line(reveal(request.tool))
        screen.line((each.verdict, "bold"), f" {request.id} ({tool})  ", (request.digest, "dim"))
        if given_rule:
            screen.line(f"  {reveal(given_rule)} is allowed {reveal(each.kept)}")
    for run_id, waiting in {each.request.run_id: each.waiting for each in done}.items():
        if waiting:
            screen.line(f"{run_id} waits for more: {', '.join(waiting)}")
        else:
            screen.line(f"go on: {resume_command(run_id)}")


def resume_command(run_id: str) -> str:
    """The command that goes on with a run."""
    return shlex.join(["dragoman", "run", "--resume", run_id])


def _as_data(given: Given) -> dict[str, Any]:
    return {
        "id": given.request.id,
        "run_id": given.request.run_id,
        "tool": given.request.tool,
        "digest": given.request.digest,
        "verdict": given.verdict or "refused",
        "reason": given.refused,
        "waiting": list(given.waiting),
        "kept": given.kept,
        "resume": resume_command(given.request.run_id),
    }
