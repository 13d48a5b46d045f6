"""Strict JSON: duplicate keys, NaN and everything else that would lose data is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Any, NoReturn

import msgspec

from dragoman.jsonschema.keywords import child_path
from dragoman.types import Fault

# --------------------------------------------------------------------------------------------------------------------
# Strict JSON, with everything refused that would lose data or surprise a tool.
#
# The C scanner of the standard library does the reading. What it lets through and we do not: duplicate keys, NaN and
# Infinity, numbers that do not fit, lone surrogates, and nesting so deep that the next reader would fall over it.
#
# Most texts are short objects without any of that. They are read by msgspec, which is several times quicker; whatever
# it refuses, and whatever it may have read too generously, goes to the scanner.

MAX_DEPTH = 100
MAX_DIGITS = 400

_BLANKS = re.compile(r"[ \t\n\r]*")
# Strings are matched whole so that brackets inside them do not count; the last quote is optional and the loops are
# possessive, so that no text makes this scan go back.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_INFINITIES = (float("inf"), float("-inf"))

_SHORT = MAX_DIGITS
"""Texts up to this length cannot hold an integer that is too long."""
_read_object = msgspec.json.Decoder(dict[str, Any]).decode
_write_object = msgspec.json.Encoder().encode


class Undecodable(ValueError):
    """The text is not JSON that we accept: `why`, and the `position` in the text."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why} at position {position}")
        self.why = why
        self.position = position


def has_surrogate(text: str) -> bool:
    """Whether half a character is in the text: it could be neither stored nor sent as UTF-8."""
    return not text.isascii() and SURROGATE.search(text) is not None


def read_integer(digits: str) -> int:
    """An integer of a reasonable size."""
    if len(digits) > MAX_DIGITS and len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"integer of more than {MAX_DIGITS} digits")
    return int(digits)


def read_float(digits: str) -> float:
    """A finite float."""
    number = float(digits)
    if number in _INFINITIES:
        raise ValueError("number too large")
    return number


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
"""From here on the lines before a fault are too many to be counted for each."""
_WINDOW = 1024
_DOUBT = 64

# `scan_once` reads one value at an index; the decoder's own methods are a layer around it.
_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=read_integer, parse_float=read_float, parse_constant=_refuse_constant
)
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


def decode(text: str) -> Any:
    """Read a text that is one JSON value and nothing else; raises `Undecodable`."""
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
    """The object that a text is, where that takes no closer look; None says nothing about the text."""
    if len(text) > _SHORT or type(text) is not str or text.count("[") + text.count("{") > MAX_DEPTH:
        return None
    try:
        value = _read_object(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # Of a key that comes twice only the last one is left: then the text has colons that are missing when it is written
    # again. (A colon inside of a string is there both times, unless the text hides it in an escape.)
    if text.count(":") != _write_object(value).count(b":") or "\\u003" in text:
        return None
    return value


def raw_decode(text: str, position: int = 0) -> tuple[Any, int]:
    """Read the one JSON value at a place (blanks before it are skipped) and say where it ends; raises `Undecodable`.

    The cost depends on the value alone, not on how much text follows it.
    """
    blanks = _BLANKS.match(text, position)
    start = blanks.end() if blanks is not None else position
    if start > _FAR:
        _fail_early(text, start)
    try:
        value, end = _scan(text, start)
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


def _fail_early(text: str, start: int) -> None:
    """Refuse what is wrong near its beginning, without looking at the text before it.

    The scanner's error counts the lines from the beginning of the text. In a long text with many broken values that
    would be quadratic.
    """
    piece = text[start : start + _WINDOW]
    try:
        _scan(piece, 0)
    except StopIteration as error:
        if error.value < len(piece) - _DOUBT:
            raise Undecodable("expected a value", start + error.value) from None
    except json.JSONDecodeError as error:
        # Near the end of the piece it may be the cut that is wrong, and a string may only seem to have no end.
        if error.pos < len(piece) - _DOUBT and not error.msg.startswith("Unterminated"):
            raise Undecodable(error.msg[:1].lower() + error.msg[1:], start + error.pos) from None
    except (RecursionError, ValueError):
        pass


def _inspect(source: str, start: int, value: Any) -> None:
    """Refuse what the scanner does not look at. Each check is cheap when there is nothing to find."""
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
# Is a value plain JSON that a tool can be given? Asked of values that did not come through our own decoder.

SURROGATE = re.compile(r"[\ud800-\udfff]")
_TOO_LARGE = 10**MAX_DIGITS
_WORD = 1 << 64
_PLAIN = frozenset({bool, type(None)})


def find_unsound(value: Any) -> Fault | None:
    """The first thing that JSON cannot hold or that we refuse: too deep, NaN, half a character, a huge integer."""
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
    """Settle the plain members of one container, and put the others on the list."""
    in_object = type(each) is dict
    for key, item in each.items() if in_object else enumerate(each):
        if in_object and (type(key) is not str or has_surrogate(key)):
            return Fault(path, "a key that is no text")
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
        return "half a character (a lone surrogate)" if has_surrogate(value) else None
    if kind is int:
        return None if -_TOO_LARGE < value < _TOO_LARGE else f"an integer of more than {MAX_DIGITS} digits"
    if kind is float:
        return None if isfinite(value) else f"{value} is no number that JSON can hold"
    return None if kind in _PLAIN else f"{kind.__name__} is no JSON value"
