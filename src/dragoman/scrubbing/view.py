"""A stretch of text as the rules see it: the text, a copy in lower case to search, and its runs of characters."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dragoman.scrubbing.wording import word_set

# How far a rule looks: back from where it starts, along a run, and ahead.
BEHIND: Final = 512
RUN: Final = 128
VALUE: Final = 16_384
AHEAD: Final = VALUE + 1024

_LOWER: Final = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
# The characters of identifiers and tokens become `a`, all others blanks.
_RUNS: Final = bytes(97 if (chr(byte).isalnum() and byte < 128) or chr(byte) in "_-." else 32 for byte in range(256))

_COLOUR = re.compile(r"(?:\x1b|\\e|u001[bB]|x1[bB]|033)\[[0-9;]*\Z")
_ESCAPED: Final = frozenset("nrtbf")
_ENCODED: Final = word_set("20 3D 3d 22 27 3A 3a 26 2F 2f 0A 0a 3B 3b 7C 7c")


class Span(NamedTuple):
    """A part of the text to hide. A higher rank knows better what it is; `bare` needs quotes to stay JSON."""

    start: int
    end: int
    kind: str
    rank: int
    bare: bool = False


TOKEN, CONTEXT = 2, 1


class View:
    """A stretch of text, prepared once for all rules. Positions are the same in all three forms."""

    __slots__ = ("low", "runs", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        raw = text.encode("latin-1", "replace")
        self.low = raw.translate(_LOWER)
        self.runs = raw.translate(_RUNS)

    def run_start(self, position: int) -> int:
        """Where the run of characters around a position begins."""
        lowest = max(0, position - RUN)
        return max(self.runs.rfind(b" ", lowest, position) + 1, lowest)

    def run_end(self, position: int, stop: int) -> int:
        """Where the run of characters around a position ends."""
        found = self.runs.find(b" ", position, stop)
        return stop if found < 0 else found

    def line_start(self, position: int) -> int:
        """Where the line of a position begins, as far back as rules may look."""
        lowest = max(0, position - BEHIND)
        return max(self.text.rfind("\n", lowest, position) + 1, lowest)

    def skip_escape(self, start: int) -> int:
        r"""Where a run really begins that follows a backslash, a percent or a colour: `\n`, `%3D`, `\x1b[31m`."""
        text = self.text
        if start == 0:
            return start
        before = text[start - 1]
        if before == "\\" and text[start : start + 1] in _ESCAPED:
            return start + 1
        if before == "\\" and text[start : start + 1] in {"u", "x"}:
            return start + (5 if text[start] == "u" else 3)
        if before == "%" and text[start : start + 2] in _ENCODED:
            return start + 2
        if before in "[;" and _COLOUR.search(text, max(0, start - 16), start):
            return _skip_colour(text, start)
        return start


def _skip_colour(text: str, start: int) -> int:
    end = start
    while end < len(text) and end - start < 12 and text[end] in "0123456789":
        end += 1
    return end + 1 if end < len(text) and text[end] == "m" else start
