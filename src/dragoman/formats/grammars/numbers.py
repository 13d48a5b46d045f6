"""Numbers between two bounds, digit by digit."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

from msgspec import Struct

from dragoman.formats.grammars.nodes import DIGIT, EMPTY, NEVER, Chars, Node, Text, choice, maybe, repeat, row

MOST_DIGITS = 15
"""Of an integer, and of the part before the point: what every machine keeps exactly."""
_FRACTION = 17
_EXPONENT = row(Chars((("e", "e"), ("E", "E"))), maybe(Chars((("+", "+"), ("-", "-")))), repeat(DIGIT, 1, 2))


class Bound(Struct, frozen=True):
    """One end of a range; a strict one does not belong to it."""

    value: Decimal
    strict: bool = False

    def mirrored(self) -> Bound:
        return Bound(-self.value, self.strict)


def bounds_of(schema: dict[str, Any]) -> tuple[Bound | None, Bound | None]:
    """The tightest lower and upper bound that a schema states."""
    lower = _tightest(_read(schema, "minimum", strict=False), _read(schema, "exclusiveMinimum", strict=True), 1)
    upper = _tightest(_read(schema, "maximum", strict=False), _read(schema, "exclusiveMaximum", strict=True), -1)
    # In the oldest drafts the strict keywords are flags beside the others.
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
    """An integer between the bounds, without needless zeros."""
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
    """A number from 0 on. Lengths that are allowed in full are written together."""
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
    """Digits of one length, from `low` to `high`."""
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
    """Numbers between the bounds: those that look like integers, and those with a point or an exponent."""
    limit = 10**MOST_DIGITS - 1
    if lower is None and upper is None:
        digits = row(maybe(Text("-")), natural(0, limit))
        point = row(Text("."), repeat(DIGIT, 1, _FRACTION))
        return integer(None, None), row(digits, choice([row(point, maybe(_EXPONENT)), _EXPONENT]))
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
            row(natural(first + 1, last - 1), Text("."), repeat(DIGIT, 1, _FRACTION)),
            row(Text(str(last)), _point(last, None, False, below, high.strict)),
        ]
    )


def _fraction_digits(value: Decimal) -> str:
    return f"{value:f}".partition(".")[2].rstrip("0")


def _point(whole: int, low: str | None, strict_low: bool, high: str | None, strict_high: bool) -> Node:
    """The fraction behind the last whole number before a bound.

    With more than fifteen digits in all, a number beside the bound might be read as the bound itself.
    """
    room = max(1, MOST_DIGITS - len(str(whole)))
    found = _follow(low, strict_low, high, strict_high, room)
    if found != NEVER and _may_end(low, strict_low, high, strict_high):
        found = choice(_next_digits(low, strict_low, high, strict_high, room))  # at least one digit
    return row(Text("."), found)


def _follow(low: str | None, strict_low: bool, high: str | None, strict_high: bool, room: int) -> Node:
    """The digits that may follow; `low` and `high` are what is left of the bounds, None where one is out of reach."""
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
