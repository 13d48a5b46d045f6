"""What the seed systems' own tests record about text, through `extract`: the same rows, with trust applied."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.formats.test_seed_vectors import HOLES, OVERRULED, Call, Row, faults_of_text, pieces_of

from dragoman import Extraction, extract, extractor

SELF_CONTAINED = "exathena-extract_text-015"
# Rows that a rule of trust decides otherwise than parsing alone does, and the rule.
JUDGED: dict[str, tuple[str, list[Call]]] = {
    # The recorded parser takes null for no arguments; a message of bare JSON has to say what it wants.
    "exathena-extract_text-025": ("bare JSON needs its arguments", []),
}


@pytest.fixture(scope="module")
def rows(shared_data: Callable[[str], Path]) -> list[Row]:
    with gzip.open(shared_data("seed_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        recorded = [json.loads(line) for line in lines]
    return [row for row in recorded if row["kind"] == "extract_text" and row["verdict"] != "out_of_scope"]


def read(row: Row) -> Extraction:
    """Extract from the pieces of a row, having made sure that the whole text says the same."""
    pieces = pieces_of(row)
    capabilities = row["input"].get("capabilities") if isinstance(row["input"], dict) else None
    stage = extractor(capabilities, tools=row["tools"])
    for piece in pieces:
        stage.feed(piece)
    stage.close()
    assert stage.extraction == extract("".join(pieces), capabilities, tools=row["tools"])
    return stage.extraction


def wanted(row: Row) -> list[Call] | None:
    if row["id"] in JUDGED:
        return JUDGED[row["id"]][1]
    if row["verdict"] == "hole":
        return HOLES.get(row["id"], [])
    if row["verdict"] == "overruled":
        return list(OVERRULED[row["id"]].calls)
    if "calls" not in row["expected"]:
        return None
    return [(call["name"], call["arguments"]) for call in row["expected"]["calls"]]


def test_rows_are_extracted_by_their_verdict(rows: list[Row]) -> None:
    faults: dict[str, Any] = {}
    for row in rows:
        found = read(row)
        calls = [(call.name, call.arguments) for call in found.calls]
        expected = wanted(row)
        if expected is not None and calls != expected:
            faults[row["id"]] = (calls, expected, [(each.name, each.why) for each in found.refused], found.invalid)
        elif row["id"] not in JUDGED and row["id"] != SELF_CONTAINED and faults_of_text(row, found.text):
            faults[row["id"]] = faults_of_text(row, found.text)
    assert len(rows) == 96
    assert faults == {}


def test_rows_are_judged_otherwise_by_name_only(rows: list[Row]) -> None:
    assert JUDGED.keys() - {row["id"] for row in rows} == set()
