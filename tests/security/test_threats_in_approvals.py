"""Threat 16: an approval that is used for another call than the one shown, twice, too late, or by another run."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.runs import grouped
from tests.security.attacks import run_agent

import dragoman
from dragoman import builtin
from dragoman.agent import Agent, Approval, ApprovalRequest, Connection, Safety
from dragoman.agent.approvals import ApprovalRefused, answer_request, list_requests
from dragoman.agent.events import Asked
from dragoman.journal import MemoryJournal, SqliteJournal
from dragoman.testing import ScriptedModel, call, calls
from dragoman.types import Operand, Request


class Guard:
    """Approves the first request, calls a function that changes something, and denies every later request."""

    def __init__(self, meanwhile: Any) -> None:
        self.asked: list[ApprovalRequest] = []
        self._meanwhile = meanwhile

    def __call__(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        if len(self.asked) == 1:
            self._meanwhile(request)
        return len(self.asked) == 1


def test_threat_16_a_script_that_is_rewritten_while_somebody_decides_is_not_run(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("echo harmless\n", encoding="utf-8")
    guard = Guard(lambda request: script.write_text("touch PWNED\n", encoding="utf-8"))
    outcome = run_agent(
        [call("bash", command="sh job.sh"), "done"], builtin.Bash, workspace=str(tmp_path), approve=guard
    )
    assert not (tmp_path / "PWNED").exists() and outcome.ran == []
    assert len(guard.asked) == 2, "the changed call needs another approval"
    assert guard.asked[0].digest != guard.asked[1].digest
    assert outcome.told == ["Denied by the user."]


def test_threat_16_a_file_that_becomes_a_link_while_somebody_decides_is_not_written(tmp_path: Path) -> None:
    work, victim = tmp_path / "work", tmp_path / "work" / ".bashrc"
    work.mkdir()
    victim.write_text("mine\n", encoding="utf-8")
    (work / "notes.txt").write_text("old\n", encoding="utf-8")

    def swap(request: ApprovalRequest) -> None:
        (work / "notes.txt").unlink()
        (work / "notes.txt").symlink_to(".bashrc")

    guard = Guard(swap)
    write = call("write", path="notes.txt", content="evil\n")
    outcome = run_agent([write, "done"], builtin.Write, workspace=str(work), approve=guard)
    assert victim.read_text(encoding="utf-8") == "mine\n" and outcome.ran == []
    assert [operand.protected for operand in guard.asked[0].operands] == [False]
    assert any(operand.protected for operand in guard.asked[1].operands)


def test_threat_16_a_file_that_was_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("old\n", encoding="utf-8")
    guard = Guard(lambda request: notes.write_text("somebody's work of an hour\n", encoding="utf-8"))
    run_agent(
        [call("write", path="notes.txt", content="new\n"), "done"],
        builtin.Write,
        workspace=str(tmp_path),
        approve=guard,
    )
    assert notes.read_text(encoding="utf-8") == "somebody's work of an hour\n"


def test_threat_16_arguments_that_are_changed_after_the_answer_are_not_run(tmp_path: Path) -> None:
    def change(request: ApprovalRequest) -> None:
        request.call.arguments["command"] = "touch PWNED"

    guard = Guard(change)
    run_agent([call("bash", command="make"), "done"], builtin.Bash, workspace=str(tmp_path), approve=guard)
    assert not (tmp_path / "PWNED").exists()
    assert [request.call.id for request in guard.asked] == [guard.asked[0].call.id] * 2


def test_threat_16_of_two_calls_beside_each_other_only_the_approved_one_runs(tmp_path: Path) -> None:
    def approve(request: ApprovalRequest) -> bool:
        return request.arguments["path"] == "a.txt"

    both = calls(call("write", path="a.txt", content="a"), call("write", path="b.txt", content="b"))
    outcome = run_agent([both, "done"], builtin.Write, workspace=str(tmp_path), approve=approve)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert outcome.told[1] == "Denied by the user."


def test_threat_16_the_same_call_again_is_another_question(tmp_path: Path) -> None:
    guard = Guard(lambda request: None)
    again = call("bash", command="echo x >> log.txt")
    outcome = run_agent([again, again, "done"], builtin.Bash, workspace=str(tmp_path), approve=guard)
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "x\n"
    assert len(guard.asked) == 2 and outcome.told[1] == "Denied by the user."


def test_threat_16_arguments_that_an_approver_edits_are_decided_on_again(tmp_path: Path) -> None:
    def approve(request: ApprovalRequest) -> Approval:
        return Approval(True, arguments={"command": "touch PWNED"})

    outcome = run_agent(
        [call("bash", command="make"), "done"],
        builtin.Bash,
        workspace=str(tmp_path),
        approve=approve,
        deny=["bash(touch *)"],
    )
    assert not (tmp_path / "PWNED").exists()
    assert outcome.told[0].startswith("Denied by policy")


# ---- approvals that wait in the journal ------------------------------------------------------------------------------


class RestartedAgent:
    """An agent that defers its approvals. Each step creates it again, as a new process would."""

    def __init__(self, folder: Path) -> None:
        self.journal = SqliteJournal(folder / "journal.db")
        self.ran: list[str] = []
        self.now = 1000.0

        @dragoman.tool(requires_approval=True)
        def deploy(where: str) -> str:
            """Deploy."""
            self.ran.append(where)
            return f"deployed to {where}"

        self._deploy = deploy

    def agent(self) -> Agent:
        def say(request: Request) -> Any:
            if any(message.role == "tool" for message in request.messages):
                return "Done."
            return call("deploy", where="production")

        model = ScriptedModel(say, loop=True)
        made = Agent(
            model.endpoint(),
            [self._deploy],
            connection=Connection(transport=model),
            journal=self.journal,
            safety=Safety(defer_approvals=True, approval_seconds=600.0),
        )
        made._safety.wall = lambda: self.now
        return made

    async def run_until_approval(self, run_id: str) -> str:
        result = await self.agent().arun("Deploy.", run_id=run_id)
        assert result.outcome.kind == "awaiting_approval"
        return next(each.id for each in await list_requests(self.journal) if each.run_id == run_id)

    async def approve(self, request: str) -> None:
        await answer_request(self.journal, request, Approval(True), now=self.now, by="ada")


@pytest.fixture
def setup(tmp_path: Path) -> Any:
    made = RestartedAgent(tmp_path)
    yield made
    made.journal.close()


def test_threat_16_an_approval_is_used_once_and_for_its_own_run(setup: RestartedAgent) -> None:
    async def scenario() -> None:
        first, second = await setup.run_until_approval("run_a"), await setup.run_until_approval("run_b")
        assert first != second
        await setup.approve(first)
        assert (await setup.agent().aresume("run_b")).outcome.kind == "awaiting_approval"
        assert setup.ran == []
        for _ in range(3):
            await setup.agent().aresume("run_a")
        assert setup.ran == ["production"], "resuming again runs nothing again"
        with pytest.raises(ApprovalRefused):
            await setup.approve(first)

    asyncio.run(scenario())


def test_threat_16_an_approval_that_comes_too_late_or_waits_too_long_does_not_count(setup: RestartedAgent) -> None:
    async def scenario() -> None:
        request = await setup.run_until_approval("run_a")
        setup.now += 601.0
        with pytest.raises(ApprovalRefused, match="expired"):
            await setup.approve(request)
        other = await setup.run_until_approval("run_b")
        await setup.approve(other)
        setup.now += 601.0
        assert (await setup.agent().aresume("run_b")).outcome.kind == "awaiting_approval"

    asyncio.run(scenario())
    assert setup.ran == []


def test_threat_16_two_workers_with_one_approval_run_the_call_once(setup: RestartedAgent) -> None:
    async def scenario() -> list[Any]:
        await setup.approve(await setup.run_until_approval("run_a"))
        workers = [setup.agent().aresume("run_a") for _ in range(4)]
        return await asyncio.gather(*workers, return_exceptions=True)

    ended = asyncio.run(scenario())
    assert setup.ran == ["production"]
    assert any(isinstance(each, Exception) for each in ended) or all(each.text == "Done." for each in ended)


# ---- runs that go on under other rules -------------------------------------------------------------------------------


class ProcessKilled(BaseException):
    """Ends the process."""


class InterruptedPayments:
    """A run that is interrupted before its last request, and resumed with other settings."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.journal = MemoryJournal()

        @dragoman.tool(requires_approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self._pay = pay

    def run_interrupted(self, *replies: Any, **settings: Any) -> None:
        def interrupt(event: Any) -> None:
            if isinstance(event, Asked) and event.turn == len(replies) + 1:
                raise ProcessKilled

        model = ScriptedModel([*replies, "never said"])
        agent = Agent(model.endpoint(), [self._pay], **grouped(transport=model, journal=self.journal, **settings))
        with pytest.raises(ProcessKilled):
            agent.run("Pay.", run_id="run_a", on_event=interrupt)

    def resume(self, **settings: Any) -> list[str]:
        model = ScriptedModel(["Done."])
        agent = Agent(model.endpoint(), [self._pay], **grouped(transport=model, journal=self.journal, **settings))
        return [str(result.content) for result in agent.resume("run_a").results]


FIVE, TWO = call("pay", amount=5), call("pay", amount=2)
BOTH = calls(FIVE, TWO)


@pytest.mark.parametrize("replies", [(FIVE, TWO), (BOTH,)], ids=["one after the other", "in one reply"])
@pytest.mark.parametrize("later", [{"allow": ["pay"]}, {"mode": "bypass"}], ids=["a rule", "a mode"])
def test_threat_16_what_was_denied_is_not_run_when_the_run_goes_on_under_wider_rules(
    replies: Any, later: dict[str, Any]
) -> None:
    payments = InterruptedPayments()
    payments.run_interrupted(*replies, approve=lambda request: request.arguments["amount"] == 2 or "too much")
    assert payments.paid == [2]
    told = payments.resume(**later)
    assert payments.paid == [2], "the denial holds, and what was paid is not paid again"
    assert told == ["Denied by the user: too much", "paid 2"]


def test_threat_16_what_the_model_was_told_is_denied_is_not_run_later() -> None:
    payments = InterruptedPayments()
    payments.run_interrupted(FIVE, TWO)
    told = payments.resume(allow=["pay"])
    assert told[0].startswith("Denied by policy: it was denied when the run came to it")
    assert payments.paid == [2], "there was no decision about this one before, so it is decided now"


@pytest.mark.parametrize("replies", [(FIVE, TWO), (BOTH,)], ids=["one after the other", "in one reply"])
@pytest.mark.parametrize("later", [{"approve": lambda request: True}, {"deny": ["pay"]}], ids=["asked", "denied"])
def test_threat_16_what_has_run_is_not_run_again_when_the_run_goes_on_under_stricter_rules(
    replies: Any, later: dict[str, Any]
) -> None:
    payments = InterruptedPayments()
    payments.run_interrupted(*replies, allow=["pay"])
    assert payments.resume(**later) == ["paid 5", "paid 2"]
    assert payments.paid == [5, 2]


def test_threat_16_a_denial_that_waits_in_the_journal_holds_under_wider_rules() -> None:
    payments = InterruptedPayments()
    model = ScriptedModel([FIVE])
    Agent(
        model.endpoint(),
        [payments._pay],
        connection=Connection(transport=model),
        journal=payments.journal,
        safety=Safety(defer_approvals=True),
    ).run("Pay.", run_id="run_a")

    async def deny() -> None:
        request = (await list_requests(payments.journal))[0]
        await answer_request(payments.journal, request.id, Approval(False, "never"), now=request.asked)

    asyncio.run(deny())
    assert payments.resume(allow=["pay"], defer_approvals=True) == ["Denied by the user: never"]
    assert payments.paid == []


# ---- what somebody's code does behind the back of a question ---------------------------------------------------------


def test_threat_16_an_approval_for_a_tool_of_one_server_is_none_for_another_of_that_name() -> None:
    payments = InterruptedPayments()
    model = ScriptedModel([FIVE])
    agent = Agent(
        model.endpoint(),
        [payments._pay],
        connection=Connection(transport=model),
        journal=payments.journal,
        safety=Safety(defer_approvals=True),
    )
    agent.run("Pay.", run_id="run_a")

    async def approve() -> None:
        request = (await list_requests(payments.journal))[0]
        await answer_request(payments.journal, request.id, Approval(True), now=request.asked)

    asyncio.run(approve())
    tool = agent.tools.tools[0]
    payments._pay = replace(tool, metadata={**tool.metadata, "origin": "mcp:other"})
    assert payments.resume(defer_approvals=True) == [] and payments.paid == []


def test_threat_16_what_a_hook_changes_in_place_is_on_record_like_any_other_change() -> None:
    class Cap:
        def before_tool(self, call: Any, tool: Any) -> None:
            call.arguments["amount"] = min(call.arguments["amount"], 1)

    payments = InterruptedPayments()
    payments.run_interrupted(FIVE, hooks=[Cap()], allow=["pay"])
    records = asyncio.run(payments.journal.read("run_a"))
    assert payments.paid == [1]
    assert any(b'"arguments":{"amount":1}' in record.body for record in records if record.kind == "input")


def test_threat_16_an_inspection_changes_no_arguments_and_has_an_end() -> None:
    def inspect(arguments: Any, context: Any) -> Any:
        arguments["basket"]["evil"] = 1
        return (Operand("path", str(number), "read") for number in count())

    bought: list[Any] = []

    @dragoman.tool
    def buy(basket: dict[str, int]) -> str:
        """Buy."""
        bought.append(basket)
        return "bought"

    model = ScriptedModel([call("buy", basket={"tea": 1}), "done"])
    tool = replace(
        Agent(model.endpoint(), [buy], connection=Connection(transport=model)).tools.tools[0], inspect=inspect
    )
    asked: list[ApprovalRequest] = []
    agent = Agent(
        model.endpoint(),
        [tool],
        connection=Connection(transport=model),
        approve=lambda request: not asked.append(request),
    )
    agent.run("Buy.")
    assert bought == [{"tea": 1}] and "more than 1000 operands" in asked[0].why
