"""Arguments against their schema: most fit plainly, and only the others are worth preparing the schema for."""

from __future__ import annotations

from typing import Any

from dragoman.args.coerce import coerce
from dragoman.types import Change, JsonObject

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


def fit(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[Change, ...]]:
    """The arguments as the schema wants them, and what was changed for that."""
    if not schema or _fits_plainly(arguments, schema):
        return arguments, ()
    coerced = coerce(arguments, schema)
    return (coerced.value, coerced.changes) if isinstance(coerced.value, dict) else (arguments, ())


def _fits_plainly(arguments: JsonObject, schema: JsonObject) -> bool:
    """Whether every argument is declared with a simple type and has it. A False only means: look closer."""
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
