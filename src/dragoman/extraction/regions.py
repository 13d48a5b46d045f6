"""Where in a message a call stands: in the answer, in a quotation, or in a code fence that is none of its format."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

# What follows the backticks of an opener holds none itself: that would be code within a line.
_fence = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)", re.MULTILINE).match
_blanks = re.compile(r"\s*").match
_quote = re.compile(r"[ \t]{0,3}>").match

Span = tuple[int, int]


class Regions:
    """The quotations and fences of a text, found once. What lies inside of a call opens and closes nothing."""

    def __init__(self, text: str, calls: Sequence[Span]) -> None:
        self._text = text
        self._calls = sorted(calls)
        self._starts = [start for start, _ in self._calls]
        self._fences = self._find_fences()
        self._fence_starts = [start for start, _ in self._fences]
        self._is_all = len(self._fences) == 1 and self._is_all_there_is(self._fences[0])

    def find(self, span: Span) -> str:
        """`answer`, `quote` or `fence`."""
        # Blanks in front of a call belong to it; where it stands is where its first letter does.
        start = _blanks(self._text, span[0]).end()  # type: ignore[union-attr]
        if _quote(self._text, self._text.rfind("\n", 0, start) + 1, start):
            return "quote"
        place = bisect_right(self._fence_starts, start) - 1
        if place < 0 or start >= self._fences[place][1]:
            return "answer"
        return "answer" if self._is_all else "fence"

    def _find_fences(self) -> list[Span]:
        fences: list[Span] = []
        opened: tuple[int, str] | None = None
        position = 0
        for line in self._text.splitlines(keepends=True):
            found = None if self._is_within_call(position) else _fence(line)
            if found and opened is None:
                opened = (position, found[1])
            elif found and opened is not None and _closes(found, opened[1]):
                fences.append((opened[0], position + len(line)))
                opened = None
            position += len(line)
        if opened is not None:
            fences.append((opened[0], len(self._text)))
        return fences

    def _is_within_call(self, position: int) -> bool:
        place = bisect_right(self._starts, position) - 1
        return place >= 0 and position < self._calls[place][1]

    def _is_all_there_is(self, fence: Span) -> bool:
        """Whether the message is this fence, and the fence holds nothing but calls: a weak model's way to send them."""
        if self._text[: fence[0]].strip() or self._text[fence[1] :].strip():
            return False
        rest, position = "", fence[0]
        for start, end in self._calls:
            if fence[0] <= start < fence[1]:
                rest += self._text[position:start]
                position = end
        rest += self._text[position : fence[1]]
        lines = [line for line in rest.splitlines() if line.strip()]
        return all(_fence(line) for line in lines)


def _closes(found: re.Match[str], opener: str) -> bool:
    return found[1][0] == opener[0] and len(found[1]) >= len(opener) and not found[2].strip()
