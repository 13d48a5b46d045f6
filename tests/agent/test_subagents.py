"""Agents as tools of others: with at most the rights, the budget and the deadline of the parent run, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.agent.playbook import Playbook, check_conversation
from tests.agent.runs import agent, wait
from tests.agent.toolbox import decides, read

import dragoman
from dragoman.agent import Agent, Connection, Deny, Limits
from dragoman.agent.protocol import ChildSpent
from dragoman.agent.resume import restore
from dragoman.extraction.trust import PROFILES, stricter
from dragoman.testing import ScriptedModel, call
from dragoman.tools import ToolContext
from dragoman.types import Tool, ToolCall, Usage

QUICK = 0.05
TASK = call("helper", task="do it")


def pair(replies: list[Any], *tools: Any, above: Any = None, below: Any = None, script: Any = None) -> Agent:
    """An agent with another as its only tool; `replies` are those of the inner one."""
    inner = agent(replies, *tools, **(below or {}))
    return agent(script or [TASK, "done"], inner.as_tool("helper", "Does things."), **(above or {}))


def test_an_agent_can_be_a_tool() -> None:
    result = wait(pair(["I did it."]).arun("hi"))
    assert result.results[0].content == "I did it."
    assert result.results[0].data.outcome.kind == "answered"
    assert result.text == "done"


def test_what_the_parent_may_not_the_child_may_not_either() -> None:
    ran: list[str] = []

    @dragoman.tool
    def write(path: str) -> str:
        ran.append(path)
        return "wrote"

    below = pair([call("write", path="a"), "I did it."], write, above={"policy": decides("deny", "write")})
    result = wait(below.arun("hi"))
    assert ran == []
    inner = result.results[0].data
    assert "Denied by policy" in inner.results[0].content


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ({"deny": ["write"]}, {"allow": ["write"], "mode": "bypass"}),
        ({"mode": "locked", "ask": ["write"]}, {"mode": "bypass"}),
        ({"ask": ["wri*"]}, {"allow": ["write"]}),
    ],
    ids=["a rule that denies", "a mode in which nobody is asked", "a rule that asks, and nobody is there"],
)
def test_no_rule_of_the_parent_is_loosened_below(above: Any, below: Any) -> None:
    ran: list[str] = []

    @dragoman.tool
    def write(path: str) -> str:
        ran.append(path)
        return "wrote"

    result = wait(pair([call("write", path="a"), "I did it."], write, above=above, below=below).arun("hi"))
    assert ran == []
    assert result.results[0].data.results[0].is_error


def test_a_child_hides_and_restores_secrets_with_its_parent() -> None:
    token = "ghp_" + "R4nd0mR4nd0mR4nd0mR4nd0mR4nd0m" + "1Yl9Xz"
    written: list[str] = []

    @dragoman.tool
    def read() -> str:
        return f"token: {token}"

    @dragoman.tool(metadata={"restores": True})
    def write(content: str) -> str:
        written.append(content)
        return "written"

    def copy(request: Any) -> Any:
        told = [part.content for message in request.messages for part in message.parts if hasattr(part, "call_id")]
        return call("helper", task="read") if not told else call("write", content=told[0]) if len(told) == 1 else "done"

    def seen(request: Any) -> Any:
        results = [part.content for message in request.messages for part in message.parts if hasattr(part, "call_id")]
        return results[0] if results else call("read")

    helper = agent(seen, read, loop=True).as_tool("helper", "Reads.")
    result = wait(agent(copy, helper, write, loop=True).arun("hi"))
    assert token not in str([part for message in result.messages for part in message.parts])
    assert written == [f"token: {token}"], "the placeholder of the child is known above"


def test_a_child_asks_the_approver_of_its_parent_and_no_other() -> None:
    asked: list[str] = []

    @dragoman.tool(requires_approval=True)
    def write(path: str) -> str:
        return "wrote"

    def above(request: Any) -> bool:
        asked.append("above")
        return False

    def below(request: Any) -> bool:
        asked.append("below")
        return True

    replies = [call("write", path="a"), "I did it."]
    result = wait(pair(replies, write, above={"approve": above}, below={"approve": below}).arun("hi"))
    assert asked == ["above"]
    assert "Denied by the user" in result.results[0].data.results[0].content
    result = wait(pair(replies, write, below={"approve": below}).arun("hi"))
    assert asked == ["above"], "where nobody is above to ask, nobody is asked"
    assert "nobody is there to give it" in result.results[0].data.results[0].content


def test_parent_and_child_spend_from_one_budget() -> None:
    inner_model = ScriptedModel([call("look")] * 20, usage=Usage(30, 10))
    outer_model = ScriptedModel([TASK, "done"], usage=Usage(30, 10))

    @dragoman.tool(metadata={"polling": True})
    def look() -> str:
        return "a wall"

    inner = Agent(inner_model.endpoint(), [look], connection=Connection(transport=inner_model), limits=Limits(turns=20))
    outer = Agent(
        outer_model.endpoint(),
        [inner.as_tool("helper", "")],
        connection=Connection(transport=outer_model),
        limits=Limits(tokens=200),
    )
    result = wait(outer.arun("hi", check=False))
    assert result.outcome.kind == "token_limit"
    inner_result = result.results[0].data
    assert inner_result.outcome.kind == "token_limit"
    assert len(inner_model.requests) == 4


def spenders(*, turns: int = 10) -> tuple[Agent, ScriptedModel]:
    """An agent whose tool is an agent whose tool is an agent; every reply costs 40 tokens."""

    def spends(script: list[Any], *tools: Any, **settings: Any) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(script, usage=Usage(30, 10))
        return Agent(model.endpoint(), tools, connection=Connection(transport=model), **settings), model

    @dragoman.tool(metadata={"polling": True})
    def look() -> str:
        return "a wall"

    inner, deepest = spends([call("look")] * 3 + ["I saw a wall."], look)
    middle, _ = spends([TASK, "done"], inner.as_tool("helper", ""))
    outer, _ = spends([TASK, "done"], middle.as_tool("helper", ""), limits=Limits(turns=turns))
    return outer, deepest


def test_the_usage_and_the_turns_of_a_run_include_every_generation_below() -> None:
    outer, _ = spenders()
    result = wait(outer.arun("hi"))
    middle = result.results[0].data
    inner = middle.results[0].data
    assert [each.turns for each in (inner, middle, result)] == [4, 6, 8]
    assert [each.usage for each in (inner, middle, result)] == [Usage(120, 40), Usage(180, 60), Usage(240, 80)]


def test_turns_are_shared_by_every_generation() -> None:
    outer, deepest = spenders(turns=4)
    result = wait(outer.arun("hi", check=False))
    middle = result.results[0].data
    assert result.outcome.kind == middle.outcome.kind == middle.results[0].data.outcome.kind == "turn_limit"
    assert "agents that this run called used 3 of them" in result.outcome.reason
    assert "of the parent run" in middle.outcome.reason
    assert (len(deepest.requests), result.turns) == (2, 4)


def test_what_a_child_used_before_it_was_stopped_counts() -> None:
    async def never(request: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    @dragoman.tool
    def look() -> str:
        return "a wall"

    model = ScriptedModel([call("look"), never], usage=Usage(30, 10))
    inner = Agent(model.endpoint(), [look], connection=Connection(transport=model))
    result = wait(agent([TASK, "done"], inner.as_tool("helper", "", timeout=QUICK)).arun("hi"))
    assert result.results[0].is_error and result.usage.input_tokens >= 30 and result.turns == 4


def test_a_resumed_run_knows_what_its_children_used() -> None:
    play = Playbook(read, limits=Limits(turns=9, tokens=200)).starts("hi").asks().replies(call("read", path="a"))
    play.runs("read").receives(ChildSpent(Usage(70, 30), 0.0, 2)).answers("x")
    restored = restore(play.records(), play.config)
    assert (restored.machine.spending.turns, restored.machine.spending.usage) == (4, Usage(80, 35))
    result = play.asks().replies("done").ends("answered")
    assert (result.turns, result.usage) == (4, Usage(90, 40))


def test_a_child_has_no_more_time_than_its_call() -> None:
    async def never(request: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    inner = agent([never])
    outer = agent([TASK, "done"], inner.as_tool("helper", "", timeout=QUICK))
    result = wait(outer.arun("hi"))
    assert result.outcome.kind == "answered"
    assert result.results[0].is_error


def test_a_child_is_cancelled_with_its_parent() -> None:
    async def script() -> Any:
        begun = asyncio.Event()
        seen: list[str] = []

        @dragoman.tool
        async def work() -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("over")
            return "never"

        run = pair([call("work")], work).start("hi")
        task = asyncio.create_task(run.result(check=False))
        await begun.wait()
        run.cancel("enough")
        result = await task
        assert seen == ["over"]
        return result

    result = wait(script())
    assert result.outcome.kind == "cancelled"
    check_conversation(result.messages)


def test_the_model_of_the_parent_learns_of_the_failure_of_a_child() -> None:
    below = {"limits": Limits(turns=1)}

    @dragoman.tool
    def look() -> str:
        return "a wall"

    result = wait(pair([["I look.", call("look")]], look, below=below).arun("hi"))
    assert result.outcome.kind == "answered"
    assert "turn_limit" in str(result.results[0].content)
    assert "I look." in str(result.results[0].content)


def test_data_of_the_caller_reaches_the_tools_of_a_child() -> None:
    @dragoman.tool
    def whoami(context: ToolContext) -> str:
        return str(context.data)

    result = wait(pair([call("whoami"), "done"], whoami).arun("hi", data="Ann"))
    assert result.results[0].data.results[0].content == "Ann"


def test_rights_are_handed_down_through_every_generation() -> None:
    ran: list[str] = []

    @dragoman.tool
    def write(path: str) -> str:
        ran.append(path)
        return "wrote"

    inner = agent([call("write", path="a"), "I did it."], write)
    middle = agent([TASK, "done"], inner.as_tool("helper", ""))
    outer = agent([TASK, "done"], middle.as_tool("helper", ""), policy=decides("deny", "write"))
    assert wait(outer.arun("hi")).outcome.kind == "answered"
    assert ran == []


def test_a_hook_that_guards_the_parent_guards_the_child() -> None:
    ran: list[str] = []

    @dragoman.tool
    def write(path: str) -> str:
        ran.append(path)
        return "wrote"

    class Guard:
        def before_tool(self, call: ToolCall, tool: Tool) -> Deny | None:
            return Deny("not there") if call.arguments.get("path") == "/etc" else None

    class Redirect:
        def before_tool(self, call: ToolCall, tool: Tool) -> dict[str, str]:
            return {"path": "/etc"}

    result = wait(
        pair(
            [call("write", path="a"), "I did it."], write, above={"hooks": [Guard()]}, below={"hooks": [Redirect()]}
        ).arun("hi")
    )
    assert ran == []
    assert "Denied by a hook: not there" in result.results[0].data.results[0].content


@pytest.mark.parametrize("parent", PROFILES)
@pytest.mark.parametrize("child", PROFILES)
def test_the_trust_of_a_sub_agent_is_never_looser_than_its_parents(parent: str, child: str) -> None:
    both = stricter(child, parent)
    severity = ("allow", "ask", "refuse").index
    for name in ("bare", "loose", "followed"):
        severest = max(getattr(PROFILES[child], name), getattr(PROFILES[parent], name), key=severity)
        assert getattr(both, name) == severest
