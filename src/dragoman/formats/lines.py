"""Where lines begin: what may start there and nowhere else, and which lines may pass unread."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.formats.entry import Entry
from dragoman.formats.markers import Markers
from dragoman.toolset import Toolset

PASSES, WAITS, WAKES = range(3)
"""What a line is by its beginning: plain text, too short to tell, or something that must be looked at."""

_SHORT, _LONG, _MOST_VERDICTS = 8, 200, 1000
_line_start = re.compile(r"[ \t]*([^\W\d][\w.\-]*)?(.)?", re.DOTALL).match


def is_word(marker: str) -> bool:
    """A marker that is a plain word counts at the start of a line: inside a sentence it is just that word.

    So do the few that begin outside Latin-1, which would make every search through prose slower.
    """
    return marker[0].isalpha() or ord(marker[0]) > 255


class Lines:
    """What can begin a line and nothing else: formats without a marker, and markers that are plain words."""

    def __init__(self, entries: Iterable[Entry], words: Iterable[str], *, watched: bool) -> None:
        self.entries = tuple(entries)
        words = tuple(words)
        self.words = Markers(words) if words else None
        self.word_starts = frozenset(word[:end] for word in words for end in range(len(word) + 1))
        self.gated = bool(self.entries) or self.words is not None
        self.watched = watched or self.gated
        """Whether it matters at all where a line begins."""
        gates = [getattr(entry, "line_gate", r"\S") for entry in self.entries]
        self.gate = tuple(dict.fromkeys(gates))
        self.first_characters = frozenset("".join(getattr(entry, "line_characters", "") for entry in self.entries))
        self.open_to_names = any(getattr(entry, "line_is_named", False) for entry in self.entries)
        self.open_to_all = any(not hasattr(entry, "line_gate") for entry in self.entries)


class LineJudge:
    """Tells by its beginning whether a line of prose may pass. It may err towards looking, never towards passing."""

    def __init__(self, lines: Lines, markers: Markers, tools: Toolset | None) -> None:
        self._lines = lines
        self._wakes = markers.wakes
        self._tools = tools
        self._verdicts: dict[str, int] = {}

    def judge(self, head: str) -> int:
        verdict = self._verdicts.get(head)
        if verdict is None:
            verdict = self._look(head)
            if len(head) <= _SHORT and len(self._verdicts) < _MOST_VERDICTS:
                self._verdicts[head] = verdict  # lines begin alike, and the answer never changes
        return verdict

    def _look(self, head: str) -> int:
        lines = self._lines
        start = _line_start(head)
        assert start is not None
        word, following = start.groups()
        if lines.open_to_all:
            return WAKES
        if not following:
            if not word or self._may_begin(word):
                return WAITS if len(head) <= _LONG else WAKES
        elif word:
            if following in "/> \t[:" and self._may_begin(word):
                return WAKES
        elif following in lines.first_characters:
            return WAKES
        return PASSES if self._wakes(head) is None else WAKES

    def _may_begin(self, word: str) -> bool:
        lines = self._lines
        if word in lines.word_starts:
            return True
        return lines.open_to_names and (self._tools is None or self._tools.may_begin(word))
