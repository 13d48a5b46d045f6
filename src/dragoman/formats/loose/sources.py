"""The text that arguments are read from, where that is not the text itself.

A call inside a quoted string escapes its own quotes, "[f(a=\\"x\\")]", and is read without those escapes. A long text
is read through a window, because a failed reading costs as much as the text before it is long (the JSON scanner of
the standard library counts lines for its error message).
"""

from __future__ import annotations

import re
from bisect import bisect_left

_ESCAPED_QUOTE = re.compile(r"\\+([\"'])")
_UNESCAPED = {quote: re.compile(rf"(?<!\\){quote}") for quote in "\"'"}
_CLOSED = {quote: re.compile(rf"\)\s*{quote}\s*(?=[,\]}}\n)]|\Z)") for quote in "\"'"}
_OPENED_REVERSED = re.compile(r"[\s\[({]{0,40}([\"'])")
_WINDOW = 16_384


def escaped_until(text: str, start: int) -> int:
    """The end of the quoted string that a call at `start` begins, if its own quotes are escaped there; 0 if not."""
    opened = _OPENED_REVERSED.match(text[max(0, start - 60) : start][::-1])
    if opened is None or text[start - opened.end() - 1 : start - opened.end()] == "\\":
        return 0
    closed = _UNESCAPED[opened[1]].search(text, start)
    end = len(text) if closed is None else closed.start()
    return end if text.find("\\" + opened[1], start, end) >= 0 else 0


def quoted_call_end(text: str, start: int, position: int) -> int | None:
    """Where the call in a quoted string closes its parenthesis, told by the quote behind it."""
    opened = _OPENED_REVERSED.match(text[max(0, start - 60) : start][::-1])
    if opened is None:
        return None
    closed = _CLOSED[opened[1]].search(text, position)
    return None if closed is None else closed.start() + 1


class Source:
    """A text to read from, and the way between its offsets and those of the text as received."""

    __slots__ = ("_base", "text")

    def __init__(self, text: str, base: int = 0) -> None:
        self.text = text
        self._base = base

    def inner(self, outer: int) -> int:
        """The offset in this source of an offset in the text as received."""
        return outer - self._base

    def outer(self, inner: int) -> int:
        """The offset in the text as received of an offset in this source."""
        return inner + self._base

    def near(self, text: str, outer: int) -> Source:
        """A source for reading at a place: this one, as long as the place is not too far in."""
        if outer - self._base <= _WINDOW:
            return self
        return Source(text[outer:], outer)


class Unescaped(Source):
    """A text without the backslashes before its quotes."""

    __slots__ = ("_removed",)

    def __init__(self, text: str) -> None:
        self._removed: list[int] = []
        """The original offset of every backslash that was taken out."""
        for match in _ESCAPED_QUOTE.finditer(text):
            self._removed.extend(range(match.start(), match.end() - 1))
        super().__init__(_ESCAPED_QUOTE.sub(r"\1", text))

    def inner(self, outer: int) -> int:
        return outer - bisect_left(self._removed, outer)

    def outer(self, inner: int) -> int:
        low, high = 0, len(self._removed)
        while low < high:
            middle = (low + high) // 2
            if self._removed[middle] - middle < inner:
                low = middle + 1
            else:
                high = middle
        return inner + low
