"""The line that moves while something is waited for: on a terminal alone, and gone when there is something to read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.cli.excerpts import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_MOST = 100


class Waiting:
    """A spinner with a few words beside it."""

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        self._console = console
        self._status: Status | None = None
        self._words = ""
        self.is_live = shown and console.is_terminal and not console.is_dumb_terminal
        """Whether there is a terminal on which a line can move."""

    def show(self, words: str) -> None:
        """Show these words, or change them."""
        if not self.is_live or words == self._words:
            return
        from rich.text import Text

        self._words = words
        shown = Text(one_line(words, max(20, min(_MOST, self._console.width - 4))), "dim")
        if self._status is None:
            self._status = self._console.status(shown)
            self._status.start()
        else:
            self._status.update(shown)

    def hide(self) -> None:
        """Take the line away."""
        self._words = ""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the line away while something is written, and bring it back."""
        words = self._words
        self.hide()
        yield
        if words:
            self.show(words)
