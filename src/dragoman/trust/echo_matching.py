"""Looking for a call in the plain view of a text: its name, and behind or before it all its keys and values.

Between them only brackets and the words of wrappers may stand, in any order and any format. A value without the name,
or a name with other values, is no call: what a model copies from a file into a call of its own is its own call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from dragoman.trust.echo_bare import find_bare
from dragoman.trust.echo_budget import Budget, Exhausted
from dragoman.trust.echo_likeness import score_likeness
from dragoman.trust.echo_quarry import Quarry
from dragoman.trust.echo_reading import Reader, Reading, first_word
from dragoman.trust.echo_views import CLOSE, EMPTY, MARKS, OPEN
from dragoman.trust.echo_words import MARKUP_WORDS, NAME_WORDS

Kind = Literal["none", "exact", "similar"]

ALIKE = 0.85
"""From here on two calls of the same tool are similar."""
LEAST_VALUES = 4
"""Calls whose values have fewer characters are either the same or different, never similar."""
_LEAST_RAW = 24
_FIRST = 12


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_START, _EDGE = r"(?<![^ {}@])", r"(?![^ {}@])"
_NAMED = rf"(?:{_any_of(NAME_WORDS)})"
_WORDS = _any_of(MARKUP_WORDS)
# How much of a wrapper may stand between a name and the first key or value; bounded, so that the search stays linear.
_SPACED_GAP = r"(?:[ {}@]+[^ {}@]+){0,14}?[ {}@]*"
_COMPACT_GAP = r"[^\n]{0,120}?"
_NAME_ENDINGS = tuple(NAME_WORDS)
_opens = re.compile(rf"(?: (?:{_WORDS}|\d{{1,3}}){_EDGE}){{0,12}}[{{@]").match
_ends_in_name_word = re.compile(rf"{_START}{_NAMED} \Z").search
_ends_in_bracket = re.compile(rf"[{{}}@](?:(?:{_WORDS}) ){{0,6}}\Z").search


class Match(Struct, frozen=True):
    """How much of a call a text holds."""

    kind: Kind = "none"
    score: float = 0.0


NO_MATCH = Match()
EXACT = Match("exact", 1.0)
SUSPECT = Match("similar", ALIKE)
"""Perhaps the call. So is a text with thousands of places that nearly hold it: it was made to be that way."""


class Search:
    """One call, looked for in many texts."""

    def __init__(self, quarry: Quarry, *, is_compact: bool = False) -> None:
        self._quarry = quarry
        self._is_compact = is_compact
        self._budget = Budget()
        self._reader = Reader(quarry, self._budget, is_compact=is_compact)
        self._patterns: dict[str, tuple[re.Pattern[str], re.Pattern[str] | None]] = {}
        self._is_distinct = sum(leaf.weight for leaf in quarry.leaves) >= LEAST_VALUES

    @property
    def work(self) -> int:
        """What all searches together have spent."""
        return self._budget.spent

    def find(self, text: str) -> Match:
        """The best that a text holds of the call."""
        self._budget.grant(len(text))
        if self._holds_raw(text):
            return EXACT
        if not self._quarry.has_arguments:
            kind = find_bare(self._quarry.names, text, is_compact=self._is_compact)
            return Match(kind, 1.0) if kind != "none" else NO_MATCH
        if not self._quarry.keys and not self._quarry.leaves:
            return NO_MATCH  # nothing of its arguments can be seen here
        best = NO_MATCH
        try:
            for match in self._matches(text):
                if match.kind == "exact":
                    return match
                best = max(best, match, key=_score)
        except Exhausted:
            return max(best, SUSPECT, key=_score)
        return best

    def _matches(self, text: str) -> Iterator[Match]:
        for start, end in self._places(text, "forward"):
            yield self._judge_forward(text, start, end)
        for start, _ in self._places(text, "backward"):
            yield self._judge_backward(text, start)
        if self._is_distinct:
            for start, end in self._places(text, "alike"):
                yield self._compare(text, start, end)

    def _holds_raw(self, text: str) -> bool:
        """Whether the call stands there letter by letter, as the model wrote it."""
        raw = self._quarry.raw
        if len(raw) < _LEAST_RAW:
            return False
        place = text.find(raw)
        while place >= 0:
            end = place + len(raw)
            if self._is_compact or (text[max(0, place - 1) : place] in MARKS and text[end : end + 1] in MARKS):
                return True
            place = text.find(raw, end)
        return False

    # ---- where to look -----------------------------------------------------------------------------------------------

    def _places(self, text: str, kind: str) -> Iterator[tuple[int, int]]:
        """Where the name stands, if what must follow or precede it is there as well."""
        name, follows = self._compile(kind)
        for found in name.finditer(text):
            self._budget.spend(1)
            if follows is not None:
                self._budget.spend(5)
                if follows.match(text, found.end()) is None:
                    continue
            yield found.span(1)

    def _compile(self, kind: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
        patterns = self._patterns.get(kind)
        if patterns is None:
            name, follows = self._write_patterns(kind)
            patterns = self._patterns[kind] = re.compile(name), re.compile(follows) if follows else None
        return patterns

    def _write_patterns(self, kind: str) -> tuple[str, str]:
        start, edge = ("", "") if self._is_compact else (_START, _EDGE)
        gap = _COMPACT_GAP if self._is_compact else _SPACED_GAP
        name = rf"{start}({_any_of(self._quarry.names)}){edge}"
        if kind == "backward":
            return rf"{start}{_NAMED}[ {{]?{name}", ""
        words = self._reader.first_words if kind == "forward" else {first_word(key) for key in self._quarry.keys}
        firsts = _any_of({word[:_FIRST] for word in words} if self._is_compact else words)
        directly = r"\{|" if kind == "alike" else ""
        return name, rf"{directly}{gap}(?:{firsts}){edge}"

    # ---- one place ---------------------------------------------------------------------------------------------------

    def _judge_forward(self, text: str, start: int, end: int) -> Match:
        reading = self._reader.read(text, end)
        if not reading.is_complete:
            return NO_MATCH
        before = text[max(0, start - 60) : start]
        if not reading.opens and not self._is_named(before):
            return NO_MATCH
        reading.has_brackets |= bool(_ends_in_bracket(before))
        return self._weigh(reading, ends=self._reader.is_end(text, reading.end))

    def _is_named(self, before: str) -> bool:
        """Whether a name is meant. In "type": "shell", "command": ... it only happens to occur."""
        if before[-1:] in (OPEN, CLOSE, EMPTY):
            return True
        return before.endswith(_NAME_ENDINGS) if self._is_compact else bool(_ends_in_name_word(before))

    def _judge_backward(self, text: str, name_at: int) -> Match:
        """Arguments first and the name last, as sorted keys bring it about."""
        floor = max(0, name_at - self._reach())
        window = text[floor:name_at]
        self._budget.spend(1 + len(window) * len(self._quarry.keys) // 1000)
        places = [window.rfind(key) for key in self._quarry.keys]
        if min(places, default=-1) < 0:
            return NO_MATCH
        reading = self._reader.read(window, min(places))
        if not reading.is_complete:
            return NO_MATCH
        reading.has_brackets |= bool(_ends_in_bracket(window[: min(places)][-60:])) or CLOSE in window[reading.end :]
        between = self._reader.foreign_words(window[reading.end :])
        # One word may be the identifier of the call.
        reading.foreign += 0 if self._is_compact else sum(map(len, between[1:]))
        return self._weigh(reading, ends=True)

    def _weigh(self, reading: Reading, *, ends: bool) -> Match:
        """Nothing foreign between, brackets around, and an end behind the last value: that is the call itself."""
        if reading.foreign == 0 and reading.has_brackets and ends:
            # Signs that the view does not show may differ; whether they do, a human can see.
            return SUSPECT if self._quarry.is_vague else EXACT
        if not self._is_distinct:
            return NO_MATCH
        score = 2 * reading.matched / (2 * reading.matched + reading.foreign) - (0.0 if reading.has_brackets else 0.1)
        return Match("similar", score) if score >= ALIKE else NO_MATCH

    def _compare(self, text: str, start: int, end: int) -> Match:
        """The call with some of its characters changed."""
        if not _opens(text, end) and not self._is_named(text[max(0, start - 60) : start]):
            return NO_MATCH
        window = text[end : end + self._reach()]
        score = score_likeness(self._quarry, window, ALIKE, self._budget)
        return Match("similar", min(score, 0.999)) if score else NO_MATCH

    def _reach(self) -> int:
        quarry = self._quarry
        return quarry.weight * 3 // 2 + 80 * (min(len(quarry.leaves), 40) + 2)


def _score(match: Match) -> float:
    return match.score
