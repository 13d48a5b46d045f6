"""What somebody types to a chat: lines, texts of several lines, and the end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import IO

PROMPT = "> "
_MORE = ". "
_QUOTES = '"""'


class Prompter:
    """Reads one message after another, with a prompt and an editable line where there is a terminal."""

    def __init__(self, lines: IO[str], commands: Sequence[str] = ()) -> None:
        self._lines = lines
        self.is_terminal = lines is sys.stdin and lines.isatty()
        if self.is_terminal:
            _edit_lines(commands)

    def read(self) -> str | None:
        """The next message, None at the end. Several lines are one between three quotes, or with \\ at their ends."""
        first = self._line(PROMPT)
        if first is None:
            return None
        if first.strip().startswith(_QUOTES):
            return self._quoted(first.strip()[len(_QUOTES) :])
        pieces = []
        line: str | None = first
        while line is not None and line.endswith("\\"):
            pieces.append(line[:-1])
            line = self._line(_MORE)
        return "\n".join([*pieces, *([] if line is None else [line])])

    def _quoted(self, first: str) -> str:
        pieces: list[str] = []
        line: str | None = first
        while line is not None:
            if line.rstrip().endswith(_QUOTES):
                pieces.append(line.rstrip()[: -len(_QUOTES)])
                break
            pieces.append(line)
            line = self._line(_MORE)
        return "\n".join(pieces).strip("\n")

    def _line(self, prompt: str) -> str | None:
        if not self.is_terminal:
            line = self._lines.readline()
            return line.rstrip("\r\n") if line else None
        try:
            return input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return None


def _edit_lines(commands: Sequence[str]) -> None:
    """Arrow keys, history and the tab key, where the system has them."""
    with contextlib.suppress(ImportError):
        import readline

        def complete(text: str, number: int) -> str | None:
            # The line is asked for, because a slash ends a word.
            typed = readline.get_line_buffer()
            fitting = [command for command in commands if typed.startswith("/") and command.startswith(typed)]
            return fitting[number][len(typed) - len(text) :] if number < len(fitting) else None

        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")
