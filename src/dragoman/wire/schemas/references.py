"""Keywords of JSON Schema, references, and merging of schemas."""

from __future__ import annotations

from typing import Any

from dragoman.jsonschema.keywords import is_of, json_text, same
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
