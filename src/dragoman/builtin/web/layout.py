"""Pieces of a page put into lines: breaks are merged, spaces collapse, short table rows become one line."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

# A row that is longer is no row of data but a way to arrange a page.
_LONGEST_ROW = 1500
_run_of_spaces = re.compile(r"[ \t\n\r\f]+")


class Sign(Enum):
    ROW = 1
    CELL = 2
    ROW_END = 3


class Break(NamedTuple):
    """At least so many line ends, and what the next line begins with. 0 is one more, in any case."""

    ends: int
    prefix: str
    drops_lead: bool = False
    """Whether a lead without a text behind it is forgotten here."""


class Lead(str):
    """The sign of an item or a heading: it waits for the text that it stands before, whatever breaks lie between."""

    __slots__ = ()


class Verbatim(str):
    """Text whose spaces and lines are kept."""

    __slots__ = ()


Piece = str | Break | Sign


class Layout:
    """Collects the pieces of a page, up to a limit, and joins them at the end."""

    def __init__(self, limit: int) -> None:
        self.pieces: list[Piece] = []
        self.prefix = ""
        """What new lines begin with: the depth of a list, the marks of a quotation."""
        self.breaks = 0
        self.inked = 0
        """How many breaks and how many visible texts there were: remembered, they tell what came since."""
        self._left = limit

    @property
    def full(self) -> bool:
        return self._left <= 0

    def add(self, text: str) -> int:
        """Add a piece of text; its place can be used to change it later."""
        self._left -= len(text) + 1
        if text and not text.isspace():
            self.inked += 1
        self.pieces.append(text)
        return len(self.pieces) - 1

    def add_flowing(self, text: str) -> None:
        """Add text in which any run of spaces and line ends is one space."""
        self.add(_run_of_spaces.sub(" ", text))

    def end_line(self, count: int = 1, *, drops_lead: bool = False) -> None:
        """End the line; with a count of 2, leave an empty one; with 0, end it even if it is empty."""
        self._break(Break(count, self.prefix, drops_lead))

    def sign(self, sign: Sign) -> None:
        self._break(sign)

    def _break(self, piece: Piece) -> None:
        self.breaks += 1
        self._left -= 1
        self.pieces.append(piece)

    def render(self) -> str:
        """All pieces as one text."""
        joiner = _Joiner()
        for piece in self.pieces:
            joiner.take(piece)
        return joiner.finish()


class _Joiner:
    """Writes pieces one after the other. A row is held back until it ends or turns out to be too long for a line."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._wanted = 0
        self._prefix = self._lead = ""
        self._after_space = True
        self._row: list[Piece] | None = None
        self._row_size = 0

    def take(self, piece: Piece) -> None:
        if piece is Sign.ROW:
            self._spill_row()
            self._row, self._row_size = [], 0
        elif self._row is None:
            self._write(piece)
        elif piece is Sign.ROW_END:
            self._end_row(self._row)
        else:
            self._row.append(piece)
            self._row_size += len(piece) if isinstance(piece, str) else 1
            if self._row_size > _LONGEST_ROW or isinstance(piece, Verbatim):
                self._spill_row()

    def finish(self) -> str:
        self._spill_row()
        return "".join(self._out).rstrip(" \n").lstrip("\n")

    # ---- rows ------------------------------------------------------------------------------------------------------

    def _spill_row(self) -> None:
        """Write what was held back as if there were no table."""
        row, self._row = self._row, None
        for piece in row or ():
            self._write(piece)

    def _end_row(self, row: list[Piece]) -> None:
        texts = _cells_of(row)
        if len(texts) < 2:
            self._spill_row()
            self._end_line(1)
            return
        self._row = None
        self._end_line(1)
        self._write(" | ".join(texts))
        self._end_line(1)

    # ---- lines -----------------------------------------------------------------------------------------------------

    def _end_line(self, count: int) -> None:
        self._wanted = max(self._wanted, count) if count else min(self._wanted + 1, 2)

    def _write(self, piece: Piece) -> None:
        if isinstance(piece, Break):
            self._prefix = piece.prefix
            self._end_line(piece.ends)
            if piece.drops_lead:
                self._lead = ""
        elif isinstance(piece, Sign):
            self._end_line(1)
        elif isinstance(piece, Lead):
            self._lead = self._prefix + piece
        else:
            self._write_text(piece)

    def _write_text(self, text: str) -> None:
        if not isinstance(text, Verbatim) and (self._wanted or self._after_space):
            text = text.lstrip(" ")
        if not text:
            return
        if self._wanted:
            self._begin_line()
        self._after_space = text.endswith(" ")
        self._out.append(text)

    def _begin_line(self) -> None:
        if self._out:
            if not isinstance(self._out[-1], Verbatim):
                self._out[-1] = self._out[-1].rstrip(" ")
            self._out.append("\n" * self._wanted)
        self._wanted = 0
        self._out.append(self._lead or self._prefix)
        self._lead = ""


def _cells_of(row: list[Piece]) -> list[str]:
    """The texts of the cells of a row, without empty ones at its end."""
    cells: list[list[str]] = [[]]
    for piece in row:
        if piece is Sign.CELL:
            cells.append([])
        else:
            cells[-1].append(piece if isinstance(piece, str) else " ")
    texts = [_run_of_spaces.sub(" ", "".join(cell)).strip() for cell in cells]
    if not texts[0]:
        del texts[0]
    while texts and not texts[-1]:
        texts.pop()
    return texts
