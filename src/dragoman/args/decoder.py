"""The strict JSON decoder: duplicate keys, NaN and everything else that would lose data is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any, NoReturn

import msgspec

from dragoman.jsonschema.keywords import child_path
from dragoman.types import Fault

# --------------------------------------------------------------------------------------------------------------------
# Strict JSON: everything that would lose data or surprise a tool is an error.
#
# The C scanner of the standard library reads the text. In addition, the decoder rejects duplicate keys, NaN and
# Infinity, numbers that are too large, lone surrogates, and nesting that would make the next reader fail.
#
# Most texts are short objects without any of these. msgspec reads them several times faster. A text that msgspec
# rejects, or may have read too leniently, goes to the scanner.

MAX_DEPTH = 100
MAX_DIGITS = 400

_BLANKS = re.compile(r"[ \t\n\r]*")
# Strings are matched as a whole, so that brackets inside them do not count. The last quote is optional and the loops
# are possessive, so the pattern never backtracks.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_INFINITIES = (float("inf"), float("-inf"))

_SHOWN_DIGITS = 40
_WRITTEN_OUT = 1e16
"""A smaller whole float is written with `.0`, a larger one with an exponent."""
_SHORT = MAX_DIGITS
"""Texts up to this length cannot hold an integer that is too long."""
_read_object = msgspec.json.Decoder(dict[str, Any]).decode
_write_object = msgspec.json.Encoder().encode


class Undecodable(ValueError):
    """The text is not JSON that the decoder accepts: `why`, and the `position` in the text."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why} at position {position}")
        self.why = why
        self.position = position


def has_surrogate(text: str) -> bool:
    """Whether the text contains a lone surrogate, which UTF-8 cannot encode."""
    return not text.isascii() and SURROGATE.search(text) is not None


def without_surrogates(value: Any) -> Any:
    """Return a JSON value with U+FFFD for each surrogate in its strings. Such a string cannot be encoded or sent."""
    if isinstance(value, str):
        return value if not has_surrogate(value) else SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(each) for key, each in value.items()}
    return [without_surrogates(each) for each in value] if isinstance(value, list) else value


def read_integer(digits: str) -> int:
    """Convert digits to an integer; raise ValueError for more than MAX_DIGITS digits."""
    if len(digits) > MAX_DIGITS and len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"integer of more than {MAX_DIGITS} digits")
    return int(digits)


def read_float(digits: str) -> float:
    """Convert digits to a float; raise ValueError if it is not finite, or another number."""
    number = float(digits)
    if number in _INFINITIES:
        raise ValueError("number too large")
    if is_rounded(digits, number):
        raise ValueError(f"more digits than a number can hold: {digits[:_SHOWN_DIGITS]}")
    return number


def is_rounded(digits: str, number: float) -> bool:
    """Whether a float is whole only because digits were lost: `1.00000000000000000001`, `9007199254740993.0`.

    Other programs read another number, and an integer must not differ from what was written. A larger float is no
    integer in any case.
    """
    # A float keeps every number of up to 15 digits.
    if not number.is_integer() or abs(number) >= _WRITTEN_OUT or (len(digits) <= 15 and number):
        return False
    return len(digits) > MAX_DIGITS or Decimal(digits) != Decimal(repr(number))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"duplicate key {key!r}")
            seen.add(key)
    return members


_FAR = 65_536
"""Beyond this position, the lines before a fault are too many to count them for each fault."""

# `scan_once` reads one value at an index; the decoder's own methods are a layer around it.
_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=read_integer, parse_float=read_float, parse_constant=_refuse_constant
)
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


def decode(text: str) -> Any:
    """Decode a text that is one JSON value and nothing else; raises `Undecodable`."""
    found = decode_object(text)
    if found is not None:
        return found
    value, end = raw_decode(text, 0)
    if end != len(text):
        blanks = _BLANKS.match(text, end)
        if blanks is not None and blanks.end() != len(text):
            raise Undecodable("text after the value", blanks.end())
    return value


def decode_object(text: str) -> dict[str, Any] | None:
    """Decode a text on the fast path if it is an object; None means only that the fast path does not apply."""
    if len(text) > _SHORT or type(text) is not str or text.count("[") + text.count("{") > MAX_DEPTH:
        return None
    try:
        value = _read_object(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # msgspec keeps only the last of duplicate keys. Then the text has more colons than the encoded value. (A colon
    # inside a string is in both, unless the text writes it as an escape.) A whole float may have lost digits.
    written = _write_object(value)
    if text.count(":") != written.count(b":") or "\\u003" in text or b".0" in written:
        return None
    return value


def raw_decode(text: str, position: int = 0) -> tuple[Any, int]:
    """Decode the JSON value at a position, after blanks; return the value and its end; raises `Undecodable`.

    The cost depends on the value alone, not on how much text follows it.
    """
    blanks = _BLANKS.match(text, position)
    start = blanks.end() if blanks is not None else position
    try:
        value, end = _scan(text if start <= _FAR else _without_lines(text), start)
    except StopIteration as error:
        raise Undecodable("expected a value", error.value) from None
    except json.JSONDecodeError as error:
        raise Undecodable(error.msg[:1].lower() + error.msg[1:], error.pos) from None
    except RecursionError:
        raise Undecodable(f"nested deeper than {MAX_DEPTH}", start) from None
    except ValueError as error:
        raise Undecodable(str(error), start) from None
    if end - start > 1:
        _inspect(text if start == 0 and end == len(text) else text[start:end], start, value)
    return value, end


class _Uncounted(str):
    """Text that does not count its lines: the scanner's error does, from the beginning of the text.

    In a long text with many broken values, that would be quadratic.
    """

    __slots__ = ()

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return -1


_last: tuple[str, _Uncounted] = ("", _Uncounted())
"""The last long text, and the same for the scanner: the values of one text are read in a row."""


def _without_lines(text: str) -> str:
    global _last
    if _last[0] is not text:
        _last = (text, _Uncounted(text))
    return _last[1]


def _inspect(source: str, start: int, value: Any) -> None:
    """Raise for faults that the scanner does not check. Each check is cheap if there is no fault."""
    if len(source) > 2 * MAX_DEPTH and source.count("[") + source.count("{") > MAX_DEPTH:
        _check_depth(source, start)
    if not source.isascii():
        lone = SURROGATE.search(source)
        if lone is not None:
            raise Undecodable("lone surrogate", start + lone.start())
    if "\\" in source and ("\\ud" in source or "\\uD" in source) and _holds_surrogate(value):
        raise Undecodable("lone surrogate", start)


def _check_depth(source: str, start: int) -> None:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(source):
        char = token[0]
        if char in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise Undecodable(f"nested deeper than {MAX_DEPTH}", start + token.start())
        elif char in ("]", "}"):
            depth -= 1


def _holds_surrogate(value: Any) -> bool:
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            if has_surrogate(current):
                return True
        elif isinstance(current, dict):
            waiting.extend(current)
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
    return False


# --------------------------------------------------------------------------------------------------------------------
# A check that a value is JSON that a tool can receive, for values that did not come from this decoder.

SURROGATE = re.compile(r"[\ud800-\udfff]")
_TOO_LARGE = 10**MAX_DIGITS
_WORD = 1 << 64
_PLAIN = frozenset({bool, type(None)})


def find_unsound(value: Any) -> Fault | None:
    """Return the first part that JSON cannot hold or that is rejected: too deep, NaN, lone surrogate, huge integer."""
    waiting: list[tuple[Any, str, int]] = [(value, "$", 0)]
    while waiting:
        each, path, depth = waiting.pop()
        if type(each) is dict or type(each) is list:
            if depth >= MAX_DEPTH:
                return Fault(path, f"nested deeper than {MAX_DEPTH} levels")
            fault = _look_at_members(each, path, depth, waiting)
            if fault is not None:
                return fault
        else:
            why = _why_unsound(each)
            if why is not None:
                return Fault(path, why)
    return None


def _look_at_members(each: Any, path: str, depth: int, waiting: list[tuple[Any, str, int]]) -> Fault | None:
    """Check the plain members of one container, and append the others to the list."""
    in_object = type(each) is dict
    for key, item in each.items() if in_object else enumerate(each):
        if in_object and (type(key) is not str or has_surrogate(key)):
            return Fault(path, "a key that is not a string")
        kind = type(item)
        if kind is str:
            plain = item.isascii()
        elif kind is int:
            plain = -_WORD < item < _WORD
        else:
            plain = kind in _PLAIN
        if not plain:
            waiting.append((item, child_path(path, key), depth + 1))
    return None


def _why_unsound(value: Any) -> str | None:
    kind = type(value)
    if kind is str:
        return "a lone surrogate" if has_surrogate(value) else None
    if kind is int:
        return None if -_TOO_LARGE < value < _TOO_LARGE else f"an integer of more than {MAX_DIGITS} digits"
    if kind is float:
        return None if isfinite(value) else f"{value} is not a number that JSON can hold"
    return None if kind in _PLAIN else f"{kind.__name__} is not a JSON value"
