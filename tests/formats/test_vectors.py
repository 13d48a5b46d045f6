"""What other parsers' own test suites record, read by ours: how often we agree, and where we do not, why."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dragoman import formats
from dragoman.events import CallEnded, TextDelta

DISAGREEMENTS = Path(__file__).parents[1] / "known_disagreements.toml"


@pytest.fixture(scope="module")
def scorer(shared_script: Callable[[str], ModuleType]) -> ModuleType:
    return shared_script("score_vectors.py")


@pytest.fixture(scope="module")
def vectors(shared_data: Callable[[str], Path]) -> list[dict[str, Any]]:
    with gzip.open(shared_data("parser_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    # Partial texts, inner texts and reasoning are recorded by other rules than ours, and are not scored.
    return [row for row in rows if not (row.get("partial") or row.get("raw_inner") or row.get("expected_reasoning"))]


def format_of(vector: dict[str, Any]) -> str:
    name: str = vector["format"]
    return "auto" if name.startswith(("improvised", "?")) else name


def read(vector: dict[str, Any], name: str, tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in formats.parse(vector["model_output"], name, tools).calls]


def judge(
    vectors: list[dict[str, Any]], scorer: ModuleType, name_of: Callable[[dict[str, Any]], str]
) -> Iterator[tuple[str, bool]]:
    for vector in vectors:
        right = scorer.calls_right(vector["expected_calls"], read(vector, name_of(vector), scorer.tools_of(vector)))
        if right is not None:
            yield vector["id"], right


def share(judged: list[tuple[str, bool]]) -> float:
    return 100 * sum(right for _, right in judged) / len(judged)


def test_every_recorded_format_is_known(vectors: list[dict[str, Any]]) -> None:
    unknown = {format_of(vector) for vector in vectors} - set(formats.names()) - {"auto"}
    assert not unknown


def test_named_formats_agree_with_the_recordings(vectors: list[dict[str, Any]], scorer: ModuleType) -> None:
    judged = list(judge(vectors, scorer, format_of))
    wrong = {identity for identity, right in judged if not right}
    with DISAGREEMENTS.open("rb") as file:
        entries = tomllib.load(file)["disagreement"]
    explained = Counter(entry["id"] for entry in entries)
    assert max(explained.values()) == 1
    assert all(entry["reason"].strip() for entry in entries)
    assert wrong - explained.keys() == set(), "wrong, and not explained"
    assert explained.keys() - wrong == set(), "explained, and right by now"
    assert share(judged) >= 92.8
    impossible = {entry["id"] for entry in entries if entry.get("impossible")}
    assert share([(identity, right) for identity, right in judged if identity not in impossible]) >= 96


def test_auto_agrees_without_knowing_the_format(vectors: list[dict[str, Any]], scorer: ModuleType) -> None:
    assert share(list(judge(vectors, scorer, lambda vector: "auto"))) >= 89.8


@pytest.mark.parametrize("size", [1, 4])
def test_streamed_is_whole(vectors: list[dict[str, Any]], scorer: ModuleType, size: int) -> None:
    for vector in vectors:
        text = vector["model_output"]
        tools = scorer.tools_of(vector)
        for name in {format_of(vector), "auto"}:
            whole = formats.parse(text, name, tools)
            stage = formats.parser(name, tools)
            events = [event for at in range(0, len(text), size) for event in stage.feed(text[at : at + size])]
            events += stage.close()
            calls = [event.call for event in events if isinstance(event, CallEnded)]
            said = "".join(event.text for event in events if isinstance(event, TextDelta))
            assert (said, calls) == (whole.text, whole.calls), (vector["id"], name)
