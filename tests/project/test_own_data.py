"""The generated rows in `tests/data/` are what their generators give, and every file is in order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests" / "data").glob("*.jsonl"))


def test_the_generated_rows_are_up_to_date() -> None:
    script = ROOT / "scripts" / "make-test-data"
    ran = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rows_are_sorted_by_ids_that_are_unique(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    ids = [json.loads(line)["id"] for line in lines]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("kind", ["parser", "wire", "redaction"])
def test_no_id_is_in_two_files(kind: str) -> None:
    paths = [path for path in FILES if path.stem.startswith(kind)]
    ids = [json.loads(line)["id"] for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert len(ids) == len(set(ids))
