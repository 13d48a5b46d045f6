"""Where a call stands in a message."""

from __future__ import annotations

import pytest

from dragoman.extraction.regions import Regions

CALL = "<<call>>"


def region(text: str) -> str:
    start = text.index(CALL)
    return Regions(text, [(start, start + len(CALL))]).find((start, start + len(CALL)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Here: {CALL}", "answer"),
        (f"> {CALL}", "quote"),
        (f"Said:\n  > so: {CALL}", "quote"),
        (f"a > b {CALL}", "answer"),
        (f"> quoted\n\n{CALL}", "answer"),
        (f"Look:\n```xml\n{CALL}\n```\n", "fence"),
        (f"Look:\n~~~\n{CALL}\n~~~\n", "fence"),
        (f"```python\nprint()\n```\n{CALL}", "answer"),
        (f"````\n```\n{CALL}\n```\n````\nend", "fence"),
        (f"```\nnever closed {CALL}\nwords", "fence"),
        (f"```xml\n{CALL}\n```", "answer"),
        (f"\n```\n{CALL}\n```\n\n", "answer"),
        (f"```xml\n{CALL}\nand words\n```", "fence"),
        (f"``` not a fence ``` {CALL}\nwords", "answer"),
    ],
)
def test_regions(text: str, expected: str) -> None:
    assert region(text) == expected


def test_fences_inside_a_call_open_nothing() -> None:
    call = '<tool_call>{"text": "\n```\n"}</tool_call>'
    text = f"{call}\n{CALL}"
    spans = [(0, len(call)), (text.index(CALL), len(text))]
    assert Regions(text, spans).find(spans[1]) == "answer"


def test_several_calls_in_one_fence_that_is_the_message() -> None:
    text = f"```\n{CALL}\n{CALL}\n```"
    first = text.index(CALL)
    second = text.index(CALL, first + 1)
    spans = [(first, first + len(CALL)), (second, second + len(CALL))]
    assert [Regions(text, spans).find(span) for span in spans] == ["answer", "answer"]
