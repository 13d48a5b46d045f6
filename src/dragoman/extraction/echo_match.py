"""Search for a call in the normalised view of a text. The theory is in `echo`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct

from dragoman.extraction.text_views import (
    BLANK,
    CLOSE,
    EMPTY,
    MARKS,
    OPEN,
    alphanumerics,
    compact,
    piece,
    unescape,
    view,
)
from dragoman.types import ToolCall

# --------------------------------------------------------------------------------------------------------------------
# A bound on the work of one search, so that no text can make the guard slow.


class Exhausted(Exception):
    """A text has so many places that nearly match that a check of all of them would take too long."""


class Budget:
    """The work allowed for one text, in units of about a microsecond. It grows with the text: the total is linear."""

    __slots__ = ("_left", "spent")

    def __init__(self) -> None:
        self._left = 0
        self.spent = 0

    def grant(self, length: int) -> None:
        self._left = 20_000 + length // 4

    def spend(self, units: int) -> None:
        self.spent += units
        self._left -= units
        if self._left < 0:
            raise Exhausted


# --------------------------------------------------------------------------------------------------------------------
# Words of wrappers: they may occur between a name and its arguments without a meaning of their own.


def _words(lines: str) -> frozenset[str]:
    return frozenset(lines.split())


NAME_WORDS = _words("""
    action api begin call calls code func function functioncall functionname functions functools invoke message method
    model name plugin recipient request start tag to tool toolcall toolname tools use uses
""")
"""Words that precede the name of a tool."""

ARGUMENT_WORDS = _words("""
    arg args argument arguments input inputs json kwargs param parameter parameters params payload
""")
"""Words that precede the arguments."""

MARKUP_WORDS = (
    NAME_WORDS
    | ARGUMENT_WORDS
    | _words("""
        array assistant atem bool boolean cdata channel close commentary constrain constraint content data default dict
        dots double dsml end eom eot escape false final float for gcml header id ifm im index int integer iquest is item
        items key list longcat marker minimax msg none null number object open output parallel plamo prefix python
        required role section seed sep separator steptml str string suffix system text true type value values
    """)
)
"""Every word of every wrapper in the catalogue, and of the objects that APIs put around a call."""

COUNTED_WORDS = _words("call calls functions id index")
"""Words that may precede an identifier, which says nothing about the call."""


# --------------------------------------------------------------------------------------------------------------------
# A call as a pattern: the parts that a text must contain together to contain the call.

_MOST_LEAVES = 200
_hump = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Leaf(Struct, frozen=True):
    """A value of a call: its possible spellings, and its key."""

    key: str
    forms: tuple[str, ...]

    @property
    def weight(self) -> int:
        return len(self.forms[0])


class CallPattern:
    """The pattern of a call: its name, keys and values, each in the view of a text."""

    __slots__ = ("_compacted", "is_vague", "keys", "leaves", "names", "optional", "raw", "weight")

    def __init__(self, call: ToolCall) -> None:
        self.names = _spellings(call.name)
        self.keys: dict[str, None] = {}
        self.optional: set[str] = set()
        """Keys with the value null, which some formats leave out."""
        self.leaves: list[Leaf] = []
        self.is_vague = False
        """A value consists only of punctuation, so the view cannot distinguish it from another."""
        self._collect(call)
        self.weight = sum(leaf.weight for leaf in self.leaves) + sum(map(len, self.keys))
        self.raw = _read_raw(call)
        self._compacted: CallPattern | None = None

    @property
    def has_arguments(self) -> bool:
        return bool(self.keys or self.leaves or self.is_vague)

    @property
    def compacted(self) -> CallPattern:
        """The same pattern for compact texts, whose words may be split anywhere."""
        if self._compacted is None:
            other = object.__new__(CallPattern)
            other.names = tuple({compact(name): None for name in self.names})
            other.keys = dict.fromkeys(map(compact, self.keys))
            other.optional = set(map(compact, self.optional))
            other.leaves = [Leaf(compact(leaf.key), tuple(map(compact, leaf.forms))) for leaf in self.leaves]
            other.is_vague = self.is_vague
            other.weight = sum(leaf.weight for leaf in other.leaves) + sum(map(len, other.keys))
            other.raw = compact(self.raw)
            other._compacted = other
            self._compacted = other
        return self._compacted

    def _collect(self, call: ToolCall) -> None:
        written = {piece(_spell(change.after)): _spell(change.before) for change in call.changes}
        for key, value in _walk(call.arguments):
            plain = piece(key)
            if value is None:
                self.optional.add(plain)
                continue
            if plain:
                self.keys[plain] = None
            text = _spell(value)
            written_forms = (text, repr(value)) if isinstance(value, float) else (text,)
            forms = [form for form in map(piece, written_forms) if form]
            if forms and forms[0] in written:
                # The value as the model wrote it, before coercion.
                forms.append(piece(written[forms[0]]) or forms[0])
            if forms:
                self.leaves.append(Leaf(plain, tuple(dict.fromkeys(forms))))
            elif text.strip():
                self.is_vague = True
            if len(self.leaves) >= _MOST_LEAVES:
                return


def fingerprint(call: ToolCall) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return a value that is equal for calls with the same content, whatever their spelling."""
    leaves = sorted((piece(key), _spell(value).strip().casefold()) for key, value in _walk(call.arguments))
    return alphanumerics(unescape(call.name)), tuple(leaves)


def _walk(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a container, with the nearest key above it. An empty container is an empty text."""
    pending: list[tuple[str, Any]] = [(str(key), value) for key, value in reversed(arguments.items())]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict) and value:
            yield key, ""
            pending += [(str(inner), each) for inner, each in reversed(value.items())]
        elif isinstance(value, list | tuple) and value:
            pending += [(key, each) for each in reversed(value)]
        else:
            yield key, "" if isinstance(value, dict | list | tuple) else value


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    try:
        return str(value)
    except Exception:
        # Python refuses to print this many digits.
        return ""


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name as separate words and as one word: dashes, underscores, dots and camel case vary."""
    words = piece(name)
    humps = piece(_hump.sub(" ", name))
    return tuple(form for form in dict.fromkeys((words, humps, alphanumerics(unescape(name)))) if form)


def _read_raw(call: ToolCall) -> str:
    """Return the call as the model wrote it. The raw text of a native call has only arguments, which are not a call."""
    if call.provenance is None or call.provenance.channel == "native" or not call.raw:
        return ""
    # An empty pair at the end is part of the call.
    return view(unescape(call.raw)).strip(MARKS[:3])


# --------------------------------------------------------------------------------------------------------------------
# The reader: from a name on, it finds the keys and values of a call in any order.

_marks = re.compile(r"[ {}@]*").match
_word = re.compile(r"[^ {}@]+").match
_number = re.compile(r"\d{1,3}(?=[{}@]|\Z)").match
_LENGTHS = tuple(sorted({len(word) for word in MARKUP_WORDS}))
_split = re.compile(r"[ {}@]+").split
_MOST_WRAPPER = 4000
_MOST_FOREIGN = 300


class MatchState(Struct):
    """What was found from one position on, until everything was found or too many foreign words occurred."""

    end: int = 0
    """The end of the last match. The other fields describe the text up to here."""
    matched: int = 0
    foreign: int = 0
    """Characters of words that belong neither to the call nor to a wrapper."""
    has_brackets: bool = False
    opens: bool = False
    """A bracket occurred before the first match."""
    is_complete: bool = False


class Reader:
    """Reads one call. A compact text has no words, so every position may start a key or a value."""

    def __init__(self, pattern: CallPattern, budget: Budget, *, is_compact: bool) -> None:
        self.pattern = pattern
        self._budget = budget
        self.is_compact = is_compact
        # The words of the wrapper that the model used. The catalogue may not know them.
        wrapper = filter(None, _split(pattern.raw[:_MOST_WRAPPER]))
        self.markup = MARKUP_WORDS | pattern.optional | frozenset(wrapper)
        self._allowed = min(_MOST_FOREIGN, max(24, pattern.weight * 3 // 10))
        self._forms = sorted({form for leaf in pattern.leaves for form in leaf.forms}, key=len, reverse=True)
        self._keys = sorted(pattern.keys, key=len, reverse=True)
        self._by_first: dict[str, list[str]] = {}
        for form in self._forms:
            self._by_first.setdefault(first_word(form), []).append(form)
        self.first_words = {*map(first_word, self._keys), *self._by_first}

    def read(self, text: str, position: int) -> MatchState:
        slots, keys = list(self.pattern.leaves), dict(self.pattern.keys)
        reading = MatchState(end=position)
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
        # name(value, value): positional arguments. Either no argument has a key, or all have.
        reading.is_complete = not slots and (not keys or (is_direct and len(keys) == len(self.pattern.keys)))
        return reading

    def is_end(self, text: str, place: int) -> bool:
        """Whether nothing follows that could be another argument."""
        if self.is_compact:
            return self._is_known(text, place)
        if text[place : place + 1] != BLANK:
            return True
        word = _word(text, place + 1)
        return word is None or word.group() in self.markup or _is_identifier(word.group(), "", was_one=False)

    def _next(self, text: str, position: int) -> str:
        if self.is_compact:
            return self._next_compact(text, position)
        word = _word(text, position)
        return word.group() if word else ""

    def _next_compact(self, text: str, position: int) -> str:
        """Return a word of a wrapper, or one character. Of several words, the one before a known word is right."""
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
        """Return the length of the match at this position: the longest value that fits, else the longest key."""
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
    """Whether a word is a number or (a part of) an identifier of the call, which says nothing about its meaning."""
    if (len(word) <= 3 and word.isdigit()) or previous in COUNTED_WORDS:
        return True
    return was_one and len(word) <= 40 and any(map(str.isdigit, word))


# --------------------------------------------------------------------------------------------------------------------
# Calls without arguments. The name alone occurs everywhere; only a wrapper shows that it is a call.


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_BARE_NAMED, _BARE_WORDS, _ARGUMENTS = _any_of(NAME_WORDS), _any_of(MARKUP_WORDS), _any_of(ARGUMENT_WORDS)


def find_bare(names: Iterable[str], text: str, *, is_compact: bool = False) -> Literal["none", "exact", "similar"]:
    """Return whether a text contains a call of this name without arguments: `exact`, `similar` or `none`."""
    name = rf"(?:{_any_of(names)})"
    if re.search(name, text) is None:
        return "none"
    if any(re.search(pattern, text) for pattern in _write_patterns(name, is_compact=is_compact)):
        return "exact"
    # [x()] may be a link in a manual.
    return "similar" if re.search(rf"[{{}}]{name}@", text) else "none"


def _write_patterns(name: str, *, is_compact: bool) -> tuple[str, ...]:
    blank, edge, start = ("", "", "") if is_compact else (" ", r"(?![^ {}@])", r"(?<![^ {}@])")
    gap = rf"(?:[ {{}}]|(?>{_BARE_WORDS}|\d{{1,3}}){edge}){{0,20}}?"
    return (
        # {"name": "x", "arguments": {}}, also with an id in between
        rf"{start}(?:{_BARE_NAMED})(?:{blank}|\{{){name}{edge}{gap}(?:{_ARGUMENTS}|begin|message|sep|msg)@",
        # {"arguments": {}, "name": "x"}
        rf"(?:{_ARGUMENTS})@{gap}(?:{_BARE_NAMED}){blank}{name}{edge}",
        # <invoke name="x"></invoke>, <tool_call>x</tool_call>
        rf"{start}({_BARE_NAMED})(?:{blank}name)?(?:{blank}|\{{){name}(?: \d{{1,3}})?"
        rf"\{{(?:(?:{_BARE_WORDS}){blank}){{0,2}}\1{edge}",
        # <x></x>
        rf"\{{({name})\{{\1{edge}",
        # <|tool_call_start|>[x()]
        rf"{start}(?:{_BARE_NAMED})\{{{name}(?:{blank}call)?@",
        # <function=x>{}</function>
        rf"{start}(?:{_BARE_NAMED}){blank}{name}@(?:call|end|eom|function|invoke|tool)",
    )


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
_FRAME = 4
"""The quotes, colon and comma around a key, which two calls of the same tool also share."""


def score_likeness(pattern: CallPattern, window: str, least: float, budget: Budget) -> float:
    """Return the share of a call's keys and values that a window of text contains, from 0 to 1; 0 if it is too small.

    The share is large enough if it is at least `least`, or if only a few characters of long values are missing.
    """
    budget.spend(2 + len(window) * (len(pattern.leaves) + len(pattern.keys)) // 1000)
    frame = _FRAME * len(pattern.keys)
    weight = pattern.weight + frame
    values = sum(leaf.weight for leaf in pattern.leaves)
    may_lack = max(weight * (1 - least), min(_FEW_EDITS, values * _MOST_CHANGED) if values >= _RECOGNISED else 0)
    lacking: float = sum(len(key) for key in pattern.keys if key not in window)
    for leaf in sorted(pattern.leaves, key=attrgetter("weight"), reverse=True):
        lacking += leaf.weight - _credit(leaf, window, budget)
        if lacking > may_lack:
            return 0.0
    return (weight - lacking) / weight if weight else 0.0


def _credit(leaf: Leaf, window: str, budget: Budget) -> float:
    """Return how many characters of a value the window contains, at best."""
    if any(form in window for form in leaf.forms):
        return leaf.weight
    value = leaf.forms[0]
    if len(value) > _LONG:
        return _credit_long(value, window, budget)
    if not _shares_enough(value, window, budget):
        return 0.0
    fewest = len(value)
    for place in _places(leaf, window):
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
LEAST_VALUES = 4
"""Calls whose values have fewer characters are either equal or different, never similar."""
_LEAST_RAW = 24
_FIRST = 12


_START, _EDGE = r"(?<![^ {}@])", r"(?![^ {}@])"
_NAMED = rf"(?:{_any_of(NAME_WORDS)})"
_WORDS = _any_of(MARKUP_WORDS)
# The maximum wrapper between a name and the first key or value. It is bounded, so that the search stays linear.
_SPACED_GAP = r"(?:[ {}@]+[^ {}@]+){0,14}?[ {}@]*"
_COMPACT_GAP = r"[^\n]{0,120}?"
_NAME_ENDINGS = tuple(NAME_WORDS)
_opens = re.compile(rf"(?: (?:{_WORDS}|\d{{1,3}}){_EDGE}){{0,12}}[{{@]").match
_ends_in_name_word = re.compile(rf"{_START}{_NAMED} \Z").search
_ends_in_bracket = re.compile(rf"[{{}}@](?:(?:{_WORDS}) ){{0,6}}\Z").search


class Match(Struct, frozen=True):
    """How much of a call a text contains."""

    kind: Kind = "none"
    score: float = 0.0


NO_MATCH = Match()
EXACT = Match("exact", 1.0)
SUSPECT = Match("similar", ALIKE)
"""Perhaps the call. A text with thousands of places that nearly match gets this too: somebody designed it so."""


class Search:
    """The search for one call in many texts."""

    def __init__(self, pattern: CallPattern, *, is_compact: bool = False) -> None:
        self._pattern = pattern
        self._is_compact = is_compact
        self._budget = Budget()
        self._reader = Reader(pattern, self._budget, is_compact=is_compact)
        self._patterns: dict[str, tuple[re.Pattern[str], re.Pattern[str] | None]] = {}
        self._is_distinct = sum(leaf.weight for leaf in pattern.leaves) >= LEAST_VALUES

    @property
    def work(self) -> int:
        """The work of all searches together."""
        return self._budget.spent

    def find(self, text: str) -> Match:
        """Return the best match of the call in a text."""
        self._budget.grant(len(text))
        if self._holds_raw(text):
            return EXACT
        if not self._pattern.has_arguments:
            kind = find_bare(self._pattern.names, text, is_compact=self._is_compact)
            return Match(kind, 1.0) if kind != "none" else NO_MATCH
        if not self._pattern.keys and not self._pattern.leaves:
            return NO_MATCH  # the view shows nothing of its arguments
        best = NO_MATCH
        try:
            for match in self._matches(text):
                if match.kind == "exact":
                    return match
                best = max(best, match, key=attrgetter("score"))
        except Exhausted:
            return max(best, SUSPECT, key=attrgetter("score"))
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
        """Whether the text contains the call exactly as the model wrote it."""
        raw = self._pattern.raw
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
        name = rf"{start}({_any_of(self._pattern.names)}){edge}"
        if kind == "backward":
            return rf"{start}{_NAMED}[ {{]?{name}", ""
        words = self._reader.first_words if kind == "forward" else {first_word(key) for key in self._pattern.keys}
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
        """Whether the name is meant as a name. In "type": "shell", "command": ... it only happens to occur."""
        if before[-1:] in (OPEN, CLOSE, EMPTY):
            return True
        return before.endswith(_NAME_ENDINGS) if self._is_compact else bool(_ends_in_name_word(before))

    def _judge_backward(self, text: str, name_at: int) -> Match:
        """Match arguments before the name, which sorted keys produce."""
        floor = max(0, name_at - self._reach())
        window = text[floor:name_at]
        self._budget.spend(1 + len(window) * len(self._pattern.keys) // 1000)
        places = [window.rfind(key) for key in self._pattern.keys]
        if min(places, default=-1) < 0:
            return NO_MATCH
        reading = self._reader.read(window, min(places))
        if not reading.is_complete:
            return NO_MATCH
        reading.has_brackets |= bool(_ends_in_bracket(window[: min(places)][-60:])) or CLOSE in window[reading.end :]
        between = [word for word in _split(window[reading.end :]) if word and word not in self._reader.markup]
        # One word may be the identifier of the call.
        reading.foreign += 0 if self._is_compact else sum(map(len, between[1:]))
        return self._weigh(reading, ends=True)

    def _weigh(self, reading: MatchState, *, ends: bool) -> Match:
        """Rate a match. Without foreign words, in brackets and with an end after the last value, it is exact."""
        if reading.foreign == 0 and reading.has_brackets and ends:
            # The view does not show punctuation, which may differ. A person can see it.
            return SUSPECT if self._pattern.is_vague else EXACT
        if not self._is_distinct:
            return NO_MATCH
        score = 2 * reading.matched / (2 * reading.matched + reading.foreign) - (0.0 if reading.has_brackets else 0.1)
        return Match("similar", score) if score >= ALIKE else NO_MATCH

    def _compare(self, text: str, start: int, end: int) -> Match:
        """Match the call with some characters changed."""
        if not _opens(text, end) and not self._is_named(text[max(0, start - 60) : start]):
            return NO_MATCH
        window = text[end : end + self._reach()]
        score = score_likeness(self._pattern, window, ALIKE, self._budget)
        return Match("similar", min(score, 0.999)) if score else NO_MATCH

    def _reach(self) -> int:
        pattern = self._pattern
        return pattern.weight * 3 // 2 + 80 * (min(len(pattern.leaves), 40) + 2)
