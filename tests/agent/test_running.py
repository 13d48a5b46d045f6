"""The execution of tools: concurrency, order, timeouts, and exceptions of any kind."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar

import pytest
from tests.agent.runs import agent, kinds, notices, wait

import dragoman
from dragoman.agent import Agent, Connection, Limits
from dragoman.agent.events import RunEnded, RunEvent, ToolEnded, ToolProgressed, ToolStarted
from dragoman.testing import ScriptedModel, call, calls
from dragoman.tools import Error, Halt, Ok, ToolContext
from dragoman.types import Text

QUICK = 0.05

# ---- side by side ----------------------------------------------------------------------------------------------------


def test_safe_calls_really_run_at_the_same_time() -> None:
    meeting = asyncio.Barrier(3)

    @dragoman.tool(parallel_safe=True)
    async def meet(name: str) -> str:
        await meeting.wait()
        return name

    three = calls(call("meet", name="a"), call("meet", name="b"), call("meet", name="c"))
    result = wait(agent([three, "met"], meet).arun("hi"))
    assert result.outcome.kind == "answered"
    assert [each.content for each in result.results] == ["a", "b", "c"]


def test_blocking_tools_run_at_the_same_time_too() -> None:
    meeting = threading.Barrier(2)

    @dragoman.tool(parallel_safe=True)
    def meet(name: str) -> str:
        meeting.wait(20)
        return name

    result = wait(agent([calls(call("meet", name="a"), call("meet", name="b")), "met"], meet).arun("hi"))
    assert [each.content for each in result.results] == ["a", "b"]


def test_results_keep_the_order_of_the_calls() -> None:
    second_done = asyncio.Event()

    @dragoman.tool(parallel_safe=True)
    async def work(name: str) -> str:
        if name == "first":
            await second_done.wait()
        second_done.set()
        return name

    events: list[RunEvent] = []
    both = calls(call("work", name="first"), call("work", name="second"))
    result = wait(agent([both, "done"], work).arun("hi", on_event=events.append))
    assert [each.content for each in result.results] == ["first", "second"]
    ended = [event.result.content for event in events if isinstance(event, ToolEnded)]
    assert ended == ["second", "first"], "it is told as it happens"


def test_no_more_calls_than_the_limit_run_at_the_same_time() -> None:
    running = 0
    most = 0

    @dragoman.tool(parallel_safe=True)
    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return number

    many = calls(*(call("work", number=number) for number in range(12)))
    result = wait(agent([many, "done"], work, limits=Limits(concurrency=3)).arun("hi"))
    assert most == 3
    assert [each.content for each in result.results] == [str(number) for number in range(12)]


def test_an_unsafe_call_runs_alone() -> None:
    seen: list[str] = []

    @dragoman.tool(parallel_safe=True)
    async def look(name: str) -> str:
        seen.append(f"{name} begins")
        await asyncio.sleep(0)
        seen.append(f"{name} ends")
        return name

    @dragoman.tool
    async def write(name: str) -> str:
        seen.append(f"{name} begins")
        await asyncio.sleep(0)
        seen.append(f"{name} ends")
        return name

    mixed = calls(call("look", name="a"), call("write", name="b"), call("look", name="c"))
    wait(agent([mixed, "done"], look, write).arun("hi"))
    assert seen == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_tool_that_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    @dragoman.tool(timeout=QUICK)
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    result = wait(agent([call("hang"), "It hung."], hang).arun("hi"))
    assert cancelled.is_set()
    assert result.outcome.kind == "answered"
    assert "did not answer within" in str(result.results[0].content)
    assert "outcome is unknown" in str(result.results[0].content)


def test_a_blocking_tool_that_takes_too_long_is_abandoned_and_reported() -> None:
    release = threading.Event()
    was_told = threading.Event()

    @dragoman.tool(timeout=QUICK, read_only=True)
    def hang(context: ToolContext) -> str:
        release.wait(20)
        if context.cancelled():
            was_told.set()
        return "late"

    events: list[RunEvent] = []

    async def script() -> Any:
        result = await agent([call("hang"), "It hung."], hang).arun("hi", on_event=events.append)
        release.set()
        return result

    result = wait(script())
    assert result.outcome.kind == "answered"
    assert "unknown" not in str(result.results[0].content), "a tool that only reads has done no harm"
    assert "tool_abandoned" in notices(events)
    assert "tool_abandoned" in [problem.kind for problem in result.problems]
    assert was_told.wait(20), "a tool in a thread can ask whether it is still wanted"


_FORKED = """
import asyncio, os, warnings
import dragoman
from dragoman.testing import ScriptedModel, call
warnings.simplefilter("ignore", DeprecationWarning)

@dragoman.tool(timeout=20)
def read() -> str:
    return "read in a thread"

def run() -> str:
    return dragoman.Agent(ScriptedModel([call("read"), "done"]), [read]).run("go").results[0].content

assert run() == "read in a thread"
child = os.fork()
if not child:
    print(run(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_runs_blocking_tools_in_threads_of_its_own() -> None:
    """It gave the call to an idle thread of its parent, which it did not have, and the call ran into its timeout."""
    done = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("read in a thread\n", 0), done.stderr


def test_the_turn_has_its_time_too() -> None:
    @dragoman.tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    result = wait(agent([call("hang"), "It hung."], hang, limits=Limits(turn_seconds=QUICK)).arun("hi"))
    assert result.outcome.kind == "answered"
    assert "did not answer within" in str(result.results[0].content)


def test_the_time_of_the_run_really_ends_it() -> None:
    @dragoman.tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    result = wait(agent([call("hang")], hang, limits=Limits(seconds=QUICK)).arun("hi", check=False))
    assert result.outcome.kind == "time_limit"
    assert len(result.results) == 1


def test_a_model_that_never_answers_does_not_hold_a_run_up() -> None:
    async def never(request: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    result = wait(agent([never], limits=Limits(seconds=QUICK)).arun("hi", check=False))
    assert result.outcome.kind == "time_limit"


def test_the_time_of_a_call_begins_when_it_does() -> None:
    """The second call waits for the first, and has as much time all the same."""
    order: list[str] = []
    deadlines: list[float] = []

    @dragoman.tool(parallel_safe=True, timeout=30.0)
    async def work(name: str, context: ToolContext) -> str:
        assert context.deadline is not None
        deadlines.append(context.deadline)
        order.append(name)
        began = time.monotonic()
        while time.monotonic() == began:
            await asyncio.sleep(0)
        return name

    both = calls(call("work", name="a"), call("work", name="b"))
    wait(agent([both, "done"], work, limits=Limits(concurrency=1)).arun("hi"))
    assert order == ["a", "b"]
    assert deadlines[1] > deadlines[0]


# ---- whatever they do ------------------------------------------------------------------------------------------------


class Hidden(BaseException):
    """An exception that `except Exception` does not catch."""


def _raise(problem: BaseException) -> Any:
    raise problem


PROBLEMS = [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), Hidden("deep"), StopIteration(), RecursionError()]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_whatever_a_tool_raises_is_an_error_for_the_model(problem: BaseException, is_async: bool) -> None:
    def broken() -> str:
        return _raise(problem)  # type: ignore[no-any-return]

    async def broken_later() -> str:
        return _raise(problem)  # type: ignore[no-any-return]

    made = dragoman.tool(name="broken")(broken_later if is_async else broken)
    result = wait(agent([call("broken"), "It broke."], made).arun("hi"))
    assert result.outcome.kind == "answered"
    assert result.results[0].is_error


def test_a_tool_that_cancels_itself_affects_no_other_call() -> None:
    @dragoman.tool
    async def quit_() -> str:
        raise asyncio.CancelledError

    result = wait(agent([call("quit_"), "It stopped."], quit_).arun("hi"))
    assert result.outcome.kind == "answered"
    assert result.results[0].is_error


def _cycle() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no words")


RETURNS = {
    "huge": "x" * 5_000_000,
    "cyclic": _cycle(),
    "unspeakable": Unspeakable(),
    "bytes": b"\xff\x00",
    "half a character": "\ud800",
    "nothing": None,
    "a set": {1, 2},
    "not a number": float("nan"),
    "deep": [[[[[[[[[[1]]]]]]]]]],
}


@pytest.mark.parametrize("name", RETURNS)
@pytest.mark.parametrize("journal", [False, True], ids=["plain", "recorded"])
def test_whatever_a_tool_gives_becomes_a_result(name: str, journal: bool) -> None:
    from dragoman.journal import MemoryJournal

    @dragoman.tool
    def give() -> Any:
        return RETURNS[name]

    settings: dict[str, Any] = {"journal": MemoryJournal()} if journal else {}
    result = wait(agent([call("give"), "Thanks."], give, **settings).arun("hi"))
    assert result.outcome.kind == "answered"
    content = result.results[0].content
    shown = content if isinstance(content, str) else str(content)
    assert len(shown) < 200_000
    shown.encode()


def test_an_error_is_a_result_and_one_without_retry_ends_the_run() -> None:
    @dragoman.tool
    def fetch(retry: bool) -> Any:
        return Error("no connection", retryable=retry)

    goes_on = wait(agent([call("fetch", retry=True), "Sorry."], fetch).arun("hi"))
    assert (goes_on.outcome.kind, goes_on.results[0].is_error) == ("answered", True)
    ended = wait(agent([call("fetch", retry=False)], fetch).arun("hi", check=False))
    assert (ended.outcome.kind, ended.outcome.reason) == ("tool_failed", "no connection")


def test_halt_stops_the_run_and_its_siblings() -> None:
    cancelled: list[str] = []
    ready = asyncio.Event()

    @dragoman.tool(parallel_safe=True)
    async def work(name: str) -> str:
        ready.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return "never"

    @dragoman.tool(parallel_safe=True)
    async def stop() -> Any:
        await ready.wait()
        raise Halt("enough")

    many = calls(call("work", name="a"), call("stop"), call("work", name="b"))
    result = wait(agent([many], work, stop).arun("hi"))
    assert (result.outcome.kind, result.outcome.reason) == ("halted", "enough")
    assert sorted(cancelled) == ["a", "b"]
    assert [each.call_id for each in result.results] == [each.id for each in result.calls]


def test_a_result_has_data_for_the_caller_and_text_for_the_model() -> None:
    @dragoman.tool
    def measure() -> Any:
        return Ok("warm", data={"degrees": 20})

    result = wait(agent([call("measure"), "Warm."], measure).arun("hi"))
    assert (result.results[0].content, result.results[0].data) == ("warm", {"degrees": 20})


def test_parts_are_shown_as_parts() -> None:
    @dragoman.tool
    def show() -> Any:
        return [Text("see"), dragoman.types.Image(data="aGk=", media_type="image/png")]

    result = wait(agent([call("show"), "Seen."], show).arun("hi"))
    assert isinstance(result.results[0].content, list)


# ---- its surroundings ------------------------------------------------------------------------------------------------


def test_progress_is_reported_at_once() -> None:
    @dragoman.tool
    def copy(context: ToolContext) -> str:
        context.progress("half", 0.5)
        context.progress("done", 1)
        return "copied"

    events: list[RunEvent] = []
    wait(agent([call("copy"), "Copied."], copy).arun("hi", on_event=events.append))
    shown = [(event.message, event.fraction) for event in events if isinstance(event, ToolProgressed)]
    assert shown == [("half", 0.5), ("done", 1)]
    told = kinds(events)
    assert told.index("ToolStarted") < told.index("ToolProgressed") < told.index("ToolEnded")


def test_a_call_that_has_ended_reports_no_progress() -> None:
    reported = threading.Event()

    @dragoman.tool(timeout=0.05)
    def stuck(context: ToolContext) -> str:
        context.progress("begun")
        while not context.cancelled():
            pass
        context.progress("too late")
        reported.set()
        return "done"

    async def script() -> list[RunEvent]:
        events: list[RunEvent] = []
        await agent([call("stuck"), "Stopped."], stuck).arun("hi", on_event=events.append)
        assert await asyncio.to_thread(reported.wait, 10)
        await asyncio.sleep(0)
        return events

    events = wait(script())
    assert [event.message for event in events if isinstance(event, ToolProgressed)] == ["begun"]
    assert isinstance(events[-1], RunEnded)


def test_a_reader_that_is_far_behind_gets_the_last_progress_of_each_call() -> None:
    """A tool of a server may report progress without end, and nothing makes it wait for the reader."""
    names = ("a", "b", "c")

    async def script() -> list[RunEvent]:
        all_reported = asyncio.Event()
        reported: list[str] = []

        @dragoman.tool(parallel_safe=True)
        async def work(name: str, context: ToolContext) -> str:
            for number in range(5000):
                context.progress(f"{name}{number}")
                if number % 100 == 0:
                    await asyncio.sleep(0)
            reported.append(name)
            if len(reported) == len(names):
                all_reported.set()
            return "worked"

        heard: list[RunEvent] = []
        async for event in agent([calls(*(call("work", name=name) for name in names)), "done"], work).stream("hi"):
            heard.append(event)
            if isinstance(event, ToolStarted):
                await all_reported.wait()
        return heard

    progress = [event.message for event in wait(script()) if isinstance(event, ToolProgressed)]
    assert len(progress) < 600
    assert {f"{name}4999" for name in names} <= set(progress)


def test_one_tool_serves_fifty_runs_each_in_its_own_context() -> None:
    class Remember:
        name = "remember"
        description = "Say who asks."
        schema: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"who": {"type": "string"}}}

        async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
            await asyncio.sleep(0)
            return Ok(arguments["who"], data=(context.run_id, context.call_id, context.turn, context.data))

    made = Remember()
    model = ScriptedModel(lambda request: _who(request), loop=True)
    shared = Agent(model.endpoint(), [made], connection=Connection(transport=model))

    async def script() -> list[Any]:
        return await asyncio.gather(*(shared.arun(f"I am {number}", data=number) for number in range(50)))

    results = wait(script())
    assert [result.text for result in results] == [f"hello {number}" for number in range(50)]
    for number, result in enumerate(results):
        assert result.results[0].content == str(number)
        assert result.results[0].data == (result.run_id, result.calls[0].id, 1, number)


def _who(request: Any) -> Any:
    who = request.messages[0].text.removeprefix("I am ")
    return f"hello {who}" if request.messages[-1].role == "tool" else call("remember", who=who)


def test_two_hundred_runs_at_once_lose_nothing() -> None:
    @dragoman.tool(parallel_safe=True)
    def remember(who: str) -> str:
        return who

    model = ScriptedModel(lambda request: _who(request), loop=True)
    shared = Agent(model.endpoint(), [remember], connection=Connection(transport=model))

    async def script() -> list[Any]:
        return await asyncio.gather(*(shared.arun(f"I am {number}") for number in range(200)))

    results = wait(script())
    assert [result.text for result in results] == [f"hello {number}" for number in range(200)]


def test_tools_see_the_context_variables_of_the_caller() -> None:
    request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")

    @dragoman.tool
    def blocking() -> str:
        return request_id.get()

    @dragoman.tool
    async def waiting() -> str:
        return request_id.get()

    async def script() -> Any:
        request_id.set("42")
        return await agent([calls(call("blocking"), call("waiting")), "done"], blocking, waiting).arun("hi")

    assert [each.content for each in wait(script()).results] == ["42", "42"]


def test_arguments_that_do_not_fit_the_types_are_an_error_and_nothing_runs() -> None:
    from datetime import date

    ran: list[Any] = []

    @dragoman.tool
    def plan(day: date) -> str:
        ran.append(day)
        return "planned"

    events: list[RunEvent] = []
    script = [call("plan", day="someday"), call("plan", day="2026-02-01"), "done"]
    result = wait(agent(script, plan).arun("hi", on_event=events.append))
    assert ran == [date(2026, 2, 1)]
    assert [each.is_error for each in result.results] == [True, False]
    assert sum(isinstance(event, ToolStarted) for event in events) == 1
