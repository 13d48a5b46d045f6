"""Runs that end between two commands: nobody is asked after the end, and a call that did not start says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.agent.playbook import check_conversation
from tests.agent.runs import agent, wait

import dragoman
from dragoman.agent import Agent, Connection, ContextSettings, Limits
from dragoman.agent.events import Asked, RunEnded, RunEvent, TurnEnded
from dragoman.agent.hooks import Stop
from dragoman.agent.turn import UNKNOWN_OUTCOME
from dragoman.journal import MemoryJournal
from dragoman.testing import ScriptedModel, call, calls
from dragoman.types import ToolCall, Usage

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@dragoman.tool(parallel_safe=True)
async def note(name: str) -> str:
    """Write a note."""
    RAN.append(name)
    return f"noted {name}"


NOTE_A = call("note", name="a")
BOTH = calls(NOTE_A, call("note", name="b"))


# ---- after the end ---------------------------------------------------------------------------------------------------


def test_the_model_is_not_asked_after_a_hook_has_stopped_the_run_at_a_result() -> None:
    """The run had sent the next request before it ended."""

    class Stopping:
        def after_tool(self, made: ToolCall, result: Any) -> Stop:
            return Stop("seen enough")

    events: list[RunEvent] = []
    model = ScriptedModel([NOTE_A, "done"], usage=Usage(100, 20))
    made = Agent(model.endpoint(), [note], hooks=[Stopping()], connection=Connection(transport=model))
    result = wait(made.arun("hi", on_event=events.append))
    assert (result.outcome.kind, result.outcome.reason) == ("stopped", "seen enough")
    assert [each.content for each in result.results] == ["noted a"]
    assert (len(model.requests), result.turns, result.usage) == (1, 1, Usage(100, 20))
    assert [type(event) for event in events if isinstance(event, Asked | TurnEnded)] == [Asked, TurnEnded]
    check_conversation(result.messages)


def test_a_hook_sees_no_other_call_after_it_has_stopped_the_run() -> None:
    seen: list[str] = []

    class Stopping:
        def before_tool(self, made: ToolCall, tool: Any) -> Stop:
            seen.append(made.arguments["name"])
            return Stop("enough")

    result = wait(agent([BOTH], note, hooks=[Stopping()]).arun("hi"))
    assert (result.outcome.kind, seen, RAN) == ("stopped", ["a"], [])
    assert len(result.results) == 2


@pytest.mark.parametrize("where", ["a validator", "a hook", "a cancellation"])
def test_the_end_of_the_last_turn_has_the_usage_and_the_results_of_its_reply(where: str) -> None:
    class Stopping:
        def after_tool(self, made: ToolCall, result: Any) -> Any:
            if where == "a cancellation":
                run.cancel("enough")
            return Stop("enough") if where == "a hook" else None

    events: list[RunEvent] = []
    replies = ["done"] if where == "a validator" else [BOTH]
    model = ScriptedModel(replies, usage=Usage(100, 20))
    made = Agent(model.endpoint(), [note], hooks=[Stopping()], connection=Connection(transport=model))
    validate = (lambda answer: Stop("enough")) if where == "a validator" else None
    run = made.start("hi", on_event=events.append, validate=validate)
    result = wait(run.result(check=False))
    assert result.outcome.kind == ("cancelled" if where == "a cancellation" else "stopped")
    (ended,) = [event for event in events if isinstance(event, TurnEnded)]
    assert (ended.usage, ended.results) == (Usage(100, 20), result.results)
    assert result.usage == Usage(100, 20)


# ---- calls that did not start ----------------------------------------------------------------------------------------


def test_a_call_that_was_planned_when_the_run_was_cancelled_did_not_run() -> None:
    """Its outcome was called unknown, and a person had to check what a tool had done that never ran."""

    async def script() -> None:
        journal = MemoryJournal()
        run = agent([NOTE_A, "done"], note, journal=journal).start("hi", run_id="run_a")
        assert await run.advance()
        run.cancel("enough")
        assert not await run.advance()
        assert run.outcome is not None
        assert [each.content for each in run.outcome.results] == ["Not run: the run was cancelled."]
        assert RAN == []
        assert [record.kind for record in await journal.read("run_a")] == ["run", "reply", "input", "ended"]

    wait(script())


def test_a_call_that_waits_for_its_place_when_the_run_is_cancelled_did_not_run() -> None:
    @dragoman.tool(parallel_safe=True)
    async def stall(name: str) -> None:
        """Wait for ever."""
        run.cancel("enough")
        await asyncio.Event().wait()

    made = agent([calls(call("stall", name="a"), call("stall", name="b"))], stall, limits=Limits(concurrency=1))
    run = made.start("hi")
    result = wait(run.result(check=False))
    first, second = (str(each.content) for each in result.results)
    assert UNKNOWN_OUTCOME in first
    assert second == "Not run: the run was cancelled."


def test_a_call_that_an_interrupted_run_had_not_started_did_not_run() -> None:
    async def script() -> None:
        journal = MemoryJournal()
        made = agent([NOTE_A, "again"], note, journal=journal)
        run = made.start("hi", session="s")
        assert await run.advance()
        await run.leave()
        result = await made.arun("go on", session="s")
        told = [part.content for message in result.messages if message.role == "tool" for part in message.parts]
        assert told == ["Not run: the run was cancelled."]

    wait(script())


# ---- the last record -------------------------------------------------------------------------------------------------


def test_listeners_learn_of_the_end_although_its_record_is_interrupted() -> None:
    """The end of the run was in the journal, and neither the spans nor the audit log had it."""

    class Slow(MemoryJournal):
        async def append(self, run_id: str, entries: Any, *, token: int) -> None:
            await super().append(run_id, entries, token=token)
            if entries[-1].kind == "ended":
                writing.set()
                await asyncio.Event().wait()

    async def script() -> None:
        task = asyncio.ensure_future(agent(["done"], note, journal=journal).arun("hi", on_event=events.append))
        await writing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [event.result.outcome.kind for event in events if isinstance(event, RunEnded)] == ["answered"]

    writing, journal = asyncio.Event(), Slow()
    events: list[RunEvent] = []
    wait(script())


def test_a_compactor_that_returns_something_else_is_replaced_by_the_usual_one() -> None:
    context = ContextSettings(window=3000, compactor=lambda messages, budget: None)  # type: ignore[arg-type]
    result = wait(agent(["done"], note, context=context).arun("hi " * 3000, check=False))
    assert [problem.kind for problem in result.problems][:2] == ["compactor_failed", "compacted"]
    assert "NoneType, not a Compaction" in result.problems[0].message
