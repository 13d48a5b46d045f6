"""Requests of clients, read and written again on their own wire: nothing changes that the report does not name."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.rows import Row, read_rows
from tests.wire.documented import documented
from tests.wire.rules import WIRES
from tests.wire.rules.samples import valid
from tests.wire.sameness import differences

from dragoman.wire import get
from dragoman.wire.failures import Loss

ROWS = [row for row in read_rows("wire") if "request" in row]

# The documented fields that a wire does not keep, each with the reason that the report gives. All others are kept.
REPORTED = {
    "anthropic": {"$.messages.content": "the assistant cannot show a"},
    "cohere": {"$.messages.tool_plan": "a plan that led to no calls"},
    "gemini": {"$.tools.functionDeclarations.parameters": "tool find: "},
    "mistral": {"$.messages.content": ("reasoning was left out", "went into a user message")},
    "ollama": {"$.think": "became plain thinking"},
}


def compare(wire: str, body: dict[str, Any]) -> tuple[list[str], tuple[Loss, ...]]:
    prepared = get(wire).prepare(get(wire).decode_request(copy.deepcopy(body)))
    return differences(wire, body, prepared.body), prepared.losses


def is_expected(wire: str, path: str, losses: tuple[Loss, ...]) -> bool:
    for place, words in REPORTED.get(wire, {}).items():
        wanted = (words,) if isinstance(words, str) else words
        if path.startswith(place) and any(word in str(loss) for word in wanted for loss in losses):
            return True
    return False


@pytest.mark.parametrize("wire", WIRES)
def test_every_documented_field_is_kept_or_in_the_report(wire: str) -> None:
    bodies = documented(wire)
    assert len(bodies) > 80
    lost = []
    for path, body in bodies:
        found, losses = compare(wire, body)
        if found and not is_expected(wire, path, losses):
            lost.append((path, found[:2], [str(loss) for loss in losses]))
    assert lost == []


# Fields whose values are the caller's own, so that nothing in them is a field of the wire.
FREE = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "properties", "parameters", "schema"}
    | {"input_schema", "json", "arguments", "input", "logit_bias", "metadata", "requestMetadata", "data"}
)
# Where a field that nobody knows yet is not kept: objects that have only one member by their definition, the parts of
# answers, and messages of wires that merge them.
NOT_KEPT = {
    "anthropic": {"messages.*"},
    "bedrock": {
        *("messages.*", "messages.*.content.*", "messages.*.content.*.citationsContent.content.*", "system.*"),
        *("messages.*.content.*.document.source", "messages.*.content.*.image.source", "toolConfig"),
        *("messages.*.content.*.reasoningContent", "messages.*.content.*.reasoningContent.reasoningText"),
        *("messages.*.content.*.toolResult.content.*", "messages.*.content.*.toolResult.content.*.image.source"),
        *("toolConfig.toolChoice", "toolConfig.toolChoice.auto", "toolConfig.toolChoice.tool", "toolConfig.tools.*"),
        "toolConfig.tools.*.toolSpec.inputSchema",
    },
    "cohere": {"messages.*.content.*"},
    "gemini": {"contents.*", "systemInstruction"},
    "mistral": {"messages.*.content.*", "messages.*.content.*.thinking.*", "tool_choice.function"},
    "openai_chat": {"messages.*.content.*", "tool_choice.function"},
    "openai_responses": {"input.*.content.*", "tool_choice.tools.*"},
}


def objects_of(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a body that is the wire's, with its place."""
    if isinstance(value, dict):
        yield path, value
        for name, inner in value.items():
            if name not in FREE or (name == "input" and isinstance(inner, list)):
                yield from objects_of(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from objects_of(inner, f"{path}.*".lstrip("."))


@pytest.mark.parametrize("wire", WIRES)
def test_a_field_that_nobody_knows_yet_is_kept(wire: str) -> None:
    bodies = [valid(wire), *(copy.deepcopy(row["request"]) for row in ROWS if row["wire"] == wire)]
    lost = set()
    for body in bodies:
        for path, place in list(objects_of(body)):
            place["unheard"] = {"deep": 1}
            prepared = get(wire).prepare(get(wire).decode_request(copy.deepcopy(body)))
            del place["unheard"]
            named = any("unheard" in str(loss) for loss in prepared.losses)
            if b"unheard" not in msgspec.json.encode(prepared.body) and not named:
                lost.add(path)
    assert lost == NOT_KEPT.get(wire, set())


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_with_everything_comes_back_as_it_was(wire: str) -> None:
    found, losses = compare(wire, valid(wire))
    assert found == [] or losses


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_our_own_requests_come_back_as_they_were(row: Row) -> None:
    found, losses = compare(row["wire"], row["request"])
    assert found == []
    assert [str(loss) for loss in losses] == row.get("losses", [])


def test_every_wire_has_a_request_with_everything() -> None:
    assert {row["wire"] for row in ROWS} == set(WIRES)


def test_recorded_requests_change_in_nothing_that_the_report_does_not_name(
    shared_data: Callable[[str], Path],
) -> None:
    silent: dict[str, list[str]] = {}
    compared = 0
    with gzip.open(shared_data("recordings_dev.jsonl.gz")) as file:
        for line in file:
            row = msgspec.json.decode(line)
            if isinstance(row["request"], dict):
                compared += 1
                found, losses = compare(row["wire"], row["request"])
                if found and not losses:
                    silent[row["id"]] = found
    assert compared > 1000 and silent == {}


# ---- the comparison itself -------------------------------------------------------------------------------------------

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"model": "n"}, "$.model"),
        ({"messages": [{"role": "system", "content": "hi"}]}, "$.messages[0].role"),
        ({"messages": [{"role": "user", "content": "ho"}]}, "$.messages[0].content[0].text"),
        ({"store": False}, "$.store"),
        ({"temperature": 1, "n": True}, "$.temperature"),
    ],
)
def test_the_comparison_sees_changes(change: dict[str, Any], place: str) -> None:
    assert any(line.startswith(f"{place}:") for line in differences("openai_chat", CHAT, {**CHAT, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"stream": False, "tools": [], "user": None},
    ],
)
def test_the_comparison_knows_spellings_that_mean_the_same(change: dict[str, Any]) -> None:
    assert differences("openai_chat", CHAT, {**CHAT, **change}) == []


def test_the_comparison_sees_a_result_that_answers_another_call() -> None:
    def body(*results: str) -> dict[str, Any]:
        calls = [{"id": name, "function": {"name": "f", "arguments": "{}"}} for name in ("a", "b")]
        answers = [{"role": "tool", "tool_call_id": name, "content": "x"} for name in results]
        return {"model": "m", "messages": [{"role": "assistant", "tool_calls": calls}, *answers]}

    swapped = body("b", "a")
    assert differences("openai_chat", body("a", "b"), swapped) == []
    swapped["messages"][1]["content"] = "y"
    assert differences("openai_chat", body("a", "b"), swapped) == ['$.messages[2].content[0].text: "x" became "y"']
