"""Keywords of JSON Schema, references, and merging of schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.jsonschema.keywords import ANNOTATIONS, is_of, json_text, same
from dragoman.jsonschema.references import follow
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Constraints in words, for targets that refuse the keyword but show the description to the model.

_LONGEST = 200

_PHRASES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "{} or more characters",
    "maxLength": "{} or fewer characters",
    "minItems": "{} or more items",
    "maxItems": "{} or fewer items",
    "minProperties": "{} or more properties",
    "maxProperties": "{} or fewer properties",
    "uniqueItems": "no item twice",
    "pattern": "pattern: {}",
    "format": "format: {}",
    "default": "default: {}",
    "examples": "examples: {}",
    "example": "example: {}",
    "nullable": "may be null",
    "const": "always {}",
}
_BARE = frozenset({"pattern", "format"})


def phrase(keyword: str, value: Any) -> str:
    """A constraint in a few words; "" when it would take too many."""
    words = value if keyword in _BARE and isinstance(value, str) else json_text(value)
    text = _PHRASES.get(keyword, keyword + ": {}").format(words)
    return text if len(text) <= _LONGEST else ""


def extend(description: Any, notes: list[str]) -> str:
    """A description with notes in brackets behind it."""
    text = description if isinstance(description, str) else ""
    note = "; ".join(notes)
    if not note:
        return text
    return f"{text} ({note})" if text else f"({note})"


# --------------------------------------------------------------------------------------------------------------------
# Two schemas that must both hold, written as one.

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


# --------------------------------------------------------------------------------------------------------------------
# Which branch of a union a value belongs to, by a look that is shallow on purpose.
#
# A deep look at every branch of every nested union would take exponential time for schemas that refer to themselves.

_LEVELS = 2
_MOST_REFERENCES = 8


def fits(value: Any, schema: Any, root: JsonObject, levels: int = _LEVELS) -> bool:
    """Whether a value has the type, the constants and the names of a compiled schema, two levels down."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        schema = follow(schema["$ref"], root)
    if not isinstance(schema, dict):
        return schema is not False
    if value is None and schema.get("nullable") is True:
        return True
    if not _fits_kind(value, schema):
        return False
    if levels == 0:
        return True
    for keyword in ("anyOf", "oneOf"):
        union = schema.get(keyword)
        if isinstance(union, list) and not any(fits(value, branch, root, levels - 1) for branch in union):
            return False
    if isinstance(value, dict):
        return _fits_members(value, schema, root, levels - 1)
    items = schema.get("items")
    if isinstance(value, list) and items is not None:
        return all(fits(item, items, root, levels - 1) for item in value)
    return True


def _fits_kind(value: Any, schema: JsonObject) -> bool:
    kinds = schema.get("type")
    if kinds is not None:
        names = kinds if isinstance(kinds, list) else [kinds]
        if not is_of(value, {name.lower() for name in names if isinstance(name, str)}):
            return False
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(choices, list):
        return True
    return value in choices if isinstance(value, str) else any(same(value, choice) for choice in choices)


def _fits_members(value: JsonObject, schema: JsonObject, root: JsonObject, levels: int) -> bool:
    properties = schema.get("properties")
    known: JsonObject = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    if isinstance(required, list) and not all(name in value for name in required if isinstance(name, str)):
        return False
    if schema.get("additionalProperties") is False and not value.keys() <= known.keys():
        return False
    return all(fits(member, known[name], root, levels) for name, member in value.items() if name in known)
