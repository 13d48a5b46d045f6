"""The real command in a process of its own: with pipes, or at a terminal that a test types at and reads."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

# Whoever runs the tests in the background may have interrupts ignored, and that is inherited.
START = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
START += "from dragoman.__main__ import main; sys.argv[0] = 'dragoman'; sys.exit(main())"
COMMAND = [sys.executable, "-c", START]
# Forking is not for a process with threads, so the new process makes the terminal its own by itself.
AT_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
PATIENCE = 30.0
"""Seconds after which a test that waits for something gives up."""


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


class Desk:
    """A home of one's own with a folder to work in, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "OPENAI_"))}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
            kept.pop(name, None)
        self.environment = kept | {
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TERM": "xterm-256color",
            "PYTHONIOENCODING": "utf-8",
        }

    def write(self, name: str, content: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return str(path)

    def __call__(self, *arguments: str, stdin: str | None = None, **environment: str) -> Done:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=PATIENCE,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def at_terminal(self, *arguments: str, **environment: str) -> Terminal:
        return Terminal(arguments, self.folder, self.environment | environment)


class Terminal:
    """A command at a terminal of its own; `with` closes it, and ends the command if a test failed."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.seen = b""
        self._read_up_to = 0
        self._descriptor, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL + START, *arguments],
            cwd=folder,
            env=environment,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._descriptor)

    @property
    def text(self) -> str:
        """What is on the screen, as if it were long and wide enough for all of it; without colours."""
        return paint(self.seen.decode("utf-8", "replace"))

    def wait_for(self, words: str) -> None:
        """Read until the words are shown, behind those that were waited for before."""
        wanted = words.encode()
        while (place := self.seen.find(wanted, self._read_up_to)) < 0:
            assert self._read(), f"{words!r} is not in {self.text!r}"
        self._read_up_to = place + len(wanted)

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C, as the terminal sends it: to every process in the foreground."""
        self.wait_until_it_waits()
        self.type("\x03")

    def wait_until_it_waits(self) -> None:
        """Wait until the command waits. Python notices a signal late that comes just before it waits for a key."""
        state = Path(f"/proc/{self.process.pid}/stat")
        while self.process.poll() is None and ") S " not in state.read_text(encoding="utf-8"):
            os.sched_yield()

    def wait(self) -> int:
        """Read to the end: the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], PATIENCE)
        assert ready, f"nothing more was shown for {PATIENCE} seconds: {self.text!r}"
        try:
            piece = os.read(self._descriptor, 65536)
        except OSError:  # how Linux tells that the other side is closed
            return False
        self.seen += piece
        return bool(piece)


def paint(shown: str) -> str:
    """The lines that are left when everything was written: the few movements that the command makes are followed."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b", shown):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece == "\x1b[1A":
            row = max(0, row - 1)
        elif not piece.startswith("\x1b["):
            line = lines[row].ljust(column)
            lines[row] = line[:column] + piece + line[column + len(piece) :]
            column += len(piece)
    return "\n".join(lines)
