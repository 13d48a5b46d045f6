"""Two schemas that must both hold, written as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.schemas.vocabulary import ANNOTATIONS, is_of, same
from dragoman.wire.schemas.wording import json_text

_MOST_BRANCHES = 16
"""Two unions become one with every pairing of their branches; more pairings than this are not written."""

Conflict = Callable[[str], None]
"""Told the keyword of which only one side could be kept."""


def merge(under: JsonObject, over: JsonObject, conflict: Conflict) -> JsonObject | None:
    """What holds when both hold; None when nothing can. Descriptions and the like are taken from `over`."""
    merged = dict(under)
    for key, value in over.items():
        if key not in merged or key in _PREFERRED or same(merged[key], value):
            merged[key] = value
            continue
        join = _JOINS.get(key)
        if join is None:
            conflict(key)
            continue
        joined = join(merged[key], value)
        if joined is _IMPOSSIBLE:
            return None
        if joined is _UNSAID:
            conflict(key)
        else:
            merged[key] = joined
    if _contradicts(merged) and not _contradicts(under) and not _contradicts(over):
        return None
    return _with_fitting_choices(merged)


def _contradicts(node: JsonObject) -> bool:
    """Whether no choice is of a type that is allowed."""
    choices = [node["const"]] if "const" in node else node.get("enum")
    kinds = node.get("type")
    if choices is None or kinds is None:
        return False
    return not any(is_of(value, kinds if isinstance(kinds, list) else [kinds]) for value in choices)


_IMPOSSIBLE: Any = object()
_UNSAID: Any = object()
_PREFERRED = ANNOTATIONS | {"description", "default"}


def _both(first: Any, second: Any) -> Any:
    """Both of two schemas, left to be merged when that place is reached."""
    if first is False or second is False:
        return False
    if first is True:
        return second
    return first if second is True else {"allOf": [first, second]}


def _join_members(first: JsonObject, second: JsonObject) -> JsonObject:
    joined = dict(first)
    for name, schema in second.items():
        joined[name] = _both(joined[name], schema) if name in joined else schema
    return joined


def _join_types(first: Any, second: Any) -> Any:
    ours = first if isinstance(first, list) else [first]
    theirs = second if isinstance(second, list) else [second]
    common = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    common += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in common]
    if not common:
        return _IMPOSSIBLE
    return common[0] if len(common) == 1 else common


def _join_choices(first: list[Any], second: list[Any]) -> Any:
    allowed = {json_text(value) for value in second}
    return [value for value in first if json_text(value) in allowed] or _IMPOSSIBLE


def _join_unions(first: list[Any], second: list[Any]) -> Any:
    if len(first) * len(second) > _MOST_BRANCHES:
        return _UNSAID
    return [_both(one, other) for one in first for other in second]


def _join_names(first: list[Any], second: list[Any]) -> list[Any]:
    return [*first, *(name for name in second if name not in first)]


def _join_negations(first: Any, second: Any) -> JsonObject:
    return {"anyOf": [first, second]}


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _join_types,
    "enum": _join_choices,
    "const": lambda first, second: _IMPOSSIBLE,
    "required": _join_names,
    "properties": _join_members,
    "patternProperties": _join_members,
    "$defs": lambda first, second: {**second, **first},
    "definitions": lambda first, second: {**second, **first},
    "additionalProperties": _both,
    "items": _both,
    "contains": _both,
    "propertyNames": _both,
    "anyOf": _join_unions,
    "oneOf": _join_unions,
    "allOf": lambda first, second: [*first, *second],
    "not": _join_negations,
    "uniqueItems": lambda first, second: first or second,
    "nullable": lambda first, second: first and second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def _with_fitting_choices(merged: JsonObject) -> JsonObject | None:
    """An enum and a const that came together from two sides: only what both allow."""
    if "enum" not in merged or "const" not in merged:
        return merged
    const = merged["const"]
    if not any(same(const, value) for value in merged["enum"]):
        return None
    return {key: value for key, value in merged.items() if key != "enum"}
