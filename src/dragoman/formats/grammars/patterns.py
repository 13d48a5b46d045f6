"""Grammars of bounded numbers, regular expressions and string formats."""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Decimal
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct

from dragoman.formats.grammars.nodes import (
    DIGIT,
    EMPTY,
    JSON,
    NEVER,
    Chars,
    Node,
    Notation,
    Text,
    choice,
    maybe,
    repeat,
    row,
)

# --------------------------------------------------------------------------------------------------------------------
# Numbers between two bounds, digit by digit.

MOST_DIGITS = 15
"""Digits of an integer, and of the part before the point: every machine stores so many exactly."""
_FRACTION = 17
_LENGTHS = ((1, 3), (4, 7), (8, 11), (12, MOST_DIGITS))
"""The shortest and the longest part before the point of numbers that may have the same fractions."""


class Bound(Struct, frozen=True):
    """One end of a range; a strict bound does not belong to the range."""

    value: Decimal
    strict: bool = False

    def mirrored(self) -> Bound:
        return Bound(-self.value, self.strict)


def bounds_of(schema: dict[str, Any]) -> tuple[Bound | None, Bound | None]:
    """Return the tightest lower and upper bound of a schema."""
    lower = _tightest(_read(schema, "minimum", strict=False), _read(schema, "exclusiveMinimum", strict=True), 1)
    upper = _tightest(_read(schema, "maximum", strict=False), _read(schema, "exclusiveMaximum", strict=True), -1)
    # In the oldest drafts, the exclusive keywords are flags next to the others.
    if lower is not None and schema.get("exclusiveMinimum") is True:
        lower = Bound(lower.value, strict=True)
    if upper is not None and schema.get("exclusiveMaximum") is True:
        upper = Bound(upper.value, strict=True)
    return lower, upper


def _read(schema: dict[str, Any], key: str, *, strict: bool) -> Bound | None:
    value = schema.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 1e300:
        return None
    return Bound(Decimal(repr(value)), strict)


def _tightest(one: Bound | None, other: Bound | None, sign: int) -> Bound | None:
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda bound: (sign * bound.value, bound.strict))


# ---- integers --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def integer(lower: Bound | None, upper: Bound | None) -> Node:
    """Return the grammar of an integer between the bounds, without leading zeros."""
    least = None if lower is None else _first_inside(lower, up=True)
    most = None if upper is None else _first_inside(upper, up=False)
    limit = 10**MOST_DIGITS - 1
    least = min(-limit, -limit if most is None else most * 10) if least is None else least
    most = max(limit, least * 10) if most is None else most
    ways = [natural(max(least, 0), most)]
    if least < 0:
        ways.append(row(Text("-"), natural(max(1, -most), -least)))
    return choice(ways)


def _first_inside(bound: Bound, *, up: bool) -> int:
    whole = int(bound.value.to_integral_value(ROUND_FLOOR))
    if up:
        return whole if whole == bound.value and not bound.strict else whole + 1
    return whole - 1 if whole == bound.value and bound.strict else whole


def natural(least: int, most: int) -> Node:
    """Return a number from 0 on. Numbers of digits without a bound are written as one part."""
    if most < least:
        return NEVER
    ways: list[Node] = []
    full: list[int] = []
    for length in range(len(str(least)), len(str(most)) + 1):
        first, last = 10 ** (length - 1) if length > 1 else 0, 10**length - 1
        low, high = max(first, least), min(last, most)
        if (low, high) == (first, last) and length > 1:
            full.append(length)
        else:
            ways.append(_between(str(low), str(high)))
    if full:
        ways.append(row(_digit("1", "9"), repeat(DIGIT, full[0] - 1, full[-1] - 1)))
    return choice(ways)


def _digit(low: str, high: str) -> Node:
    if low > high:
        return NEVER
    return Text(low) if low == high else Chars(((low, high),))


def _between(low: str, high: str) -> Node:
    """Return digits of one length, from `low` to `high`."""
    rest = len(low) - 1
    if rest < 0:
        return EMPTY
    if low[0] == high[0]:
        return row(Text(low[0]), _between(low[1:], high[1:]))
    first, last = low[0], high[0]
    ways: list[Node] = []
    if low[1:] != "0" * rest:
        ways.append(row(Text(first), _between(low[1:], "9" * rest)))
        first = chr(ord(first) + 1)
    if high[1:] != "9" * rest:
        ways.append(row(Text(last), _between("0" * rest, high[1:])))
        last = chr(ord(last) - 1)
    return choice([*ways, row(_digit(first, last), repeat(DIGIT, rest, rest))])


# ---- numbers with a fraction -----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def whole_or_fraction(lower: Bound | None, upper: Bound | None) -> tuple[Node, Node]:
    """Return numbers between the bounds: without a fraction, and with a point or an exponent."""
    limit = 10**MOST_DIGITS - 1
    if lower is None and upper is None:
        digits = choice([_with_fraction(0, limit), _with_exponent(limit)])
        return integer(None, None), row(maybe(Text("-")), digits)
    low = lower or Bound(min(Decimal(-limit), (upper or Bound(Decimal(0))).value * 10))
    high = upper or Bound(max(Decimal(limit), low.value * 10))
    ways = [_positive(low if low.value >= 0 else Bound(Decimal(0)), high)] if high.value >= 0 else []
    if low.value < 0:
        nearest = high.mirrored() if high.value <= 0 else Bound(Decimal(0))
        ways.append(row(Text("-"), _positive(nearest, low.mirrored())))
    return integer(lower, upper), choice(ways)


def _positive(low: Bound, high: Bound) -> Node:
    first, last = int(low.value), int(high.value)
    if first > last:
        return NEVER
    above, below = _fraction_digits(low.value), _fraction_digits(high.value)
    if first == last:
        return row(Text(str(first)), _point(first, above, low.strict, below, high.strict))
    return choice(
        [
            row(Text(str(first)), _point(first, above, low.strict, None, False)),
            _with_fraction(first + 1, last - 1),
            row(Text(str(last)), _point(last, None, False, below, high.strict)),
        ]
    )


def _with_fraction(least: int, most: int) -> Node:
    """Return numbers with a point whose part before it is between the bounds, and that are not rounded to a whole one.

    A parser refuses those: other programs would read another number.
    """
    return choice(
        [
            row(natural(max(least, 10 ** (short - 1) if short > 1 else 0), min(most, 10**long - 1)), _fraction(long))
            for short, long in _LENGTHS
        ]
    )


def _fraction(length: int) -> Node:
    """Return a fraction for a number with so many digits before the point.

    A float keeps fifteen digits. If these do not end next to a whole number, more digits may follow.
    """
    room = max(1, MOST_DIGITS - length)
    apart = [
        _digit("1", "8"),
        row(repeat(Text("0"), 1, room - 1), _digit("1", "9")) if room > 1 else NEVER,
        row(repeat(Text("9"), 1, room - 1), _digit("0", "8")) if room > 1 else NEVER,
    ]
    more = row(choice(apart), repeat(DIGIT, 0, _FRACTION - 1))
    return row(Text("."), choice([repeat(Text("0"), 1, _FRACTION), repeat(Text("9"), 1, room), more]))


def _with_exponent(limit: int) -> Node:
    """Return numbers with an exponent: of fifteen digits, or, in the usual notation, too large or small to be whole."""
    letter, sign = Chars((("e", "e"), ("E", "E"))), Chars((("+", "+"), ("-", "-")))
    short, long = _LENGTHS[0]
    kept = choice(
        [natural(0, limit), row(natural(0, 10**long - 1), Text("."), repeat(DIGIT, short, MOST_DIGITS - long))]
    )
    large = row(maybe(Text("+")), choice([row(Text("1"), _digit("6", "9")), row(_digit("2", "9"), DIGIT)]))
    small = row(Text("-"), choice([row(maybe(Text("0")), _digit("2", "9")), row(_digit("1", "9"), DIGIT)]))
    usual = row(_digit("1", "9"), Text("."), repeat(DIGIT, 1, _FRACTION), letter, choice([large, small]))
    return choice([row(kept, letter, maybe(sign), repeat(DIGIT, 1, 2)), usual])


def _fraction_digits(value: Decimal) -> str:
    return f"{value:f}".partition(".")[2].rstrip("0")


def _point(whole: int, low: str | None, strict_low: bool, high: str | None, strict_high: bool) -> Node:
    """Return the fraction after the last whole number before a bound.

    With more than fifteen digits in total, a number next to the bound might be read as the bound itself.
    """
    if len(str(whole)) > MOST_DIGITS:
        return NEVER  # a float has no such digits behind the point
    room = max(1, MOST_DIGITS - len(str(whole)))
    found = _follow(low, strict_low, high, strict_high, room)
    if found != NEVER and _may_end(low, strict_low, high, strict_high):
        found = choice(_next_digits(low, strict_low, high, strict_high, room))  # at least one digit
    return row(Text("."), found)


def _follow(low: str | None, strict_low: bool, high: str | None, strict_high: bool, room: int) -> Node:
    """Return the next digits; `low` and `high` are the rest of the bounds, None for one that cannot be reached."""
    if low is not None and not low.strip("0") and not strict_low:
        low = None
    if low is None and high is None:
        return repeat(DIGIT, 0, room)
    if high is not None and not high:
        return NEVER if strict_high or low is not None else repeat(Text("0"), 0, room)
    if low == "" and high is None:
        return row(repeat(Text("0"), 0, room - 1), _digit("1", "9"), repeat(DIGIT, 0, room - 1))
    if room == 0:
        return EMPTY if _may_end(low, strict_low, high, strict_high) else NEVER
    ways = _next_digits(low, strict_low, high, strict_high, room)
    return choice([EMPTY, *ways] if _may_end(low, strict_low, high, strict_high) else ways)


def _may_end(low: str | None, strict_low: bool, high: str | None, strict_high: bool) -> bool:
    above = low is None or (not low.strip("0") and not strict_low)
    return above and (high is None or bool(high.strip("0")) or not strict_high)


def _next_digits(low: str | None, strict_low: bool, high: str | None, strict_high: bool, room: int) -> list[Node]:
    first = "0" if low is None else low[:1] or "0"
    last = "9" if high is None else high[:1] or "0"
    if first > last:
        return []
    after_low = None if low is None else low[1:]
    after_high = None if high is None else high[1:]
    if first == last and low is not None and high is not None:
        return [row(Text(first), _follow(after_low, strict_low, after_high, strict_high, room - 1))]
    ways: list[Node] = []
    if low is not None:
        ways.append(row(Text(first), _follow(after_low, strict_low, None, strict_high, room - 1)))
        first = chr(ord(first) + 1)
    if high is not None:
        ways.append(row(Text(last), _follow(None, strict_low, after_high, strict_high, room - 1)))
        last = chr(ord(last) - 1)
    return [*ways, row(_digit(first, last), repeat(DIGIT, 0, room - 1))] if first <= last else ways


# --------------------------------------------------------------------------------------------------------------------
# The regular expressions of a schema, if they are simple enough.
#
# Literals, classes, groups, alternatives, repeats and the two anchors are translated; `\d`, `\w` and `\s` mean the
# ASCII characters. Everything else (lookarounds, backreferences, word boundaries) is reported as a loss.

Ranges = list[tuple[str, str]]

_SETS: dict[str, Ranges] = {
    "d": [("0", "9")],
    "w": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
    "s": [(" ", " "), ("\t", "\r")],
}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_counted = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}").match
_LAST = "\U0010ffff"
_MOST, _MOST_INSIDE = 64, 8
_INSIDE = 1_000
_LONGEST = 1_000
"""Characters of a pattern: the grammar of each may be long, and a server compiles it for every request."""
"""Limits for repeats without a limit: outside of other repeats, and inside of them."""


class UnsupportedPattern(Exception):
    """The pattern cannot be translated."""


def translate(pattern: str, notation: Notation) -> Node | None:
    """Return the grammar of a pattern, without quotes; None if it cannot be translated."""
    if len(pattern) > _LONGEST:
        return None
    try:
        return _Reader(pattern, notation).read()
    except (UnsupportedPattern, RecursionError):
        return None


class _Reader:
    def __init__(self, pattern: str, notation: Notation) -> None:
        self._pattern = pattern
        self._at = 0
        self._notation = notation
        self._depth = 0
        # A value must not contain a tag, so none may begin in it.
        self._barred = "".join(marker[0] for marker in notation.markers)

    def read(self) -> Node:
        found = self._alternatives()
        if self._at != len(self._pattern) or found == NEVER:
            raise UnsupportedPattern
        return found

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise UnsupportedPattern
        self._at += 1
        return character

    def _alternatives(self) -> Node:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            ways.append(self._sequence())
        return choice(ways)

    def _sequence(self) -> Node:
        """Read one alternative; without anchors at the outermost level, any text may be before and after it."""
        outermost = self._depth == 0
        starts = outermost and self._peek() == "^"
        self._at += starts
        parts: list[Node] = []
        ends = False
        while (character := self._peek()) and character not in "|)":
            if character == "$" and outermost and self._pattern[self._at + 1 : self._at + 2] in ("", "|"):
                self._at += 1
                ends = True
                break
            parts.append(self._repeated())
        around = repeat(self._class([], negated=True), 0, _MOST) if outermost and not (starts and ends) else EMPTY
        return row(EMPTY if starts else around, *parts, EMPTY if ends else around)

    def _repeated(self) -> Node:
        start = self._at
        part = self._atom()
        least, most = self._count()
        if (least, most) == (1, 1):
            return part
        if self._depth < _INSIDE and (most is None or most > _MOST_INSIDE):
            # Read again, now as a part inside a repeat. What is inside already is not read a third time.
            after, self._at = self._at, start
            self._depth += _INSIDE
            part = self._atom()
            self._depth -= _INSIDE
            self._at = after
        return repeat(
            part, least, max(least, _MOST_INSIDE if self._depth >= _INSIDE else _MOST) if most is None else most
        )

    def _count(self) -> tuple[int, int | None]:
        counts: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        match = _counted(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
            least = int(match[1])
            found = (least, least if match[2] is None else int(match[3]) if match[3] else None)
        elif (character := self._peek()) and character in counts:
            self._at += 1
            found = counts[character]
        else:
            return 1, 1
        if self._peek() == "?":
            self._at += 1  # lazy: the set of texts is the same
        if (self._peek() and self._peek() in "*+") or _counted(self._pattern, self._at):
            raise UnsupportedPattern
        return found

    def _atom(self) -> Node:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._bracketed()
        if character == ".":
            return self._class([("\n", "\n"), ("\r", "\r"), ("\u2028", "\u2029")], negated=True)
        if character == "\\":
            found = self._escaped()
            return self._class(*found)
        if character in "^$*+?{}])":
            raise UnsupportedPattern
        return self._class([(character, character)], negated=False)

    def _group(self) -> Node:
        if self._peek() == "?":
            self._at += 1
            if self._take() != ":":
                raise UnsupportedPattern
        self._depth += 1
        inner = self._alternatives()
        self._depth -= 1
        if self._take() != ")":
            raise UnsupportedPattern
        return inner

    def _escaped(self) -> tuple[Ranges, bool]:
        character = self._take()
        if character.lower() in _SETS:
            return _SETS[character.lower()], character.isupper()
        if character in _CONTROLS:
            return [(_CONTROLS[character], _CONTROLS[character])], False
        if character.isalnum():
            raise UnsupportedPattern
        return [(character, character)], False

    def _bracketed(self) -> Node:
        negated = self._peek() == "^"
        self._at += negated
        ranges: Ranges = []
        while (character := self._take()) != "]":
            low = self._member(character)
            if len(low) == 1 and self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member(self._take())
                if len(high) != 1 or low[0][0] > high[0][1]:
                    raise UnsupportedPattern
                low = [(low[0][0], high[0][1])]
            ranges += low
        return self._class(ranges, negated=negated)

    def _member(self, character: str) -> Ranges:
        if character == "[" and self._peek() in (":", "="):
            raise UnsupportedPattern
        if character != "\\":
            return [(character, character)]
        ranges, negated = self._escaped()
        if negated:
            raise UnsupportedPattern
        return ranges

    # ---- characters ----------------------------------------------------------------------------------------------

    def _class(self, ranges: Ranges, negated: bool) -> Node:
        """Return one character as the notation writes it: some are escaped, and some cannot be written."""
        wanted = _complement(ranges) if negated else _sorted(ranges)
        special = sorted(set(self._notation.barred + self._barred))
        plain = _without(wanted, special)
        ways: list[Node] = [Chars(tuple(plain))] if plain else []
        if len(plain) == 1 and plain[0][0] == plain[0][1]:
            ways = [Text(plain[0][0])]
        if self._notation.escape is not None:
            quote = len(self._notation.quotes[0])
            ways += [
                Text(self._notation.write(each)[quote:-quote])
                for each in special
                if each not in self._barred and any(low <= each <= high for low, high in wanted)
            ]
        return choice(ways)


def _sorted(ranges: Ranges) -> Ranges:
    merged: Ranges = []
    for low, high in sorted(ranges):
        if merged and ord(low) <= ord(merged[-1][1]) + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: Ranges) -> Ranges:
    """Return all other characters, without surrogates."""
    found: Ranges = []
    start = 0
    for low, high in [*_sorted([*ranges, ("\ud800", "\udfff")]), (chr(0x10FFFF), "")]:
        if not high:
            if start <= ord(_LAST):
                found.append((chr(start), _LAST))
        elif start < ord(low):
            found.append((chr(start), chr(ord(low) - 1)))
        start = ord(high) + 1 if high else start
    return found


def _without(ranges: Ranges, characters: list[str]) -> Ranges:
    for character in characters:
        cut: Ranges = []
        for low, high in ranges:
            if low <= character <= high:
                cut += [(low, chr(ord(character) - 1))] if low < character else []
                cut += [(chr(ord(character) + 1), high)] if character < high else []
            else:
                cut.append((low, high))
        ranges = cut
    return ranges


# --------------------------------------------------------------------------------------------------------------------
# Strings of a known form: dates, times, identifiers and addresses, as far as they are regular.

_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    r"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|"
    rf"{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+\-](?:[01]\d|2[0-3]):[0-5]\d)"
_WORD = r"[a-zA-Z0-9_+\-]{1,20}"
_LABEL = r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]){0,20}"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d)"
_FORMS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "email": rf"{_WORD}(?:\.{_WORD}){{0,3}}@{_LABEL}(?:\.{_LABEL}){{1,3}}",
    "ipv4": rf"{_BYTE}(?:\.{_BYTE}){{3}}",
}
"""The formats of JSON Schema with a grammar; all others are any string. `-02-29` occurs in leap years only."""


@cache
def form(name: str) -> Node | None:
    """Return the strings of a format; they contain nothing that a notation must escape."""
    return translate(f"^{_FORMS[name]}$", JSON) if name in _FORMS else None
