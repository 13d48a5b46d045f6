"""Type checkers see the public interface: mypy and pyright agree with every line of `expectations.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXPECTATIONS = HERE / "expectations.py"
WRONG = {
    number
    for number, line in enumerate(EXPECTATIONS.read_text(encoding="utf-8").splitlines(), 1)
    if line.endswith("# error")
}


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout, done.stderr
    return done.stdout


def mypy() -> dict[int, str]:
    """The lines that mypy refuses, with its words."""
    # The cache of `make check` is used where it exists: the check of the package itself takes most of the time.
    told = run(sys.executable, "-m", "mypy", "--strict", "--no-warn-unused-ignores", str(EXPECTATIONS))
    found = re.findall(r"^tests/typing/expectations\.py:(\d+): error: (.*)$", told, re.MULTILINE)
    return {int(line): message for line, message in found}


def pyright() -> dict[int, str]:
    """The lines that pyright refuses in strict mode, with its words."""
    here = ("--pythonpath", sys.executable, "--project", str(HERE / "pyrightconfig.json"))
    told = run(sys.executable, "-m", "pyright", "--outputjson", *here)
    found = json.loads(told)["generalDiagnostics"]
    assert all(entry["file"].endswith("expectations.py") for entry in found)
    errors = [entry for entry in found if entry["severity"] == "error"]
    return {entry["range"]["start"]["line"] + 1: entry["message"] for entry in errors}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_type_checker_infers_what_is_expected_and_refuses_every_mistake(
    checker: Callable[[], dict[int, str]],
) -> None:
    refused = checker()
    assert refused.keys() == WRONG, {line: refused.get(line, "not reported") for line in refused.keys() ^ WRONG}
