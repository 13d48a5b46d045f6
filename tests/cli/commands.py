"""The real command in a process of its own: with pipes, or at a terminal that a test types at and reads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.cells import cell_len

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

    def at_terminal(self, *arguments: str, size: tuple[int, int] | None = None, **environment: str) -> Terminal:
        """The command at a terminal of so many columns and rows."""
        return Terminal(arguments, self.folder, self.environment | environment, size)


class Terminal:
    """A command at a terminal of its own; `with` closes it, and ends the command if a test failed."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        size: tuple[int, int] | None = None,
    ) -> None:
        self.seen = b""
        self._read_up_to = 0
        self._size = size or (80, 24)
        self._descriptor, other = pty.openpty()
        if size is not None:
            self.resize(*size)
        self.settings = termios.tcgetattr(other)
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

    @property
    def screen(self) -> list[str]:
        """The rows of the screen and those that left it above, as a terminal of this width shows them."""
        return draw(self.seen.decode("utf-8", "replace"), self._size[0])

    def resize(self, columns: int, rows: int) -> None:
        self._size = columns, rows
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def check_restored(self) -> None:
        """The settings of the terminal are those of before, the cursor is visible, and pastes are not marked."""
        assert termios.tcgetattr(self._descriptor)[:4] == self.settings[:4]
        for number, usual in ((25, b"h"), (2004, b"l"), (7, b"h")):
            changes = re.findall(rb"\x1b\[\?%d([hl])" % number, self.seen)
            assert changes[-1:] in ([], [usual]), f"mode {number} is {changes[-1]}"

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


class _Rows:
    """The cells of a terminal without an end. A wide character is in its first cell, and its second one is empty."""

    def __init__(self, width: int) -> None:
        self.width, self.wraps = width, True
        self.cells: list[list[str]] = [[" "] * width]
        self.row = self.column = 0

    def write(self, character: str) -> None:
        size = cell_len(character)
        if size == 0:
            return
        if self.column + size > self.width:
            if not self.wraps:
                self.column = self.width - size
            else:
                self.feed_line()
                self.column = 0
        self.cells[self.row][self.column : self.column + size] = [character, *[""] * (size - 1)]
        self.column += size

    def feed_line(self) -> None:
        self.row += 1
        if self.row == len(self.cells):
            self.cells.append([" "] * self.width)

    def move(self, kind: str, number: int) -> None:
        if kind == "A":
            self.row = max(self.row - number, 0)
        elif kind == "B":
            for _ in range(number):
                self.feed_line()
        elif kind in "CD":
            step = number if kind == "C" else -number
            self.column = min(max(min(self.column, self.width - 1) + step, 0), self.width - 1)

    def erase(self, kind: str, number: int) -> None:
        first = 0 if number else min(self.column, self.width)
        self.cells[self.row][first:] = [" "] * (self.width - first)
        if kind == "J":
            del self.cells[self.row + 1 :]


_PIECES = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[^\[]|(.)", re.DOTALL)


def draw(shown: str, width: int) -> list[str]:
    """The rows that a terminal of this width shows, with those that left it above."""
    rows = _Rows(width)
    for numbers, kind, character in _PIECES.findall(shown):
        first = int(numbers) if numbers.isdecimal() else None
        if character == "\r":
            rows.column = 0
        elif character == "\n":
            rows.feed_line()
        elif character == "\b":
            rows.column = max(rows.column - 1, 0)
        elif character:
            rows.write(character)
        elif kind in ("A", "B", "C", "D"):
            rows.move(kind, first or 1)
        elif kind in ("J", "K"):
            rows.erase(kind, first or 0)
        elif numbers == "?7":
            rows.wraps = kind == "h"
        else:
            assert kind in ("", "m", "h", "l"), f"the terminal does not know {numbers}{kind}"
    return ["".join(cells).rstrip() for cells in rows.cells]
