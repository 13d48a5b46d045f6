"""What a patch says, whichever way it is written: sections for files, and hunks for places in a file."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.tools import Error

Sign = Literal[" ", "-", "+"]
Action = Literal["add", "delete", "update", "copy"]


class Hunk(Struct):
    """Lines to be found at a place, and the ones to be there instead."""

    lines: list[tuple[Sign, str]]
    """Each with its line end, unless the patch says that it has none."""
    at: int = 0
    """The line of the patch that it begins in."""
    start: int | None = None
    """The index of the first line in the old file, where the patch tells it."""
    anchors: tuple[str, ...] = ()
    """Lines that come before the place, one after another."""
    at_end: bool = False
    """Whether the last line has to be the last one of the file."""
    notes: list[str] = []

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class Section(Struct):
    """What happens to one file."""

    action: Action
    path: str
    target: str = ""
    """The new name of a file that is moved or copied."""
    hunks: list[Hunk] = []
    mode: int | None = None

    @property
    def paths(self) -> list[str]:
        return [self.path, self.target] if self.target else [self.path]


class PatchFault(Error):
    """The patch itself is wrong."""

    def __init__(self, line: int, words: str) -> None:
        super().__init__(f"line {line} of the patch: {words}; nothing was changed")
