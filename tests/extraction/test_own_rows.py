"""Our own parser rows through `extract`: trust takes no call away that was meant, and adds none that was not."""

from __future__ import annotations

import pytest
from tests.rows import Row, known_failures, read_rows, read_tools

from dragoman import Extraction, extract, extractor
from dragoman.toolset import Toolset

KNOWN = known_failures("extraction")
UNREAD = known_failures("parser").keys()
# The format is not named here, so that rows of formats which `auto` leaves out say nothing.
ROWS = [row for row in read_rows("parser") if row["auto"] and row["id"] not in UNREAD]
TOOLS = Toolset.of(read_tools())
# These calls stand in a fence of their own, which ends the fence around them.
OWN_FENCES = {"cohere_command_r", "deepseek_v3", "fenced_tool_call", "fenced_tool_name", "tool_code"}


def faults_of(row: Row, found: Extraction) -> list[str]:
    calls = [[call.name, call.arguments] for call in found.calls if call.known_tool]
    allowed = [row["calls"], *([[]] if row.get("or_none") else []), *([row["or_calls"]] if "or_calls" in row else [])]
    if repr(calls) in map(repr, allowed):
        return []
    return [f"calls {calls}, refused {[(each.name, each.why) for each in found.refused]}"]


def test_calls_are_extracted_as_the_rows_demand() -> None:
    faults = {row["id"]: faults_of(row, extract(row["text"], tools=TOOLS)) for row in ROWS}
    assert {identity: found for identity, found in faults.items() if found and identity not in KNOWN} == {}
    assert {identity for identity in KNOWN if not faults[identity]} == set(), "right by now: edit known.toml"


@pytest.mark.parametrize("size", [1, 7])
def test_pieces_do_not_matter(size: int) -> None:
    # Every third row: the parser itself is tried on all of them.
    for row in ROWS[::3]:
        text = row["text"]
        stage = extractor(tools=TOOLS)
        for at in range(0, len(text), size):
            stage.feed(text[at : at + size])
        stage.close()
        assert stage.extraction == extract(text, tools=TOOLS), row["id"]


def test_a_fence_within_an_answer_shows_a_call_and_makes_none() -> None:
    for row in ROWS:
        name, _, operator = row["id"].partition("/")
        if operator == "fence" and name not in OWN_FENCES:
            found = extract(f"One would write:\n\n{row['text']}\n\nThat is how it looks.", tools=TOOLS)
            assert found.calls == [], row["id"]


def test_known_failures_name_a_row_and_a_reason() -> None:
    assert KNOWN.keys() <= {row["id"] for row in ROWS}
    assert all(reason.strip() for reason in KNOWN.values())
