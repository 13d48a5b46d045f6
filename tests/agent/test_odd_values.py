"""Hooks, approvers and compactors return odd values: the run goes on or ends, and its journal stays readable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.playbook import check_conversation
from tests.agent.runs import agent, wait

import dragoman
from dragoman.agent import Approval
from dragoman.agent.context import Compaction
from dragoman.agent.hooks import Deny, Stop
from dragoman.agent.result import RunResult
from dragoman.journal import MemoryJournal, order_faults
from dragoman.testing import call

ran: list[object] = []


@pytest.fixture(autouse=True)
def none_ran() -> None:
    ran.clear()


@dragoman.tool(requires_approval=True)
async def send(name: object) -> str:
    ran.append(name)
    return "sent"


@dragoman.tool
async def read(name: str) -> str:
    ran.append(name)
    return "x " * 4000


def run(tool: Any, *, names: str = "a", **settings: Any) -> RunResult:
    """Run an agent whose model makes some calls, and check that its journal can be read again."""
    journal = MemoryJournal()
    replies = [*(call(tool.__name__, name=name) for name in names), "done"]

    async def script() -> RunResult:
        made = agent(replies, tool, journal=journal, **settings)
        result = await made.arun("hi", run_id="r", check=False)
        assert order_faults(await journal.read("r")) == []
        again = await made.aresume("r", check=False)
        assert (again.outcome.kind, again.messages) == (result.outcome.kind, result.messages)
        return result

    result = wait(script())
    check_conversation(result.messages)
    return result


def hook(method: str, function: Callable[..., Any]) -> object:
    return type("Hook", (), {method: lambda self, *given: function(*given)})()


def endless() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["name"] = made
    return made


NOT_JSON: dict[str, Callable[[], dict[Any, Any]]] = {
    "a path": lambda: {"name": Path("x")},
    "a name that is a number": lambda: {1: "x"},
    "not a number": lambda: {"name": float("nan")},
    "bytes": lambda: {"name": b"x"},
    "a set": lambda: {"name": {"x"}},
    "a value inside itself": endless,
    "a number of 5000 digits": lambda: {"name": 10**5000},
}


@pytest.mark.parametrize("case", NOT_JSON)
def test_arguments_that_are_not_json_deny_the_call(case: str) -> None:
    """The journal could not store the call that runs."""
    result = run(send, hooks=[hook("before_tool", lambda *_: NOT_JSON[case]())], approve=lambda _: True)
    assert "arguments that are not JSON" in str(result.results[0].content)
    result = run(send, approve=lambda _: Approval(True, arguments=NOT_JSON[case]()))
    assert "not an answer" in str(result.results[0].content)
    assert ran == []


ODD_APPROVALS: dict[str, dict[str, Any]] = {
    "a rule": {"rule": 5},
    "a name": {"by": None},
    "a reason": {"reason": None},
    "a result": {"result": {"a": 1}},
    "arguments": {"arguments": ["x"]},
    "a verdict": {"approved": "yes"},
}


@pytest.mark.parametrize("case", ODD_APPROVALS)
def test_an_approval_with_a_field_of_another_type_is_a_denial(case: str) -> None:
    result = run(send, approve=lambda _: Approval(**{"approved": True, **ODD_APPROVALS[case]}))
    assert ran == []
    assert "not an answer" in str(result.results[0].content)
    assert "approver_failed" in {each.kind for each in result.problems}


@pytest.mark.parametrize(("reason", "text"), [(None, ""), (5, "5"), (ValueError("bad"), "bad")])
def test_the_reason_of_a_hook_is_always_text(reason: Any, text: str) -> None:
    result = run(read, hooks=[hook("before_tool", lambda *_: Deny(reason))])
    assert str(result.results[0].content) == (f"Denied by a hook: {text}" if text else "Denied by a hook.")
    for method in ("before_model", "after_model", "before_tool", "after_tool", "after_answer"):
        result = run(read, hooks=[hook(method, lambda *_: Stop(reason))])
        assert (result.outcome.kind, result.outcome.reason) == ("stopped", text), method


ODD_CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "messages that are no list": ("before_model", lambda request: replace(request, messages=None)),
    "messages that are texts": ("before_model", lambda request: replace(request, messages=["hi"])),
    "a message whose parts are texts": (
        "before_model",
        lambda request: replace(request, messages=[dragoman.Message("user", ["hi"])]),  # type: ignore[list-item]
    ),
    "tools that are no list": ("before_model", lambda request: replace(request, tools=None)),
    "options that are no mapping": ("before_model", lambda request: replace(request, options=None)),
    "no message": ("after_model", lambda reply: replace(reply, message=None)),
    "parts that are texts": (
        "after_model",
        lambda reply: replace(reply, message=replace(reply.message, parts=["hi"])),
    ),
    "an unknown stop": ("after_model", lambda reply: replace(reply, stop="banana")),
    "no usage": ("after_model", lambda reply: replace(reply, usage=None)),
}


@pytest.mark.parametrize("case", ODD_CHANGES)
def test_a_changed_request_or_reply_that_is_none_ends_the_run(case: str) -> None:
    method, change = ODD_CHANGES[case]
    result = run(read, hooks=[hook(method, change)])
    assert result.outcome.kind == "hook_failed"
    assert method in result.outcome.reason
    assert ran == []


ODD_COMPACTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "no messages": lambda messages: Compaction(None),  # type: ignore[arg-type]
    "messages that are texts": lambda messages: Compaction(["hi"]),  # type: ignore[list-item]
    "parts that are texts": lambda messages: Compaction([dragoman.Message("user", ["hi"])]),  # type: ignore[list-item]
    "an unknown role": lambda messages: Compaction([dragoman.Message("boss", "hi")]),  # type: ignore[arg-type]
    "no losses": lambda messages: Compaction(messages, None),  # type: ignore[arg-type]
    "calls without results": lambda messages: Compaction([each for each in messages if each.role != "tool"]),
    "results without calls": lambda messages: Compaction([each for each in messages if each.role != "assistant"]),
}


@pytest.mark.parametrize("case", ODD_COMPACTIONS)
def test_a_compaction_that_cannot_replace_the_conversation_is_replaced(case: str) -> None:
    def compact(messages: list[Any], _: Any) -> Any:
        return ODD_COMPACTIONS[case](messages)

    result = run(read, names="abc", compactor=compact, window=5000)
    assert result.outcome.kind == "answered"
    assert {"compactor_failed", "compacted"} <= {each.kind for each in result.problems}
    assert ran == ["a", "b", "c"]


def test_a_compactor_may_keep_what_the_caller_left_unpaired() -> None:
    unpaired = [dragoman.Message("assistant", [call("read", name="z")]), dragoman.Message.user("hi")]

    async def script() -> RunResult:
        made = agent(["done"], read, compactor=lambda messages, _: Compaction(list(messages)), window=8)
        return await made.arun(unpaired, check=False)

    kinds = {each.kind for each in wait(script()).problems}
    assert "compacted" in kinds
    assert "compactor_failed" not in kinds


def test_a_tool_for_which_there_is_no_thread_did_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    @dragoman.tool
    def write(name: str) -> str:
        raise AssertionError("it ran")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("dragoman.agent.calls._ToolThread.start", refuse)
    monkeypatch.setattr("dragoman.agent.calls.shared._idle", [])
    result = run(write)
    assert result.outcome.kind == "answered"
    assert str(result.results[0].content) == "Not run: the tool could not be started (can't start new thread)."
