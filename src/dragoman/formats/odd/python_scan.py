"""Where a Python call ends: a resumable scan over its arguments, aware of strings and brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from dragoman.formats.markers import Markers

MAX_DEPTH = 100
# Without a marker any `[name(` may begin a call. Arguments hold few parentheses, so many of them mean that it was none:
# that keeps the search short in a text full of such beginnings.
MAX_PARENTHESES = 5
_OPENING = {"(": ")", "[": "]", "{": "}"}
_QUOTES = ("'''", '"""', "'", '"')


class Landmarks:
    """What matters inside arguments, in code and in each kind of string; `ends` are the markers behind the calls."""

    def __init__(self, ends: Iterable[str] = ()) -> None:
        self.ends = frozenset(ends)
        self.code = Markers((*_OPENING, *_OPENING.values(), *_QUOTES, *self.ends))
        self.inside = {quote: Markers((quote, "\\", *self.ends)) for quote in _QUOTES}


class ParenthesisScanner:
    """Feed it a buffer and a place behind an opening parenthesis; it stops behind the one that closes it.

    It also stops at a marker behind the calls (`at_end`), which means that a bracket or a quote is missing, unless the
    marker is part of a string: the caller decides, and may go on behind it.
    """

    __slots__ = ("_landmarks", "_open", "_parentheses", "_quote", "at_end", "done", "failed")

    def __init__(self, landmarks: Landmarks) -> None:
        self._landmarks = landmarks
        self._open = [")"]
        self._parentheses = MAX_DEPTH if landmarks.ends else MAX_PARENTHESES
        self._quote = ""
        self.at_end = ""
        self.done = False
        self.failed: str | None = None

    @property
    def in_string(self) -> bool:
        return bool(self._quote)

    @property
    def wakes(self) -> Callable[[str], re.Match[str] | None]:
        """A piece in which this finds nothing leaves the scanner as it is and need not be scanned."""
        return self._markers.wakes

    @property
    def _markers(self) -> Markers:
        return self._landmarks.inside[self._quote] if self._quote else self._landmarks.code

    def scan(self, text: str, position: int, *, final: bool) -> int:
        """Go on from `position`; return how far the text is dealt with."""
        self.at_end = ""
        while not self.done and self.failed is None:
            hit = self._markers.find(text, position, final=final)
            if hit is None:
                return len(text)
            position, found = hit
            if found is None:
                return position
            if found in self._landmarks.ends:
                self.at_end = found
                return position
            if found == "\\":
                if position + 1 >= len(text):
                    return position
                position += 2
            else:
                self._take(found)
                position += len(found)
        return position

    def _take(self, found: str) -> None:
        if self._quote:
            self._quote = ""
        elif found in _QUOTES:
            self._quote = found
        elif found in _OPENING:
            self._open.append(_OPENING[found])
            if len(self._open) > MAX_DEPTH or (found == "(" and self._open.count(")") > self._parentheses):
                self.failed = "nested too deep"
        elif self._open.pop() != found:
            self.failed = f"{found!r} closes nothing"
        else:
            self.done = not self._open
