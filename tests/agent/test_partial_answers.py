"""Structured answers as growing partial objects."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from tests.agent.runs import agent

from dragoman import Agent, Connection, Retry, RunFailed
from dragoman.agent import PartialAnswer
from dragoman.agent.partial import AnswerReader
from dragoman.errors import ConfigError
from dragoman.testing import Answer, ScriptedModel, call, sse


@dataclass
class Place:
    name: str
    degrees: float


@dataclass
class Report:
    title: str
    places: list[Place] = field(default_factory=list)
    sure: bool = False
    note: str | None = None


ANSWER: dict[str, Any] = {
    "title": 'The "warm" south: \\ \n é \U0001f600 end',
    "places": [{"name": "Nice", "degrees": 21.5}, {"name": "Rome", "degrees": -12}, {"name": "", "degrees": 1e3}],
    "sure": True,
    "note": None,
}


def stream_call(answer: Any, size: int = 3) -> Answer:
    """A native call of the answer tool, whose arguments arrive in pieces."""
    text = json.dumps({"answer": answer})
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    begins = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "final_answer", "arguments": ""}}
    deltas = [begins, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    frames: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in deltas]
    return sse([*frames, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}])


def grows(before: Any, after: Any, growing: str, path: str = "$") -> bool:
    """Whether `after` is `before` with more in it. A value that was shown as final never changes."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and grows(before[key], after[key], growing, f"{path}.{key}") for key in before
        )
    if isinstance(before, list):
        return isinstance(after, list) and all(
            number < len(after) and grows(each, after[number], growing, f"{path}[{number}]")
            for number, each in enumerate(before)
        )
    if isinstance(before, str) and path == growing:
        return isinstance(after, str) and after.startswith(before)
    return bool(before == after)


def check_growth(partials: list[tuple[Any, str]], final: Any) -> None:
    for (before, growing), (after, _) in zip(partials, [*partials[1:], (final, "")], strict=True):
        assert grows(before, after, growing), (before, after, growing)


def test_every_prefix_of_json_is_shown_without_a_guess() -> None:
    values = [
        ANSWER,
        [ANSWER, [], {}, [[[1]]]],
        {"a": {"b": {"c": "d"}}},
        [1, 12, 123],
        "text",
        {},
        {"answer": "\U0001f600"},
    ]
    for value in values:
        for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
            reader, partials = AnswerReader(), []
            for character in text:
                reader.feed(character)
                partials += [read] if (read := reader.read()) is not None else []
            check_growth(partials, value)
            assert partials[-1] == (value, "")
            split = random.Random(len(text))
            other, at = AnswerReader(), 0
            while at < len(text):
                size = split.randrange(1, 9)
                other.feed(text[at : at + size])
                at += size
                other.read()
            assert other.read() == (value, "")


def test_a_second_value_of_a_key_is_not_shown() -> None:
    reader, shown = AnswerReader(), []
    for character in '{"a": 1, "b": {"a": 3}, "a": 2}':
        reader.feed(character)
        shown.append(reader.read())
    assert {str(read[0]) for read in shown if read} == {
        "{}",
        "{'a': 1}",
        "{'a': 1, 'b': {}}",
        "{'a': 1, 'b': {'a': 3}}",
    }


def test_what_is_no_json_ends_the_preview_and_raises_nothing() -> None:
    rows = [
        "{'a': 1}",
        '{"a" 1}',
        '{"a": 1,, "b"',
        "[1 2]",
        "{]",
        '{"a": tru, "b": 1}',
        "}",
        '"\ud800"',
        "[" * 500,
        '{"a": NaN, ',
    ]
    for text in rows:
        for size in (1, 3, 100):
            reader = AnswerReader()
            for at in range(0, len(text), size):
                reader.feed(text[at : at + size])
                read = reader.read()
                assert read is None or "tru" not in str(read[0]) or read[0] is True


@pytest.mark.parametrize(
    ("reply", "native"),
    [
        (stream_call(ANSWER), True),
        (call("final_answer", answer=ANSWER), False),
        (json.dumps(ANSWER), True),
        ("```json\n" + json.dumps({"answer": ANSWER}, indent=1) + "\n```", True),
    ],
    ids=["native call", "call in text", "text", "fenced text with the wrapper"],
)
def test_partial_answers_grow_and_the_last_one_is_the_answer(reply: Any, native: bool) -> None:
    model = ScriptedModel([reply], native=native, deltas=3)
    runs = Agent(model.endpoint(), connection=Connection(transport=model))
    partials: list[PartialAnswer[Report]] = list(runs.stream("hi", answer=Report).answer_stream())
    *before, last = partials
    assert isinstance(last.data, Report) and asdict(last.data) == ANSWER
    assert (last.value, last.growing, last.is_final) == (ANSWER, "", True)
    assert not [each for each in before if each.is_final or each.data is not None]
    check_growth([(each.value, each.growing) for each in before], ANSWER)
    # Text that may still become a call is held back, so that only native calls arrive in pieces.
    assert len(before) > (20 if isinstance(reply, Answer) else -1)


def test_another_attempt_begins_again_and_says_so() -> None:
    wrong, right = {"title": "wrong"}, {"title": "right"}
    model = ScriptedModel([stream_call(wrong), stream_call(right)])
    runs = Agent(model.endpoint(), connection=Connection(transport=model))

    async def follow() -> list[PartialAnswer[Report]]:
        validate = lambda answer: Retry("no") if answer.title == "wrong" else None  # noqa: E731
        stream = runs.stream("hi", answer=Report, validate=validate).answer_stream()
        return [partial async for partial in stream]

    partials = asyncio.run(follow())
    attempts = [partial.attempt for partial in partials]
    assert attempts == sorted(attempts) and set(attempts) == {1, 2}
    assert partials[-1].data == Report("right") and [each.is_final for each in partials[:-1]].count(True) == 0


def test_a_failed_run_raises_and_a_run_without_a_form_says_what_to_do() -> None:
    with pytest.raises(RunFailed):
        list(agent(["words"], loop=True).stream("hi", answer=Report).answer_stream())
    assert list(agent(["words"], loop=True).stream("hi", answer=Report).answer_stream(check=False)) == []
    with pytest.raises(ConfigError, match="no structured answer"):
        list(agent(["words"]).stream("hi").answer_stream())


def test_the_cost_of_a_long_answer_stays_linear() -> None:
    shown = []
    for size in (2_000, 4_000):
        model = ScriptedModel([stream_call({"title": "word " * size}, 8)])
        runs = Agent(model.endpoint(), connection=Connection(transport=model))
        shown.append(sum(len(str(each.value)) for each in runs.stream("hi", answer=Report).answer_stream()))
    assert shown[1] < shown[0] * 3
