"""What works on Windows and macOS, and what says clearly that it does not, in processes that look like these systems.

`tests/emulated_platform.py` says what is emulated, and what cannot be. `docs/platforms.md` is the page for users.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EVERYWHERE = {
    "imports": "True",
    "parse": "f {'x': 1}",
    "wires": "[{'role': 'user', 'content': 'hi'}]",
    "agent": "Sunny.",
    "ask": "Hello.",
    "attach": "a note",
    "sandbox": "SandboxMissing: there is no sandbox for ",
    "signals": "[False, True]",
    "version": "0: dragoman ",
    "run": "0: Hello.",
    "batch": '"outcome":"answered"',
    "sessions": "0: session",
    "audit": "0: sound: ",
    "doctor": "hint: to confine commands, run dragoman on Linux, in a container or in WSL; here they need an approval",
}
ON_WINDOWS = EVERYWHERE | {
    "all tools": "web_fetch todo_write ask_user finish remember recall",
    "named tools": "ConfigError: these tools do not run on Windows: read | leave them out, or run dragoman on Linux",
    "read": "the file tools need Linux, macOS or BSD; on Windows, they run in WSL",
    "bash": "Not run: commands need a POSIX shell; on Windows, they run in WSL.",
    "launch": "2: error: dragoman launch does not run on Windows\nhint: start `dragoman serve`",
    "workers": "2: error: this system cannot fork a process\nhint: leave out --workers",
}
ON_MACOS = EVERYWHERE | {
    "all tools": "read glob grep web_fetch write edit apply_patch bash todo_write ask_user finish remember recall",
    "named tools": "read finish",
    "read": "1\ta note",
    "bash": "ran\n[exit code 0",
    "launch": "2: error: cannot launch 'no-such-program'",
    "workers": "",
}


def outcomes_on(platform: str, folder: Path) -> dict[str, str]:
    script = ROOT / "tests" / "project" / "platform_scenario.py"
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, str(script), platform], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def check(found: dict[str, str], expected: dict[str, str]) -> None:
    assert {name: said for name, said in found.items() if expected[name] not in said} == {}
    assert found.keys() == expected.keys()


def test_windows_runs_everything_but_files_commands_and_processes_that_fork(tmp_path: Path) -> None:
    found = outcomes_on("windows", tmp_path)
    check(found, ON_WINDOWS)
    assert "read, glob, grep, write, edit, apply_patch, bash do not run on Windows and are left out" in found["run"]


def test_macos_runs_everything_but_the_sandbox(tmp_path: Path) -> None:
    check(outcomes_on("macos", tmp_path), ON_MACOS)
