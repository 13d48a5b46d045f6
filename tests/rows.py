"""Our own rows of test data in `tests/data/`, read once. `tests/data/README.md` explains their fields."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]

DATA = Path(__file__).parent / "data"


@cache
def read_rows(kind: str) -> tuple[Row, ...]:
    """The generated rows of a kind and those written by hand."""
    return tuple(
        json.loads(line)
        for path in sorted(DATA.glob(f"{kind}*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    )


@cache
def known_failures(kind: str) -> dict[str, str]:
    """Rows that are known to fail, by id, each with the reason."""
    with (DATA / "known.toml").open("rb") as file:
        found: dict[str, str] = tomllib.load(file).get(kind, {})
    return found


@cache
def read_tools() -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = json.loads((DATA / "tools.json").read_text(encoding="utf-8"))
    return tools


@cache
def read_tool_sets() -> dict[str, list[dict[str, Any]]]:
    """The sets of tools that the invented replies and the decoys offer, by name."""
    sets: dict[str, list[dict[str, Any]]] = json.loads((DATA / "invented_tools.json").read_text(encoding="utf-8"))
    return sets
