"""Is a value plain JSON that a tool can be given? Asked of values that did not come through our own decoder."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from dragoman.args.decode import MAX_DEPTH, MAX_DIGITS
from dragoman.args.schemas import child_path
from dragoman.types import Fault

_SURROGATE = re.compile(r"[\ud800-\udfff]")
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
        if in_object and (type(key) is not str or not (key.isascii() or _is_whole(key))):
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
        return None if _is_whole(value) else "half a character (a lone surrogate)"
    if kind is int:
        return None if -_TOO_LARGE < value < _TOO_LARGE else f"an integer of more than {MAX_DIGITS} digits"
    if kind is float:
        return None if isfinite(value) else f"{value} is no number that JSON can hold"
    return None if kind in _PLAIN else f"{kind.__name__} is no JSON value"


def _is_whole(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None
