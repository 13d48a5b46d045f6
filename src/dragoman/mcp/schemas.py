"""Schemas of strangers: checked before they are believed, and their words made fit to be shown.

A schema that is broken, huge, refers to other places or hides characters is not repaired: its tool is left out, and
told why. Everything else of the server stays.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dragoman.mcp.limits import Limits
from dragoman.mcp.texts import clean_line, clean_text, has_hidden
from dragoman.types import JsonObject

_WORDS = frozenset({"description", "title"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# Values that are data: nothing in them is a keyword.
_DATA = frozenset({"const", "default", "enum", "examples", "example", "required"})
# Keywords whose members are named by the author.
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired"})
_WORD_LIMIT = 1000
_OPEN = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "$ref", "$dynamicRef", "allOf", "anyOf"}
    | {"oneOf", "if", "not", "dependentSchemas"}
)

Place = Literal["schema", "map", "data"]


class BadSchema(ValueError):
    """Why a schema is not accepted."""


def accept_schema(schema: Any, limits: Limits) -> JsonObject:
    """A copy of the schema that can be offered to a model. Raises BadSchema."""
    if not isinstance(schema, dict):
        raise BadSchema("its schema is no object")
    if schema.get("type", "object") != "object":
        raise BadSchema("its schema does not describe an object")
    if _depth_of(schema, limits.schema_depth) > limits.schema_depth:
        raise BadSchema(f"its schema is nested deeper than {limits.schema_depth} levels")
    size = len(msgspec.json.encode(schema))
    if size > limits.schema_bytes:
        raise BadSchema(f"its schema has {size} bytes, and at most {limits.schema_bytes} are accepted")
    accepted: JsonObject = {**_accept(schema, "schema"), "type": "object"}
    _compile(accepted)
    if "properties" in accepted and not _OPEN.intersection(accepted):
        # Nothing may reach the server that its schema, and whoever approves the call, does not know.
        accepted["additionalProperties"] = False
    return accepted


def words_in(schema: Any) -> list[str]:
    """Every piece of text in a schema: a model reads all of them."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, dict):
            waiting += [*node.values(), *node]
        elif isinstance(node, list):
            waiting += node
    return found


def _depth_of(schema: Any, most: int) -> int:
    """How deep a value is nested, counted no further than one beyond `most`."""
    level, depth = [schema], 0
    while level and depth <= most:
        level = [
            inner
            for node in level
            for inner in (node.values() if isinstance(node, dict) else node)
            if isinstance(inner, dict | list)
        ]
        depth += 1
    return depth


def _accept(node: Any, place: Place) -> Any:
    """A copy with clean words. Bounded in depth: that was looked at before."""
    if isinstance(node, str):
        if has_hidden(node):
            raise BadSchema(f"its schema hides characters in {clean_line(node, 60)!r}")
        return node
    if isinstance(node, list):
        return [_accept(each, "data" if place == "data" else "schema") for each in node]
    if not isinstance(node, dict):
        return node
    accepted = {}
    for key, value in node.items():
        if has_hidden(key):
            raise BadSchema(f"its schema hides characters in the name {clean_line(key, 60)!r}")
        if place == "schema":
            if key in _WORDS and isinstance(value, str):
                accepted[key] = clean_text(value, _WORD_LIMIT)
                continue
            if key == "$comment":
                continue
            if key in _REFERENCES and not (isinstance(value, str) and value.startswith("#")):
                raise BadSchema(f"its schema refers to another place: {clean_line(str(value), 100)!r}")
        accepted[key] = _accept(value, _place_of(key, place))
    return accepted


def _place_of(key: str, place: Place) -> Place:
    if place == "data" or (place == "schema" and key in _DATA):
        return "data"
    return "map" if place == "schema" and key in _MAPS else "schema"


def _compile(schema: JsonObject) -> None:
    """Have the engine read the schema: types, patterns and references are then known to make sense."""
    from jsonschema_rs import ReferencingError, ValidationError, validator_for

    try:
        validator_for(schema, retriever=_refuse_to_fetch, validate_formats=False)
    except (ValidationError, ReferencingError) as problem:
        why = getattr(problem, "message", "") or str(problem)
        raise BadSchema(f"its schema is no valid JSON Schema: {clean_line(why, 160)}") from None
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as problem:
        raise BadSchema(f"its schema cannot be read: {clean_line(str(problem), 160)}") from None


def _refuse_to_fetch(address: str) -> Any:
    raise LookupError(f"{address} is elsewhere")
