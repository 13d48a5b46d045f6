"""Ask for approvals, wait for them, and check them before a call runs."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import (
    Approval,
    ApprovalRequest,
    Approver,
    StoredAnswer,
    StoredRequest,
    digest_call,
    read_questions,
    write_question,
)
from dragoman.agent.journal import RunJournal
from dragoman.agent.protocol import ApprovalBinding, Approved, AskApproval, Denied, Planned, Postponed, Stale
from dragoman.agent.records import Header, encode
from dragoman.agent.resume import read_header
from dragoman.args import load
from dragoman.errors import DragomanError, nearest
from dragoman.journal.journal import Entry, Journal, JournalDamaged, Record, UnknownRun
from dragoman.policy import Rules
from dragoman.secrets import HumanSink
from dragoman.types import JsonObject, Operand, Tool, ToolCall

# --------------------------------------------------------------------------------------------------------------------
# Asking whoever may approve a call. No answer, a failing one and one that makes no sense are a denial.


async def ask_approver(approver: Approver, request: ApprovalRequest, seconds: float | None) -> Approval:
    """The answer of the approver. Only what a person said is said to be the user's."""
    try:
        async with asyncio.timeout(seconds):
            given = approver(request)
            if inspect.isawaitable(given):
                given = await given
    except TimeoutError:
        return Approval(False, "nobody answered in time", by="default")
    except Exception as problem:
        return Approval(False, f"asking for approval failed ({type(problem).__name__})", by="default")
    if isinstance(given, Approval):
        return given
    if given is True:
        return Approval(True)
    if given is False or isinstance(given, str):
        return Approval(False, given or "")
    return Approval(False, f"the approver gave {type(given).__name__} instead of an answer", by="default")


# --------------------------------------------------------------------------------------------------------------------
# Approvals that outlive the process: the question stands in the journal, and somebody answers it there.
#
# The run is not held while it waits. Whoever answers writes the answer behind the question; the run that goes on
# finds it, and checks that what was approved is still what would run. An answer is used once: `started` names the
# request.


class ApprovalRefused(DragomanError):
    """An answer to a request for approval cannot be taken any more."""

    hint = "`dragoman approvals list` shows what is open"


class PendingApproval(Struct, frozen=True):
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


async def list_requests(journal: Journal, *, answered: bool = True) -> list[PendingApproval]:
    """The questions of all runs that wait, the oldest first; those that are answered and not used yet as well."""
    found: list[PendingApproval] = []
    for run in await journal.runs(unfinished=True):
        try:
            records = await journal.read(run.run_id)
        except (JournalDamaged, UnknownRun):
            # It cannot go on, and is no reason to keep the others from it; `dragoman sessions` tells of it.
            continue
        found += read_parked(run.run_id, run.session, records)
    return sorted((each for each in found if answered or each.answered is None), key=lambda each: each.asked)


def read_parked(run_id: str, session: str, records: Sequence[Record]) -> list[PendingApproval]:
    """The open questions of one run."""
    questions = read_questions(records)
    if not questions:
        return []
    header: Header = read_header(records)
    return [
        PendingApproval(
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


async def find_request(journal: Journal, request_id: str) -> PendingApproval:
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


async def answer_request(
    journal: Journal, request_id: str, approval: Approval, *, now: float, by: str = ""
) -> PendingApproval:
    """Write an answer behind its question. The run is held for that moment, so two people cannot both be first."""
    pending = await find_request(journal, request_id)
    token = await journal.claim(pending.run_id, "an approval")
    try:
        questions = read_questions(await journal.read(pending.run_id))
        question, before = questions.get(pending.call.id, (None, None))
        if question is None or question.id != pending.id:
            raise ApprovalRefused(f"the run has gone on, and {pending.id} is not open any more")
        if before is not None:
            said = "approved" if before.approval.approved else "denied"
            raise ApprovalRefused(f"{pending.id} was {said} already by {before.approval.by}")
        if question.expires is not None and now > question.expires:
            raise ApprovalRefused(
                f"{pending.id} has expired", hint="let the run go on with --resume: it asks again if it still needs to"
            )
        given = replace(approval, by=by or approval.by)
        answer = StoredAnswer(question.id, question.digest, given, now)
        await journal.append(pending.run_id, [Entry("answered", encode(answer), pending.call.id)], token=token)
    finally:
        await journal.release(pending.run_id, token=token)
    return replace(pending, answered=given, answered_at=now)


# --------------------------------------------------------------------------------------------------------------------
# Where calls are asked about: the question is bound to exactly what would run, and so is the answer.
#
# A question goes to the approver, or, where nobody is there and somebody may come later, into the journal. Before an
# approved call runs, everything that its digest covers is looked at once more.

Inspected = tuple[tuple[Operand, ...], str]
"""What a call is about, and why that could not be found out."""
Inspector = Callable[[ToolCall, Tool], Inspected]
NOBODY = Approval(False, "nobody is there to approve it", by="the settings of this run")


class ApprovalTerms(Struct, frozen=True):
    """What every request of a run has in common."""

    run_id: str
    session: str | None = None
    workspace: str | None = None
    sandbox: Any = None
    """What commands run in. Its tier is part of every digest, and is asked for when there is a question."""
    seconds: float | None = None
    """How long an approval holds, and how long somebody who is there may take; None is for ever."""
    defers: bool = False
    """Whether a question that nobody answers now may be answered later."""


class ApprovalOutcome(Struct, frozen=True):
    """What came of a question."""

    request: ApprovalRequest
    told: Approved | Denied | Postponed
    ignored: str = ""
    """Why an answer that was there did not count."""


class Broker:
    """Asks about the calls of one run."""

    def __init__(
        self,
        terms: ApprovalTerms,
        approver: Approver | None,
        *,
        inspect: Inspector,
        rules: Callable[[], Rules],
        run_journal: RunJournal | None = None,
        sink: HumanSink | None = None,
        pending: Mapping[str, tuple[StoredRequest, StoredAnswer | None]] | None = None,
        wall: Callable[[], float] = time.time,
        draw: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.terms = terms
        self.approver = approver
        self._inspect = inspect
        self._rules = rules
        self._run_journal = run_journal
        self._sink = sink or HumanSink()
        self._pending = dict(pending or {})
        self._wall = wall
        self._draw = draw
        self._used: set[str] = set()

    # ---- asking ------------------------------------------------------------------------------------------------------

    async def ask(
        self, command: AskApproval, left: float | None, announce: Callable[[ApprovalRequest], None]
    ) -> ApprovalOutcome:
        """Ask about a call. `left` are the seconds that the run has; `announce` hears of the question first."""
        question, answer = self._pending.pop(command.call.id, (None, None))
        ignored = ""
        if question is not None:
            request = self._request(command, question.id, question.expires)
            ignored = self._find_fault(question, request)
            # A no holds whatever has changed since; a yes holds for what it was given for.
            if answer is not None and (not ignored or not answer.approval.approved):
                return ApprovalOutcome(request, self._read(answer.approval, request))
        if question is None or ignored:
            # A question that still holds keeps its name, so that whoever has seen it can still answer it.
            request = self._request(command, *self._new_identity())
        announce(request)
        approval = await self._answer(request, left)
        if not approval.later or self._run_journal is None:
            return ApprovalOutcome(request, self._read(approval, request), ignored)
        if question is None or ignored:
            await self._run_journal.ask(command.call.id, write_question(request, self._wall()))
        return ApprovalOutcome(request, Postponed(command.call.id, request.id), ignored)

    def _new_identity(self) -> tuple[str, float | None]:
        seconds = self.terms.seconds
        return f"apr_{self._draw(9).hex()}", None if seconds is None else self._wall() + seconds

    def _find_fault(self, question: StoredRequest, request: ApprovalRequest) -> str:
        """Why an answer to a question from the journal does not count now."""
        if question.digest != request.digest:
            return "what was asked about has changed since"
        return "the request has expired" if self._is_over(question.expires) else ""

    async def _answer(self, request: ApprovalRequest, left: float | None) -> Approval:
        if self.approver is None:
            return Approval(False, later=True) if self._can_defer else NOBODY
        bounds = [each for each in (left, self.terms.seconds) if each is not None]
        approval = await ask_approver(self.approver, request, min(bounds) if bounds else None)
        if approval.later and not self._can_defer:
            return replace(NOBODY, reason="nobody could answer now, and this run cannot wait for it")
        if not approval.later and approval.approved and self._is_over(request.expires):
            return Approval(False, "the approval came too late", by="default")
        return approval

    @property
    def _can_defer(self) -> bool:
        return self.terms.defers and self._run_journal is not None

    def _is_over(self, expires: float | None) -> bool:
        return expires is not None and self._wall() > expires

    def _request(self, command: AskApproval, request_id: str, expires: float | None) -> ApprovalRequest:
        call, tool = command.call, command.tool
        shown, hidden = show_arguments(call.arguments, self._sink)
        digest = self._digest(call, tool, command.operands, request_id, expires)
        return ApprovalRequest(
            request_id,
            self.terms.run_id,
            call,
            tool,
            self._sink.text(command.why),
            shown,
            hidden,
            command.operands,
            digest,
            expires,
            command.suggestion,
            self.terms.session,
            self.terms.workspace,
        )

    def _digest(
        self, call: ToolCall, tool: Tool, operands: tuple[Operand, ...], request_id: str, expires: float | None
    ) -> str:
        terms = self.terms
        return digest_call(
            call,
            tool,
            operands,
            run_id=terms.run_id,
            request=request_id,
            expires=expires,
            rules=self._rules(),
            workspace=terms.workspace,
            sandbox=str(getattr(terms.sandbox, "tier", "")),
        )

    # ---- reading answers ---------------------------------------------------------------------------------------------

    def _read(self, approval: Approval, request: ApprovalRequest) -> Approved | Denied:
        call = request.call
        if approval.result is not None:
            return Approved(call.id, by=approval.by, request=request.id, result=approval.result)
        if not approval.approved:
            return Denied(call.id, approval.reason, approval.by, request=request.id)
        told = Approved(
            call.id,
            by=approval.by,
            request=request.id,
            digest=request.digest,
            expires=request.expires,
            rule=approval.rule,
        )
        return told if approval.arguments is None else self._with_arguments(told, approval.arguments, request)

    def _with_arguments(self, told: Approved, arguments: JsonObject, request: ApprovalRequest) -> Approved:
        """Other arguments are another call: what it is about is found out anew, and the approval is bound to that."""
        loaded = load(arguments, request.tool)
        if loaded.errors or loaded.value is None:
            # The machine says what is wrong with them.
            return replace(told, arguments=arguments)
        call = replace(request.call, arguments=loaded.value)
        operands, uninspected = self._inspect(call, request.tool)
        digest = self._digest(call, request.tool, operands, request.id, request.expires)
        return replace(told, arguments=loaded.value, operands=operands, uninspected=uninspected, digest=digest)

    # ---- right before it runs ----------------------------------------------------------------------------------------

    def check(self, planned: Planned, *, uses: bool = False) -> Stale | None:
        """What has changed of an approved call, if anything has. `uses` is for the last look before the start."""
        binding = planned.binding
        if binding is None:
            return None
        operands, uninspected = self._inspect(planned.call, planned.tool)
        reason = self._find_change(planned, binding, operands)
        if not reason:
            if uses:
                self._used.add(binding.request)
            return None
        return Stale(planned.call.id, reason, operands=operands, uninspected=uninspected)

    def _find_change(self, planned: Planned, binding: ApprovalBinding, operands: tuple[Operand, ...]) -> str:
        if binding.request in self._used:
            return "the approval was used already"
        if self._is_over(binding.expires):
            return "the approval has expired"
        if self._digest(planned.call, planned.tool, operands, binding.request, binding.expires) != binding.digest:
            return "it is no longer what was approved"
        return ""


def show_arguments(arguments: JsonObject, sink: HumanSink) -> tuple[JsonObject, tuple[str, ...]]:
    """The arguments for the eyes of a person, and the paths at which something was hidden."""
    shown = sink.value(arguments)
    hidden: list[str] = []
    _compare(arguments, shown, "", hidden)
    return shown, tuple(hidden)


def _compare(before: Any, after: Any, path: str, hidden: list[str]) -> None:
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            _compare(before[key], after[key], f"{path}.{key}" if path else str(key), hidden)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, f"{path}[{place}]", hidden)
    elif before != after:
        hidden.append(path)
