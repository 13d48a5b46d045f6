"""Approvals that outlive the process: the question stands in the journal, and somebody answers it there.

The run is not held while it waits. Whoever answers writes the answer behind the question; the run that goes on finds
it, and checks that what was approved is still what would run. An answer is used once: `started` names the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import Approval
from dragoman.agent.questions import Answer, read_questions
from dragoman.agent.recording import Header, encode
from dragoman.agent.restoring import read_header
from dragoman.errors import DragomanError, nearest
from dragoman.journal.journal import Entry, Journal, JournalDamaged, Record, UnknownRun
from dragoman.types import Operand, ToolCall


class ApprovalRefused(DragomanError):
    """An answer to a request for approval cannot be taken any more."""

    hint = "`dragoman approvals list` shows what is open"


class Parked(Struct, frozen=True):
    """A question with everything that a person needs to answer it."""

    id: str
    run_id: str
    session: str
    call: ToolCall
    tool: str
    why: str
    operands: tuple[Operand, ...]
    digest: str
    asked: float
    expires: float | None
    rule: str = ""
    """The rule that would allow calls like this one."""
    task: str = ""
    """The first words of what the run was asked to do."""
    answered: Approval | None = None
    answered_at: float | None = None
    workspace: str | None = None
    """The folder that the run works in."""


# ---- for whoever answers ---------------------------------------------------------------------------------------------


async def list_requests(journal: Journal, *, answered: bool = True) -> list[Parked]:
    """The questions of all runs that wait, the oldest first; those that are answered and not used yet as well."""
    found: list[Parked] = []
    for run in await journal.runs(unfinished=True):
        try:
            records = await journal.read(run.run_id)
        except (JournalDamaged, UnknownRun):
            # It cannot go on, and is no reason to keep the others from it; `dragoman sessions` tells of it.
            continue
        found += read_parked(run.run_id, run.session, records)
    return sorted((each for each in found if answered or each.answered is None), key=lambda each: each.asked)


def read_parked(run_id: str, session: str, records: Sequence[Record]) -> list[Parked]:
    """The open questions of one run."""
    questions = read_questions(records)
    if not questions:
        return []
    header: Header = read_header(records)
    return [
        Parked(
            question.id,
            run_id,
            session,
            question.call,
            question.call.name,
            question.why,
            question.operands,
            question.digest,
            question.asked,
            question.expires,
            question.suggestion,
            header.task,
            answer.approval if answer is not None else None,
            answer.at if answer is not None else None,
            question.workspace,
        )
        for question, answer in questions.values()
    ]


async def find_request(journal: Journal, request_id: str) -> Parked:
    """The question with this id, or whose id begins so."""
    known = {each.id: each for each in await list_requests(journal)}
    if request_id in known:
        return known[request_id]
    matching = [each for each in known.values() if each.id.startswith(request_id)] if len(request_id) >= 4 else []
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ApprovalRefused(f"{len(matching)} requests begin with {request_id!r}", hint="give more of its letters")
    guess = nearest(request_id, known)
    raise ApprovalRefused(
        f"there is no open request {request_id!r}" + (f"; did you mean {guess!r}?" if guess else ""),
        hint="it may be settled already; `dragoman approvals list` shows what is open",
    )


async def answer_request(journal: Journal, request_id: str, approval: Approval, *, now: float, by: str = "") -> Parked:
    """Write an answer behind its question. The run is held for that moment, so two people cannot both be first."""
    parked = await find_request(journal, request_id)
    token = await journal.claim(parked.run_id, "an approval")
    try:
        questions = read_questions(await journal.read(parked.run_id))
        question, before = questions.get(parked.call.id, (None, None))
        if question is None or question.id != parked.id:
            raise ApprovalRefused(f"the run has gone on, and {parked.id} is not open any more")
        if before is not None:
            said = "approved" if before.approval.approved else "denied"
            raise ApprovalRefused(f"{parked.id} was {said} already by {before.approval.by}")
        if question.expires is not None and now > question.expires:
            raise ApprovalRefused(
                f"{parked.id} has expired", hint="let the run go on with --resume: it asks again if it still needs to"
            )
        given = replace(approval, by=by or approval.by)
        answer = Answer(question.id, question.digest, given, now)
        await journal.append(parked.run_id, [Entry("answered", encode(answer), parked.call.id)], token=token)
    finally:
        await journal.release(parked.run_id, token=token)
    return replace(parked, answered=given, answered_at=now)
