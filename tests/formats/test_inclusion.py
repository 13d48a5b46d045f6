"""Inclusion: what `auto` or a named format reads, loose mode reads as well; neither reads what is not meant."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.rows import read_rows, read_tool_sets, read_tools

from dragoman import extract, formats
from dragoman.formats.intent import ANOTHER_MATTER
from dragoman.toolset import Toolset

Row = tuple[str, str, Any, str]
"""The id, the text, the tools, and the format; `auto` if it has no name."""


def calls_of(text: str, tools: Any, **options: Any) -> Counter[str]:
    """The calls of offered tools, and how often each occurs."""
    calls = [call for call in formats.parse(text, tools=tools, **options).calls if call.known_tool is not False]
    return Counter(call.name + json.dumps(call.arguments, sort_keys=True) for call in calls)


def lost(rows: Iterable[Row]) -> dict[str, list[str]]:
    """The calls that loose mode does not read, by the id of the row."""
    found: dict[str, list[str]] = {}
    for key, text, tools, name in rows:
        if ANOTHER_MATTER.search(text):
            # A call that only loose mode reads can show that the answer is over before the list that `auto` reads.
            continue
        offered = Toolset.of(tools)
        loose = calls_of(text, offered, loose=True)
        for way in {name, "auto"}:
            missing = calls_of(text, offered, format=way) - loose
            if way != "auto":
                # A named format reads an incomplete call as well, for the model to be told what is missing.
                missing -= Counter(call for call in missing if not _is_complete(call, offered))
            if missing:
                found[f"{key} as {way}"] = list(missing)
    return found


def _is_complete(call: str, tools: Toolset) -> bool:
    name, _, arguments = call.partition("{")
    tool = tools.find(name)
    return tool is not None and json.loads("{" + arguments).keys() >= set(tool.parameters.get("required", ()))


def test_loose_mode_reads_what_auto_and_a_named_format_read_in_our_own_rows() -> None:
    tools, sets = read_tools(), read_tool_sets()
    rows = [(row["id"], row["text"], tools, row["format"]) for row in read_rows("parser")]
    rows += [
        (row["id"], row["text"], sets[row["tools"]], "auto") for row in (*read_rows("invented"), *read_rows("decoys"))
    ]
    assert lost(rows) == {}


def _recorded(shared_data: Callable[[str], Path], scorer: ModuleType) -> Iterator[Row]:
    known = set(formats.names())
    for vector in _lines(shared_data("parser_vectors.jsonl.gz")):
        name = vector["format"] if vector["format"] in known else "auto"
        yield vector["id"], vector["model_output"], scorer.tools_of(vector), name
    for row in _lines(shared_data("wild_dev.jsonl.gz")):
        yield row["id"], row["text"], row["tools"], "auto"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def test_loose_mode_reads_what_auto_and_a_named_format_read_in_recorded_replies(
    shared_data: Callable[[str], Path], shared_script: Callable[[str], ModuleType]
) -> None:
    assert lost(_recorded(shared_data, shared_script("score_vectors.py"))) == {}


@pytest.mark.full
def test_loose_mode_reads_what_auto_reads_in_replies_of_many_models(shared_data: Callable[[str], Path]) -> None:
    rows = _lines(shared_data("corpus_dev.jsonl.gz"))
    assert lost((row["id"], row["raw_output"], row["tools"], "auto") for row in rows) == {}


# ---- lists of calls in Python that are not meant ---------------------------------------------------------------------

TOOLS = Toolset(
    [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "note": {"type": "string"}},
                    "required": required,
                },
            },
        }
        for name, required in (("get_weather", ["city"]), ("get_time", []))
    ]
)
OSLO = "[get_weather(city='Oslo')]"
PLAIN = [("get_weather", {"city": "Oslo"})]

MEANT: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "a list": (OSLO, PLAIN),
    "a list after a sentence": (f"I will look.\n{OSLO}", PLAIN),
    "a word without quotes": ("[get_weather(city=Oslo)]", PLAIN),
    "arguments in an object of their own": ("[get_weather(params={'city': 'Oslo'})]", PLAIN),
    "the same call twice in a list": ("[get_time(), get_time()]", [("get_time", {})] * 2),
    "the same call twice in a row": ("[get_time()]\n[get_time()]", [("get_time", {})] * 2),
    "another call after a sentence": (f"{OSLO}\nAnd the time:\n[get_time()]", [*PLAIN, ("get_time", {})]),
    "a call repeated after a sentence": (f"{OSLO}\nThat is:\n{OSLO}", PLAIN),
    "a list with a repeated call": (
        f"{OSLO}\nAgain:\n[get_weather(city='Oslo'), get_time()]",
        [*PLAIN, ("get_time", {})],
    ),
    "a repeated call next to a new one": (f"{OSLO}\nAgain:\n[get_time()]\n{OSLO}", [*PLAIN, ("get_time", {})]),
    "an invented question": (f"{OSLO}\n\nUser: And now?\n[get_time()]", PLAIN),
    "two lists after an invented question": (
        f"{OSLO}\n### Instruction:\nx\n[get_time()]\ny\n[get_time(note='a')]",
        PLAIN,
    ),
    "a program": (f"{OSLO}\n\ndef main():\n    x = 1\n[get_time()]", PLAIN),
    "one of two without an argument": ("[get_time(), get_weather(days=3)]", [("get_time", {})]),
    "no value": ("[get_weather(city=None)]", []),
    "no argument": ("[get_weather(days=3)]", []),
    "a variable": ("[get_weather(city=city)]", []),
    "a type": ("[get_weather(city=str)]", []),
    "a placeholder": ("[get_weather(city=<city>)]", []),
    "the result of another call": ("[get_weather(city=get_time(note='x'))]", []),
    "a message without an argument": ("get_weather(days=3)", []),
    "a message with a variable": ("get_weather(city=city)", []),
    "a variable in a fence": ("```python\nget_weather(city=place)\n```", []),
    "a variable in a list in a program": ("Like this:\n```python\n[get_weather(city=place)]\n```", []),
}


@pytest.mark.parametrize("loose", [False, True])
def test_only_calls_that_are_meant_are_read(loose: bool) -> None:
    wrong: dict[str, Any] = {}
    for case, (text, expected) in MEANT.items():
        for size in (1, 5, len(text)):
            stage = formats.parser(tools=TOOLS, loose=loose)
            events = [event for at in range(0, len(text), size) for event in stage.feed(text[at : at + size])]
            parsed = formats.fold([*events, *stage.close()])
            if [(call.name, call.arguments) for call in parsed.calls] != expected:
                wrong[f"{case}, pieces of {size}"] = parsed.calls
    assert not wrong


def test_a_call_that_is_not_meant_is_reported_and_a_repeated_one_is_text() -> None:
    for text in ("[get_weather(days=3)]", "get_weather(city=city)", "Look:\n[get_time(), get_weather(days=3)]\nDone."):
        (broken,) = formats.parse(text, tools=TOOLS).broken
        assert broken.name == "get_weather"
        (invalid,) = extract(text, tools=TOOLS).invalid
        assert invalid.name == "get_weather"
    assert formats.parse(f"{OSLO}\nThat is:\n{OSLO}", tools=TOOLS).text == f"\nThat is:\n{OSLO}"
