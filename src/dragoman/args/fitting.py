"""Does a value fit a prepared schema, as far as structure goes? Asked before anything is changed, so it is quick.

Whatever a full validator accepts fits here too; the reverse does not hold (patterns, ranges and `not` are not looked
at). The one exception is a whole float for an integer, which is the same number but not the same type in Python.
"""

from __future__ import annotations

from typing import Any

from dragoman.args.schemas import Shape

MAX_DEPTH = 100
"""Below this many levels of value and union a value is taken to fit: recursion stays bounded for any input."""

Memo = dict[tuple[int, int], bool]


def fits(shape: Shape, value: Any, depth: int = 0, memo: Memo | None = None) -> bool:
    """Whether the value has the structure that the shape asks for."""
    kind = type(value)
    types = shape.types
    if types is not None and kind not in types:
        return False
    if shape.leaf is not None or depth > MAX_DEPTH:
        return True
    if shape.choices is not None and not is_choice(shape, value):
        return False
    if kind is dict:
        if not _fits_object(shape, value, depth, memo):
            return False
    elif kind is list and not _fits_array(shape, value, depth, memo):
        return False
    if shape.unions or shape.parts:
        return _fits_combined(shape, value, depth, memo)
    return True


def is_choice(shape: Shape, value: Any) -> bool:
    """Whether the value is one of the enum's. As in JSON, 1 and 1.0 are one number, and true is none."""
    if type(value) is str:
        return value in shape.texts
    return any(same(choice, value) for choice in shape.choices or ())


def same(one: Any, other: Any) -> bool:
    """Equality as JSON means it."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    try:
        return bool(one == other)
    except RecursionError:
        return False


def _fits_object(shape: Shape, value: dict[str, Any], depth: int, memo: Memo | None) -> bool:
    for name in shape.required:
        if name not in value:
            return False
    properties = shape.properties
    additional = shape.additional
    for key, item in value.items():
        child = properties.get(key)
        if child is None:
            if additional is None:
                continue
            child = additional
        leaf = child.leaf
        if leaf is not None and type(item) in leaf:
            continue
        if not fits(child, item, depth + 1, memo):
            return False
    return True


def _fits_array(shape: Shape, value: list[Any], depth: int, memo: Memo | None) -> bool:
    for child, item in zip(shape.prefix, value, strict=False):
        if not fits(child, item, depth + 1, memo):
            return False
    items = shape.items
    if items is None:
        return True
    leaf = items.leaf
    for item in value[len(shape.prefix) :] if shape.prefix else value:
        if leaf is not None and type(item) in leaf:
            continue
        if not fits(items, item, depth + 1, memo):
            return False
    return True


def _fits_combined(shape: Shape, value: Any, depth: int, memo: Memo | None) -> bool:
    # Branches may lead to the same places again; asking each question once keeps nested unions from exploding.
    memo = {} if memo is None else memo
    key = (id(shape), id(value))
    known = memo.get(key)
    if known is None:
        memo[key] = True  # Taken for granted while it is being asked: a union that contains itself asks nothing new.
        known = memo[key] = _fits_every(shape, value, depth + 1, memo)
    return known


def _fits_every(shape: Shape, value: Any, depth: int, memo: Memo) -> bool:
    for part in shape.parts:
        if not fits(part, value, depth, memo):
            return False
    for union in shape.unions:
        for branch in union:
            if fits(branch, value, depth, memo):
                break
        else:
            return False
    return True
