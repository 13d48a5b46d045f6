"""The programs in examples/ run, print what they should, and stay short."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.peers.frameworks import FRAMEWORKS

TASKS = Path(__file__).resolve().parents[2] / "examples" / "tasks"
FOR_FRAMEWORKS = TASKS.with_name("integrations")
MOST_LINES = 40
MOST_LINES_FOR_A_FRAMEWORK = 25
PRINTED = {
    "two_tools": ["reserve -> nights is at least 1", "reserve -> room reserved", "It is warm in Nice."],
    "async_stream": ["-> look_up {'word': 'dragoman'}", "A dragoman is an interpreter.", "[answered after 2 turns]"],
    "structured_answer": ["2 Trip(city='Rome', days=3, sights=['Forum', 'Pantheon'])", "Rome 3 2"],
    "fallback": ["717,710 people", "nothing listens there); spare replaces it", "more than half a million"],
    "unknown_format": ["loose: search {'query': 'old maps', 'limit': 3}", "acme: [('search'", "agent: 5 results"],
    "other_sdk": ["weather {'city': 'Paris'} ('trailing_comma',)", "Let me see."],
    "own_loop": ["add {'one': 17, 'other': 25} ['string_to_number'] -> 42", "It is 42."],
    "mcp_tools": ["['mcp__clock__opening_hours'] []", "The bakery is open from 9 to 17", "Yes, the bakery is open"],
    "approval": ["awaiting_approval | approval is needed for transfer", "asked: transfer", "I have sent 20 to Bob."],
    "resume": ["killed by SIGKILL", "The letter is on its way.", "to Ada"],
}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if name == "other_sdk":
        pytest.importorskip("openai")
    if name == "mcp_tools":
        pytest.importorskip("mcp")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "DRAGOMAN_"))}
    environment |= {"HOME": str(tmp_path), "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(TASKS / f"{name}.py")]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    at = 0
    for line in PRINTED[name]:
        assert line in ran.stdout[at:], ran.stdout
        at = ran.stdout.index(line, at) + len(line)
    if name == "resume":
        assert ran.stdout.count("to Ada") == 1, "the letter was sent once"


def test_there_are_ten_short_examples() -> None:
    lengths = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in TASKS.glob("*.py")}
    assert lengths.keys() == PRINTED.keys()
    assert {name: length for name, length in lengths.items() if length >= MOST_LINES} == {}


def test_the_programs_for_frameworks_are_short_and_run_by_the_tests_of_peers() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in FOR_FRAMEWORKS.glob("*.py")}
    assert texts.keys() == {framework.example for framework in FRAMEWORKS.values() if framework.example}
    for name, text in texts.items():
        assert len(text.splitlines()) < MOST_LINES_FOR_A_FRAMEWORK, name
        imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
        assert "dragoman.integrations" in imported, name
