"""A call is chosen by likelihoods: after the question, and after an empty one. The engine of these tests is a table."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dragoman.extraction.tool_mode import list_alternatives
from dragoman.local.likelihood import THRESHOLD, Likelihood, decide, weigh
from dragoman.toolset import Toolset

GET = {"name": "get", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}
WEATHER = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOLS = Toolset([GET, WEATHER])
OPENING = "```tool"
CALL = '```tool get_weather\n{"city": "Paris"}\n```'
QUESTION, EMPTY = "Is it warm in Paris?", ""
Parts = dict[str, float]


def chunks(tokens: list[tuple[str, float]]) -> list[dict[str, Any]]:
    """A stream as the engine sends it: one token in each piece, and the end."""
    scored = [
        {
            "choices": [
                {
                    "delta": {"content": text},
                    "logprobs": {"content": [{"bytes": list(text.encode()), "logprob": score}]},
                }
            ]
        }
        for text, score in tokens
    ]
    return [*scored, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]


class Scores:
    """An engine with given likelihoods. A literal grammar forces its text; any other writes CALL."""

    def __init__(self, after: Parts, before: Parts) -> None:
        self.parts = {QUESTION: after, EMPTY: before}
        self.asked: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.asked.append(body)
        parts = self.parts[body["messages"][-1]["content"]]
        text = read_literal(body["grammar"]) or CALL
        name = re.match(r" \w+\n", text.removeprefix(OPENING))
        assert name is not None
        rest = text.removeprefix(OPENING + name[0])
        tokens = [(OPENING, parts.get("opening", 0.0)), (name[0], parts.get(name[0].strip(), 0.0))]
        return chunks([*tokens, (rest, parts.get("rest", 0.0))] if rest else tokens)


def read_literal(grammar: str) -> str:
    found = re.fullmatch(r'root ::= "((?:[^"\\]|\\.)*)"', grammar)
    return found[1].encode().decode("unicode_escape") if found else ""


def request(content: Any = QUESTION, tools: Toolset = TOOLS) -> dict[str, Any]:
    listed = list_alternatives(tools, "fenced_tool_name")
    assert listed is not None
    calls = [{"opening": call.opening, "name": call.name, "grammar": call.grammar} for call in listed.calls]
    history = [{"role": "system", "content": "Tools"}, {"role": "user", "content": content}]
    return {"messages": history, "grammar": "both", "alternatives": {"reply": listed.reply, "calls": calls}}


def test_each_part_counts_as_documented() -> None:
    rows = [
        (Likelihood(-1, -1, -1), Likelihood(-1, -1, -1), -0.5),
        (Likelihood(-1, 0, 0), Likelihood(-3, 0, 0), 2.0),
        (Likelihood(0, -1, 0), Likelihood(0, -4, 0), 1.0),
        (Likelihood(0, 0, -1), Likelihood(0, 0, -2.5), 0.5),
        (Likelihood(0, 0, -1), Likelihood(0, 0, -90), 4 / 3),
        (Likelihood(0, 0, -90), Likelihood(0, 0, -1), -4 / 3),
    ]
    for after, before, expected in rows:
        assert weigh(after, before) == pytest.approx(expected), (after, before)


def test_a_call_that_the_question_makes_likely_is_the_reply() -> None:
    scores = Scores({"opening": -2, "get": -9, "get_weather": -0.1, "rest": -1}, {"opening": -3, "rest": -20})
    decision = decide(request(), scores)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in decision.chunks)
    assert text == CALL
    assert not any("logprobs" in choice for chunk in decision.chunks for choice in chunk["choices"])
    assert [body["messages"][-1]["content"] for body in scores.asked] == [QUESTION, QUESTION, QUESTION, EMPTY]
    assert all("alternatives" not in body for body in scores.asked)


def test_a_call_that_the_prompt_alone_makes_likely_is_not() -> None:
    asked = request()
    scores = Scores({"opening": -0.1, "get": -9, "rest": -2}, {"opening": -0.1, "rest": -0.5})
    decision = decide(asked, scores)
    assert decision.chunks == []
    assert decision.body["grammar"] == asked["alternatives"]["reply"]
    assert decision.body["messages"] == asked["messages"]
    assert "alternatives" not in decision.body


def test_the_threshold_lies_between_words_and_a_call() -> None:
    for margin, is_call in ((0.01, True), (-0.01, False)):
        scores = Scores({"opening": 0.0, "get": -9.0}, {"opening": -THRESHOLD - margin, "get": 0.0})
        assert bool(decide(request(), scores).chunks) is is_call


def test_a_single_tool_needs_no_choice_among_tools() -> None:
    scores = Scores({}, {})
    decide(request(tools=Toolset([WEATHER])), scores)
    assert len(scores.asked) == 2


def test_a_request_that_cannot_be_weighed_is_sent_as_it_is() -> None:
    good = Scores({}, {})
    rows: list[tuple[str, dict[str, Any], Any]] = [
        ("no alternatives", {"messages": [], "grammar": "both"}, good),
        ("a part that is no text", request([{"type": "text", "text": "Hi"}]), good),
        ("alternatives of another form", request() | {"alternatives": {"calls": "all"}}, good),
        ("no calls", request() | {"alternatives": {"reply": "r", "calls": []}}, good),
        ("no messages", request() | {"messages": []}, good),
        ("an engine that fails", request(), lambda body: []),
    ]
    for name, body, complete in rows:
        decision = decide(body, complete)
        assert decision.chunks == [], name
        assert decision.body == {key: value for key, value in body.items() if key != "alternatives"}, name
    assert good.asked == []


def test_long_arguments_are_weighed_by_their_beginning() -> None:
    class Long(Scores):
        def __call__(self, body: dict[str, Any]) -> list[dict[str, Any]]:
            self.asked.append(body)
            text = read_literal(body["grammar"]) or CALL.replace("Paris", "é" * 2000)
            return chunks([(letter, -1.0) for letter in text])

    scores = Long({}, {})
    decide(request(tools=Toolset([WEATHER])), scores)
    forced = scores.asked[-1]
    assert CALL.startswith(read_literal(forced["grammar"])[:25])
    assert 100 < forced["max_tokens"] < 200
