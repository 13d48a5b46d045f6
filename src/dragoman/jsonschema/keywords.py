"""The vocabulary of JSON Schema: its keywords, the kinds of values, and equality of values."""

from __future__ import annotations

from types import NoneType
from typing import Any

import msgspec

# --------------------------------------------------------------------------------------------------------------------
# Keywords: which hold schemas, which constrain one kind of value, and which types their values have.

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object of schemas."""
CHILDREN = frozenset(
    {"items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords whose value is one schema."""
LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""

ANNOTATIONS = frozenset(
    {"title", "$schema", "$id", "$anchor", "$comment", "$vocabulary", "$dynamicAnchor", "examples", "example"}
    | {"deprecated", "readOnly", "writeOnly", "discriminator", "contentEncoding", "contentMediaType"}
    | {"propertyOrdering"}
)
"""Keywords without an effect on validation."""

KIND_OF_KEYWORD: dict[str, str] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"), "array"),
    **dict.fromkeys(("additionalItems", "unevaluatedItems", "minContains", "maxContains"), "array"),
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames", "dependentRequired"), "object"),
    **dict.fromkeys(("dependentSchemas", "unevaluatedProperties", "propertyOrdering"), "object"),
}
"""The kind of value to which a keyword applies."""

CONSTRAINTS = frozenset(KIND_OF_KEYWORD) | {"type", "enum", "const", "not", "if", "then", "else"}
"""Keywords that restrict a value, without unions and references."""

TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})

_TEXT, _FLAG, _WHOLE, _NUMBER = (str,), (bool,), (int,), (int, float)
_SCHEMA, _OBJECT, _LIST = (dict, bool), (dict,), (list,)

WELL_FORMED: dict[str, frozenset[type]] = {
    key: frozenset(types)
    for types, keys in (
        (_TEXT, "title description pattern format $ref $schema $id $anchor $comment"),
        (_FLAG, "uniqueItems nullable deprecated readOnly writeOnly"),
        (_WHOLE, "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains"),
        (_NUMBER, "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
        (_SCHEMA, "items additionalProperties additionalItems contains propertyNames not if then else"),
        (_SCHEMA, "unevaluatedItems unevaluatedProperties"),
        (_OBJECT, "properties patternProperties $defs definitions dependentSchemas dependentRequired"),
        (_LIST, "required enum anyOf oneOf allOf prefixItems examples propertyOrdering"),
    )
    for key in keys.split()
}
"""The Python types that the value of a keyword may have; a keyword that is not listed accepts anything."""


# --------------------------------------------------------------------------------------------------------------------
# Kinds of values.

# Real tool lists are written by hand, for several languages; all of these spellings occur.
_KIND_NAMES = {
    "string": "string str text char varchar",
    "integer": "integer int long short byte bigint",
    "number": "number float double decimal",
    "boolean": "boolean bool",
    "null": "null none nonetype",
    "object": "object dict map hashmap hashtable",
    "array": "array list tuple set arraylist queue stack",
}
KIND_OF_NAME = {name: kind for kind, names in _KIND_NAMES.items() for name in names.split()}

TYPES_OF_KIND: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({NoneType}),
    "object": frozenset({dict}),
    "array": frozenset({list}),
}
KIND_OF_TYPE: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
    dict: "object",
    list: "array",
}


def kinds_of(types: object) -> tuple[str, ...]:
    """Return the kinds in a schema's `type`, in order; () if none is known, which accepts anything."""
    names = types if isinstance(types, list) else [types]
    kinds: dict[str, None] = {}
    for name in names:
        kind = KIND_OF_NAME.get(name.strip().lower()) if isinstance(name, str) else None
        if kind is None:
            return ()
        kinds[kind] = None
    return tuple(kinds)


def kind_of(value: Any) -> str:
    """Return the JSON Schema name of a value's type."""
    return KIND_OF_TYPE.get(type(value), "")


def is_of(value: Any, kinds: frozenset[str] | set[str] | list[str]) -> bool:
    """Whether a value has one of these types; whole floats count as integers, integers as numbers."""
    kind = kind_of(value)
    if kind in kinds:
        return True
    if kind == "integer":
        return "number" in kinds
    return kind == "number" and "integer" in kinds and float(value).is_integer()


def same(first: Any, second: Any) -> bool:
    """Equality as JSON defines it: 1 and 1.0 are the same number, 1 and true differ, at any depth."""
    try:
        return _same(first, second)
    except RecursionError:
        return False


def _same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        numbers = {int, float}
        return type(first) in numbers and type(second) in numbers and bool(first == second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(value, second[key]) for key, value in first.items())
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second)


def key_of(value: Any) -> Any:
    """Return a hashable key that is equal for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return frozenset((name, key_of(member)) for name, member in value.items())
    if isinstance(value, list):
        return tuple(map(key_of, value))
    return (type(value), value) if isinstance(value, bool) else value


# --------------------------------------------------------------------------------------------------------------------
# Values and places as text.


def json_text(value: Any) -> str:
    """Return a value as compact JSON; a value that JSON cannot hold as its `repr`."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def child_path(path: str, key: str | int) -> str:
    """Return the JSON path of a member: `$.a`, `$[0]`, and `$["odd key"]` for a key that is not an identifier."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if key.isidentifier():
        return f"{path}.{key}"
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path}["{escaped}"]'


def child_place(path: str, *steps: str | int) -> str:
    """Return the JSON path of a place in a schema: `$.properties.id`, `$.anyOf[0]`, `$.properties["odd name"]`."""
    for step in steps:
        plain = isinstance(step, str) and step.replace("$", "_").isidentifier()
        path = f"{path}.{step}" if plain else child_path(path, step)
    return path
