"""Faults 33, 36 to 38, 42, 43, 48 and 58: tools that misbehave, cancelled runs, and changes during a run."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.agent.runs import grouped
from tests.faults.streams import WIRES

import dragoman
from dragoman import wire
from dragoman.agent.events import ApprovalNeeded, RunEnded, ToolStarted
from dragoman.agent.result import Limits, RunResult
from dragoman.events import TextDelta
from dragoman.testing import Answer, Fault, ScriptedModel, Upstream, call, calls
from dragoman.types import Message, Request, ToolCall, ToolResult

ANSWER = "Done."


def run(tools: list[Any], *script: Any, **settings: Any) -> tuple[RunResult, ScriptedModel]:
    model = ScriptedModel([*script, ANSWER])
    agent = dragoman.Agent(model.endpoint(), tools=tools, **grouped(transport=model, **settings))
    return agent.run("Go."), model


def results_of(messages: list[Message]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def assert_answered(messages: list[Message]) -> None:
    """Every call has exactly one result, and every wire takes the conversation without mending it."""
    made = [part.id for message in messages for part in message.parts if isinstance(part, ToolCall)]
    assert sorted(result.call_id for result in results_of(messages)) == sorted(made)
    for spoken in WIRES:
        losses = wire.get(spoken).prepare(Request("m", messages)).losses
        assert not [loss for loss in losses if loss.rule == "inserted" and loss.where != "tools"], (spoken, losses)


# ---- 33 --------------------------------------------------------------------------------------------------------------


def test_33_five_hundred_calls_in_one_turn_are_refused_with_one_clear_error() -> None:
    ran: list[int] = []

    @dragoman.tool
    def count(number: int) -> str:
        """Count."""
        ran.append(number)
        return "counted"

    result, model = run([count], calls(*(call("count", number=number) for number in range(500))))
    assert (ran, result.text) == ([], ANSWER)
    told = results_of(model.requests[1].messages)
    assert len(told) == 500
    assert "500" in str(told[0].content) and "64" in str(told[0].content)
    assert sum(len(str(each.content)) for each in told) < 60_000, "the error is told once and not 500 times in full"


# ---- 36 --------------------------------------------------------------------------------------------------------------


class Odd(BaseException):
    """An exception that `except Exception` does not catch."""


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(
    "error", [ValueError("no such city"), Odd("odd"), SystemExit(3), GeneratorExit(), StopIteration("over")], ids=repr
)
def test_36_whatever_a_tool_raises_is_a_result_and_the_run_goes_on(error: BaseException, kind: str) -> None:
    @dragoman.tool
    def plain() -> str:
        """Fails."""
        raise error

    @dragoman.tool(name="plain")
    async def later() -> str:
        """Fails."""
        raise error

    result, model = run([later if kind == "async" else plain], call("plain"))
    assert (result.outcome.kind, result.text) == ("answered", ANSWER)
    [told] = result.results
    assert told.is_error and type(error).__name__ in str(told.content)
    assert "Traceback" not in str(told.content)
    model.assert_finished()


def test_36_a_cancellation_of_its_own_is_an_error_of_the_tool_and_not_of_the_run() -> None:
    @dragoman.tool
    async def plain() -> str:
        """Fails."""
        raise asyncio.CancelledError

    result, _ = run([plain], call("plain"))
    assert result.outcome.kind == "answered" and result.results[0].is_error


# ---- 37 --------------------------------------------------------------------------------------------------------------


def test_37_a_tool_that_hangs_is_cancelled_at_its_deadline() -> None:
    ended: list[str] = []

    @dragoman.tool(timeout=0.05)
    async def hang() -> str:
        """Hangs."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "never"

    result, _ = run([hang], call("hang"))
    assert (result.outcome.kind, ended) == ("answered", ["cancelled"])
    assert result.results[0].is_error and "did not answer within" in str(result.results[0].content)


def test_37_a_tool_that_blocks_its_thread_is_left_behind() -> None:
    release = threading.Event()

    @dragoman.tool(timeout=0.05)
    def block() -> str:
        """Blocks."""
        release.wait(30)
        return "too late"

    try:
        result, model = run([block], call("block"))
    finally:
        release.set()
    assert (result.outcome.kind, result.text) == ("answered", ANSWER)
    assert result.results[0].is_error
    assert "too late" not in str(model.bodies[1])


def test_37_a_tool_that_refuses_to_be_cancelled_does_not_hold_the_run() -> None:
    async def scenario() -> RunResult:
        release = asyncio.Event()

        @dragoman.tool(timeout=0.05)
        async def stubborn() -> str:
            """Refuses."""
            while True:
                try:
                    await release.wait()
                    return "too late"
                except asyncio.CancelledError:
                    continue

        model = ScriptedModel([call("stubborn"), ANSWER])
        agent = dragoman.Agent(model.endpoint(), tools=[stubborn], connection=dragoman.Connection(transport=model))
        try:
            return await agent.arun("Go.")
        finally:
            release.set()
            await asyncio.sleep(0)

    result = asyncio.run(scenario())
    assert result.outcome.kind == "answered" and result.results[0].is_error


# ---- 38 --------------------------------------------------------------------------------------------------------------


def numbers() -> Iterator[int]:
    return itertools.count()


def cyclic() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no")


RETURNED: dict[str, Callable[[], Any]] = {
    "a text of 50 MB": lambda: "x" * 50_000_000,
    "an endless generator": numbers,
    "bytes": lambda: b"\x00\xff" * 1000,
    "a cyclic list": cyclic,
    "an object without a face": Silent,
    "a function": lambda: print,
    "a set with a half character": lambda: {"\ud83d"},
    "not a number": lambda: float("nan"),
    "a deep list": lambda: deep(100_000),
}


def deep(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize("name", RETURNED)
def test_38_whatever_a_tool_returns_is_cut_or_an_error_and_can_be_sent(name: str) -> None:
    @dragoman.tool
    def give() -> Any:
        """Gives."""
        return RETURNED[name]()

    result, model = run([give], call("give"))
    assert (result.outcome.kind, result.text) == ("answered", ANSWER)
    assert len(model.exchanges[1].sent.body) < 1_000_000
    assert len(results_of(model.requests[1].messages)) == 1


# ---- 42 --------------------------------------------------------------------------------------------------------------


def test_42_one_fails_one_hangs_one_is_well_and_the_order_is_that_of_the_calls() -> None:
    @dragoman.tool(parallel_safe=True, timeout=0.05)
    async def work(how: str) -> str:
        """Works."""
        if how == "fails":
            raise ValueError("broken")
        if how == "hangs":
            await asyncio.Event().wait()
        return "well done"

    made = [call("work", how=how) for how in ("hangs", "fails", "goes well")]
    result, _ = run([work], calls(*made))
    assert result.outcome.kind == "answered"
    assert [each.is_error for each in result.results] == [True, True, False]
    assert "broken" in str(result.results[1].content) and result.results[2].content == "well done"
    assert_answered(result.messages)


# ---- 43: cancelled at every station ----------------------------------------------------------------------------------


@dragoman.tool
async def wait(number: int = 0) -> str:
    """Waits for ever."""
    await asyncio.Event().wait()
    return "never"


@dragoman.tool(requires_approval=True)
def ask_first() -> str:
    """Needs approval."""
    return "never"


async def wait_for_ever(*_: Any) -> bool:
    await asyncio.Event().wait()
    return True


HALF = Answer(
    200,
    {"content-type": "text/event-stream"},
    pieces=[b'data: {"choices": [{"delta": {"content": "Let me"}}]}\n\n'],
    stalls=True,
)
STATIONS: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "in the middle of a reply": (HALF, lambda event: isinstance(event, TextDelta)),
    "while a tool runs": (call("wait"), lambda event: isinstance(event, ToolStarted)),
    "while an approval is awaited": (call("ask_first"), lambda event: isinstance(event, ApprovalNeeded)),
    "with calls that have not begun": (
        calls(call("wait", number=1), call("wait", number=2)),
        lambda event: isinstance(event, ToolStarted),
    ),
}


@pytest.mark.parametrize("how", ["run.cancel()", "task.cancel()"])
@pytest.mark.parametrize("station", STATIONS)
def test_43_a_cancelled_run_leaves_a_valid_conversation_and_goes_on(station: str, how: str) -> None:
    said, is_there = STATIONS[station]

    async def scenario() -> tuple[RunResult, RunResult]:
        model = ScriptedModel([said, ANSWER])
        agent = dragoman.Agent(
            model.endpoint(),
            tools=[wait, ask_first],
            connection=dragoman.Connection(transport=model, retries=None),
            approve=wait_for_ever,
        )
        arrived = asyncio.Event()
        ended: list[RunResult] = []

        def watch(event: Any) -> None:
            if is_there(event):
                arrived.set()
            if isinstance(event, RunEnded):
                ended.append(event.result)

        going = agent.start("Go.", streaming=True, on_event=watch)
        task = asyncio.create_task(going.result(check=False))
        await asyncio.wait_for(arrived.wait(), 10)
        if how == "run.cancel()":
            going.cancel("enough")
            assert (await asyncio.wait_for(task, 10)).outcome.reason == "enough"
        else:
            task.cancel()
            await asyncio.wait([task], timeout=10)
            assert task.cancelled()
        [result] = ended
        again = await agent.arun(result.messages)
        return result, again

    result, again = asyncio.run(scenario())
    assert result.outcome.kind == "cancelled"
    assert_answered(result.messages)
    assert (again.outcome.kind, again.text) == ("answered", ANSWER)


def test_43_a_tool_that_refuses_to_stop_does_not_hold_a_cancelled_run() -> None:
    async def scenario() -> RunResult:
        release, arrived = asyncio.Event(), asyncio.Event()

        @dragoman.tool
        async def stubborn() -> str:
            """Refuses."""
            arrived.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        model = ScriptedModel([call("stubborn"), ANSWER])
        agent = dragoman.Agent(model.endpoint(), tools=[stubborn], connection=dragoman.Connection(transport=model))
        going = agent.start("Go.")
        task = asyncio.create_task(going.result(check=False))
        await asyncio.wait_for(arrived.wait(), 10)
        going.cancel("enough")
        done, _ = await asyncio.wait([task], timeout=10)
        release.set()
        assert done, "the run waits for a tool that will not stop"
        return task.result()

    result = asyncio.run(scenario())
    assert result.outcome.kind == "cancelled"
    assert_answered(result.messages)


def test_43_cancelling_hangs_up_on_the_model() -> None:
    async def scenario(upstream: Upstream) -> None:
        agent = dragoman.Agent(upstream.endpoint())
        task = asyncio.create_task(agent.arun("Go."))
        assert await asyncio.to_thread(upstream.wait_for_request)
        task.cancel()
        await asyncio.wait([task], timeout=10)
        assert task.done()

    with Upstream([Fault("stall")]) as upstream:
        asyncio.run(scenario(upstream))
        assert upstream.wait_for_hangup()


# ---- 48 and 58 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [3600.0, -3600.0], ids=["forward", "back"])
def test_48_the_clock_on_the_wall_may_jump(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    jumps = itertools.count(1)

    @dragoman.tool(timeout=30)
    def work() -> str:
        """Works."""
        return "worked"

    monkeypatch.setattr(time, "time", lambda: real() + next(jumps) * jump)
    result, _ = run([work], call("work"), call("work"), limits=Limits(seconds=60, turn_seconds=30))
    assert result.outcome.kind == "answered"
    assert [each.is_error for each in result.results] == [False, False]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"])
def test_58_proxies_of_the_environment_are_not_used_for_this_machine(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Upstream([]) as proxy, Upstream([ANSWER]) as upstream:
        monkeypatch.setenv(name, proxy.url)
        result = dragoman.Agent(upstream.endpoint()).run("Go.")
        assert (result.text, proxy.connections) == (ANSWER, 0)
