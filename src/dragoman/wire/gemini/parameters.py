"""Parameters of declared tools, read as JSON Schema.

The API has a dialect of its own: types in upper case, `nullable` beside them, numbers that may come as text, and
references without the dollar sign. Other wires and the validation of arguments want the standard.
"""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.gemini.words import camel

_DEEPEST = 64
_NESTED = ("items", "additionalProperties")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_RENAMED = {"defs": "$defs", "ref": "$ref"}
_READ = frozenset({"type", "properties", "defs", "anyOf", "ref", *_NESTED, *_COUNTS})
"""Members that mean something else here than in the standard, or may hold such; any other is passed on as it is."""


def read_parameters(declaration: JsonObject) -> JsonObject:
    """The JSON Schema of a declaration, in whichever form it stands there; empty for a tool without parameters."""
    standard = declaration.get("parametersJsonSchema")
    if isinstance(standard, dict):
        return standard
    given = declaration.get("parameters")
    return read_schema(given) if isinstance(given, dict) else {}


def read_schema(given: JsonObject, depth: int = 0) -> JsonObject:
    """A schema of this wire's own dialect as JSON Schema."""
    if depth > _DEEPEST:
        return {}
    schema: JsonObject = {}
    for name, value in camel(given).items():
        if value is not None and name != "nullable":
            schema[_RENAMED.get(name, name)] = _read_member(name, value, depth) if name in _READ else value
    if schema.get("type") == "type_unspecified":
        del schema["type"]
    return _allow_null(schema) if given.get("nullable") is True else schema


def _read_member(name: str, value: Any, depth: int) -> Any:
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _NESTED and isinstance(value, dict):
        return read_schema(value, depth + 1)
    if name in ("properties", "defs") and isinstance(value, dict):
        return {key: read_schema(entry, depth + 1) for key, entry in value.items() if isinstance(entry, dict)}
    if name == "anyOf" and isinstance(value, list):
        return [read_schema(entry, depth + 1) for entry in value if isinstance(entry, dict)]
    if name == "ref" and isinstance(value, str):
        return value.replace("#/defs/", "#/$defs/")
    if name in _COUNTS and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        # 64-bit integers are written as text in the JSON of this API.
        return int(value)
    return value


def _allow_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
        if isinstance(schema.get("enum"), list):
            schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema
