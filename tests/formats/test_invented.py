"""Invented replies and decoys, frozen before any reader saw them: how many calls are read right, wrong or not at all.

The rows measure how far the readers generalise, so most tests compare counts with a table instead of single rows.
`tests/data/README.md` explains the fields.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.rows import Row, read_rows, read_tool_sets

from dragoman import Extraction, extract, extractor, formats
from dragoman.formats import Parsed, thinking
from dragoman.toolset import Toolset

INVENTED = read_rows("invented")
DECOYS = read_rows("decoys")
TOOLS = {name: Toolset(tools) for name, tools in read_tool_sets().items()}
CHUNKINGS = ((1,), (5,), (17, 2, 40))

# What the readers reach today: the counts of AT_LEAST may only rise, those of AT_MOST may only fall. After an
# improvement, enter the new figure. The goal: 90 % of the rows right, none wrong, partial or silent, and no decoy taken
# for a call. `text` counts the rows with `said` (257) whose remaining text is right, `partial` the rows with only some
# of their calls, `silent` the missed rows about which nothing is reported.
AT_LEAST = {"right": 1172, "text": 246, "parsed right": 1004}
AT_MOST = {"wrong": 0, "partial": 0, "silent": 3, "parsed wrong": 0, "decoys taken": 0}

Calls = list[tuple[str, str]]


def as_calls(calls: list[Any]) -> Calls:
    """Names and arguments that can be compared: 1 equals 1.0 but not True, and the order of keys is free."""
    return [(name, json.dumps(_number(arguments), sort_keys=True)) for name, arguments in calls]


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _number(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_number(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def judge(row: Row, found: Calls) -> str:
    """Return `right`, `wrong` (a call that the row does not have) or `missed` (a call of the row is not there)."""
    expected = as_calls(row["calls"])
    if found == expected:
        return "right"
    return "wrong" if Counter(found) - Counter(expected) or len(found) == len(expected) else "missed"


@cache
def extracted() -> dict[str, Extraction]:
    return {row["id"]: extract(row["text"], tools=TOOLS[row["tools"]]) for row in (*INVENTED, *DECOYS)}


def is_reported(found: Extraction) -> bool:
    return bool(found.refused or found.invalid or getattr(found, "suspects", None))


def calls_of(found: Extraction) -> Calls:
    return as_calls([(call.name, call.arguments) for call in found.calls])


def parsed_calls(parsed: Parsed) -> Calls:
    return as_calls([(call.name, call.arguments) for call in parsed.calls if call.known_tool])


def score_extraction() -> Counter[str]:
    score: Counter[str] = Counter()
    for row in INVENTED:
        found = extracted()[row["id"]]
        verdict = judge(row, calls_of(found))
        # A row without calls is right only if the attempt is reported.
        if verdict == "right" and row.get("report") == "must" and not is_reported(found):
            verdict = "missed"
        score[verdict] += 1
        score["partial"] += verdict == "missed" and bool(found.calls)
        score["silent"] += verdict == "missed" and not is_reported(found)
        score["text"] += "said" in row and found.text.split() == row["said"].split()
    score["decoys taken"] = sum(bool(extracted()[row["id"]].calls) for row in DECOYS)
    return score


def score_parser() -> Counter[str]:
    """The parser alone. It does not look at the surroundings of a call, so that only rows with calls count."""
    rows = [row for row in INVENTED if row["calls"]]
    parsed = (formats.parse(row["text"], "auto", TOOLS[row["tools"]]) for row in rows)
    return Counter("parsed " + judge(row, parsed_calls(each)) for row, each in zip(rows, parsed, strict=True))


@pytest.fixture(scope="module")
def score() -> Counter[str]:
    return score_extraction() + score_parser()


@pytest.mark.parametrize("count", AT_LEAST)
def test_no_fewer_replies_are_read_right(score: Counter[str], count: str) -> None:
    assert score[count] >= AT_LEAST[count]


@pytest.mark.parametrize("count", AT_MOST)
def test_no_more_replies_are_misread(score: Counter[str], count: str) -> None:
    assert score[count] <= AT_MOST[count]


def cut(text: str, sizes: tuple[int, ...]) -> Iterator[str]:
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        yield text[at : at + size]
        at, turn = at + size, turn + 1


@pytest.mark.parametrize("sizes", CHUNKINGS, ids=str)
def test_a_streamed_reply_gives_what_the_whole_gives(sizes: tuple[int, ...]) -> None:
    different = set()
    for row in (*INVENTED, *DECOYS):
        stage = extractor(tools=TOOLS[row["tools"]])
        for piece in cut(row["text"], sizes):
            stage.feed(piece)
        stage.close()
        if stage.extraction != extracted()[row["id"]]:
            different.add(row["id"])
    assert different == set()


def test_a_streamed_text_is_parsed_as_the_whole() -> None:
    different = set()
    for row in (*INVENTED, *DECOYS):
        whole = formats.parse(row["text"], "auto", TOOLS[row["tools"]])
        for sizes in CHUNKINGS:
            stage = formats.parser("auto", TOOLS[row["tools"]])
            events = [event for piece in cut(row["text"], sizes) for event in stage.feed(piece)]
            parsed = formats.fold(events + stage.close())
            if (parsed.text, parsed.thinking, parsed.calls) != (whole.text, whole.thinking, whole.calls):
                different.add(row["id"])
    assert different == set()


def test_the_rows_cover_formats_damage_and_decoys() -> None:
    assert len(INVENTED) >= 1190
    assert len({row["format"] for row in INVENTED}) >= 22
    assert len({row["damage"] for row in INVENTED}) >= 15
    assert len(DECOYS) >= 650
    assert all(1 <= len(row["calls"]) <= 3 or row["report"] in {"must", "may"} for row in INVENTED)
    assert all(row["calls"] == [] for row in DECOYS)


def test_every_thinking_wrapper_has_decoys() -> None:
    for opener, closer in thinking.pairs(named=True):
        texts = [row["text"] for row in DECOYS if row["kind"] == "thinking"]
        assert sum(text.startswith(opener) and closer in text for text in texts) >= 2, opener
