"""A call as a pattern, and the reader that finds its parts in the view of a text. The theory is in `echo`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from dragoman.args.tolerant_scalars import evaluate
from dragoman.extraction.text_views import (
    BLANK,
    MARKS,
    OPEN,
    alphanumerics,
    compact,
    piece,
    spell_number,
    unescape,
    view,
)
from dragoman.types import ToolCall

# --------------------------------------------------------------------------------------------------------------------
# A bound on the work of one search, so that no text can make the guard slow.


class Exhausted(Exception):
    """A text has so many places that nearly match that a check of all of them would take too long."""


class Budget:
    """The work allowed, in units of about a microsecond. It grows with each text: the total is linear.

    A text may exhaust its own grant, which makes it suspect, or the work that is left for all of them together.
    """

    __slots__ = ("_left", "_most", "spent")

    def __init__(self, most: int | None = None) -> None:
        self._left = 0
        self._most = most
        self.spent = 0

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left for any text."""
        return self._most is not None and self.spent >= self._most

    def grant(self, length: int) -> None:
        self._left = 20_000 + length // 4

    def spend(self, units: int) -> None:
        self.spent += units
        self._left -= units
        if self._left < 0 or self.is_used_up:
            raise Exhausted


LEAST_VALUES = 4
"""Calls whose values have fewer characters are either equal or different, never similar."""

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
_begins_like_code = re.compile(r"[\s\[`]*[\w.\-]{1,100}\(\s*[^\s)]").match
_sum = re.compile(r"[-+(.\d][-+*/%().\d_e \t]{1,80}[.\d)]", re.IGNORECASE).finditer
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

    __slots__ = (
        "_compacted",
        "body",
        "is_code",
        "is_vague",
        "keys",
        "leaves",
        "name",
        "names",
        "optional",
        "raw",
        "weight",
    )

    def __init__(self, call: ToolCall, names: Iterable[str] = (), raw: str | None = None) -> None:
        self.name = call.name
        self.names = tuple(dict.fromkeys(form for name in (call.name, *names) for form in _spellings(name)))
        self.keys: dict[str, None] = {}
        self.optional: set[str] = set()
        """Keys with the value null, which some formats leave out."""
        self.leaves: list[Leaf] = []
        self.is_vague = False
        """A value consists only of punctuation, so the view cannot distinguish it from another."""
        self._collect(call)
        self.weight = sum(leaf.weight for leaf in self.leaves) + sum(map(len, self.keys))
        self.raw = self.read_raw(call) if raw is None else raw
        self.body = self._read_body()
        """The same without its wrapper, from its name to its last value: a copy may have got a wrapper."""
        self.is_code = _begins_like_code(call.raw) is not None and not any(key in self.raw for key in self.keys)
        """The model wrote name(value), without keys, as in a line of code."""
        self._compacted: CallPattern | None = None

    @staticmethod
    def read_raw(call: ToolCall) -> str:
        """Return the call as the model wrote it. The raw text of a native call has only arguments: they are no call."""
        if call.provenance is None or call.provenance.channel == "native" or not call.raw:
            return ""
        # An empty pair at the end is part of the call.
        return view(unescape(call.raw)).strip(MARKS[:3])

    def _read_body(self) -> str:
        words = [found.span() for found in each_word(self.raw)]
        begin = next((start for start, _ in words if self.raw.startswith(self.names, start)), len(self.raw))
        end = next((end for start, end in reversed(words) if self.raw[start:end] not in MARKUP_WORDS), 0)
        body = self.raw[begin:end]
        return body if any(form in body for leaf in self.leaves for form in leaf.forms) else ""

    @property
    def has_arguments(self) -> bool:
        return bool(self.keys or self.leaves or self.is_vague)

    @property
    def compacted(self) -> CallPattern:
        """The same pattern for compact texts, whose words may be split anywhere."""
        if self._compacted is None:
            other = object.__new__(CallPattern)
            other.name = self.name
            other.names = tuple({compact(name): None for name in self.names})
            other.keys = dict.fromkeys(map(compact, self.keys))
            other.optional = set(map(compact, self.optional))
            other.leaves = [Leaf(compact(leaf.key), tuple(map(compact, leaf.forms))) for leaf in self.leaves]
            other.is_vague, other.is_code = self.is_vague, self.is_code
            other.weight = sum(leaf.weight for leaf in other.leaves) + sum(map(len, other.keys))
            other.raw, other.body = compact(self.raw), compact(self.body)
            other._compacted = other
            self._compacted = other
        return self._compacted

    def _collect(self, call: ToolCall) -> None:
        written = {piece(_spell(change.after)): _spell(change.before) for change in call.changes}
        if "evaluated_arithmetic" in call.repairs:
            written |= {piece(_spell(value)): source for value, source in _read_sums(call.raw)}
        for key, value in _walk(call.arguments):
            plain = piece(key)
            if value is None:
                self.optional.add(plain)
                continue
            if plain:
                self.keys[plain] = None
            text = _spell(value)
            forms = [form for form in (piece(text),) if form]
            if forms and forms[0] in written:
                # The value as the model wrote it, before coercion.
                forms.append(piece(written[forms[0]]) or forms[0])
            if forms:
                self.leaves.append(Leaf(plain, tuple(dict.fromkeys(forms))))
            elif text.strip():
                self.is_vague = True
            if len(self.leaves) >= _MOST_LEAVES:
                return


def exact_key(call: ToolCall) -> str:
    """Return what is equal only for equal calls: another case or order may be another call."""
    try:
        return f"{call.name}\0{json.dumps(call.arguments, sort_keys=True, default=str)}"
    except Exception:
        # Python refuses to print this many digits.
        return f"{id(call)}"


def spell_names(*names: str) -> tuple[str, ...]:
    """Return names as compact texts have them."""
    return tuple({compact(form): None for name in dict.fromkeys(names) for form in _spellings(name)})


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
    try:
        return spell_number(value) if isinstance(value, float) else str(value)
    except Exception:
        # Python refuses to print this many digits.
        return ""


def _read_sums(raw: str) -> Iterator[tuple[float, str]]:
    """Yield the value and the source of each sum in a call. A bracket of the call may follow it."""
    for found in _sum(raw):
        source = found[0]
        while (value := evaluate(source)) is None and source.endswith(")"):
            source = source[:-1]
        if value is not None:
            yield value, source


@lru_cache(maxsize=1024)
def _spellings(name: str) -> tuple[str, ...]:
    """Return a name as separate words and as one word: dashes, underscores, dots and camel case vary."""
    words = piece(name)
    humps = piece(_hump.sub(" ", name))
    return tuple(form for form in dict.fromkeys((words, humps, alphanumerics(unescape(name)))) if form)


# --------------------------------------------------------------------------------------------------------------------
# The reader: from a name on, it finds the keys and values of a call in any order.

_marks = re.compile(r"[ {}@]*").match
_word = re.compile(r"[^ {}@]+").match
each_word = re.compile(r"[^ {}@]+").finditer
_number = re.compile(r"\d{1,3}(?=[{}@]|\Z)").match
_LENGTHS = tuple(sorted({len(word) for word in MARKUP_WORDS}))
split_words = re.compile(r"[ {}@]+").split
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
    is_direct: bool = False
    """An opening bracket follows the name."""
    is_complete: bool = False
    """All values were found."""
    lacking: int = 0
    """Characters of the keys that were not found."""
    is_part: bool = False
    """Some arguments were found, each of them with its key and a value, and at the end a value: perhaps the content has
    a call with fewer arguments."""


class Reader:
    """Reads one call. A compact text has no words, so every position may start a key or a value."""

    def __init__(self, pattern: CallPattern, budget: Budget, *, is_compact: bool) -> None:
        self.pattern = pattern
        self._budget = budget
        self.is_compact = is_compact
        # The words of the wrapper that the model used. The catalogue may not know them.
        wrapper = filter(None, split_words(pattern.raw[:_MOST_WRAPPER]))
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
        reading = MatchState(end=position, is_direct=text[position : position + 1] == OPEN)
        has_brackets = reading.is_direct
        foreign, previous, is_identifier = 0, "", False
        while slots or keys:
            gap = _marks(text, position)
            if gap is not None:
                has_brackets |= bool(gap.group().strip(BLANK))
                position = gap.end()
            word = self._next(text, position)
            if not word:
                break
            before = len(slots)
            taken = self._take(text, position, word, slots, keys)
            self._budget.spend(2 + taken // 64 + (len(self._forms) // 4 if self.is_compact else 0))
            position += taken or len(word)
            if taken:
                reading.opens |= has_brackets and not reading.matched
                reading.matched += taken
                reading.end, reading.foreign, reading.has_brackets = position, foreign, has_brackets
                reading.is_part = len(slots) < before
            elif word not in self.markup:
                is_identifier = _is_identifier(word, previous, was_one=is_identifier)
                foreign += 0 if is_identifier else len(word)
                if foreign > self._allowed:
                    break
            previous = word
        reading.is_complete = not slots
        # name(value, value), or other keys.
        reading.lacking = sum(map(len, keys))
        reading.is_part = reading.is_part and not reading.foreign and self._pairs_up(slots, keys)
        return reading

    def _pairs_up(self, slots: list[Leaf], keys: dict[str, None]) -> bool:
        """Whether each key that was found has a value that was found, and these values say enough."""
        missing = {id(leaf) for leaf in slots}
        found = [leaf for leaf in self.pattern.leaves if id(leaf) not in missing]
        have_values = {leaf.key for leaf in found}
        bare = {leaf.key for leaf in self.pattern.leaves} - have_values
        says = sum(leaf.weight for leaf in found if leaf.forms[0] not in ("true", "false"))
        return says >= LEAST_VALUES and all(key in keys for key in bare)

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


def any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_BARE_NAMED, _BARE_WORDS, _ARGUMENTS = any_of(NAME_WORDS), any_of(MARKUP_WORDS), any_of(ARGUMENT_WORDS)


def find_bare(
    names: Iterable[str], text: str, budget: Budget, *, is_compact: bool = False
) -> Literal["none", "exact", "similar"]:
    """Return whether a text contains a call of this name without arguments: `exact`, `similar` or `none`."""
    name = rf"(?:{any_of(names)})"
    count = sum(1 for _ in re.finditer(name, text))
    if not count:
        return "none"
    budget.spend(20 * count)
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
