"""Playbooks: a model that writes its calls as text does not learn that form from its own history."""

from __future__ import annotations

import pytest
from tests.agent.playbook import Playbook
from tests.agent.toolbox import weather, write

from dragoman import formats, wire
from dragoman.testing import call
from dragoman.types import Message, Text, ToolCall, ToolResult

ATTEMPT = 'Sure:\n\n```json\n{"name": "weather", "arguments": {"city": "Paris"}}\n```'
LEAK = "I look.\n<weather><city>Paris</city></weather>"


def sent(play: Playbook) -> list[Message]:
    """The messages of the last request, without the instructions."""
    return [message for message in play.ask.composed.request.messages if message.role != "system"]


def body(play: Playbook) -> str:
    """The last request as bytes of the wire."""
    return str(wire.get("openai_chat").encode_request(play.ask.composed.request))


def test_a_leaked_call_that_counts_is_a_native_call_in_the_next_request() -> None:
    play = Playbook(weather).starts("hi").asks().replies(LEAK).learns(native=False)
    play.runs("weather").answers("sunny").asks()
    user, turn, results = sent(play)
    assert (user.text, turn.text.strip()) == ("hi", "I look.")
    [made] = [part for part in turn.parts if isinstance(part, ToolCall)]
    assert (made.name, made.arguments) == ("weather", {"city": "Paris"})
    assert [part.call_id for part in results.parts if isinstance(part, ToolResult)] == [made.id]
    play.replies("Sunny.").ends("answered")
    assert b"<weather><city>Paris" in play.records()[1].body, "the journal keeps what was received"


def test_in_text_mode_it_has_the_form_of_the_instructions() -> None:
    play = Playbook(weather, native=False).starts("hi").asks().replies(LEAK).runs("weather").answers("sunny").asks()
    turn = sent(play)[1]
    written = formats.render([ToolCall("", "weather", {"city": "Paris"})], play.config.endpoint.prompt_format)
    assert turn.text == f"I look.\n{written}"
    play.replies("Sunny.").ends("answered")


@pytest.mark.parametrize("native", [True, False])
def test_a_confirmed_attempt_is_one_turn_in_the_next_request(native: bool) -> None:
    play = Playbook(weather, native=native).starts("hi").asks().replies(ATTEMPT)
    play.asks(hearing="does not have the form of one").replies(ATTEMPT)
    play = play.learns(native=False) if native else play
    play.runs("weather").answers("sunny").asks()
    _, turn, results = sent(play)
    assert "```json" not in body(play)
    assert turn.text.startswith("Sure:") and results.role == ("tool" if native else "user")
    if native:
        assert [part.arguments for part in turn.parts if isinstance(part, ToolCall)] == [{"city": "Paris"}]
    result = play.replies("Sunny.").ends("answered")
    assert result.calls[0].provenance is not None and result.calls[0].provenance.level == "T2"
    assert isinstance(result.calls[0], ToolCall) and "confirmed" in result.calls[0].repairs
    kinds = [problem.kind for problem in result.problems]
    assert kinds.count("history_rewritten") == 1 and kinds.count("suspect") == 1
    # The result of the run keeps every message.
    assert result.messages[1] == Message("assistant", [Text(ATTEMPT)])


def test_an_attempted_call_ends_no_run_and_an_answer_does() -> None:
    play = Playbook(weather).starts("hi").asks().replies(ATTEMPT).asks(hearing="[suspect ")
    assert "Paris" not in sent(play)[-1].text, "the notice shows no arguments of the attempt"
    result = play.replies("It was an example.").ends("answered", text="It was an example.")
    assert [problem.kind for problem in result.problems] == ["suspect"] and result.calls == []


def test_an_attempt_that_becomes_the_right_call_leaves_no_trace() -> None:
    play = Playbook(weather, write).starts("hi").asks().replies(ATTEMPT).asks(hearing="[suspect ")
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks()
    assert "```json" not in body(play) and "suspect" not in body(play)
    play.replies("Sunny.").ends("answered")


def test_an_attempt_before_another_call_stays_with_its_notice() -> None:
    play = Playbook(weather).starts("hi").asks().replies(ATTEMPT).asks(hearing="[suspect ")
    play.replies(call("weather", city="Rome")).runs("weather").answers("sunny").asks()
    assert "```json" in body(play) and "suspect" in body(play)
    play.replies("Sunny.").ends("answered")
