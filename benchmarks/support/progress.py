"""A line on the terminal that says what is measured at the moment."""

from __future__ import annotations

import sys
from time import monotonic


class Progress:
    """Writes to standard error: one line that changes on a terminal, and a line for each part elsewhere."""

    def __init__(self) -> None:
        self._start = monotonic()
        self._last = ""
        self._is_terminal = sys.stderr.isatty()

    def say(self, what: str) -> None:
        part = what.split(":")[0].split(",")[0]
        if self._is_terminal:
            print(f"\r\x1b[K{monotonic() - self._start:5.0f} s  {what[:100]}", end="", file=sys.stderr, flush=True)
        elif part != self._last:
            print(f"{monotonic() - self._start:5.0f} s  {part}", file=sys.stderr, flush=True)
        self._last = part

    def finish(self, what: str) -> None:
        """Write a line that stays."""
        start = "\r\x1b[K" if self._is_terminal else ""
        print(f"{start}{monotonic() - self._start:5.0f} s  {what}", file=sys.stderr, flush=True)
