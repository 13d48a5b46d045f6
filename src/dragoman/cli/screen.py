"""Drawing on a terminal or into a pipe: the same words in both, colours only on a terminal."""

from __future__ import annotations

import io
import json
import sys
from bisect import bisect_right
from typing import IO, Any

from rich.console import Console
from rich.text import Text

# Escape sequences in a model's text could repaint the reader's terminal, so control characters are shown as pictures.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: "\u2421"} | {code: "\ufffd" for code in range(0x80, 0xA0)}


def show_controls(text: str) -> str:
    """The text with a picture for every control character but the ends of lines and tabs."""
    return text.translate(_PICTURES)


class Screen:
    """Prints lines made of styled words; nothing in them is taken for markup."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, file=file)
        self._started = False

    @property
    def width(self) -> int | None:
        """The width to fit into, or None in a pipe, where nothing is shortened."""
        return self._console.width if self._console.is_terminal else None

    def line(self, *words: str | tuple[str, str]) -> None:
        """Print words, each plain or with a style, on one line."""
        text = Text()
        for word in words:
            content, style = (word, "") if isinstance(word, str) else word
            text.append(show_controls(content), style)
        text.rstrip()
        self._console.print(text)
        self._started = True

    def block(self, content: str, *, indent: int = 2, style: str = "") -> None:
        """Print a text of several lines, indented."""
        for line in content.split("\n"):
            self.line(" " * indent, (line, style))

    def heading(self, title: str) -> None:
        if self._started:
            self.line()
        self.line((title, "bold"))


def write_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    # A lone surrogate becomes \udXXX through `backslashreplace`, which is how JSON itself writes it.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    print(json.dumps(value, ensure_ascii=False, indent=2))


def pretty_json(value: Any) -> str:
    """JSON for people: short values on one line, longer ones over several."""
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 72 else json.dumps(value, ensure_ascii=False, indent=2)


class Places:
    """Offsets in a text as people count: lines and columns from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._starts.append(position + 1)
            position = text.find("\n", position + 1)

    def line_and_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def name(self, span: tuple[int, int]) -> str:
        """A span in words, such as `2:1, offsets 14..71`."""
        line, column = self.line_and_column(span[0])
        return f"{line}:{column}, offsets {span[0]}..{span[1]}"
