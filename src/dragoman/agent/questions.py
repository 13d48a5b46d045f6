"""Questions about calls as they stand in a journal, and the answers behind them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.agent.approvals import Approval, ApprovalRequest
from dragoman.agent.recording import decode, encode
from dragoman.journal.journal import Record
from dragoman.types import Operand, ToolCall


class Question(Struct, frozen=True):
    """A request for approval as it stands in the journal."""

    id: str
    call: ToolCall
    why: str
    digest: str
    asked: float
    expires: float | None = None
    operands: tuple[Operand, ...] = ()
    suggestion: str = ""
    workspace: str | None = None


class Answer(Struct, frozen=True):
    """What somebody said about a question: the digest ties it to exactly that one."""

    request: str
    digest: str
    approval: Approval
    at: float


def write_question(request: ApprovalRequest, asked: float) -> bytes:
    """A request as the journal keeps it."""
    return encode(
        Question(
            request.id,
            request.call,
            request.why,
            request.digest,
            asked,
            request.expires,
            request.operands,
            request.suggestion,
            request.workspace,
        )
    )


def read_questions(records: Iterable[Record]) -> dict[str, tuple[Question, Answer | None]]:
    """The last question about each call of a run, with its answer; those that were used up or settled are gone."""
    found: dict[str, tuple[Question, Answer | None]] = {}
    for record in records:
        if record.kind == "asked":
            question: Question = decode(record.body, Question)
            found[record.call_id] = (question, None)
        elif record.kind == "answered" and record.call_id in found:
            answer: Answer = decode(record.body, Answer)
            question, before = found[record.call_id]
            # The first answer counts; one for another question says nothing about this one.
            if before is None and (answer.request, answer.digest) == (question.id, question.digest):
                found[record.call_id] = (question, answer)
        elif record.kind in ("started", "denied", "finished"):
            found.pop(record.call_id, None)
    return found
