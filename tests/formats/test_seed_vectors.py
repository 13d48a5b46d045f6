"""What the seed systems' own tests record about text and prompts: kept, mended or overruled, row by row."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman import formats
from dragoman.formats import Parsed

Row = dict[str, Any]
Call = tuple[str, dict[str, Any]]

# Rows that ask for what a text alone does not decide.
LEFT_OUT = {
    # A capability of the provider (`self_contained_tools`) says that nothing is read. Parsing knows no capabilities.
    "exathena-extract_text-015",
}

# What a note wants of a row whose recording is a hole. A hole that is not listed here wants no call.
HOLES: dict[str, list[Call]] = {
    # The closer and the other call stand inside a string: they are data.
    "zeroclaw-extract_text-109": [
        ("file_write", {"content": "<tools>x</tool_call><tool_call>shell>pwd</tool_call>"}),
    ],
    # The hole is that an unknown key loses the arguments. We know this key, so that nothing is lost.
    "zeroclaw-extract_text-113": [("t", {"x": 1})],
    # What the model only thought is not called.
    "exathena-extract_text-037": [("read", {})],
}


class Wanted(NamedTuple):
    """What our rules make of a row, and which rule it is. A row that names no call is one broken call."""

    why: str
    calls: tuple[Call, ...] = ()


NO_ALIAS = "a name is never turned into another tool, nor its arguments into a command"
NO_GUESS = "without a schema nothing says which parameter the value fills"
READS_MORE = "we read formats that the recorded system does not know"
BLOCK_ALONE = "a bad block is a broken call; it is no error of the whole reply"
POSITION = "neither the words around a call nor its place refuse it"

OVERRULED: dict[str, Wanted] = {
    "zeroclaw-extract_text-011": Wanted(
        NO_ALIAS, (("send_message", {"channel": "user_channel", "message": "Hello! How can I assist you today?"}),)
    ),
    "zeroclaw-extract_text-055": Wanted(NO_GUESS),
    "zeroclaw-extract_text-059": Wanted("a value that nothing ends may be cut off"),
    "zeroclaw-extract_text-060": Wanted(NO_GUESS),
    "zeroclaw-extract_text-062": Wanted(NO_ALIAS, (("browser_open", {"url": "https://example.com"}),)),
    "zeroclaw-extract_text-063": Wanted(NO_ALIAS, (("browser_open", {"url": "https://example.com/it's;still=one"}),)),
    "zeroclaw-extract_text-069": Wanted(
        "which addresses a tool may open is for the tool to say", (("browser_open", {"url": "javascript:alert(1)"}),)
    ),
    "zeroclaw-extract_text-072": Wanted(NO_GUESS),
    "zeroclaw-extract_text-115": Wanted("arguments are an object; a list is a fault"),
    "zeroclaw-extract_text-117": Wanted(READS_MORE, (("read", {"path": "/a/b"}),)),
    "zeroclaw-extract_text-118": Wanted(READS_MORE, (("get_weather", {"city": "Paris"}),)),
    "zeroclaw-extract_text-119": Wanted(READS_MORE, (("t", {}),)),
    "zeroclaw-extract_text-120": Wanted(READS_MORE, (("x", {"a": 1}),)),
    "zeroclaw-extract_text-125": Wanted(READS_MORE, (("shell", {"command": 'echo "hello"'}),)),
    "zeroclaw-extract_text-137": Wanted(POSITION, (("shell", {"command": "pwd"}),)),
    "exathena-extract_text-006": Wanted(BLOCK_ALONE),
    "exathena-extract_text-007": Wanted(BLOCK_ALONE),
    "exathena-extract_text-039": Wanted("a message that is one call in a json fence is a call", (("read", {}),)),
}


@pytest.fixture(scope="module")
def recorded(shared_data: Callable[[str], Path]) -> list[Row]:
    with gzip.open(shared_data("seed_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def choose(recorded: list[Row], kind: str, verdict: str) -> list[Row]:
    chosen = [row for row in recorded if (row["kind"], row["verdict"]) == (kind, verdict)]
    return [row for row in chosen if row["id"] not in LEFT_OUT]


def pieces_of(row: Row) -> list[str]:
    """The text of a row, in the pieces in which it arrives; rows spell it in several ways."""
    given = row["input"]
    if isinstance(given, str):
        return [given]
    if "stream_chunks" in given:
        return list(given["stream_chunks"])
    assert not given.get("tool_calls"), "a native call is no text: leave the row out, and say why"
    return [next(given[key] for key in ("text", "raw_json_parser", "classify") if key in given)]


def read(row: Row) -> Parsed:
    """Read a row in its own pieces, having made sure that single characters say the same."""
    pieces = pieces_of(row)
    parsed, by_character = (_feed(cut, row["tools"]) for cut in (pieces, "".join(pieces)))
    assert (parsed.text, parsed.calls, parsed.broken) == (by_character.text, by_character.calls, by_character.broken)
    return parsed


def _feed(pieces: list[str] | str, tools: list[Any] | None) -> Parsed:
    stage = formats.parser(tools=tools)
    return formats.fold([event for events in [*map(stage.feed, pieces), stage.close()] for event in events])


def calls_of(parsed: Parsed) -> list[Call]:
    return [(call.name, call.arguments) for call in parsed.calls]


def faults_of_text(row: Row, text: str) -> list[str]:
    """Where the text that remains is not as recorded. Blanks around it are nobody's concern, except when streamed."""
    expected = row["expected"]
    faults = [f"lacks {part!r}" for part in expected.get("text_contains", []) if part not in text]
    faults += [f"holds {part!r}" for part in expected.get("text_excludes", []) if part in text]
    if text.strip() != expected.get("text", text).strip() or text != expected.get("visible", text):
        faults.append(f"text is {text!r}")
    return faults


def faults_of_calls(parsed: Parsed, wanted: list[Call]) -> list[str]:
    found = calls_of(parsed)
    return [] if found == wanted else [f"calls {found}, wanted {wanted}"]


def test_rows_to_keep_are_read_as_recorded(recorded: list[Row]) -> None:
    faults = {}
    for row in choose(recorded, "extract_text", "keep"):
        parsed = read(row)
        faults[row["id"]] = faults_of_text(row, parsed.text)
        if "calls" not in row["expected"]:
            assert "visible" in row["expected"], row["id"]
            continue
        calls = row["expected"]["calls"]
        faults[row["id"]] += faults_of_calls(parsed, [(call["name"], call["arguments"]) for call in calls])
        ids = [(call.id, wanted["id"]) for call, wanted in zip(parsed.calls, calls, strict=False) if "id" in wanted]
        faults[row["id"]] += [f"id {found!r}, wanted {wanted!r}" for found, wanted in ids if found != wanted]
    assert faults
    assert {identity: listed for identity, listed in faults.items() if listed} == {}


def test_holes_are_closed_as_their_notes_want(recorded: list[Row]) -> None:
    faults = {}
    for row in choose(recorded, "extract_text", "hole"):
        parsed = read(row)
        faults[row["id"]] = faults_of_calls(parsed, HOLES.get(row["id"], [])) + faults_of_text(row, parsed.text)
    assert HOLES.keys() - faults.keys() == set()
    assert {identity: listed for identity, listed in faults.items() if listed} == {}


def test_overruled_rows_are_read_by_our_rules(recorded: list[Row]) -> None:
    rows = choose(recorded, "extract_text", "overruled")
    assert {row["id"] for row in rows} == OVERRULED.keys()
    faults = {}
    for row in rows:
        parsed = read(row)
        wanted = OVERRULED[row["id"]]
        faults[row["id"]] = faults_of_calls(parsed, list(wanted.calls)) + faults_of_text(row, parsed.text)
        if len(parsed.broken) != (0 if wanted.calls else 1):
            faults[row["id"]].append(f"broken {parsed.broken}: {wanted.why}")
    assert {identity: listed for identity, listed in faults.items() if listed} == {}


def test_rows_are_left_out_by_name_only(recorded: list[Row]) -> None:
    known = {row["id"] for row in recorded if row["kind"] == "extract_text" and row["verdict"] != "out_of_scope"}
    assert LEFT_OUT - known == set()


# ---- prompts --------------------------------------------------------------------------------------------------------


def instruct(given: dict[str, Any]) -> str:
    assert given.get("base") is None, "joining instructions to a prompt is not a matter of formats"
    return formats.instructions(given["tools"], compact=given.get("compact", False))


def ten_tools_with_five_parameters() -> list[dict[str, Any]]:
    properties = {f"parameter_{n}": {"type": "string", "description": f"What parameter {n} is for"} for n in range(5)}
    schema = {"type": "object", "properties": properties, "required": ["parameter_0"]}
    return [{"name": f"tool_{n}", "description": f"Does thing number {n}.", "schema": schema} for n in range(10)]


def test_prompts_to_keep_say_what_is_recorded(recorded: list[Row]) -> None:
    rows = [row for row in choose(recorded, "prompt", "keep") if "fixture" not in row["input"]]
    assert rows
    for row in rows:
        written = instruct(row["input"])
        assert all(part in written for part in row["expected"]["contains"]), row["id"]
        assert not any(part in written for part in row["expected"].get("excludes", [])), row["id"]


def test_compact_prompts_are_as_short_as_recorded(recorded: list[Row]) -> None:
    (row,) = (row for row in choose(recorded, "prompt", "keep") if "fixture" in row["input"])
    assert (row["input"]["fixture"], row["input"]["compact"]) == ("10 tools x 5 params", True)
    compact, full = (
        len(formats.instructions(ten_tools_with_five_parameters(), compact=flag).encode()) for flag in (True, False)
    )
    assert compact <= row["expected"]["bytes_ratio_max"] * full


def test_overruled_prompts_say_the_same_in_our_own_words(recorded: list[Row]) -> None:
    (row,) = choose(recorded, "prompt", "overruled")
    (tool,) = row["input"]["tools"]
    written = formats.instructions([tool], "hermes")
    assert all(part in written for part in (tool["name"], tool["description"], json.dumps(tool["parameters"])))
    assert calls_of(formats.parse(written)) == [(tool["name"], {})]
