"""The architecture page names the layers of the import contract, and tests that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_table_of_layers_is_the_import_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    cells = re.findall(r"^\| (`[^|]+) \|", section("Layers"), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", cell) for cell in cells] == layers


def test_every_invariant_names_a_test_that_exists() -> None:
    rows = [line for line in section("Invariants").splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        files = [(ROOT / path).read_text(encoding="utf-8") for path in re.findall(r"`(tests/[\w/.]+)`", row)]
        tests = re.findall(r"`(test_\w+)`", row)
        assert tests, row
        assert [name for name in tests if not any(f"def {name}(" in text for text in files)] == [], row


def test_twelve_files_are_to_be_read() -> None:
    numbered = re.findall(r"^(\d+)\. `(src/dragoman/[\w/]+\.py)`", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in numbered] == list(range(1, 13))
    assert [path for _, path in numbered if not (ROOT / path).is_file()] == []


def test_the_table_of_changes_names_what_the_files_hold() -> None:
    """CONTRIBUTING says `NAME` in `file.py`; the file has that name."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|.*$", text, re.MULTILINE)
    named = [pair for row in rows for pair in re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", row)]
    assert len(rows) == 15 and len(named) > 15
    for name, path in named:
        file = ROOT / path if path.startswith(("src/", "tests/")) else ROOT / "src" / "dragoman" / path
        assert name.rpartition(".")[2] in file.read_text(encoding="utf-8"), f"{name} is not in {path}"
