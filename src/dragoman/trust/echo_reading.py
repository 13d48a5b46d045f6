"""Reading on from a name: the keys and values of a call are ticked off in whatever order they come."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.trust.echo_budget import Budget
from dragoman.trust.echo_quarry import Leaf, Quarry
from dragoman.trust.echo_views import BLANK, MARKS, OPEN
from dragoman.trust.echo_words import COUNTED_WORDS, MARKUP_WORDS

_marks = re.compile(r"[ {}@]*").match
_word = re.compile(r"[^ {}@]+").match
_number = re.compile(r"\d{1,3}(?=[{}@]|\Z)").match
_LENGTHS = tuple(sorted({len(word) for word in MARKUP_WORDS}))
_split = re.compile(r"[ {}@]+").split
_MOST_WRAPPER = 4000
_MOST_FOREIGN = 300


class Reading(Struct):
    """What was found from one place on, until all was found or too much else stood in between."""

    end: int = 0
    """Behind the last thing that was found; what follows is about that much."""
    matched: int = 0
    foreign: int = 0
    """Characters of words that belong neither to the call nor to a wrapper."""
    has_brackets: bool = False
    opens: bool = False
    """A bracket stood before the first thing that was found."""
    is_complete: bool = False


class Reader:
    """Reads one call. In a compact text there are no words, and every place may begin a key or a value."""

    def __init__(self, quarry: Quarry, budget: Budget, *, is_compact: bool) -> None:
        self.quarry = quarry
        self._budget = budget
        self.is_compact = is_compact
        self.markup = MARKUP_WORDS | quarry.optional | _words_of_wrapper(quarry)
        self._allowed = min(_MOST_FOREIGN, max(24, quarry.weight * 3 // 10))
        self._forms = sorted({form for leaf in quarry.leaves for form in leaf.forms}, key=len, reverse=True)
        self._keys = sorted(quarry.keys, key=len, reverse=True)
        self._by_first: dict[str, list[str]] = {}
        for form in self._forms:
            self._by_first.setdefault(first_word(form), []).append(form)
        self.first_words = {*map(first_word, self._keys), *self._by_first}

    def read(self, text: str, position: int) -> Reading:
        slots, keys = list(self.quarry.leaves), dict(self.quarry.keys)
        reading = Reading(end=position)
        has_brackets = is_direct = text[position : position + 1] == OPEN
        foreign, previous, is_identifier = 0, "", False
        while slots or keys:
            gap = _marks(text, position)
            if gap is not None:
                has_brackets |= bool(gap.group().strip(BLANK))
                position = gap.end()
            word = self._next(text, position)
            if not word:
                break
            taken = self._take(text, position, word, slots, keys)
            self._budget.spend(2 + taken // 64 + (len(self._forms) // 4 if self.is_compact else 0))
            position += taken or len(word)
            if taken:
                reading.opens |= has_brackets and not reading.matched
                reading.matched += taken
                reading.end, reading.foreign, reading.has_brackets = position, foreign, has_brackets
            elif word not in self.markup:
                is_identifier = _is_identifier(word, previous, was_one=is_identifier)
                foreign += 0 if is_identifier else len(word)
                if foreign > self._allowed:
                    break
            previous = word
        # name(value, value): where the arguments have no keys, none of them may have one.
        reading.is_complete = not slots and (not keys or (is_direct and len(keys) == len(self.quarry.keys)))
        return reading

    def is_end(self, text: str, place: int) -> bool:
        """Whether nothing that could be one more argument follows."""
        if self.is_compact:
            return self._is_known(text, place)
        if text[place : place + 1] != BLANK:
            return True
        word = _word(text, place + 1)
        return word is None or word.group() in self.markup or _is_identifier(word.group(), "", was_one=False)

    def foreign_words(self, text: str) -> list[str]:
        return [word for word in _split(text) if word and word not in self.markup]

    def _next(self, text: str, position: int) -> str:
        if self.is_compact:
            return self._next_compact(text, position)
        word = _word(text, position)
        return word.group() if word else ""

    def _next_compact(self, text: str, position: int) -> str:
        """A word of a wrapper, or a character. Of several words the one that something known follows is meant."""
        longest = ""
        for length in _LENGTHS:
            word = text[position : position + length]
            if word in MARKUP_WORDS:
                longest = word
                if self._is_known(text, position + length):
                    break
        number = None if longest else _number(text, position)
        return number.group() if number else longest or text[position : position + 1]

    def _is_known(self, text: str, position: int) -> bool:
        if text[position : position + 1] in MARKS:
            return True
        if any(text.startswith(form, position) for form in (*self._keys, *self._forms)):
            return True
        return any(text[position : position + length] in MARKUP_WORDS for length in _LENGTHS)

    def _take(self, text: str, position: int, word: str, slots: list[Leaf], keys: dict[str, None]) -> int:
        """The length of what is ticked off here: the longest value that fits, or else the longest key."""
        for form in self._forms if self.is_compact else self._by_first.get(word, ()):
            if self._stands(form, text, position):
                for place, leaf in enumerate(slots):
                    if form in leaf.forms:
                        del slots[place]
                        return len(form)
        for key in self._keys:
            if self._stands(key, text, position):
                keys.pop(key, None)
                return len(key)
        return 0

    def _stands(self, form: str, text: str, position: int) -> bool:
        if not text.startswith(form, position):
            return False
        end = position + len(form)
        return self.is_compact or text[end : end + 1] in MARKS


def first_word(form: str) -> str:
    word = _word(form)
    return word.group() if word else ""


def _is_identifier(word: str, previous: str, *, was_one: bool) -> bool:
    """A number or an identifier of the call, also one of several parts, which says nothing about what it does."""
    if (len(word) <= 3 and word.isdigit()) or previous in COUNTED_WORDS:
        return True
    return was_one and len(word) <= 40 and any(map(str.isdigit, word))


def _words_of_wrapper(quarry: Quarry) -> frozenset[str]:
    """The words of the wrapper that the model used, which the catalogue need not know."""
    return frozenset(word for word in _split(quarry.raw[:_MOST_WRAPPER]) if word)
