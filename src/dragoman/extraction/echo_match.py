"""Search for a call in the normalised view of a text. The theory is in `echo`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from dragoman.extraction.echo_pattern import (
    LEAST_VALUES,
    MARKUP_WORDS,
    NAME_WORDS,
    Budget,
    CallPattern,
    Exhausted,
    Leaf,
    MatchState,
    Reader,
    any_of,
    each_word,
    exact_key,
    find_bare,
    first_word,
    split_words,
)
from dragoman.extraction.text_views import BLANK, CLOSE, EMPTY, MARKS, OPEN
from dragoman.types import ToolCall

# --------------------------------------------------------------------------------------------------------------------
# Similarity of a call and a place in a text, if some characters were changed.

_LONG = 400
"""Longer values are compared in pieces, since a change affects only a small part of them."""
_PIECE = 16
_MOST_PLACES = 3
_ROOM = 60
"""The maximum number of wrapper characters between a key and its value."""
_FEW_EDITS, _MOST_CHANGED, _RECOGNISED = 10, 0.35, 20
"""A call with up to ten changed characters is similar, if they are at most 35 % of values of this length or more."""
_LEAST_PART = 12
_next_word = re.compile(r" ([^ {}@]+)").match
_wrapper_words = re.compile(rf"[ {{}}@]*(?:(?:{any_of(MARKUP_WORDS)})[ {{}}@]+){{0,6}}").match
_FRAME = 4
"""The quotes, colon and comma around a key, which two calls of the same tool also share."""


def score_likeness(pattern: CallPattern, window: str, least: float, budget: Budget) -> float:
    """Return the share of a call's keys and values that a window of text contains, from 0 to 1; 0 if it is too small.

    The share is large enough if it is at least `least`, or if only a few characters of long values are missing. An
    argument whose key is not in the window does not count: a copy may have more arguments.
    """
    budget.spend(2 + len(window) * (len(pattern.leaves) + len(pattern.keys)) // 1000)
    keys = [key for key in pattern.keys if key in window]
    leaves = [leaf for leaf in pattern.leaves if not leaf.key or leaf.key in keys]
    values = sum(leaf.weight for leaf in leaves)
    if values < LEAST_VALUES:
        return 0.0
    weight = values + sum(map(len, keys)) + _FRAME * len(keys)
    may_lack = max(weight * (1 - least), min(_FEW_EDITS, values * _MOST_CHANGED) if values >= _RECOGNISED else 0)
    known = MARKUP_WORDS | {first_word(key) for key in keys}
    lacking = 0.0
    for leaf in sorted(leaves, key=attrgetter("weight"), reverse=True):
        lacking += leaf.weight - _credit(leaf, window, known, budget)
        if lacking > may_lack:
            return 0.0
    return (weight - lacking) / weight if weight else 0.0


def _credit(leaf: Leaf, window: str, known: frozenset[str], budget: Budget) -> float:
    """Return how many characters of a value the window contains, at best."""
    if any(form in window for form in leaf.forms):
        return leaf.weight
    value, places = leaf.forms[0], _places(leaf, window)
    budget.spend(1 + len(value) // 8)
    if any(_is_extended(place, value, known) for place in places):
        return leaf.weight
    if len(value) > _LONG:
        return _credit_long(value, window, budget)
    if not _shares_enough(value, window, budget):
        return 0.0
    fewest = len(value)
    for place in places:
        budget.spend(2 * len(place))
        fewest = min(fewest, count_edits(value, place))
    return len(value) - fewest


def _places(leaf: Leaf, window: str) -> set[str]:
    """Return the texts that may contain the value: those after its key."""
    room = len(leaf.forms[0]) * 5 // 4 + _ROOM
    places: set[str] = set()
    at = window.find(leaf.key) if leaf.key else -1
    while at >= 0 and len(places) < _MOST_PLACES:
        start = at + len(leaf.key)
        places.add(window[start : start + room])
        at = window.find(leaf.key, start)
    return places or {window[:room]}


def _is_extended(place: str, value: str, known: frozenset[str]) -> bool:
    """Whether the place has a shorter value, which is the largest part of this one: the copy has some words more.

    After the shorter value comes a known word: one of a wrapper, or the next key.
    """
    words = _wrapper_words(place)
    begin = end = words.end() if words else 0
    for word in each_word(place, begin):
        if place[begin : word.end()] not in value:
            break
        end = word.end()
    following = _next_word(place, end)
    ends = place[end : end + 1] != BLANK or following is None or following[1] in known
    return ends and end - begin >= max(_LEAST_PART, len(value) * 2 // 5)


def _shares_enough(value: str, window: str, budget: Budget) -> bool:
    """Whether enough pairs of characters are equal to justify a comparison."""
    pairs = {value[at : at + 2] for at in range(len(value) - 1)}
    budget.spend(1 + len(pairs) // 8)
    return sum(pair in window for pair in pairs) * 4 >= len(pairs)


def count_edits(value: str, place: str) -> int:
    """Return the smallest number of edits that turn the value into a part of the place.

    The columns of the usual table are the bits of two integers (Myers, 1999), so that a step costs the same for any
    length of the value.
    """
    length = len(value)
    letters: dict[str, int] = {}
    for at, letter in enumerate(value):
        letters[letter] = letters.get(letter, 0) | 1 << at
    top, full = 1 << (length - 1), (1 << length) - 1
    more, less = full, 0
    edits = fewest = length
    for letter in place:
        equal = letters.get(letter, 0)
        vertical = equal | less
        horizontal = (((equal & more) + more) ^ more) | equal
        up, down = less | (full & ~(horizontal | more)), more & horizontal
        if up & top:
            edits += 1
        elif down & top:
            edits -= 1
            fewest = min(fewest, edits)
        up, down = up << 1, down << 1
        more = (down | ~(vertical | up)) & full
        less = up & vertical & full
    return fewest


def _credit_long(value: str, window: str, budget: Budget) -> float:
    pieces = [value[at : at + _PIECE] for at in range(0, len(value), _PIECE)]
    budget.spend(1 + len(pieces) * len(window) // 4000)
    found = sum(each in window for each in pieces)
    if found * 2 < len(pieces):
        return float(found * _PIECE)
    # Most pieces are present: each missing one has one or two changed characters.
    return len(value) - 1.5 * (len(pieces) - found)


# --------------------------------------------------------------------------------------------------------------------
# The search for a call in the view of a text: its name, and after or before it all its keys and values.
#
# Only brackets and words of wrappers may occur between them, in any order and any format. A value without the name, or
# a name with other values, is not an echo: a model may use a value from a file in a call of its own.

Kind = Literal["none", "exact", "similar"]

ALIKE = 0.85
"""The score from which two calls of the same tool are similar."""
_LEAST_RAW = 24
_FIRST = 12
_MOST_WRAPPER = 2000
"""The maximum number of characters between arguments and the name after them: an identifier or the like."""
FAR, _NEAR = 1 << 15, 4000
"""How far from the name an argument may be if the content has other arguments in between, which the model left out; and
how far one with a short value."""
_LEAST_BARE, _LEAST_THIRD = 8, 6
_BEFORE_VALUE = 200


_START, _EDGE = r"(?<![^ {}@])", r"(?![^ {}@])"
_NAMED = rf"(?:{any_of(NAME_WORDS)})"
_WORDS = any_of(MARKUP_WORDS)
# The maximum wrapper between a name and the first key or value. It is bounded, so that the search stays linear.
_SPACED_GAP = r"(?:[ {}@]++[^ {}@]++){0,14}?[ {}@]*+"
_COMPACT_GAP = r"[^\n]{0,120}?"
_NAME_ENDINGS = tuple(NAME_WORDS)
_opens = re.compile(rf"(?: (?:{_WORDS}|\d{{1,3}}){_EDGE}){{0,12}}[{{@]").match
_ends_in_name_word = re.compile(rf"{_START}{_NAMED} \Z").search
_ends_in_bracket = re.compile(rf"[{{}}@](?:(?:{_WORDS}) ){{0,6}}\Z").search


class Match(Struct, frozen=True):
    """How much of a call a text contains."""

    kind: Kind = "none"
    score: float = 0.0
    is_marked: bool = False
    """The text has a call, with brackets and keys. A sentence or a line of code may only resemble one."""


NO_MATCH = Match()
EXACT = Match("exact", 1.0, is_marked=True)
SUSPECT = Match("similar", ALIKE)
"""Perhaps the call. A text with thousands of places that nearly match gets this too: somebody designed it so."""
PART = Match("similar", ALIKE, is_marked=True)


class OwnCalls:
    """The calls of the model so far, each once. Later content may repeat them."""

    _MOST = 50

    def __init__(self) -> None:
        self._calls: dict[object, tuple[int, ToolCall]] = {}

    def add(self, number: int, call: ToolCall) -> None:
        """Add a call that was made when the content had so many texts."""
        self._calls.setdefault(exact_key(call), (number, call))

    def of(self, name: str) -> list[tuple[int, ToolCall]]:
        """Return the latest calls of a tool."""
        same = [(number, own) for number, own in self._calls.values() if own.name == name]
        return same[-self._MOST :]


class Search:
    """The search for one call in many texts. A place where the text repeats a call of the model itself is skipped."""

    def __init__(
        self, pattern: CallPattern, budget: Budget, own: list[tuple[int, ToolCall]], *, is_compact: bool = False
    ) -> None:
        self._pattern = pattern
        self._is_compact = is_compact
        self._budget = budget
        self._own = own
        self._own_searches: list[tuple[int, Search]] | None = None
        self._reader = Reader(pattern, budget, is_compact=is_compact)
        self._patterns: dict[str, tuple[re.Pattern[str], re.Pattern[str] | None]] = {}
        self._is_distinct = sum(leaf.weight for leaf in pattern.leaves) >= LEAST_VALUES
        self._spread: SpreadArguments | None = None

    def find(self, text: str, number: int, *, is_joined: bool = False) -> Match:
        """Return the best match of the call in a text, which is the one with this number.

        In the joined ends of several texts, a call with changes may be made of parts of two calls, and does not count.
        """
        self._budget.grant(len(text))
        best = NO_MATCH
        try:
            self._budget.spend(1 + len(text) // 500)
            if self._holds(self._pattern.raw, text):
                return SUSPECT if self._pattern.is_code else EXACT
            if not self._pattern.has_arguments:
                kind = find_bare(self._pattern.names, text, self._budget, is_compact=self._is_compact)
                return Match(kind, 1.0, is_marked=kind == "exact") if kind != "none" else NO_MATCH
            best = SUSPECT if self._holds(self._pattern.body, text) else NO_MATCH
            for match in self._matches(text, number, with_edits=not is_joined):
                if match.kind == "exact":
                    return match
                best = max(best, match, key=attrgetter("score", "is_marked"))
        except Exhausted:
            if self._budget.is_used_up:
                raise
            return max(best, SUSPECT, key=attrgetter("score"))
        return best

    def _matches(self, text: str, number: int, *, with_edits: bool) -> Iterator[Match]:
        if not self._pattern.keys and not self._pattern.leaves:
            return
        for start, end in self._places(text, "forward"):
            match = self._judge_forward(text, start, end)
            if match.kind != "similar" or not self._repeats_own(text, start, end, number):
                yield match
        for start, _ in self._places(text, "backward"):
            match = self._judge_backward(text, start)
            if match.kind != "similar" or not self._repeats_own(text, start, None, number):
                yield match
        if with_edits and self._is_distinct:
            for start, end in self._places(text, "alike"):
                match = self._compare(text, start, end)
                if match.kind != "similar" or not self._repeats_own(text, start, end, number):
                    yield match
        if with_edits and (self._is_distinct or not self._is_compact):
            yield from self._match_spread(text, number)

    def _match_spread(self, text: str, number: int) -> Iterator[Match]:
        """Match the arguments far from the name: the content has long ones in between, which the model left out."""
        if self._spread is None:
            self._spread = SpreadArguments(self._pattern, self._budget, is_compact=self._is_compact)
        if not self._spread.locate(text):
            return
        far = FAR if self._is_distinct else _NEAR
        for found in self._compile("alike")[0].finditer(text):
            self._budget.spend(2 + len(self._pattern.leaves))
            start, end = found.span(1)
            # After a bracket that closes, the name is one only if another opens.
            is_named = text[start - 1 : start] not in (CLOSE, EMPTY) and self._is_named(
                text[max(0, start - 60) : start]
            )
            if not is_named and not _opens(text, end):
                continue
            if self._spread.follow_open(text, end, end + far) or self._spread.follow_bare(text, end, end + far):
                if not self._repeats_own(text, start, end, number):
                    yield PART
            elif (
                is_named
                and self._spread.follow(start - far, start)
                and not self._repeats_own(text, start, None, number)
            ):
                yield PART

    def _repeats_own(self, text: str, start: int, end: int | None, number: int) -> bool:
        """Whether the call at this place is another call, which the model had made before it received the text.

        `end` is the end of its name; None if its arguments precede the name.
        """
        if self._own_searches is None:
            self._own_searches = [(made, self._search_own(CallPattern(call))) for made, call in self._own]
        for made, own in self._own_searches:
            if made <= number:
                match = own._judge_backward(text, start) if end is None else own._judge_forward(text, start, end)
                if match.kind == "exact":
                    return True
        return False

    def _search_own(self, pattern: CallPattern) -> Search:
        is_compact = self._is_compact
        return Search(pattern.compacted if is_compact else pattern, self._budget, [], is_compact=is_compact)

    def _holds(self, raw: str, text: str) -> bool:
        """Whether the text contains the call, or its body, exactly as the model wrote it."""
        if len(raw) < _LEAST_RAW:
            return False
        place = text.find(raw)
        while place >= 0:
            end = place + len(raw)
            if self._is_compact or (text[max(0, place - 1) : place] in MARKS and text[end : end + 1] in MARKS):
                return True
            place = text.find(raw, end)
        return False

    # ---- the places to check -----------------------------------------------------------------------------------------

    def _places(self, text: str, kind: str) -> Iterator[tuple[int, int]]:
        """Yield the places of the name, if the required context is present as well."""
        name, follows = self._compile(kind)
        for found in name.finditer(text):
            self._budget.spend(1)
            if follows is not None:
                self._budget.spend(5 + len(self._reader.first_words) // 4)
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
        name = rf"{start}({any_of(self._pattern.names)}){edge}"
        if kind == "backward":
            return rf"{start}{_NAMED}[ {{]?{name}", ""
        words = self._reader.first_words if kind == "forward" else {first_word(key) for key in self._pattern.keys}
        firsts = any_of({word[:_FIRST] for word in words} if self._is_compact else words)
        directly = r"\{|" if kind == "alike" else ""
        return name, rf"{directly}{gap}(?:{firsts}){edge}"

    # ---- one place ---------------------------------------------------------------------------------------------------

    def _judge_forward(self, text: str, start: int, end: int) -> Match:
        reading = self._reader.read(text, end)
        if not (reading.is_complete or reading.is_part):
            return NO_MATCH
        before = text[max(0, start - 60) : start]
        if not reading.opens and not self._is_named(before):
            return NO_MATCH
        reading.has_brackets |= bool(_ends_in_bracket(before))
        return self._weigh(reading, ends=self._reader.is_end(text, reading.end))

    def _is_named(self, before: str) -> bool:
        """Whether the name is meant as a name. In "type": "shell", "command": ... it only happens to occur."""
        if before[-1:] in (OPEN, CLOSE, EMPTY):
            return True
        return before.endswith(_NAME_ENDINGS) if self._is_compact else bool(_ends_in_name_word(before))

    def _judge_backward(self, text: str, name_at: int) -> Match:
        """Match arguments before the name, which sorted keys produce."""
        floor = max(0, name_at - self._reach() - _MOST_WRAPPER)
        window = text[floor:name_at]
        self._budget.spend(1 + len(window) * len(self._pattern.keys) // 1000)
        places = [place for key in self._pattern.keys if (place := window.rfind(key)) >= 0]
        if not places:
            return NO_MATCH
        reading = self._reader.read(window, min(places))
        if not (reading.is_complete or reading.is_part):
            return NO_MATCH
        reading.has_brackets |= bool(_ends_in_bracket(window[: min(places)][-60:])) or CLOSE in window[reading.end :]
        between = [word for word in split_words(window[reading.end :]) if word and word not in self._reader.markup]
        # One word may be the identifier of the call.
        reading.foreign += 0 if self._is_compact else sum(map(len, between[1:]))
        return self._weigh(reading, ends=True)

    def _weigh(self, reading: MatchState, *, ends: bool) -> Match:
        """Rate a match. With all keys, without foreign words, in brackets and with an end after the last value, it is
        exact."""
        is_clean = reading.foreign == 0 and reading.has_brackets and ends
        if not reading.is_complete:
            return PART if is_clean else NO_MATCH
        if reading.lacking:
            return self._weigh_keyless(reading, is_clean=is_clean)
        if is_clean:
            # The view does not show punctuation, which may differ. A person can see it.
            return PART if self._pattern.is_vague else EXACT
        if not self._is_distinct:
            return NO_MATCH
        score = _share(reading.matched, reading.foreign) - (0.001 if reading.has_brackets else 0.1)
        return Match("similar", score, is_marked=reading.has_brackets) if score >= ALIKE else NO_MATCH

    def _weigh_keyless(self, reading: MatchState, *, is_clean: bool) -> Match:
        """Rate a match of all values, without keys or under other keys."""
        if not reading.foreign:
            return SUSPECT if is_clean and reading.is_direct else NO_MATCH
        score = _share(reading.matched + reading.lacking, reading.foreign) if reading.opens else 0.0
        return Match("similar", score) if score >= ALIKE and self._is_distinct else NO_MATCH

    def _compare(self, text: str, start: int, end: int) -> Match:
        """Match the call with some characters changed."""
        if not _opens(text, end) and not self._is_named(text[max(0, start - 60) : start]):
            return NO_MATCH
        window = text[end : end + self._reach()]
        score = score_likeness(self._pattern, window, ALIKE, self._budget)
        return Match("similar", min(score, 0.999), is_marked=True) if score else NO_MATCH

    def _reach(self) -> int:
        pattern = self._pattern
        return pattern.weight * 3 // 2 + 80 * (min(len(pattern.leaves), 40) + 2)


class SpreadArguments:
    """The places of the arguments of a call in one text, each as a key with its values."""

    def __init__(self, pattern: CallPattern, budget: Budget, *, is_compact: bool) -> None:
        self._budget = budget
        self._is_compact = is_compact
        groups: list[list[Leaf]] = []
        for leaf in pattern.leaves:
            if groups and groups[-1][0].key == leaf.key:
                groups[-1].append(leaf)
            else:
                groups.append([leaf])
        # The values that say most come first: they are the rarest.
        self._groups = sorted(groups, key=lambda group: -sum(leaf.weight for leaf in group))
        self._says = pattern.weight - sum(map(len, pattern.keys))
        self._keyed: list[list[int]] = []
        self._bare: list[list[int]] = []

    def locate(self, text: str) -> bool:
        """Find all places in this text. Return whether each argument has one."""
        self._keyed, self._bare = [], []
        for group in self._groups:
            keyed, bare = self._find_group(text, group)
            if not bare:
                return False
            self._keyed.append(keyed)
            self._bare.append(bare)
        return bool(self._groups)

    def _find_group(self, text: str, group: list[Leaf]) -> tuple[list[int], list[int]]:
        """Return the places of the values of a key, those after the key and all."""
        keyed: list[int] = []
        bare: list[int] = []
        key = group[0].key
        for form in group[0].forms:
            at = text.find(form)
            while at >= 0:
                self._budget.spend(3)
                end = self._end_of(text, at, form)
                for leaf in group[1:] if end else ():
                    end = self._skip_to(text, end, leaf)
                if end:
                    bare.append(at)
                    if not key or self._follows_key(text, at, key):
                        keyed.append(at)
                at = text.find(form, at + len(form))
        if not bare and key and len(group) == 1:
            keyed = bare = self._find_changed(text, group[0])
        return sorted(keyed), sorted(bare)

    def _find_changed(self, text: str, leaf: Leaf) -> list[int]:
        """Return the places of a value with a few changes. One third of it is unchanged, and its key precedes it."""
        value = leaf.forms[0]
        third = len(value) // 3
        if third < _LEAST_THIRD:
            return []
        tried: set[int] = set()
        places: list[int] = []
        for first in (0, third, 2 * third):
            at = text.find(value[first : first + third])
            while at >= 0:
                self._budget.spend(4)
                key = text.rfind(leaf.key, max(0, at - first - len(leaf.key) - _ROOM), at)
                if key >= 0 and key not in tried:
                    tried.add(key)
                    place = text[key : key + len(leaf.key) + len(value) * 5 // 4 + _ROOM]
                    lacking = leaf.weight - _credit(leaf, place, MARKUP_WORDS, self._budget)
                    if lacking <= min(_FEW_EDITS, leaf.weight * _MOST_CHANGED):
                        places.append(key)
                at = text.find(value[first : first + third], at + third)
        return places

    def _end_of(self, text: str, at: int, form: str) -> int:
        """Return the end of a value at this place; 0 if it is only a part of a longer one."""
        end = at + len(form)
        if self._is_compact:
            return end
        return end if (not at or text[at - 1] in MARKS) and (end == len(text) or text[end] in MARKS) else 0

    def _skip_to(self, text: str, position: int, leaf: Leaf) -> int:
        """Return the end of the next value of a list, which follows at this position; 0 if another one does."""
        between = _wrapper_words(text, position) if position else None
        start = between.end() if between else position
        for form in leaf.forms if position else ():
            if text.startswith(form, start):
                return self._end_of(text, start, form)
        return 0

    def _follows_key(self, text: str, at: int, key: str) -> bool:
        before = text[max(0, at - len(key) - _BEFORE_VALUE) : at]
        place = before.rfind(key)
        if place < 0 or (not self._is_compact and place and before[place - 1] not in MARKS):
            return False
        between = before[place + len(key) :]
        if not self._is_compact:
            return between[:1] in MARKS and all(word in MARKUP_WORDS for word in split_words(between) if word)
        return not between.strip(MARKS) or between.strip(MARKS) in MARKUP_WORDS

    def follow(self, start: int, end: int) -> bool:
        """Whether each argument has a place with its key in this part of the text."""
        return all(_has_between(places, start, end) for places in self._keyed)

    def follow_open(self, text: str, start: int, end: int) -> bool:
        """Whether the arguments follow a name. If it has brackets with a key, as in code, they are inside of these.

        Without a key inside, the bracket that closes may belong to a text: a list, or a smiley.
        """
        if not self.follow(start, end):
            return False
        if text[start : start + 1] != OPEN:
            return True
        closing = self._find_closing(text, start, end)
        inside = text[start:closing]
        return self.follow(start, closing) or not any(group[0].key in inside for group in self._groups)

    def _find_closing(self, text: str, start: int, end: int) -> int:
        """Return the place of the bracket that closes the one at `start`. What the view merges stays open."""
        depth = 0
        for bracket in _any_bracket_in(text, start, end):
            self._budget.spend(1)
            if bracket[0] == OPEN:
                depth += 1
            elif bracket[0] == CLOSE and not _is_count(text, bracket.start()):
                depth -= 1
                if depth <= 0:
                    return bracket.start()
        return end

    def follow_bare(self, text: str, name_end: int, end: int) -> bool:
        """Whether the values are in the brackets after the name, without keys, as in a line of code."""
        if self._is_compact or self._says < _LEAST_BARE or text[name_end : name_end + 1] != OPEN:
            return False
        closing = _any_bracket(text, name_end + 1, end)
        inside = closing.start() if closing else end
        return all(_has_between(places, name_end, inside) for places in self._bare)


_any_bracket = re.compile(r"[{}@]").search
_any_bracket_in = re.compile(r"[{}]").finditer


def _is_count(text: str, place: int) -> bool:
    """Whether the closing bracket at this place belongs to a letter or number that counts: a) and 1)."""
    return text[place - 2 : place - 1] in MARKS and text[place - 1].isalnum()


def _has_between(places: list[int], start: int, end: int) -> bool:
    place = bisect_left(places, start)
    return place < len(places) and places[place] < end


def _share(matched: int, foreign: int) -> float:
    return 2 * matched / (2 * matched + foreign)
