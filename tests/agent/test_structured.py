"""Structured answers: through the answer tool, or as a text that contains only the JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.agent.playbook import Playbook
from tests.agent.toolbox import weather

from dragoman.agent.replies import answer_tool
from dragoman.agent.result import Limits
from dragoman.errors import InvalidTool
from dragoman.testing import call
from dragoman.tools import gather
from dragoman.toolset import Toolset
from dragoman.types import Tool


@dataclass
class Report:
    city: str
    degrees: int


@dataclass
class Picky:
    """A class that rejects every value."""

    city: str

    def __post_init__(self) -> None:
        raise ValueError(f"never heard of {self.city}")


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
PARIS = {"city": "Paris", "degrees": 20}
FORMS: dict[str, Any] = {"a type": Report, "a schema": SCHEMA}


def form(of: Any) -> Tool:
    return answer_tool(of, Toolset(gather([weather])))


def expected(of: Any) -> Any:
    return Report("Paris", 20) if of is Report else PARIS


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("native", [True, False])
def test_an_answer_is_given_through_its_tool(name: str, native: bool) -> None:
    play = Playbook(weather, native=native, answer=form(FORMS[name])).starts("hi").asks()
    play.replies(call("weather", city="Paris")).runs("weather").answers("20").asks()
    result = play.replies(call("final_answer", answer=PARIS)).ends("answered")
    assert result.data == expected(FORMS[name])
    assert result.text == '{"city": "Paris", "degrees": 20}'
    assert result.messages[-1].role == "tool", "the call is answered, so that the conversation can go on"
    assert result.results[-1].content == "Accepted."


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Paris", "degrees": 20}',
        '{"answer": {"city": "Paris", "degrees": 20}}',
        '```json\n{"city": "Paris", "degrees": 20}\n```',
    ],
    ids=["bare", "wrapped", "fenced"],
)
def test_an_answer_may_be_given_as_text(name: str, text: str) -> None:
    play = Playbook(weather, answer=form(FORMS[name])).starts("hi").asks()
    assert play.replies(text).ends("answered", text=text).data == expected(FORMS[name])


def test_text_is_no_structured_answer_and_the_model_learns_how_to_give_one() -> None:
    play = Playbook(weather, answer=form(Report)).starts("hi").asks().replies("It is warm.")
    play.asks(hearing="calling final_answer").replies(call("final_answer", answer=PARIS)).ends("answered")


def test_a_wrong_answer_may_be_corrected_twice() -> None:
    play = Playbook(answer=form(Report)).starts("hi").asks().replies(call("final_answer", answer={"city": 1}))
    play.has_result("final_answer", "degrees", error=True, ran=False).asks().replies("Warm.").asks()
    result = play.replies(call("final_answer", answer={})).ends("mistake_limit")
    assert result.data is None


def test_the_model_learns_why_a_type_rejects_its_members() -> None:
    play = Playbook(weather, answer=form(Picky)).starts("hi").asks()
    play.replies(call("weather", city="Oslo"), call("final_answer", answer={"city": "Paris"}))
    play.has_result("final_answer", "never heard of Paris", error=True, ran=False)
    play.has_result("weather", "Not run", error=True, ran=False).asks()
    play.replies(call("final_answer", answer={"city": "Rome"})).asks()
    play.replies(call("final_answer", answer={"city": "Oslo"})).ends("mistake_limit", "never heard of Oslo")


def test_what_was_called_beside_the_answer_does_not_run() -> None:
    play = Playbook(weather, answer=form(Report)).starts("hi").asks()
    result = play.replies(
        call("weather", city="Paris"), call("final_answer", answer=PARIS), call("final_answer", answer=PARIS)
    ).ends("answered")
    assert result.data == Report("Paris", 20)
    assert [each.is_error for each in result.results] == [True, False, True]
    assert [str(each.content)[:8] for each in result.results] == ["Not run:", "Accepted", "Not run:"]


def test_a_good_answer_after_a_broken_one_counts() -> None:
    play = Playbook(answer=form(Report)).starts("hi").asks()
    play.replies(call("final_answer", answer="?"), call("final_answer", answer=PARIS)).ends("answered")


def test_a_message_during_the_run_reopens_an_answer() -> None:
    play = Playbook(answer=form(Report)).starts("hi").asks().steers("in Rome!")
    play.replies(call("final_answer", answer=PARIS)).asks(hearing="in Rome!")
    result = play.replies(call("final_answer", answer={"city": "Rome", "degrees": 25})).ends("answered")
    assert result.data == Report("Rome", 25)


def test_a_truncated_answer_is_reported() -> None:
    for text in ('{"city": "Par', '{"city": "Paris", "degrees": 2', '{"city": "Paris", "degrees": 20'):
        play = Playbook(answer=form(Report)).starts("hi").asks().replies(text, stop="length")
        play.asks(hearing="final_answer")


def test_text_is_an_answer_if_text_was_requested() -> None:
    result = Playbook(answer=form(str)).starts("hi").asks().replies("It is warm.").ends("answered")
    assert result.data == "It is warm."
    Playbook(answer=form(list[str])).starts("hi").asks().replies("It is warm.").asks(hearing="final_answer")


def test_plain_types_are_forms_too() -> None:
    play = Playbook(answer=form(list[int])).starts("hi").asks()
    assert play.replies(call("final_answer", answer=["1", 2])).ends("answered").data == [1, 2]


def test_the_answer_never_takes_the_name_of_a_tool() -> None:
    own = Tool("final_answer", parameters={"type": "object"}, run=print)
    assert answer_tool(Report, Toolset([own])).name == "final_answer_2"


def test_what_is_no_form_is_refused() -> None:
    with pytest.raises(InvalidTool, match="not a form of an answer"):
        answer_tool(3, Toolset(()))


def test_the_limit_of_calls_does_not_keep_an_answer_back() -> None:
    play = Playbook(weather, answer=form(Report), limits=Limits(calls_per_turn=1)).starts("hi").asks()
    play.replies(call("weather", city="Paris"), call("final_answer", answer=PARIS)).ends("answered")
