"""Faults 30 to 35: calls that no honest model would make, and what the model is told about them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.faults.streams import WIRES

import dragoman
from dragoman.agent.result import RunResult
from dragoman.testing import Answer, ScriptedModel, call
from dragoman.types import Message, Part, Reply, StopReason, Text, ToolCall, ToolResult

ANSWER = "Done."


class WeatherAgent:
    """An agent with one tool that keeps what it was called with."""

    def __init__(self, *script: Any, wire: str = "openai_chat", loop: bool = False) -> None:
        self.ran: list[tuple[str, int]] = []
        self.model = ScriptedModel(list(script), wire=wire, loop=loop)

        @dragoman.tool(repeatable=True)
        def weather(city: str, days: int = 1) -> str:
            """The weather in a city."""
            self.ran.append((city, days))
            return f"{city}: warm"

        self.agent = dragoman.Agent(
            self.model.endpoint(), tools=[weather], connection=dragoman.Connection(transport=self.model)
        )

    def run(self, *, streaming: bool = False) -> RunResult:
        return self.agent.start("Is it warm?", streaming=streaming).wait(check=False)

    @property
    def told(self) -> list[ToolResult]:
        """The results that the model was given with the second request."""
        messages = self.model.requests[1].messages
        return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def answer(*calls: dict[str, Any], finish: str = "tool_calls", content: str | None = None) -> Answer:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return Answer(200, {"content-type": "application/json"}, body)


def raw_call(arguments: Any, name: Any = "weather", **more: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


# ---- 30 --------------------------------------------------------------------------------------------------------------

DEEP = 100_000
HOSTILE = {
    "NaN": '{"city": NaN}',
    "infinity": '{"city": "Paris", "days": Infinity}',
    "duplicate keys": '{"city": "Paris", "city": "Rome"}',
    "deep": '{"city": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep and cut": '{"city": ' + "[" * DEEP,
    "a hundred thousand keys": '{"city": "Paris", ' + ", ".join(f'"k{number}": 0' for number in range(100_000)) + "}",
    "an integer of 4301 digits": '{"city": "Paris", "days": ' + "9" * 4301 + "}",
    "an integer of a million digits": '{"city": "Paris", "days": ' + "9" * 1_000_000 + "}",
    "half a character": '{"city": "\\ud83d"}',
    "a null character": '{"city": "a\\u0000b", "days": "\\u0000"}',
    "no object": "[1, 2, 3]",
    "nothing but noise": "\x00\x01\x02",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_30_hostile_arguments_never_run_and_the_model_hears_of_it_in_few_words(name: str) -> None:
    probe = WeatherAgent(answer(raw_call(HOSTILE[name])), ANSWER)
    result = probe.run()
    assert (result.outcome.kind, result.text) == ("answered", ANSWER)
    assert probe.ran == []
    [told] = probe.told
    assert isinstance(told.content, str) and "Nothing was run" in told.content
    assert len(told.content) < 10_000


# ---- 31 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["no_such_tool", "", None, "x" * 1_000_000, "two\nlines", "weather\r\nX-Injected: yes", "\x00", "weather;rm", 7],
    ids=["unknown", "empty", "null", "a megabyte", "newline", "header", "null character", "command", "number"],
)
def test_31_a_name_that_is_none_is_answered_and_stays_short(name: Any) -> None:
    probe = WeatherAgent(answer(raw_call('{"city": "Paris"}', name)), ANSWER)
    result = probe.run()
    assert (result.outcome.kind, result.text) == ("answered", ANSWER)
    assert probe.ran == []
    sent = probe.model.exchanges[1].sent.body
    assert len(sent) < 20_000, "what is unreadable does not travel in full with every further request"
    assert all(len(told.content) < 5_000 for told in probe.told)


# ---- 32 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [("same", "same"), (None, None), ("", ""), ("x" * 10_000, "y" * 10_000), ("x" * 10_000, "x" * 10_000), (1, 2)],
    ids=["the same", "missing", "empty", "10 kB each", "10 kB twice", "numbers"],
)
def test_32_calls_have_ids_of_their_own_whatever_the_wire_says(ids: tuple[Any, Any]) -> None:
    cities = ("Paris", "Rome")
    made = [raw_call(f'{{"city": "{city}"}}', id=identity) for city, identity in zip(cities, ids, strict=True)]
    probe = WeatherAgent(answer(*made), ANSWER)
    result = probe.run()
    assert result.outcome.kind == "answered"
    assert probe.ran == [("Paris", 1), ("Rome", 1)]
    assert len({part.call_id for part in result.results}) == 2
    assert [told.content for told in probe.told] == ["Paris: warm", "Rome: warm"]
    assert len({told.call_id for told in probe.told}) == 2


# ---- 34 and 35 -------------------------------------------------------------------------------------------------------


NO_REFUSALS = ("ollama", "cohere")
"""These wires have no word for it."""


def stopped(stop: StopReason, *parts: Part) -> Reply:
    return Reply(Message("assistant", list(parts)), stop=stop)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("spoken", WIRES)
def test_34_a_reply_that_reached_its_limit_never_runs_its_last_call(spoken: str, streaming: bool) -> None:
    made = [ToolCall("call_1", "weather", {"city": "Paris"}), ToolCall("call_2", "weather", {"city": "Par"})]
    probe = WeatherAgent(stopped("length", *made), ANSWER, wire=spoken)
    result = probe.run(streaming=streaming)
    assert (result.outcome.kind, result.text) == ("answered", ANSWER)
    assert ("Par", 1) not in probe.ran
    assert len(probe.told) == 2 and "Nothing was run" in str(probe.told[1].content)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("spoken", [spoken for spoken in WIRES if spoken not in NO_REFUSALS])
def test_35_a_reply_that_was_refused_runs_nothing(spoken: str, streaming: bool) -> None:
    made = [ToolCall("call_1", "weather", {"city": "Paris"}), ToolCall("call_2", "weather", {"city": "Rome"})]
    probe = WeatherAgent(stopped("refusal", Text("I "), *made), ANSWER, wire=spoken)
    result = probe.run(streaming=streaming)
    assert probe.ran == [], "a filter may have taken anything away"
    assert result.outcome.kind in ("refused", "answered")


def test_a_good_call_still_runs() -> None:
    probe = WeatherAgent(call("weather", city="Paris"), ANSWER)
    assert probe.run().outcome.kind == "answered"
    assert probe.ran == [("Paris", 1)]
