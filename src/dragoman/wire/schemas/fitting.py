"""Which branch of a union a value belongs to, by a look that is shallow on purpose.

A deep look at every branch of every nested union would take exponential time for schemas that refer to themselves.
"""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.schemas.pointers import follow
from dragoman.wire.schemas.vocabulary import is_of, same

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
