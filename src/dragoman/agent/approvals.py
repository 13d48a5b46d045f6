"""Approvals: the request, the answer, and the broker that asks, waits and checks before a call runs.

The journal stores `ApprovalRequest` and `Approval` unchanged. A request goes to the approver. If nobody can answer now,
it goes to the journal: the run ends, somebody adds an `Approval` to the journal, and the resumed run reads it. A digest
binds an answer to the exact call, and an answer is used once.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.protocol import Approved, AskApproval, Denied, Planned, Postponed, Stale
from dragoman.agent.records import canonical, decode, encode, hide_noted, is_cancellation, is_kept
from dragoman.agent.redaction import redact_arguments
from dragoman.agent.resume import read_header
from dragoman.args import load
from dragoman.errors import DragomanError, did_you_mean
from dragoman.extraction.trust import find_doubt
from dragoman.journal.journal import Entry, Journal, JournalDamaged, Record, RunBusy, UnknownRun
from dragoman.policy import Rules
from dragoman.types import JsonObject, Operand, Tool, ToolCall

if TYPE_CHECKING:
    from dragoman.agent.driver import RunServices

# --------------------------------------------------------------------------------------------------------------------
# The two types.


class Approval(Struct, frozen=True):
    """An answer to an approval request."""

    approved: bool
    reason: str = ""
    arguments: JsonObject | None = None
    """Arguments that replace the model's. They are validated, and the policy decides on them as on the model's."""
    by: str = "the user"
    rule: str = ""
    """A rule that applies from now on, such as the `suggestion` of the request."""
    result: str | None = None
    """A text that the model receives as the result. The call does not run."""
    later: bool = False
    """Nobody can answer now: the run ends as `awaiting_approval`, and can be resumed after an answer."""
    request: str = ""
    """The id of the answered request. The journal needs it; an approver leaves it empty."""
    digest: str = ""
    """The digest of the answered request."""
    at: float | None = None
    """When the answer was given, in seconds since 1970."""

    @property
    def verdict(self) -> str:
        """What the answer is: `approved`, `denied`, or `answered` in place of the tool."""
        return "answered" if self.result is not None else ("approved" if self.approved else "denied")


class ApprovalRequest(Struct, frozen=True):
    """A request to approve a call. An answer is valid for exactly this call, once, until `expires`."""

    id: str
    call: ToolCall
    """The call as it will run, with its secrets. Show `arguments` to people instead."""
    why: str
    digest: str = ""
    asked: float = 0.0
    """When the request was made, in seconds since 1970, like `expires`."""
    expires: float | None = None
    operands: tuple[Operand, ...] = ()
    suggestion: str = ""
    """The rule that would allow calls like this one."""
    workspace: str | None = None
    """The working folder of the run."""
    run_id: str = ""
    session: str | None = None
    arguments: JsonObject = {}
    """The arguments with their secrets redacted."""
    doubt: str = ""
    """Why a person must check the origin of the call, whatever the rules allow. Empty if that is not necessary."""
    task: str = ""
    """The start of the task of the run. Only requests that were read from the journal have it."""
    agent: str = ""
    """The name of the agent, if it has one; like `task`."""
    model: str = ""
    """The model that the run began with; like `task`."""
    answer: Approval | None = None
    """The answer to this request in the journal."""
    redacted: tuple[str, ...] = ()
    """`hidden`, as the journal stores it: a person who reads the request may not see the call itself."""

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.call.name

    @property
    def hidden(self) -> tuple[str, ...]:
        """The paths of the arguments that contained secrets."""
        return self.redacted or tuple(_differences(self.call.arguments, self.arguments, ""))


LATER = Approval(False, later=True)
"""The answer of an approver that forwarded the request. It needs a journal."""
NOBODY = Approval(False, "nobody is there to approve it", by="the settings of this run")

Approver = Callable[[ApprovalRequest], Any]
"""`approve(request)`, sync or async: True or False, an `Approval`, or the reason of a denial as text."""

# --------------------------------------------------------------------------------------------------------------------
# The digest of a call covers everything that an approval depends on, including the file that a path resolves to.

_VERSION = 2
_TRAITS = ("pin", "origin", "class", "digest")
"""What distinguishes tools with the same name. For a tool of a server it is the definition that was inspected."""


def digest_call(
    call: ToolCall,
    tool: Tool,
    operands: Iterable[Operand],
    *,
    run_id: str,
    request: str,
    expires: float | None,
    rules: Rules,
    workspace: str | None = None,
    sandbox: str = "",
) -> str:
    """SHA-256 over everything that an approval depends on."""
    bound = {
        "version": _VERSION,
        "tool": [tool.name, tool.description, tool.parameters, *(tool.metadata.get(name, "") for name in _TRAITS)],
        "call": [call.id, call.name, call.arguments],
        "operands": list(operands),
        "run": run_id,
        "request": request,
        "expires": expires,
        "policy": digest_rules(rules),
        "workspace": workspace,
        "sandbox": sandbox,
    }
    return hashlib.sha256(canonical(bound)).hexdigest()


def digest_rules(rules: Rules) -> str:
    """SHA-256 over the mode and the deny and ask rules. A new allow rule does not invalidate an approval."""
    strict = sorted({(rule.verdict, str(rule)) for rule in rules.rules if rule.verdict != "allow"})
    return hashlib.sha256(canonical([rules.mode, strict])).hexdigest()


# --------------------------------------------------------------------------------------------------------------------
# The answer of an approver. No answer, an exception and a value of another type count as a denial.


_FORM = "the reason, the rule and the name are texts, and the arguments are JSON"
Report = Callable[[str, BaseException], None]
"""Reports an exception of the developer's code: what raised it, and the exception."""


def _ignore(what: str, problem: BaseException) -> None:
    """The default: report it to nobody."""


async def ask_approver(
    approver: Approver, request: ApprovalRequest, seconds: float | None, report: Report = _ignore
) -> Approval:
    """Return the answer of the approver. The message names the user only if a person answered."""
    try:
        async with asyncio.timeout(seconds):
            given = approver(request)
            if inspect.isawaitable(given):
                given = await given
    except TimeoutError:
        return Approval(False, "nobody answered in time", by="default")
    except Exception as problem:
        report("the approver", problem)
        return Approval(False, f"asking for approval failed ({type(problem).__name__})", by="default")
    if given is True:
        return Approval(True)
    if given is False or isinstance(given, str):
        return Approval(False, given or "")
    if not isinstance(given, Approval):
        words = f"the approver returned {type(given).__name__}, which is not an answer"
        hint = "return True, False, a reason or an Approval"
    elif is_kept(given):
        return given
    else:
        words = "the approver returned an Approval with a field of another type, which is not an answer"
        hint = _FORM
    report("the approver", TypeError(f"{words}: {hint}"))
    return Approval(False, words, by="default")


# --------------------------------------------------------------------------------------------------------------------
# Requests in a journal. The process does not hold the run while a request waits; an answer is appended to the run.


class ApprovalRefused(DragomanError):
    """An answer to an approval request comes too late to be accepted."""

    hint = "`dragoman approvals list` shows the open requests"


def read_requests(records: Iterable[Record], *, shown: bool = False) -> dict[str, ApprovalRequest]:
    """Return the last request for each call of a run, with its answer. Used and settled requests are left out.

    A request that is `shown` to a person has no secret that was registered with the agent.
    """
    found: dict[str, ApprovalRequest] = {}
    for record in records:
        if record.kind == "asked":
            request: ApprovalRequest = decode(record.body, ApprovalRequest)
            if shown and (hidden := hide_noted(record.body)) != record.body:
                # The arguments were redacted when the request was made: a command shows what the shell expands.
                kept = request.arguments
                request = replace(decode(hidden, ApprovalRequest), arguments=kept, redacted=request.hidden)
            found[record.call_id] = request
        elif record.kind == "answered" and record.call_id in found:
            answer, request = _read_answer(record.body), found[record.call_id]
            # The first answer counts. An answer to another request does not apply to this one.
            if request.answer is None and (answer.request, answer.digest) == (request.id, request.digest):
                found[record.call_id] = replace(request, answer=answer)
        elif record.kind in ("started", "denied", "finished"):
            found.pop(record.call_id, None)
        elif is_cancellation(record):
            found.clear()
    return found


def _read_answer(body: bytes) -> Approval:
    given: Any = decode(body, dict[str, Any])
    # In the first format of the journal, the answer was wrapped together with its binding.
    inner = given.pop("approval", None)
    answer: Approval = decode(encode(given if inner is None else {**inner, **given}), Approval)
    return answer


RequestCache = dict[str, tuple[int, list[ApprovalRequest]]]
"""For each run the number of its records, and the requests in them: a run without new records is not read again."""


async def list_requests(
    journal: Journal, *, answered: bool = True, shown: bool = False, cache: RequestCache | None = None
) -> list[ApprovalRequest]:
    """Return the waiting requests of all runs, oldest first. Requests with an unused answer are included.

    With `shown`, the requests are for people: secrets that were registered with the agent are hidden in them. Who asks
    often keeps a `cache`, which is only for requests of one kind.
    """
    known: RequestCache = {}
    for run in await journal.runs(unfinished=True):
        before = cache.get(run.run_id) if cache is not None else None
        if before is not None and before[0] == run.records:
            known[run.run_id] = before
            continue
        try:
            records = await journal.read(run.run_id)
        except (JournalDamaged, UnknownRun):
            # This run cannot be resumed. The others are still listed; `dragoman sessions` reports this one.
            continue
        known[run.run_id] = len(records), _open_requests(run.run_id, run.session, records, shown=shown)
    if cache is not None:
        cache.clear()
        cache.update(known)
    found = [each for _, requests in known.values() for each in requests]
    return sorted((each for each in found if answered or each.answer is None), key=lambda each: each.asked)


def _open_requests(run_id: str, session: str, records: Sequence[Record], *, shown: bool) -> list[ApprovalRequest]:
    requests = read_requests(records, shown=shown)
    if shown:
        records = [replace(record, body=hide_noted(record.body)) for record in records[:1]]
    if not requests:
        return []
    header = read_header(records)
    about = {"task": header.task, "agent": header.agent, "model": header.model}
    return [replace(each, run_id=run_id, session=session, **about) for each in requests.values()]


async def list_requests_of(journal: Journal, run_id: str, *, shown: bool = False) -> list[ApprovalRequest]:
    """Return the waiting requests of one run, as `list_requests` does. The other runs are not read."""
    try:
        run = await journal.run(run_id)
        records = await journal.read(run_id) if not run.ended else []
    except (JournalDamaged, UnknownRun):
        return []
    return _open_requests(run_id, run.session, records, shown=shown) if records else []


async def find_request(journal: Journal, request_id: str, *, shown: bool = False, run_id: str = "") -> ApprovalRequest:
    """Return the request whose id is, or begins with, this text; with `shown`, for a person.

    Without the id of its run, the unfinished runs are read, of which there may be thousands.
    """
    listed = list_requests_of(journal, run_id, shown=shown) if run_id else list_requests(journal, shown=shown)
    known = {each.id: each for each in await listed}
    if request_id in known:
        return known[request_id]
    matching = [each for each in known.values() if each.id.startswith(request_id)] if len(request_id) >= 4 else []
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ApprovalRefused(
            f"{len(matching)} requests begin with {request_id!r}", hint="give more characters of the id"
        )
    raise ApprovalRefused(
        f"there is no open request {request_id!r}{did_you_mean(request_id, known)}",
        hint="it may already be settled; `dragoman approvals list` shows the open requests",
    )


async def find_answer(journal: Journal, run_id: str, request_id: str) -> Approval | None:
    """Return the answer to a request of a run, also if the run has used it since; None if there is none."""
    for record in await journal.read(run_id):
        if record.kind == "answered" and (answer := _read_answer(record.body)).request == request_id:
            return answer
    return None


_PATIENCE_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
"""Another answer, or the run that has just asked, holds the run for a moment."""


async def answer_request(
    journal: Journal,
    request_id: str,
    approval: Approval,
    *,
    now: float | None = None,
    by: str = "",
    digest: str = "",
    run_id: str = "",
) -> ApprovalRequest:
    """Append an answer to the run of its request. The run is claimed meanwhile, so only one answer is the first.

    `digest` is the one of the request that the person saw. The answer is refused if the request has another. With
    `run_id`, no other run is read. If another process holds the run, it has two seconds to release it.
    """
    now = time.time() if now is None else now
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        pending = await find_request(journal, request_id, run_id=run_id)
        try:
            return await _answer(journal, pending, approval, now, by, digest)
        except RunBusy:
            if time.monotonic() > deadline:
                raise
        run_id = pending.run_id
        await asyncio.sleep(_PAUSE_SECONDS)


async def _answer(
    journal: Journal, pending: ApprovalRequest, approval: Approval, now: float, by: str, digest: str
) -> ApprovalRequest:
    # A run that uses an answer is held by its process, so this comes before the claim too.
    _check_answerable(pending, digest)
    token = await journal.claim(pending.run_id, "an approval")
    try:
        request = read_requests(await journal.read(pending.run_id)).get(pending.call.id)
        if request is None or request.id != pending.id:
            raise ApprovalRefused(f"{pending.id} is no longer open: the run continued without it")
        _check_answerable(request, digest)
        if request.expires is not None and now > request.expires:
            raise ApprovalRefused(
                f"{pending.id} has expired",
                hint="a run of a worker soon asks again; resume another one with `dragoman run --resume`",
            )
        given = replace(approval, by=by or approval.by, request=request.id, digest=request.digest, at=now)
        if not is_kept(given):
            # Nobody could read it again, and the run could not continue.
            raise ApprovalRefused("a field of the answer has another type", hint=_FORM)
        await journal.append(pending.run_id, [Entry("answered", encode(given), pending.call.id)], token=token)
    finally:
        await journal.release(pending.run_id, token=token)
    return replace(pending, answer=given)


def _check_answerable(request: ApprovalRequest, digest: str) -> None:
    """Refuse an answer to what was not shown, and a second answer."""
    if digest and digest != request.digest:
        raise ApprovalRefused(f"{request.id} is not what was shown: its digest is another one")
    if request.answer is not None:
        raise ApprovalRefused(f"{request.answer.by} has already {request.answer.verdict} {request.id}")


# --------------------------------------------------------------------------------------------------------------------
# The broker of one run: it binds requests to calls, asks the approver, and checks again before an approved call runs.

Inspected = tuple[tuple[Operand, ...], str]
"""The operands of a call, and why they are unknown if they are."""
Inspector = Callable[[ToolCall, Tool], Inspected]


class Broker:
    """Asks for approval of the calls of one run."""

    def __init__(
        self,
        services: RunServices,
        run_id: str,
        session: str | None,
        *,
        inspect: Inspector,
        rules: Callable[[], Rules],
        report: Report = _ignore,
    ) -> None:
        self._services = services
        self._run_id = run_id
        self._session = session
        self._inspect = inspect
        self._rules = rules
        self._report = report
        self._sink = services.human_sink
        self._pending = dict(services.pending)
        self._used: set[str] = set()

    # ---- asking ------------------------------------------------------------------------------------------------------

    async def ask(
        self, command: AskApproval, left: float | None, announce: Callable[[ApprovalRequest], None]
    ) -> tuple[ApprovalRequest, Approved | Denied | Postponed, str]:
        """Ask about a call. Return the request, the resulting input, and why an answer from the journal did not count.

        `left` is the number of seconds until the deadline of the run. `announce` receives the request before the
        approver does.
        """
        stored = self._pending.pop(command.call.id, None)
        ignored = ""
        if stored is not None:
            request = self._request(command, stored.id, stored.expires)
            ignored = self._find_fault(stored, request)
            # A denial is valid whatever has changed since; an approval only for what was approved.
            if stored.answer is not None and (not ignored or not stored.answer.approved):
                return request, self._read(stored.answer, request, command.tool), ""
        if stored is None or ignored:
            # A request that is still valid keeps its id, so that a person who has seen it can still answer it.
            seconds = self._services.approval_seconds
            expires = None if seconds is None else self._services.wall() + seconds
            request = self._request(command, f"apr_{os.urandom(9).hex()}", expires)
        announce(request)
        approval = await self._answer(request, left)
        run_journal = self._services.run_journal
        if not approval.later or run_journal is None:
            return request, self._read(approval, request, command.tool), ignored
        if stored is None or ignored:
            await run_journal.ask(command.call.id, encode(request))
        return request, Postponed(command.call.id, request.id), ignored

    def _find_fault(self, stored: ApprovalRequest, request: ApprovalRequest) -> str:
        """Return why an answer to a request from the journal does not count now."""
        if stored.digest != request.digest:
            return "what was asked about has changed since"
        return "the request has expired" if self._is_over(stored.expires) else ""

    async def _answer(self, request: ApprovalRequest, left: float | None) -> Approval:
        services = self._services
        can_defer = services.defers and services.run_journal is not None
        if services.approver is None:
            return LATER if can_defer else NOBODY
        bounds = [each for each in (left, services.approval_seconds) if each is not None]
        approval = await ask_approver(services.approver, request, min(bounds) if bounds else None, self._report)
        if approval.later and not can_defer:
            return replace(NOBODY, reason="nobody could answer now, and this run cannot wait for it")
        if not approval.later and approval.approved and self._is_over(request.expires):
            return Approval(False, "the approval came too late", by="default")
        return approval

    def _is_over(self, expires: float | None) -> bool:
        return expires is not None and self._services.wall() > expires

    def _request(self, command: AskApproval, request_id: str, expires: float | None) -> ApprovalRequest:
        call = command.call
        return ApprovalRequest(
            request_id,
            call,
            self._sink.text(command.why),
            self._digest(call, command.tool, command.operands, request_id, expires),
            self._services.wall(),
            expires,
            command.operands,
            command.suggestion,
            self._services.workspace,
            self._run_id,
            self._session,
            redact_arguments(self._sink, call.arguments, command.operands),
            find_doubt(call, command.tool),
        )

    def _digest(
        self, call: ToolCall, tool: Tool, operands: tuple[Operand, ...], request_id: str, expires: float | None
    ) -> str:
        return digest_call(
            call,
            tool,
            operands,
            run_id=self._run_id,
            request=request_id,
            expires=expires,
            rules=self._rules(),
            workspace=self._services.workspace,
            sandbox=str(getattr(self._services.sandbox, "tier", "")),
        )

    # ---- the answers -------------------------------------------------------------------------------------------------

    def _read(self, approval: Approval, request: ApprovalRequest, tool: Tool) -> Approved | Denied:
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
        return told if approval.arguments is None else self._with_arguments(told, approval.arguments, request, tool)

    def _with_arguments(self, told: Approved, arguments: JsonObject, request: ApprovalRequest, tool: Tool) -> Approved:
        """Changed arguments make another call: inspect it again and bind the approval to it."""
        loaded = load(arguments, tool)
        if loaded.errors or loaded.value is None:
            # The machine reports what is wrong with the arguments.
            return replace(told, arguments=arguments)
        call = replace(request.call, arguments=loaded.value)
        operands, uninspected = self._inspect(call, tool)
        digest = self._digest(call, tool, operands, request.id, request.expires)
        return replace(told, arguments=loaded.value, operands=operands, uninspected=uninspected, digest=digest)

    # ---- the check before the start ----------------------------------------------------------------------------------

    def check(self, planned: Planned, *, uses: bool = False) -> Stale | None:
        """Return a `Stale` input if an approved call has changed. `uses` marks the last check before the start."""
        approved = planned.approved
        if approved is None:
            return None
        operands, uninspected = self._inspect(planned.call, planned.tool)
        reason = self._find_change(planned, approved, operands)
        if not reason:
            if uses:
                self._used.add(approved.request)
            return None
        return Stale(planned.call.id, reason, operands=operands, uninspected=uninspected)

    def _find_change(self, planned: Planned, approved: Approved, operands: tuple[Operand, ...]) -> str:
        if approved.request in self._used:
            return "the approval was used already"
        if self._is_over(approved.expires):
            return "the approval has expired"
        if self._digest(planned.call, planned.tool, operands, approved.request, approved.expires) != approved.digest:
            return "the call is no longer the one that was approved"
        return ""


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _differences(before[key], after[key], f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}[{place}]")
    elif before != after:
        yield path
