"""Whole runs: hooks, approvers, listeners, steering, cancelling, streams, and blocking code."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.playbook import check_conversation
from tests.agent.runs import agent, kinds, notices, wait

import dragoman
from dragoman.agent import Agent, Approval, ApprovalRequest, Connection, Deny, Limits, Stop
from dragoman.agent.events import ApprovalGiven, ApprovalNeeded, RunEnded, RunEvent, RunStarted, ToolEnded
from dragoman.errors import ConfigError
from dragoman.events import TextDelta
from dragoman.providers import MemoryFacts
from dragoman.testing import Answer, ScriptedModel, call, calls
from dragoman.testing.script import write_stream
from dragoman.tools import ToolContext
from dragoman.types import Failure, Message, Part, Reply, Request, Text, Tool, ToolCall, ToolResult

QUICK = 0.05


@dragoman.tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@dragoman.tool(requires_approval=True)
def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


GREET = call("greet", name="Ann")
ERASE = call("erase", path="a")

# ---- hooks -----------------------------------------------------------------------------------------------------------


class Recorder:
    """A hook that changes nothing."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_model(self, request: Request) -> None:
        self.seen.append("before_model")

    async def after_model(self, reply: Reply) -> None:
        self.seen.append("after_model")

    def before_tool(self, call: ToolCall, tool: Tool) -> None:
        self.seen.append(f"before {call.name}")

    async def after_tool(self, call: ToolCall, result: ToolResult) -> None:
        self.seen.append(f"after {call.name}: {result.content}")


def test_hooks_see_everything_in_order() -> None:
    hook = Recorder()
    result = wait(agent([GREET, "done"], greet, hooks=[hook]).arun("hi"))
    assert result.outcome.kind == "answered"
    assert hook.seen == [
        "before_model",
        "after_model",
        "before greet",
        "after greet: hello Ann",
        "before_model",
        "after_model",
    ]


class Changer:
    def before_model(self, request: Request) -> Request:
        return replace(request, options={**request.options, "temperature": 0.0})

    def after_model(self, reply: Reply) -> Reply | None:
        if reply.text:
            return replace(reply, message=Message("assistant", [Text(reply.text.upper())]))
        return None

    def before_tool(self, call: ToolCall, tool: Tool) -> dict[str, Any]:
        return {"name": "Bob"}

    def after_tool(self, call: ToolCall, result: ToolResult) -> str:
        return f"{result.content}!"


def test_hooks_may_change_requests_replies_arguments_and_results() -> None:
    model = ScriptedModel([GREET, "done"])
    result = wait(
        Agent(model.endpoint(), [greet], connection=Connection(transport=model), hooks=[Changer()]).arun("hi")
    )
    assert result.text == "DONE"
    assert result.results[0].content == "hello Bob!"
    assert [request.options.get("temperature") for request in model.requests] == [0.0, 0.0]


def test_calls_that_a_hook_writes_into_a_reply_are_judged_like_the_models_own() -> None:
    class Inventor:
        def after_model(self, reply: Reply) -> Reply | None:
            if reply.text != "start":
                return None
            made: list[Part] = [
                ToolCall("x1", "greet", {"name": "Eve"}),
                ToolCall("x2", "greet", {"nam": 1}),
                ToolCall("x3", "no", {}),
            ]
            return replace(reply, message=Message("assistant", made))

    result = wait(agent(["start", "done"], greet, hooks=[Inventor()]).arun("hi"))
    assert [each.is_error for each in result.results] == [False, True, True]


class Refusing:
    def __init__(self, where: str, given: Any) -> None:
        setattr(self, where, lambda *things: given)


@pytest.mark.parametrize("where", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_may_stop_the_run_anywhere(where: str) -> None:
    result = wait(agent([GREET, "done"], greet, hooks=[Refusing(where, Stop("policy"))]).arun("hi"))
    assert (result.outcome.kind, result.outcome.reason) == ("stopped", "policy")
    check_conversation(result.messages)


def test_a_hook_may_deny_a_call() -> None:
    result = wait(agent([GREET, "done"], greet, hooks=[Refusing("before_tool", Deny("not now"))]).arun("hi"))
    assert result.results[0].content == "Denied by a hook: not now"


class Broken:
    def __init__(self, where: str, problem: BaseException) -> None:
        def fail(*things: Any) -> Any:
            raise problem

        setattr(self, where, fail)


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("before_model", "hook_failed"),
        ("after_model", "hook_failed"),
        ("before_tool", "answered"),
        ("after_tool", "answered"),
    ],
)
@pytest.mark.parametrize("how", ["raises", "nonsense"])
def test_a_failing_hook_is_reported_and_never_passed_over(where: str, kind: str, how: str) -> None:
    events: list[RunEvent] = []
    hook = Broken(where, ValueError("oops")) if how == "raises" else Refusing(where, object())
    result = wait(agent([GREET, "done"], greet, hooks=[hook]).arun("hi", on_event=events.append, check=False))
    assert result.outcome.kind == kind
    if how == "nonsense" and where == "after_tool":
        return  # every value is a result
    assert "hook_failed" in notices(events)
    assert "hook_failed" in [problem.kind for problem in result.problems]
    if where == "before_tool":
        assert "Denied by a hook" in str(result.results[0].content)
    if where == "after_tool":
        assert "withheld because a hook failed" in str(result.results[0].content)


@pytest.mark.parametrize("where", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_that_never_answers_does_not_outlast_the_run(where: str) -> None:
    async def never(*things: Any) -> None:
        await asyncio.Event().wait()

    class Hanging:
        pass

    setattr(Hanging, where, staticmethod(never))
    result = wait(
        agent([GREET, "done"], greet, hooks=[Hanging()], limits=Limits(seconds=QUICK)).arun("hi", check=False)
    )
    assert result.outcome.kind in ("time_limit", "hook_failed")
    check_conversation(result.messages)


def test_what_is_no_hook_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a hook"):
        agent([], hooks=[object()])


def test_a_method_that_resembles_one_of_a_hook_is_refused() -> None:
    """Next to a correct method, nobody would notice that it is never called, and it may be what denies calls."""
    for name, meant in (
        ("before_tool_call", "before_tool"),
        ("beforeTool", "before_tool"),
        ("after_anwser", "after_answer"),
    ):
        hook = type("Guard", (), {"after_model": lambda self, reply: None, name: lambda self, *given: None})()
        with pytest.raises(ConfigError, match=f"Guard.{name} is not a method of a hook; did you mean '{meant}'"):
            agent([], hooks=[hook])
    helpers = dict.fromkeys(
        ("before_tool", "before_tool_of_mine", "before_run", "after_commit", "tool"), lambda self: None
    )
    assert agent(["done"], hooks=[type("Own", (), helpers)()]).run("go").text == "done"


def test_a_reply_that_a_hook_stopped_was_paid_for() -> None:
    from dragoman.types import Usage

    model = ScriptedModel(["done"], usage=Usage(100, 20))
    hooks = [Refusing("after_model", Stop("no"))]
    result = wait(Agent(model.endpoint(), connection=Connection(transport=model), hooks=hooks).arun("hi"))
    assert result.usage == Usage(100, 20)


# ---- approval --------------------------------------------------------------------------------------------------------


async def _later(request: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


def _fail(request: ApprovalRequest) -> bool:
    raise RuntimeError("no terminal")


@pytest.mark.parametrize(
    ("approve", "said"),
    [
        (lambda request: True, "erased a"),
        (_later, "erased a"),
        (lambda request: False, "Denied by the user."),
        (lambda request: "too dangerous", "Denied by the user: too dangerous"),
        (lambda request: Approval(True, arguments={"path": "b"}), "erased b"),
        (lambda request: Approval(False, "no", by="the admin"), "Denied by the admin: no"),
        (_fail, "asking for approval failed (RuntimeError)"),
        (lambda request: None, "the approver returned NoneType, which is not an answer"),
        (lambda request: 1, "the approver returned int, which is not an answer"),
    ],
    ids=["yes", "yes, later", "no", "no, because", "changed", "by the admin", "raises", "nothing", "one"],
)
def test_an_approver_answers(approve: Any, said: str) -> None:
    events: list[RunEvent] = []
    result = wait(agent([ERASE, "done"], erase, approve=approve).arun("hi", on_event=events.append))
    assert said in str(result.results[0].content)
    needed = [event for event in events if isinstance(event, ApprovalNeeded)]
    given = [event for event in events if isinstance(event, ApprovalGiven)]
    assert len(needed) == len(given) == 1
    assert "marked as needing approval" in needed[0].why
    assert given[0].approved is said.startswith("erased")


def test_an_approver_that_never_answers_is_a_denial_when_the_time_is_over() -> None:
    async def never(request: ApprovalRequest) -> bool:
        await asyncio.Event().wait()
        return True

    result = wait(agent([ERASE, "done"], erase, approve=never, limits=Limits(seconds=QUICK)).arun("hi", check=False))
    assert result.outcome.kind == "time_limit"
    assert result.results[0].content == "Not run: the time is over."


def test_nobody_to_ask_is_a_denial() -> None:
    result = wait(agent([ERASE, "done"], erase).arun("hi"))
    assert "nobody is there to give it" in str(result.results[0].content)


# ---- listeners -------------------------------------------------------------------------------------------------------


def test_a_failing_listener_affects_neither_the_run_nor_other_listeners() -> None:
    heard: list[str] = []

    def fail(event: RunEvent) -> None:
        raise ValueError("broken display")

    made = agent([GREET, "done"], greet, listeners=[lambda run_id, event: heard.append(type(event).__name__)])
    result = wait(made.arun("hi", on_event=fail))
    assert result.outcome.kind == "answered"
    assert heard[0] == "RunStarted" and heard[-1] == "RunEnded"
    assert [problem.kind for problem in result.problems if problem.kind == "listener_failed"] == ["listener_failed"]


def test_the_events_of_a_run_in_their_order() -> None:
    events: list[RunEvent] = []
    wait(agent([GREET, "done"], greet).arun("hi", on_event=events.append))
    told = [kind for kind in kinds(events) if kind not in ("ReplyStarted", "PartEnded", "UsageReported", "ReplyEnded")]
    assert told == [
        "RunStarted",
        "Asked",
        "CallStarted",
        "ArgumentsDelta",
        "CallEnded",
        "CallDecided",
        "ToolStarted",
        "ToolEnded",
        "TurnEnded",
        "Asked",
        "TextDelta",
        "TurnEnded",
        "RunEnded",
    ]


def test_a_tool_may_give_the_final_answer_and_no_call_runs_after_it() -> None:
    from dragoman.builtin import Finish
    from dragoman.testing import calls

    ran: list[str] = []

    @dragoman.tool
    def note(text: str) -> str:
        """Note something."""
        ran.append(text)
        return "noted"

    reply = calls(call("note", text="a"), call("finish", answer="It is 42."), call("note", text="b"), say="Wait.")
    result = wait(agent([reply], note, Finish).arun("hi"))
    assert (result.outcome.kind, result.text, ran) == ("answered", "It is 42.", ["a"])
    assert "a final answer was given" in str(result.results[2].content)
    check_conversation(result.messages)


# ---- steering and cancelling -----------------------------------------------------------------------------------------


def test_a_run_can_be_steered_while_a_tool_works() -> None:
    async def script() -> tuple[Any, ScriptedModel]:
        model = ScriptedModel([call("work"), "done"])
        run: Any = None

        @dragoman.tool
        async def work() -> str:
            run.steer("be brief")
            return "worked"

        run = Agent(model.endpoint(), [work], connection=Connection(transport=model)).start("hi")
        return await run.result(), model

    result, model = wait(script())
    assert model.requests[1].messages[-1].text == "be brief"
    assert result.outcome.kind == "answered"


def test_messages_from_before_the_start_reach_the_model() -> None:
    model = ScriptedModel(["done", "in French"])
    run = Agent(model.endpoint(), connection=Connection(transport=model)).start("hi")
    run.steer("in French")
    result = wait(run.result())
    assert "in French" in [message.text for message in result.messages]


def test_a_message_that_is_none_is_refused_before_the_start() -> None:
    """The run would begin, hold its journal and fail then, so that nothing could resume it."""
    run = agent(["done"]).start("hi")
    with pytest.raises(ConfigError, match="not a task: 42"):
        run.steer(42)
    assert wait(run.result()).outcome.kind == "answered"


@pytest.mark.parametrize("when", ["while the run ends", "after the end"])
def test_a_message_that_comes_too_late_is_reported(when: str) -> None:
    async def script() -> Any:
        def hear(event: Any) -> None:
            if isinstance(event, RunEnded) and when == "while the run ends":
                run.steer("too late")

        run = agent(["done"]).start("hi", on_event=hear)
        result = await run.result()
        if when == "after the end":
            run.steer("too late")
        return result

    result = wait(script())
    assert [each.message for each in result.problems if each.kind == "unheard"] == [
        "the run ended before the model received: too late"
    ]


def test_a_run_can_be_cancelled_while_a_tool_works() -> None:
    async def script() -> Any:
        begun = asyncio.Event()
        seen: list[str] = []

        @dragoman.tool
        async def work() -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            return "never"

        run = agent([calls(call("work"), call("work", x=1))], work).start("hi")
        task = asyncio.create_task(run.result(check=False))
        await begun.wait()
        run.cancel("no more")
        result = await task
        assert seen == ["cancelled"]
        return result

    result = wait(script())
    assert (result.outcome.kind, result.outcome.reason) == ("cancelled", "no more")
    check_conversation(result.messages)


def test_a_run_can_be_cancelled_during_a_reply_and_keeps_its_text() -> None:
    async def script() -> Any:
        frames = write_stream(Reply(Message("assistant", [Text("Once upon a time")])), "openai_chat", deltas=4)
        half = Answer(200, {"content-type": "text/event-stream"}, pieces=frames[:3], stalls=True)
        model = ScriptedModel([half])
        run = Agent(model.endpoint(), connection=Connection(transport=model)).stream("hi")
        async for event in run:
            if isinstance(event, TextDelta):
                run.cancel()
        return run.outcome

    result = wait(script())
    assert result.outcome.kind == "cancelled"
    assert result.text and "Once upon a time".startswith(result.text)
    assert result.messages[-1] == Message("assistant", [Text(result.text)])


def test_a_run_that_was_cancelled_before_it_began_asks_nothing() -> None:
    model = ScriptedModel([])
    run = Agent(model.endpoint(), connection=Connection(transport=model)).start("hi")
    run.cancel()
    assert wait(run.result(check=False)).outcome.kind == "cancelled"
    assert model.requests == []


def test_a_late_cancellation_does_not_reach_the_code_that_waits() -> None:
    async def script() -> Any:
        run: Any = None

        def on_event(event: RunEvent) -> None:
            if isinstance(event, TextDelta):
                run.cancel()

        run = agent(["done"]).start("hi", on_event=on_event)
        result = await run.result()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return result

    assert wait(script()).outcome.kind in ("answered", "cancelled")


def test_cancelling_the_task_ends_the_run_and_raises() -> None:
    async def script() -> list[RunEvent]:
        begun = asyncio.Event()
        events: list[RunEvent] = []

        @dragoman.tool
        async def work() -> str:
            begun.set()
            await asyncio.Event().wait()
            return "never"

        task = asyncio.create_task(agent([call("work")], work).arun("hi", on_event=events.append))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return events

    events = wait(script())
    assert isinstance(events[-1], RunEnded)
    assert events[-1].result.outcome.kind == "cancelled"
    check_conversation(events[-1].result.messages)


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_gives_every_event_and_the_result() -> None:
    async def script() -> tuple[list[RunEvent], Any]:
        run = agent([GREET, "It is done."], greet).stream("hi")
        return [event async for event in run], run.outcome

    events, result = wait(script())
    assert isinstance(events[0], RunStarted) and isinstance(events[-1], RunEnded)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It is done."
    assert result.text == "It is done."


def test_a_stream_that_is_left_early_leaves_nothing_behind() -> None:
    async def script() -> None:
        seen: list[str] = []

        @dragoman.tool
        async def work() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("over")
            return "never"

        stream = aiter(agent([call("work")], work).stream("hi"))
        async for event in stream:
            if type(event).__name__ == "ToolStarted":
                break
        await stream.aclose()  # type: ignore[attr-defined]
        assert seen == ["over"]

    wait(script())


def test_a_stream_in_blocking_code() -> None:
    events = list(agent([GREET, "It is done."], greet).stream("hi"))
    assert isinstance(events[-1], RunEnded)


def test_a_blocking_stream_that_is_left_early() -> None:
    ended: list[str] = []

    def listen(run_id: str, event: RunEvent) -> None:
        if isinstance(event, RunEnded):
            ended.append(event.result.outcome.kind)

    async def say_nothing(request: Request) -> str:
        await asyncio.Event().wait()
        return ""

    # The run may be ahead of its reader, so the second reply delays its end.
    for event in agent([GREET, say_nothing], greet, listeners=[listen]).stream("hi"):
        if isinstance(event, ToolEnded):
            break
    assert ended == ["cancelled"]


def test_many_events_make_the_model_wait_and_none_is_lost() -> None:
    words = "word " * 3000

    async def script() -> str:
        model = ScriptedModel([words], deltas=5)
        heard = []
        async for event in Agent(model.endpoint(), connection=Connection(transport=model)).stream("hi"):
            if isinstance(event, TextDelta):
                heard.append(event.text)
                await asyncio.sleep(0)
        return "".join(heard)

    assert wait(script()) == words


def test_a_run_is_done_once() -> None:
    async def script() -> None:
        run = agent(["done"]).start("hi")
        first = await run.result()
        assert await run.result() is first

    wait(script())


# ---- blocking code ---------------------------------------------------------------------------------------------------


def test_run_in_blocking_code() -> None:
    assert agent([GREET, "done"], greet).run("hi").text == "done"


def test_run_inside_a_running_loop() -> None:
    async def script() -> str:
        return agent([GREET, "done"], greet).run("hi").text

    assert asyncio.run(script()) == "done"


# ---- tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [
        "hi",
        Message("user", [Text("hi")]),
        [Message("user", [Text("hi")])],
        {"role": "user", "content": "hi"},
        [{"role": "user", "content": "hi"}],
        ["hi"],
    ],
    ids=["text", "message", "messages", "dict", "dicts", "parts"],
)
def test_a_task_may_be_given_in_any_form(task: Any) -> None:
    assert agent(["done"]).run(task).messages[0].text == "hi"


def test_no_task_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="not a task"):
        agent([]).run(3)


def test_the_system_prompt_of_the_agent_comes_first() -> None:
    model = ScriptedModel(["done"])
    Agent(model.endpoint(), connection=Connection(transport=model), system="Be brief.").run("hi")
    assert [message.role for message in model.requests[0].messages] == ["system", "user"]


# ---- what is learned -------------------------------------------------------------------------------------------------

REJECTED = Answer(
    400, {"content-type": "application/json"}, {"error": {"message": "this model does not support tools"}}
)


def test_an_agent_remembers_that_an_endpoint_takes_no_tools() -> None:
    written = '<tool_call>\n{"name": "greet", "arguments": {"name": "Ann"}}\n</tool_call>'
    model = ScriptedModel([REJECTED, written, "done", written, "done"])
    facts = MemoryFacts()
    made = Agent(model.endpoint(), [greet], connection=Connection(transport=model, facts=facts))
    first = made.run("hi")
    assert first.results[0].content == "hello Ann"
    assert len(facts) == 1
    made.run("hi")
    assert [bool(request.tools) for request in model.requests] == [True, False, False, False, False]
    model.assert_finished()


def test_a_fallback_that_takes_no_tools_is_learned_of_alone() -> None:
    written = '<tool_call>\n{"name": "greet", "arguments": {"name": "Ann"}}\n</tool_call>'
    model = ScriptedModel([Failure("overloaded", "busy", 529), REJECTED, written, "done"])
    primary = model.endpoint("first")
    second = model.endpoint("second")
    from dragoman.client.retry import Retries

    made = Agent(
        primary, [greet], connection=Connection(transport=model, retries=Retries(attempts=1)), fallbacks=[second]
    )
    result = made.run("hi")
    assert result.outcome.kind == "answered"
    assert result.model == "second"
    assert made.endpoint.capabilities.native_tool_calls
    assert [request.model for request in model.requests][-3:] == ["second"] * 3


def test_structured_answers_through_an_agent() -> None:
    result = agent([call("final_answer", answer=[1, "2"])]).run("hi", answer=list[int])
    assert result.data == [1, 2]


def test_a_tool_without_a_body_is_refused() -> None:
    with pytest.raises(dragoman.errors.InvalidTool, match="only a description"):
        agent([], Tool("ghost"))


def test_the_surroundings_of_a_call() -> None:
    @dragoman.tool
    def where(context: ToolContext) -> str:
        return f"{context.workspace} {context.session} {context.turn} {context.data}"

    result = agent([call("where"), "done"], where, workspace="/work").run("hi", data=7)
    assert result.results[0].content == "/work None 1 7"


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["result", "events", "refused"])
def test_an_ended_run_is_freed_at_once(path: str) -> None:
    """A run that refers to itself would wait for the garbage collector, which then looks at the whole program."""

    async def scenario() -> weakref.ref[Any]:
        runner = agent([ERASE if path == "refused" else GREET, "done"], greet, erase)
        run = runner.start("hi")
        if path == "events":
            assert isinstance([event async for event in run][-1], RunEnded)
        else:
            await run.result()
        run.steer("too late")
        run.cancel("too late")
        return weakref.ref(run)

    gc.collect()
    gc.disable()
    try:
        assert wait(scenario())() is None
    finally:
        gc.enable()
