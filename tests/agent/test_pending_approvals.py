"""Approvals in the journal: a run waits there, a person answers, and another process continues the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.agent.playbook import check_conversation
from tests.agent.runs import grouped, wait
from tests.agent.script_tool import Launcher
from tests.wire.rules import WIRES, violations

import dragoman
from dragoman.agent import LATER, Agent, Approval, Connection, Safety
from dragoman.agent.approvals import (
    ApprovalRefused,
    ApprovalRequest,
    answer_request,
    find_request,
    list_requests,
    read_requests,
)
from dragoman.agent.events import RunEvent
from dragoman.agent.records import Started, decode
from dragoman.agent.review import submit_answers
from dragoman.errors import DragomanError
from dragoman.journal import Journal, MemoryJournal, RunBusy, SqliteJournal, order_faults
from dragoman.journal.audit import AuditLog
from dragoman.journal.journal import Record
from dragoman.secrets import HumanSink
from dragoman.server.approvals.requests import PendingRequests
from dragoman.testing import ScriptedModel, call, calls
from dragoman.types import Request, Tool, ToolCall

LAUNCH = call("launch", script="job.sh")
YES = Approval(True)


@dragoman.tool(parallel_safe=True, read_only=True)
def look() -> str:
    """Look around."""
    return "a desk"


@pytest.fixture(params=["sqlite", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made: Any = SqliteJournal(tmp_path / "journal.db") if request.param == "sqlite" else MemoryJournal()
    yield made
    made.close()


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


class RestartedAgent:
    """An agent that defers its approvals. Each step creates it again, as a new process would, with one clock."""

    def __init__(self, launcher: Launcher, journal: Journal, first: Any = LAUNCH, **settings: Any) -> None:
        self.launcher = launcher
        self.journal = journal
        self.now = 1000.0
        self.requests: list[Request] = []
        self._first = first
        self._settings = settings
        self.tools: list[Any] = [launcher.tool(parallel_safe=True), look]

    def agent(self, **settings: Any) -> Agent:
        def say(request: Request) -> Any:
            self.requests.append(request)
            return self._first if not any(message.role == "tool" for message in request.messages) else "Done."

        model = ScriptedModel(say, loop=True)
        given = {"defer_approvals": True, "approval_seconds": 600.0, **self._settings, **settings}
        made = Agent(model.endpoint(), self.tools, **grouped(transport=model, journal=self.journal, **given))
        made._safety.wall = lambda: self.now
        return made

    async def run_until_approval(self, **settings: Any) -> tuple[Any, ApprovalRequest]:
        result = await self.agent(**settings).arun("Tidy up.", run_id="run_1", session="desk")
        assert result.outcome.kind == "awaiting_approval"
        (pending,) = await list_requests(self.journal)
        return result, pending

    async def resume(self, **settings: Any) -> Any:
        return await self.agent(**settings).aresume("run_1")

    async def answer(self, pending: ApprovalRequest, approval: Approval = YES) -> ApprovalRequest:
        return await answer_request(self.journal, pending.id, approval, now=self.now, by="ada")


def tools_of(setup: RestartedAgent) -> list[Tool]:
    return [dragoman.toolset.as_tool(tool) for tool in setup.tools]


def test_a_run_waits_and_continues_after_an_approval(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        result, pending = await setup.run_until_approval()
        assert (result.outcome.category, launcher.ran) == ("waiting", [])
        check_conversation(result.messages)
        assert "waits for approval" in str(result.messages[-1].parts[0].content)
        assert (pending.tool, pending.task, pending.session) == ("launch", "Tidy up.", "desk")
        assert pending.operands[0].real == str(launcher.folder / "job.sh")
        assert (pending.asked, pending.expires) == (1000.0, 1600.0)
        answered = await setup.answer(pending)
        assert answered.answer is not None and answered.answer.by == "ada"
        done = await setup.resume()
        assert (done.outcome.kind, done.text) == ("answered", "Done.")
        assert launcher.ran == ["echo hello\n"]
        assert await list_requests(journal) == []
        records = await journal.read("run_1")
        assert order_faults(records) == []
        (started,) = [decode(record.body, Started) for record in records if record.kind == "started"]
        assert started.request == pending.id, "the approval is used up by the record of the start"
        for wire in WIRES:
            body = dragoman.wire.get(wire).encode_request(Request("some-model", done.messages, tools_of(setup)))
            assert violations(wire, body) == []

    wait(scenario())


ODD_ANSWERS: dict[str, dict[str, Any]] = {
    "a rule": {"rule": 5},
    "a reason": {"reason": None},
    "arguments": {"arguments": ["job.sh"]},
    "arguments that are not JSON": {"arguments": {"script": Path("job.sh")}},
}


@pytest.mark.parametrize("case", ODD_ANSWERS)
def test_an_answer_that_nobody_could_read_again_is_refused(case: str, launcher: Launcher, journal: Journal) -> None:
    """In the journal it would stop this run, and the list of the requests of all runs."""
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        with pytest.raises(ApprovalRefused, match="another type"):
            await setup.answer(pending, Approval(True, **ODD_ANSWERS[case]))
        (still,) = await list_requests(journal)
        assert (still.id, still.answer) == (pending.id, None)
        await setup.answer(pending)
        assert (await setup.resume()).outcome.kind == "answered"

    wait(scenario())


def test_a_denial_and_an_answer_in_place_of_the_tool_reach_the_model(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> str:
        _, pending = await setup.run_until_approval()
        await setup.answer(pending, Approval(False, "not on a Sunday"))
        return str((await setup.resume()).results[0].content)

    assert wait(scenario()) == "Denied by ada: not on a Sunday"
    assert launcher.ran == []


def test_without_an_answer_it_waits_again_with_the_same_question(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        for _ in range(3):
            assert (await setup.resume()).outcome.kind == "awaiting_approval"
        assert [each.id for each in await list_requests(journal)] == [pending.id]
        assert len(setup.requests) == 1, "nothing is asked of the model meanwhile"

    wait(scenario())


def test_what_was_allowed_beside_it_does_not_wait(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal, calls(LAUNCH, call("look")))

    async def scenario() -> None:
        result, pending = await setup.run_until_approval()
        shown = [str(part.content) for part in result.messages[-1].parts]
        assert shown == ["Not run yet: this call waits for approval.", "a desk"]
        await setup.answer(pending)
        done = await setup.resume()
        assert [str(each.content) for each in done.results] == ["ran job.sh", "a desk"]

    wait(scenario())


def test_an_approver_may_pass_the_question_on(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval(approve=lambda request: LATER)
        await setup.answer(pending)
        assert (await setup.resume()).outcome.kind == "answered"

    wait(scenario())
    assert len(launcher.ran) == 1


def test_an_approver_of_the_resumed_run_is_asked(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        await setup.run_until_approval()
        assert (await setup.resume(approve=lambda request: True)).outcome.kind == "answered"

    wait(scenario())
    assert len(launcher.ran) == 1


def test_without_a_journal_nobody_can_answer_later(launcher: Launcher) -> None:
    model = ScriptedModel([LAUNCH, "Done."])
    tools = [launcher.tool()]
    alone = Agent(model.endpoint(), tools, connection=Connection(transport=model), safety=Safety(defer_approvals=True))
    assert "nobody is there" in str(wait(alone.arun("hi")).results[0].content)
    model = ScriptedModel([LAUNCH, "Done."])
    passing = Agent(
        model.endpoint(),
        tools,
        connection=Connection(transport=model),
        safety=Safety(defer_approvals=True),
        approve=lambda request: LATER,
    )
    assert "this run cannot wait" in str(wait(passing.arun("hi")).results[0].content)


# ---- fault 49: late, twice, for something else, after the end --------------------------------------------------------


def _rewrite(setup: RestartedAgent) -> None:
    (setup.launcher.folder / "job.sh").write_text("rm -rf /\n", encoding="utf-8")


def _expire(setup: RestartedAgent) -> None:
    setup.now += 601.0


def _tighten(setup: RestartedAgent) -> None:
    setup._settings["ask"] = ["launch"]


@pytest.mark.parametrize("meanwhile", [_rewrite, _expire, _tighten], ids=["rewritten", "expired", "other rules"])
def test_49_an_approval_that_is_no_longer_true_is_ignored_and_asked_for_again(
    meanwhile: Callable[[RestartedAgent], None], launcher: Launcher, journal: Journal
) -> None:
    setup = RestartedAgent(launcher, journal)
    events: list[RunEvent] = []

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        await setup.answer(pending)
        meanwhile(setup)
        again = await setup.agent().restart("run_1", on_event=events.append).result()
        assert again.outcome.kind == "awaiting_approval"
        assert [problem.kind for problem in again.problems] in (["approval_ignored"], ["approval_stale"])
        (second,) = await list_requests(journal)
        assert second.id != pending.id and second.digest != pending.digest and second.answer is None
        await setup.answer(second)
        assert (await setup.resume()).outcome.kind == "answered"

    wait(scenario())
    assert len(launcher.ran) == 1


@pytest.mark.parametrize("meanwhile", [_rewrite, _expire, _tighten], ids=["rewritten", "expired", "other rules"])
def test_49_a_denial_holds_whatever_has_changed_since(
    meanwhile: Callable[[RestartedAgent], None], launcher: Launcher, journal: Journal
) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> str:
        _, pending = await setup.run_until_approval()
        await setup.answer(pending, Approval(False, "never"))
        meanwhile(setup)
        return str((await setup.resume()).results[0].content)

    assert wait(scenario()) == "Denied by ada: never"
    assert launcher.ran == []


def test_49_a_late_answer_a_second_one_and_one_after_the_end_are_refused(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def refused(pending: ApprovalRequest, words: str) -> None:
        with pytest.raises(ApprovalRefused, match=words):
            await setup.answer(pending)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        setup.now = 1601.0
        await refused(pending, "has expired")
        setup.now = 1500.0
        await setup.answer(pending)
        await refused(pending, "ada has already approved")
        assert (await setup.resume()).outcome.kind == "answered"
        await refused(pending, "no open request")

    wait(scenario())
    assert len(launcher.ran) == 1


def test_49_an_answer_to_another_question_says_nothing_about_this_one(launcher: Launcher, journal: Journal) -> None:
    """Somebody writes the records by hand: the digest does not fit, so it is no answer."""
    from dragoman.agent.records import encode
    from dragoman.journal import Entry

    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        token = await journal.claim("run_1")
        for request, digest in ((pending.id, "0" * 64), ("apr_other", pending.digest)):
            forged = Approval(True, request=request, digest=digest, at=1000.0)
            await journal.append("run_1", [Entry("answered", encode(forged), pending.call.id)], token=token)
        await journal.release("run_1", token=token)
        assert (await setup.resume()).outcome.kind == "awaiting_approval"

    wait(scenario())
    assert launcher.ran == []


def test_49_an_answer_for_a_run_that_was_cancelled_is_refused(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        run = setup.agent().restart("run_1")
        run.cancel("enough")
        assert (await run.result(check=False)).outcome.kind == "cancelled"
        with pytest.raises(ApprovalRefused, match="no open request"):
            await setup.answer(pending)

    wait(scenario())
    assert launcher.ran == []


def test_requests_are_found_by_the_beginning_of_their_id(launcher: Launcher, journal: Journal) -> None:
    setup = RestartedAgent(launcher, journal)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        assert (await find_request(journal, pending.id[:10])).id == pending.id
        with pytest.raises(ApprovalRefused, match="no open request 'apr_zzz'"):
            await find_request(journal, "apr_zzz")

    wait(scenario())


def test_answers_read_only_the_runs_that_they_answer(launcher: Launcher, tmp_path: Path) -> None:
    """Each answer read all runs that waited, twice: to answer 1,500 requests took an hour, and one took seconds."""
    journal, read = MemoryJournal(), list[str]()
    setup, runs = RestartedAgent(launcher, journal, approval_seconds=None), 20
    read_records = journal.read

    async def count_reading(run_id: str) -> list[Record]:
        read.append(run_id)
        return await read_records(run_id)

    async def scenario() -> None:
        for number in range(runs):
            await setup.agent().arun("Tidy up.", run_id=f"run_{number}")
        journal.read = count_reading  # type: ignore[method-assign]
        found = await list_requests(journal)
        assert len(read) == runs
        audit = AuditLog(tmp_path / "audit.jsonl", sink=HumanSink())
        half = [(each, Approval(False)) for each in found[: runs // 2]]
        submitted = await submit_answers(journal, audit, half, "ada", lambda *_: "")
        assert [each.refusal or each.verdict for each in submitted] == ["denied"] * len(half)
        assert len(read) <= runs + 3 * len(half)
        served = PendingRequests(journal, audit, HumanSink())
        listed = await served.list_open()
        read.clear()
        for each in listed:
            assert (await served.answer(each["id"], each["digest"], Approval(False), "ada")).status == 200
        assert len(read) <= 4 * len(listed)

    wait(scenario())


# ---- two workers, and a kill in between ------------------------------------------------------------------------------


def test_two_workers_cannot_both_use_an_approval(launcher: Launcher, tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        with SqliteJournal(tmp_path / "journal.db") as one, SqliteJournal(tmp_path / "journal.db") as other:
            first, second = RestartedAgent(launcher, one), RestartedAgent(launcher, other)
            _, pending = await first.run_until_approval()
            await first.answer(pending)
            ended = await asyncio.gather(first.resume(), second.resume(), return_exceptions=True)
            return [each.outcome.kind if not isinstance(each, DragomanError) else type(each).__name__ for each in ended]

    kinds = wait(scenario())
    assert len(launcher.ran) == 1, kinds
    assert kinds.count("answered") >= 1
    assert set(kinds) <= {"answered", "RunBusy", "RunLost"}


def test_nobody_can_answer_while_the_run_is_going_on(
    launcher: Launcher, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = RestartedAgent(launcher, journal)
    monkeypatch.setattr("dragoman.agent.approvals._PATIENCE_SECONDS", 0.0)

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        token = await journal.claim("run_1")
        with pytest.raises(RunBusy):
            await setup.answer(pending)
        await journal.release("run_1", token=token)

    wait(scenario())


def test_of_two_answers_to_a_run_that_has_just_asked_one_is_accepted(
    launcher: Launcher, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused, with the advice to end the process that held the run."""
    setup, refused = RestartedAgent(launcher, journal), asyncio.Event()

    async def claim(run_id: str, owner: str = "") -> int:
        try:
            return await usual(run_id, owner)
        except RunBusy:
            refused.set()
            raise

    async def scenario() -> None:
        _, pending = await setup.run_until_approval()
        token = await journal.claim("run_1")
        monkeypatch.setattr(journal, "claim", claim)
        answers = [asyncio.create_task(setup.answer(pending)) for _ in range(2)]
        await refused.wait()
        await journal.release("run_1", token=token)
        ended = await asyncio.gather(*answers, return_exceptions=True)
        (refusal,) = [each for each in ended if isinstance(each, BaseException)]
        assert isinstance(refusal, ApprovalRefused) and "ada has already approved" in str(refusal)

    usual = journal.claim
    wait(scenario())


class Killed(BaseException):
    """Ends the process."""


class DyingJournal:
    """A journal that kills its process before the n-th record of a kind, and keeps what was written before."""

    def __init__(self, journal: Any, kind: str, after: bool) -> None:
        self._journal = journal
        self._kind = kind
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, run_id: str, entries: Any, *, token: int) -> None:
        hit = any(entry.kind == self._kind for entry in entries)
        if hit and not self._after:
            raise Killed
        await self._journal.append(run_id, entries, token=token)
        if hit:
            raise Killed


@pytest.mark.parametrize(
    ("kind", "after", "ran"),
    [("approved", False, 1), ("approved", True, 1), ("started", False, 1), ("started", True, 0)],
    ids=["before the approval is on record", "behind it", "before the start is on record", "behind it, before it ran"],
)
def test_a_process_that_is_killed_between_approval_and_start_does_it_once_or_says_it_is_unknown(
    kind: str, after: bool, ran: int, launcher: Launcher
) -> None:
    store = MemoryJournal()
    setup = RestartedAgent(launcher, store)

    async def scenario() -> Any:
        _, pending = await setup.run_until_approval()
        await setup.answer(pending)
        setup.journal = DyingJournal(store, kind, after)  # type: ignore[assignment]
        with pytest.raises(Killed):
            await setup.resume()
        setup.journal = store
        return await setup.resume()

    done = wait(scenario())
    assert len(launcher.ran) == ran
    assert done.outcome.kind == "answered"
    if not ran:
        assert "its outcome is unknown" in str(done.results[0].content)


def test_a_file_that_is_rewritten_while_the_process_is_dead_is_asked_about_again(launcher: Launcher) -> None:
    store = MemoryJournal()
    setup = RestartedAgent(launcher, store)

    async def scenario() -> Any:
        _, pending = await setup.run_until_approval()
        await setup.answer(pending)
        setup.journal = DyingJournal(store, "started", after=False)  # type: ignore[assignment]
        with pytest.raises(Killed):
            await setup.resume()
        setup.journal = store
        _rewrite(setup)
        return await setup.resume()

    assert wait(scenario()).outcome.kind == "awaiting_approval"
    assert launcher.ran == []


def test_requests_and_answers_of_the_first_format_are_read() -> None:
    call = msgspec.to_builtins(ToolCall("call_1", "launch", {"script": "job.sh"}))
    asked: dict[str, Any] = {"id": "apr_1", "call": call, "why": "a rule"}
    asked |= {"digest": "d", "asked": 1.0, "expires": None, "operands": [], "suggestion": "launch(job.sh)"}
    answered = {"request": "apr_1", "digest": "d", "approval": {"approved": True, "by": "ada"}, "at": 2.0}
    records = [
        Record(1, "asked", msgspec.json.encode(asked), "call_1"),
        Record(2, "answered", msgspec.json.encode(answered), "call_1"),
    ]
    request = read_requests(records)["call_1"]
    assert (request.id, request.tool, request.suggestion) == ("apr_1", "launch", "launch(job.sh)")
    assert request.answer == Approval(True, by="ada", request="apr_1", digest="d", at=2.0)
