"""A tool choice also holds on servers that ignore it: a call against it does not run, and the model learns why."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agent.playbook import check_conversation
from tests.agent.runs import agent, wait

import dragoman
from dragoman.testing import call

RAN: list[str] = []


@dragoman.tool
def look(place: str) -> str:
    """Look at a place."""
    RAN.append(place)
    return "all quiet"


@dragoman.tool
def wipe(place: str) -> str:
    """Wipe a place."""
    RAN.append(f"wiped {place}")
    return "wiped"


@pytest.fixture(autouse=True)
def fresh() -> None:
    RAN.clear()


def run(replies: list[Any], choice: Any) -> Any:
    result = wait(agent(replies, look, wipe, options={"tool_choice": choice}).arun("hi", check=False))
    check_conversation(result.messages)
    return result


def test_required_is_asked_for_again_and_given_up_in_the_end() -> None:
    result = run(["I would rather talk."] * 3, "required")
    assert (result.outcome.kind, RAN) == ("mistake_limit", [])
    assert "tool_choice is 'required', and the model called nothing" in result.outcome.reason


def test_required_holds_until_a_call_has_run_and_then_the_model_may_answer() -> None:
    result = run(["Hm.", call("look", place="here"), "Nothing there."], "required")
    assert (result.outcome.kind, result.text, RAN) == ("answered", "Nothing there.", ["here"])


def test_another_tool_than_the_named_one_does_not_run() -> None:
    result = run([call("wipe", place="disk"), call("look", place="disk"), "Done."], {"name": "look"})
    assert (result.outcome.kind, RAN) == ("answered", ["disk"])
    assert result.results[0].is_error and "tool_choice allows look" in str(result.results[0].content)


def test_none_lets_nothing_run() -> None:
    result = run([call("wipe", place="disk"), "Then I just say it."], "none")
    assert (result.outcome.kind, result.text, RAN) == ("answered", "Then I just say it.", [])
