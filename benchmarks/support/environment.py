"""LiteLLM in an environment of its own: made once in the user's cache, asked over a pipe.

It needs other versions of packages that we also use, so that it may not be installed beside us.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

# Without the other two it can neither read Bedrock's frames nor make a call with tools.
PACKAGES = ("litellm", "botocore", "mcp")
WORKER = Path(__file__).with_name("litellm_worker.py")
MOST_SECONDS = 1200


class Unavailable(Exception):
    """LiteLLM cannot be had here, and why."""


class Worker:
    """A process that measures LiteLLM, until it is closed."""

    def __init__(self, interpreter: Path) -> None:
        # It lives as long as the process that writes to it, and goes with it in `close`.
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [interpreter, WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )
        self.versions: dict[str, Any] = self._answer()

    def ask(self, **job: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise Unavailable(f"its process ended: {self._last_error()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_error(self) -> str:
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or ["without a word"])[-1]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def interpreter() -> Path:
    """The interpreter of the environment with LiteLLM, which is made if it is not there yet."""
    home = cache_folder() / "litellm"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = home / "installed"
    if python.exists() and stamp.exists():
        return python
    print("setting up LiteLLM in an environment of its own; this happens once", file=sys.stderr)
    run_quietly([sys.executable, "-m", "venv", "--clear", home])
    run_quietly([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES])
    stamp.touch()
    return python


def cache_folder() -> Path:
    # `or`: an empty value means the same as none.
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dragoman" / "benchmarks"


def run_quietly(command: list[str | Path]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode:
        raise Unavailable(next(reversed(done.stderr.strip().splitlines()), f"{command[0]} failed"))
