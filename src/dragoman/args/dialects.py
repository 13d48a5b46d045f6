"""Schemas as people write them, made into one that the validator takes.

Tool lists come from many hands: types named in Python or Java, tuples in the older spelling, references that lead
nowhere, keywords of the wrong type. What has a clear meaning is translated, what has none is left out, and the rest
of the schema still counts. Nothing is fetched: references outside the schema accept anything.
"""

from __future__ import annotations

from typing import Any

from dragoman.args.schemas import MAX_SCHEMA_DEPTH, kinds_of, resolve

BASE = "dragoman:schema"
"""The address of the schema itself, so that every part of it can be compiled on its own."""

_ONE = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"dependentSchemas", "patternProperties", "properties"})
_NUMBERS = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"})
_COUNTS = frozenset(
    {"maxContains", "maxItems", "maxLength", "maxProperties"}
    | {"minContains", "minItems", "minLength", "minProperties"}
)


def normalise(schema: object) -> Any:
    """The same schema in the validator's own words; references point to `BASE#/$defs/...`."""
    return _Writer(schema).written


class _Writer:
    __slots__ = ("_names", "_root", "_waiting", "written")

    def __init__(self, root: object) -> None:
        self._root = root
        self._names: dict[int, str] = {}
        self._waiting: list[tuple[str, object]] = []
        self.written = self._write(root, 0)
        definitions: dict[str, Any] = {}
        while self._waiting:
            name, target = self._waiting.pop()
            definitions[name] = self._write(target, 0)
        if definitions:
            self.written = {**self.written, "$defs": definitions}

    def _write(self, schema: object, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema is not False
        if depth > MAX_SCHEMA_DEPTH:
            return True
        written: dict[str, Any] = {}
        for key, value in schema.items():
            self._write_keyword(written, key, value, depth + 1)
        self._write_older_spellings(written, schema, depth + 1)
        return _or_null(written) if schema.get("nullable") is True else written

    def _write_keyword(self, written: dict[str, Any], key: str, value: Any, depth: int) -> None:
        if key in _ONE:
            if isinstance(value, dict | bool):
                written[key] = self._write(value, depth)
        elif key in _LISTS:
            if isinstance(value, list) and value:
                written[key] = [self._write(each, depth) for each in value]
        elif key in _MAPS:
            if isinstance(value, dict):
                written[key] = {name: self._write(each, depth) for name, each in value.items()}
        elif key == "$ref":
            self._write_reference(written, value)
        elif key == "type":
            kinds = kinds_of(value)
            if kinds:
                written["type"] = kinds[0] if len(kinds) == 1 else list(kinds)
        elif _is_sound(key, value):
            written[key] = value

    def _write_reference(self, written: dict[str, Any], reference: object) -> None:
        target = resolve(reference, self._root)
        if isinstance(target, dict):
            name = self._names.get(id(target))
            if name is None:
                name = self._names[id(target)] = f"part{len(self._names)}"
                self._waiting.append((name, target))
            written["$ref"] = f"{BASE}#/$defs/{name}"

    def _write_older_spellings(self, written: dict[str, Any], schema: dict[str, Any], depth: int) -> None:
        items = schema.get("items")
        if isinstance(items, list) and items and "prefixItems" not in schema:
            written["prefixItems"] = [self._write(each, depth) for each in items]
            if isinstance(schema.get("additionalItems"), dict | bool):
                written["items"] = self._write(schema["additionalItems"], depth)
        for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if schema.get(exclusive) is True and limit in written:
                written[exclusive] = written.pop(limit)


def _is_sound(key: str, value: Any) -> bool:
    """Whether a keyword that holds no schema has a value that means something."""
    if key in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if key in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if key == "multipleOf":
        return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if key == "required":
        return (
            isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)
        )
    if key == "enum":
        return isinstance(value, list)
    return key == "const" or (key == "pattern" and isinstance(value, str)) or (key == "uniqueItems" and value is True)


def _or_null(written: dict[str, Any]) -> dict[str, Any]:
    """The schema with null allowed, as OpenAPI's `nullable` means it."""
    if not written.keys().isdisjoint(("$ref", "allOf", "anyOf", "oneOf")):
        return {"anyOf": [written, {"type": "null"}]}
    kinds = written.get("type", "null")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "null" not in kinds:
        written["type"] = [*kinds, "null"]
    if "enum" in written and None not in written["enum"]:
        written["enum"] = [*written["enum"], None]
    return written
