"""Two schemas that must both hold, as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.args.schemas import kinds_of
from dragoman.types import JsonObject

_WORDS = frozenset(
    {"title", "description", "default", "examples", "example", "$schema", "$id", "$defs", "definitions", "$comment"}
    | {"deprecated", "readOnly", "writeOnly", "discriminator"}
)
_LARGER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


_LISTS = frozenset({"allOf", "anyOf", "oneOf", "enum", "required"})


def sound(schema: JsonObject) -> JsonObject:
    """The schema without keywords that hold something else than they must: those mean nothing."""
    wrong = [
        keyword
        for keyword, value in schema.items()
        if (keyword in _LISTS and not isinstance(value, list))
        or (keyword == "properties" and not isinstance(value, dict))
    ]
    return {keyword: value for keyword, value in schema.items() if keyword not in wrong} if wrong else schema


def merge(one: object, other: object, report: Callable[[str, str], None]) -> object:
    """The schema that accepts what both accept; a keyword that cannot be joined keeps its first meaning."""
    if one is False or other is False:
        return False
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other if isinstance(other, dict) else one
    merged: JsonObject = dict(sound(one))
    for keyword, value in sound(other).items():
        if keyword not in merged or merged[keyword] == value:
            merged[keyword] = value
        elif keyword not in _WORDS:
            _join(merged, keyword, value, report)
    return False if merged.get("type") == [] or merged.get("enum") == [] else merged


def _join(merged: JsonObject, keyword: str, value: Any, report: Callable[[str, str], None]) -> None:
    before = merged[keyword]
    if keyword == "type":
        merged["type"] = _common_kinds(kinds_of(before), kinds_of(value))
    elif keyword == "properties" and isinstance(before, dict) and isinstance(value, dict):
        merged["properties"] = {
            **before,
            **{key: merge(before[key], each, report) if key in before else each for key, each in value.items()},
        }
    elif keyword == "required" and isinstance(before, list) and isinstance(value, list):
        merged["required"] = list(dict.fromkeys([*before, *value]))
    elif keyword == "enum" and isinstance(before, list) and isinstance(value, list):
        merged["enum"] = [each for each in before if each in value]
    elif keyword in _LARGER | _SMALLER and _is_number(before) and _is_number(value):
        merged[keyword] = max(before, value) if keyword in _LARGER else min(before, value)
    elif keyword == "items":
        merged["items"] = merge(before, value, report)
    elif keyword in ("anyOf", "oneOf", "allOf", "$ref"):
        # One union stays where it is, the other is merged into each of its branches later on.
        merged["allOf"] = [*merged.get("allOf", ()), {keyword: value}]
    elif keyword == "additionalProperties":
        merged[keyword] = False if False in (before, value) else before
    else:
        report(keyword, "stated twice in different ways; the second is not held")


def _common_kinds(one: tuple[str, ...], other: tuple[str, ...]) -> list[str]:
    if not one or not other:
        return list(one or other)
    found = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    return found + (["integer"] if "integer" in other and "number" in one and "integer" not in found else [])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
