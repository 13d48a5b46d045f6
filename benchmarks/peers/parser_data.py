"""What the parsers read: our own test rows and, if they are there, recorded vectors beside the checkout."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.rows import ROOT

OWN = ROOT / "tests/data"
SHARED = ROOT.parent / "shared/data"
NO_VECTORS = "the recorded vectors are not beside this checkout (../shared/data)"
KINDS = {
    "rendered": "well-formed",
    "prose": "well-formed",
    "json": "damaged",
    "wrapper": "damaged",
    "cut": "no call",
    "no-call": "no call",
}
"""The kinds of our own rows. Calls inside thinking are left out: the servers have other parsers for that."""

Calls = list[Any]


class Row(NamedTuple):
    """An output of a model. `is_right` says whether calls are the ones that were meant."""

    format: str
    kind: str
    text: str
    tools: list[dict[str, Any]]
    is_right: Callable[[Calls], bool]


def read_own_rows() -> list[Row]:
    """The rows of `tests/data/parser.jsonl` whose kind is measured."""
    functions = json.loads((OWN / "tools.json").read_text(encoding="utf-8"))
    tools = [{"type": "function", "function": function} for function in functions]
    rows = []
    for line in (OWN / "parser.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = KINDS.get(row["id"].split("/")[1])
        # A server passes on calls of unknown tools, and the client decides: that is not compared.
        if kind is not None and not row.get("unknown"):
            kind = "no call" if not row["calls"] else kind
            rows.append(Row(row["format"], kind, row["text"], tools, _accepts(row)))
    return rows


def _accepts(row: dict[str, Any]) -> Callable[[Calls], bool]:
    accepted = [row["calls"]]
    if row.get("or_none"):
        accepted.append([])
    if row.get("or_calls"):
        accepted.append(row["or_calls"])
    return lambda calls: calls in accepted


def read_shared_rows() -> list[Row]:
    """The recorded vectors, judged by the scorer beside them. Empty if they are not there."""
    path, scorer = SHARED / "parser_vectors.jsonl.gz", SHARED / "score_vectors.py"
    if not path.is_file() or not scorer.is_file():
        return []
    judge = _load(scorer)
    rows = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row.get("partial") or row.get("raw_inner") or row.get("expected_reasoning"):
                continue
            wanted = row.get("expected_calls")
            if wanted is not None:
                is_right = _scored(judge, wanted)
                rows.append(Row(row["format"], "recorded", row["model_output"], judge.tools_of(row), is_right))
    return rows


def _scored(judge: Any, wanted: Any) -> Callable[[Calls], bool]:
    return lambda calls: bool(judge.calls_right(wanted, [tuple(call) for call in calls]))


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
