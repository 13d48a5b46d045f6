"""`scripts/walk` counts what one use of the package touches; most tests count the walk of the parser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "walk"


def walk(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_it_names_the_files_and_functions_of_a_parse() -> None:
    done = walk("parse", "--json")
    assert done.returncode == 0, done.stderr
    (figures,) = json.loads(done.stdout)["walks"]
    touched = figures["touched"]
    assert figures["walk"] == "parse"
    assert figures["files"] == len(touched)
    assert figures["functions"] == sum(len(names) for names in touched.values())
    assert figures["calls"] >= figures["functions"] > figures["files"]
    assert figures["within_limit"] == (figures["files"] <= figures["limit"])
    assert "parse" in [name for file, names in touched.items() if file.startswith("formats/") for name in names]
    assert not [file for file in touched if file.startswith("testing/")]


def test_it_counts_only_what_a_warm_run_does() -> None:
    (figures,) = json.loads(walk("parse", "--json").stdout)["walks"]
    assert "<module>" not in [name for names in figures["touched"].values() for name in names]


def test_a_walk_over_its_limit_fails_the_check() -> None:
    done = walk("parse", "--limit", "parse=1")
    assert (done.returncode, "EXCEEDED" in done.stdout) == (1, True)
    assert walk("parse", "--limit", "parse=1000").returncode == 0


def test_every_walk_is_within_its_limit() -> None:
    done = walk("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unknown_walk_is_a_misuse_that_names_the_known_ones() -> None:
    done = walk("stroll")
    assert done.returncode == 2
    assert "choose from parse, native, text, command" in done.stderr
