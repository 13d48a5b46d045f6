"""Models whose prompt template opens the reasoning: a reply begins inside it, and drafts there are no calls."""

from __future__ import annotations

import pytest

import dragoman
from dragoman.agent import Agent, Connection
from dragoman.events import ReplyEnded, ReplyStarted, TextDelta, ThinkingDelta
from dragoman.extraction import extractor
from dragoman.providers import resolve
from dragoman.testing import ScriptedModel
from dragoman.testing.chunkings import chunkings

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "%s"}}\n</tool_call>'
DRAFT, MEANT = CALL % "Paris", CALL % "Rome"
TOOLS = [
    {
        "name": "weather",
        "description": "Current weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
CASES = [
    (f"I could write {DRAFT} but no.</think>Hello!", [], "Hello!"),
    (f"Perhaps {DRAFT}.\n</think>\n\n{MEANT}", ["Rome"], ""),
    (f"Nothing to think about.</think>{MEANT}", ["Rome"], ""),
    # The server took the reasoning out, or the model was told not to think.
    (MEANT, ["Rome"], ""),
    ("Hello!", [], "Hello!"),
]
IDS = ["draft and answer", "draft and call", "call", "no reasoning, call", "no reasoning, answer"]


@pytest.mark.parametrize(("reply", "cities", "text"), CASES, ids=IDS)
def test_a_draft_before_the_closing_tag_is_no_call(reply: str, cities: list[str], text: str) -> None:
    found = dragoman.extract(reply, tools=TOOLS, opens_thinking=True)
    assert [call.arguments["city"] for call in found.calls] == cities
    assert found.text.strip() == text


@pytest.mark.parametrize(("reply", "cities", "text"), CASES, ids=IDS)
def test_pieces_give_the_same_as_the_whole(reply: str, cities: list[str], text: str) -> None:
    whole = dragoman.extract(reply, tools=TOOLS, opens_thinking=True)
    for pieces in chunkings(reply, most=40):
        reader = extractor(tools=TOOLS, opens_thinking=True)
        for piece in pieces:
            reader.feed(piece)
        reader.close()
        assert reader.extraction == whole


def test_reasoning_in_a_field_shows_that_the_text_holds_none() -> None:
    reader = extractor(tools=TOOLS, opens_thinking=True)
    shown = []
    for event in (ReplyStarted(), ThinkingDelta("Which city?"), TextDelta(MEANT), ReplyEnded("end")):
        shown += reader.feed(event)
    shown += reader.close()
    assert [call.arguments["city"] for call in reader.extraction.calls] == ["Rome"]
    assert [event.text for event in shown if isinstance(event, ThinkingDelta)] == ["Which city?"]


def test_a_reply_that_is_cut_inside_the_reasoning_calls_nothing() -> None:
    reader = extractor(tools=TOOLS, opens_thinking=True)
    for event in (ReplyStarted(), TextDelta(f"I could write {DRAFT} and then"), ReplyEnded("length")):
        reader.feed(event)
    reader.close()
    assert not reader.extraction.calls
    assert not reader.extraction.text


@pytest.mark.parametrize("model", ["deepseek-r1-distill-qwen-7b", "qwq-32b", "step-3.5-flash"])
def test_the_agent_reads_the_profile_of_the_family(model: str) -> None:
    endpoint = resolve(f"custom:{model}", base_url="http://localhost:1/v1")
    assert endpoint.profile.opens_thinking
    said: list[str] = []

    @dragoman.tool
    def weather(city: str) -> str:
        """Current weather in a city."""
        said.append(city)
        return "sunny"

    scripted = ScriptedModel([f"I could write {DRAFT} but no.</think>Hello!"])
    result = Agent(endpoint, [weather], connection=Connection(transport=scripted), tool_mode="text", key="k").run("Hi.")
    assert said == []
    assert result.text.strip() == "Hello!"
