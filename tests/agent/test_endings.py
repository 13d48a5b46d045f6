"""Runs that end early: cancelled in every state, halted, failed, stopped; and inputs that no command waits for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from tests.agent.playbook import Playbook
from tests.agent.toolbox import delete, look, read, weather, write

from dragoman.agent.context import ContextSettings
from dragoman.agent.protocol import (
    Approved,
    Cancelled,
    Compacted,
    Denied,
    Input,
    Replied,
    Reviewed,
    Steered,
    Stopped,
    Ticked,
    ToolAnswered,
)
from dragoman.agent.result import _BY_CATEGORY, CATEGORIES, Category, Limits, OutcomeKind
from dragoman.cli.exit_codes import EXIT_CODES
from dragoman.cli.screen import OUTCOME_HINTS
from dragoman.testing import call
from dragoman.types import Message, Reply, Text, ToolResult, Usage

CALLS = (call("look", where="a"), call("read", path="b"), call("delete", path="c"), call("nope"))


def _asking() -> Playbook:
    return Playbook(weather).starts("hi").asks()


def _reviewing() -> Playbook:
    play = Playbook(look, read, delete, has_reviewers=True, has_approver=True).starts("hi").asks()
    return play.replies(*CALLS).reviews("look", "read").hooks_answer()


def _running() -> Playbook:
    return Playbook(look, read, delete, has_approver=True).starts("hi").asks().replies(*CALLS).runs("look", "read")


def _half_done() -> Playbook:
    return _running().answers("found")


def _approving() -> Playbook:
    return _half_done().answers("text").asks_for_approval("delete")


def _compacting() -> Playbook:
    long = Message("user", [Text("word " * 2000)])
    return Playbook(weather, window=2000, context=ContextSettings(reply=100)).starts(long).requests_compaction()


STATES: dict[str, Callable[[], Playbook]] = {
    "asking": _asking,
    "reviewing": _reviewing,
    "running": _running,
    "half done": _half_done,
    "approving": _approving,
    "compacting": _compacting,
}


@pytest.mark.parametrize("state", STATES)
def test_a_run_can_be_cancelled_wherever_it_is(state: str) -> None:
    play = STATES[state]().is_cancelled("enough")
    if state == "running":
        play.cancels_tools("look", "read")
    if state == "half done":
        play.cancels_tools("read")
    result = play.ends("cancelled", "enough", category="retryable")
    made = 0 if state in ("asking", "compacting") else len(CALLS)
    assert len(result.results) == made
    if state == "half done":
        assert result.results[0].content == "found"
        assert result.results[1].content == "Cancelled while it was running.", "a tool that reads has done no harm"
        assert result.results[2].content == "Not run: the run was cancelled."
    if state == "running":
        assert "its outcome is unknown" in str(result.results[0].content)


@pytest.mark.parametrize("state", STATES)
def test_a_run_can_be_stopped_by_a_hook_wherever_it_is(state: str) -> None:
    play = STATES[state]().is_stopped("policy")
    if state == "running":
        play.cancels_tools("look", "read")
    if state == "half done":
        play.cancels_tools("read")
    play.ends("stopped", "policy", category="success")


def test_a_hook_that_fails_around_a_request_ends_the_run() -> None:
    _asking().is_stopped("Audit.before_model failed: ZeroDivisionError", failed=True).ends(
        "hook_failed", "ZeroDivisionError", category="fatal"
    )


def test_a_reply_that_a_hook_kept_back_was_still_paid_for() -> None:
    play = Playbook(price=lambda usage, endpoint, model: 0.5).starts("hi").asks()
    result = play.receives(Stopped("not that", usage=Usage(10, 5))).ends("stopped", "not that", text="")
    assert (result.usage, result.cost) == (Usage(10, 5), 0.5)


def test_what_the_model_had_said_is_kept_when_it_is_interrupted() -> None:
    result = _asking().is_cancelled(partial="Once upon").ends("cancelled", text="Once upon")
    assert result.messages[-1] == Message("assistant", [Text("Once upon")])


# ---- tools that end it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "kind", "category"), [("halted", "halted", "success"), ("failed", "tool_failed", "fatal")]
)
def test_a_tool_may_end_the_run(ends: str, kind: str, category: str) -> None:
    play = Playbook(look, read, write).starts("hi").asks()
    play.replies(call("look", where="a"), call("read", path="b"), call("look", where="c"), call("write", path="d"))
    play.runs("look", "read", "look").answers("text", of="read")
    play.answers("The disk is full.", of="call_1", ends=ends, reason="disk full")  # type: ignore[arg-type]
    result = play.cancels_tools("look").ends(kind, "disk full", category=category)
    contents = [str(each.content) for each in result.results]
    assert contents[0] == "The disk is full."
    assert contents[1] == "text"
    assert contents[2].startswith("Cancelled while it was running.")
    assert contents[3] == f"Not run: {ends}. disk full"


def test_what_was_shared_already_is_not_lost_when_the_run_is_halted() -> None:
    play = Playbook(read, write).starts("hi").asks()
    play.replies(call("read", path="a"), call("read", path="a"), call("write", path="b"))
    play.runs("read").answers("A").runs("write").answers("no", ends="halted", reason="stop")
    assert [each.content for each in play.ends("halted").results] == ["A", "A", "no"]


def test_after_a_halt_nothing_more_is_asked_whatever_was_put_in() -> None:
    play = Playbook(write, summary=True).starts("hi").asks().replies(call("write", path="a")).runs("write")
    play.steers("go on").answers("stop", ends="halted", reason="done").ends("halted", "done")


# ---- news that nobody waits for --------------------------------------------------------------------------------------

STRAY: list[Input] = [
    Replied(Reply(Message("assistant", [Text("late")]))),
    Reviewed("call_9"),
    Reviewed("call_1", "stop"),
    Approved("call_9"),
    Denied("call_9"),
    ToolAnswered("call_9", ToolResult("call_9")),
    Compacted([]),
    Ticked(),
]


@pytest.mark.parametrize("told", STRAY, ids=lambda told: type(told).__name__)
@pytest.mark.parametrize("state", ["running", "approving"])
def test_what_nobody_waits_for_changes_nothing(state: str, told: Input) -> None:
    play = STATES[state]()
    before = play.machine.outstanding()
    play.receives(told).is_idle()
    assert play.machine.outstanding() == before


@pytest.mark.parametrize("told", [STRAY[1], STRAY[3], STRAY[5], STRAY[6]], ids=lambda told: type(told).__name__)
def test_news_of_calls_changes_nothing_while_the_model_is_asked(told: Input) -> None:
    _asking().receives(told).is_idle().replies("Hello").ends("answered")


def test_a_result_counts_once() -> None:
    play = Playbook(look).starts("hi").asks().replies(call("look", where="a"), call("look", where="b"))
    play.runs("look", "look").answers("first", of="call_1")
    play.receives(ToolAnswered("call_1", ToolResult("call_1", "look", "again"))).is_idle().answers("second")
    result = play.asks().replies("done").ends("answered")
    assert [each.content for each in result.results] == ["first", "second"]


def test_a_call_that_was_not_started_has_no_result_to_give() -> None:
    play = _approving()
    play.receives(ToolAnswered("call_3", ToolResult("call_3", "delete", "done anyway"))).is_idle()
    play.denies("no").has_result("delete", "Denied by the user: no").asks()


def test_an_answer_of_the_approver_counts_once() -> None:
    play = _approving().denies("no").asks()
    play.receives(Approved("call_3")).is_idle().replies("Well.").ends("answered")


@pytest.mark.parametrize(
    "told", [*STRAY, Cancelled(), Stopped(), Steered(Message("user"))], ids=lambda told: type(told).__name__
)
def test_after_the_end_nothing_changes(told: Input) -> None:
    play = Playbook().starts("hi").asks().replies("Hello")
    result = play.ends("answered")
    play.receives(told).is_idle()
    assert play.machine.result is result
    assert play.machine.outstanding() == []


def test_a_cancelled_run_stays_cancelled() -> None:
    play = _running().is_cancelled().cancels_tools("look", "read")
    result = play.ends("cancelled")
    play.receives(ToolAnswered("call_1", ToolResult("call_1", "look", "late"))).is_idle()
    assert play.machine.result is result


def test_a_run_without_time_ends_before_the_first_word() -> None:
    play = Playbook(limits=Limits(seconds=1.0)).starts("hi").asks().later(2.0).replies("Hello")
    play.ends("time_limit", text="Hello")


def test_every_outcome_has_a_category_and_is_documented() -> None:
    """This test fails for a new outcome until all tables contain it."""
    kinds = set(get_args(OutcomeKind))
    assert set(CATEGORIES) == kinds
    assert len(CATEGORIES) == sum(map(len, _BY_CATEGORY.values()))
    assert set(_BY_CATEGORY) == set(get_args(Category)) == set(EXIT_CODES)
    assert set(OUTCOME_HINTS) <= kinds
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "agent.md").read_text(encoding="utf-8")
    assert sorted(kind for kind in kinds if f"`{kind}`" not in page) == []
