"""Our own rows: calls of every format, written, damaged and mentioned, are read as each operator demands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.rows import Row, known_failures, read_rows, read_tools

from dragoman import formats
from dragoman.events import CallBroken, CallEnded, CallRefused, Event, MarkerDropped, TextDelta, ThinkingDelta
from dragoman.formats import Parsed
from dragoman.toolset import Toolset

ROWS = read_rows("parser")
KNOWN = known_failures("parser")
TOOLS = Toolset.of(read_tools())
GROUPS = sorted({row["id"].partition("/")[0] for row in ROWS})
CHUNKINGS = ((1,), (7,), (3, 1, 11), (64, 2))

every_group = pytest.mark.parametrize("group", GROUPS)


def rows_of(group: str) -> list[Row]:
    return [row for row in ROWS if row["id"].startswith(f"{group}/")]


def ways_of(row: Row) -> list[str]:
    return [row["format"], "auto"] if row["auto"] and row["format"] != "auto" else [row["format"]]


def cut(text: str, sizes: tuple[int, ...]) -> Iterator[str]:
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        yield text[at : at + size]
        at, turn = at + size, turn + 1


def run(row: Row, way: str, pieces: Iterable[str]) -> Parsed:
    stage = formats.parser(way, TOOLS, **row.get("options", {}))
    events: list[Event] = [event for piece in pieces for event in stage.feed(piece)]
    return formats.fold(events + stage.close())


def account(parsed: Parsed) -> tuple[Any, ...]:
    calls = [(call.name, repr(call.arguments), call.repairs, call.known_tool) for call in parsed.calls]
    broken = [(event.raw, event.why) for event in parsed.broken]
    return parsed.text, parsed.thinking, calls, [event.call for event in parsed.refused], broken


def raw_of(parsed: Parsed) -> str:
    kinds = (TextDelta, ThinkingDelta, MarkerDropped, CallEnded, CallRefused, CallBroken)
    return "".join(event.raw for event in parsed.events if isinstance(event, kinds))


def faults_of(row: Row, parsed: Parsed) -> list[str]:
    """Where the reading of a row is not as the row demands."""
    return [*_faults_of_calls(row, parsed), *_faults_of_text(row, parsed)]


def _faults_of_calls(row: Row, parsed: Parsed) -> Iterator[str]:
    offered = [[call.name, call.arguments] for call in parsed.calls if call.known_tool]
    allowed = [row["calls"], *([[]] if row.get("or_none") else []), *([row["or_calls"]] if "or_calls" in row else [])]
    # repr tells 1 from 1.0 and from True, which == does not.
    if repr(offered) not in map(repr, allowed):
        yield f"calls {offered}"
    unknown = [call.name for call in parsed.calls if not call.known_tool]
    if unknown != row.get("unknown", []) and (unknown or row["surfaced"]):
        yield f"unknown tools {unknown}"
    repaired = any(call.repairs for call in parsed.calls)
    if row["repaired"] is not None and offered and repaired != row["repaired"]:
        yield f"repairs {[call.repairs for call in parsed.calls]}"
    ids = [call.id for call in parsed.calls]
    if ids != row.get("ids", ids):
        yield f"ids {ids}"
    refused = [event.name for event in parsed.refused]
    if refused != row.get("refused", refused):
        yield f"refused {refused}"


def _faults_of_text(row: Row, parsed: Parsed) -> Iterator[str]:
    if "said" in row and parsed.text.split() != row["said"].split():
        yield f"text {parsed.text!r}"
    if "thinking" in row and parsed.thinking.split() != row["thinking"].split():
        yield f"thinking {parsed.thinking!r}"


@every_group
def test_rows_are_read_as_they_demand(group: str) -> None:
    faults = {}
    for row in rows_of(group):
        found = {way: faults_of(row, run(row, way, [row["text"]])) for way in ways_of(row)}
        if any(found.values()):
            faults[row["id"]] = found
    known = {identity for identity in KNOWN if identity.startswith(f"{group}/")}
    assert {identity: found for identity, found in faults.items() if identity not in known} == {}
    assert known - faults.keys() == set(), "right by now: remove the entry from tests/data/known.toml"


@every_group
def test_pieces_do_not_matter_and_no_text_is_lost(group: str) -> None:
    for row in rows_of(group):
        for way in ways_of(row):
            whole = run(row, way, [row["text"]])
            assert raw_of(whole) == row["text"], (row["id"], way)
            for sizes in CHUNKINGS:
                parsed = run(row, way, cut(row["text"], sizes))
                assert account(parsed) == account(whole), (row["id"], way, sizes)
                assert raw_of(parsed) == row["text"], (row["id"], way, sizes)


def test_there_are_rows_for_every_format() -> None:
    assert {row["format"] for row in ROWS} >= set(formats.names())
    assert len(ROWS) >= 800


def test_known_failures_name_a_row_and_a_reason() -> None:
    assert KNOWN.keys() <= {row["id"] for row in ROWS}
    assert all(reason.strip() for reason in KNOWN.values())
