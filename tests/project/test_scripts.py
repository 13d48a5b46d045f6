"""Every script and every benchmark starts. Most of them run in no test, so nothing else notices a module that moved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python_programs() -> list[Path]:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    return [
        *(path for path in sorted(scripts) if "python" in path.read_text(encoding="utf-8").partition("\n")[0]),
        *sorted((ROOT / "benchmarks").glob("*.py")),
    ]


@pytest.mark.parametrize("program", python_programs(), ids=lambda path: path.name)
def test_it_shows_its_help(program: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(program), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
