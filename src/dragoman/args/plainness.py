"""A quick look at arguments that fit their schema plainly, as most do: no schema needs to be prepared for them."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject

_PLAIN: dict[str, frozenset[type]] = {
    "string": frozenset((str,)),
    "integer": frozenset((int,)),
    "number": frozenset((int, float)),
    "float": frozenset((int, float)),
    "boolean": frozenset((bool,)),
}
_NOTHING: frozenset[type] = frozenset()
_ROOT_KEYS = frozenset(("type", "properties", "required", "description", "title", "additionalProperties", "$schema"))
_PROPERTY_KEYS = frozenset(
    ("type", "description", "title", "default", "items", "enum", "format", "examples", "example")
)


def fits_plainly(arguments: JsonObject, schema: JsonObject) -> bool:
    """Whether every argument is declared with a simple type and has it. A False only means: look closer."""
    if type(schema) is not dict:
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _ROOT_KEYS.issuperset(schema):
        return False
    for name, value in arguments.items():
        declared = properties.get(name)
        if not isinstance(declared, dict) or not _PROPERTY_KEYS.issuperset(declared):
            return False
        if isinstance(value, list):
            if declared.get("type") != "array" or "enum" in declared or not _items_fit(value, declared.get("items")):
                return False
        elif not _scalar_fits(value, declared):
            return False
    return True


def _scalar_fits(value: Any, declared: JsonObject) -> bool:
    kind = declared.get("type")
    if not isinstance(kind, str) or type(value) not in _PLAIN.get(kind, _NOTHING):
        return False
    choices = declared.get("enum")
    return choices is None or (isinstance(value, str) and isinstance(choices, list) and value in choices)


def _items_fit(values: list[Any], declared: Any) -> bool:
    if not isinstance(declared, dict) or not _PROPERTY_KEYS.issuperset(declared):
        return False
    return all(_scalar_fits(value, declared) for value in values)
