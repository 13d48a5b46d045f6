"""Conversion of schema dialects to standard JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.jsonschema.keywords import CHILDREN, LISTS, MAPS, TYPES, WELL_FORMED, kinds_of
from dragoman.jsonschema.references import MOST_DEPTH, resolve
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Conversion of any schema to one that the validator accepts.
#
# Tool lists have many authors: they contain types of Python or Java, tuples in the older spelling, references that do
# not resolve, keywords of the wrong type. Parts with a clear meaning are translated, parts without one are left out,
# and the rest of the schema still counts. Nothing is fetched: references outside the schema accept anything.

BASE = "dragoman:schema"
"""The address of the schema itself, so that every part of it can be compiled on its own."""

# Definitions are copied when a reference points to them, and `additionalItems` belongs to the older spelling.
_ONE = CHILDREN - {"additionalItems"}
_MAPS = MAPS - {"$defs", "definitions"}
_COUNTS = frozenset(key for key, types in WELL_FORMED.items() if types == {int})
_KEPT = _COUNTS | {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "enum", "const", "pattern"}


def normalise(schema: object) -> Any:
    """Return an equivalent schema for the validator; references point to `BASE#/$defs/...`."""
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
        if depth > MOST_DEPTH:
            return True
        written: dict[str, Any] = {}
        for key, value in schema.items():
            today = read_older_spelling(key, value, schema)
            for name, each in ({key: value} if today is None else today).items():
                self._write_keyword(written, name, each, depth + 1)
        return _or_null(written) if schema.get("nullable") is True else written

    def _write_keyword(self, written: dict[str, Any], key: str, value: Any, depth: int) -> None:
        if key in _ONE:
            if isinstance(value, dict | bool):
                written[key] = self._write(value, depth)
        elif key in LISTS:
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


def read_older_spelling(key: str, value: Any, schema: JsonObject) -> JsonObject | None:
    """Translate an older spelling: a tuple as `items`, a flag for an exclusive limit; None for anything else."""
    if key == "items" and isinstance(value, list):
        today: JsonObject = {} if "prefixItems" in schema else {"prefixItems": value}
        if isinstance(schema.get("additionalItems"), dict | bool):
            today["items"] = schema["additionalItems"]
        return today
    if key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
        bound = schema.get("minimum" if key == "exclusiveMinimum" else "maximum")
        return {key: bound} if value and type(bound) in (int, float) else {}
    return None


def _is_sound(key: str, value: Any) -> bool:
    """Whether a keyword that contains no schema has a valid value."""
    if key in WELL_FORMED and type(value) not in WELL_FORMED[key]:
        return False
    match key:
        case "required":
            return _are_names(value)
        case "dependentRequired":
            return all(map(_are_names, value.values()))
        case "multipleOf":
            return bool(value > 0)
        case "uniqueItems":
            return bool(value)
    return key in _KEPT and (key not in _COUNTS or value >= 0)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _or_null(written: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with null allowed, as OpenAPI's `nullable` defines it."""
    if not written.keys().isdisjoint(("$ref", "allOf", "anyOf", "oneOf", "const")):
        return {"anyOf": [written, {"type": "null"}]}
    kinds = written.get("type", "null")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "null" not in kinds:
        written["type"] = [*kinds, "null"]
    if "enum" in written and None not in written["enum"]:
        written["enum"] = [*written["enum"], None]
    return written


# --------------------------------------------------------------------------------------------------------------------
# Cleanup of one node of a schema, with a report of every change.

_NEEDED = frozenset({"allOf", "anyOf", "oneOf", "enum", "required", "properties"})

Report = Callable[[str, str], None]
"""Takes the name of a rule and a description of the change."""


def sound(schema: JsonObject) -> JsonObject:
    """Return the schema without keywords that have an invalid value: they have no meaning."""
    wrong = [
        keyword for keyword, value in schema.items() if (keyword in _NEEDED and type(value) not in WELL_FORMED[keyword])
    ]
    return {keyword: value for keyword, value in schema.items() if keyword not in wrong} if wrong else schema


def tidy(schema: JsonObject, path: str, report: Report, *, upper: bool = False) -> JsonObject:
    """Return a copy in which every known keyword has a valid value; what cannot be corrected is left out."""
    node: JsonObject = {}
    for key, value in schema.items():
        if key == "type":
            _tidy_type(value, node, path, report, upper)
            continue
        types = WELL_FORMED.get(key)
        if types is None or type(value) in types:
            node[key] = value
        elif not _mend(key, value, schema, node, path, report):
            report("dropped", f"dropped {key} at {path}: its value is no proper one")
    required = node.get("required")
    if required is not None and not all(isinstance(name, str) for name in required):
        report("dropped", f"dropped what is no name from required at {path}")
        node["required"] = [name for name in required if isinstance(name, str)]
    for key in ("anyOf", "oneOf", "allOf"):
        if node.get(key) == []:
            report("dropped", f"dropped {key} at {path}: it is empty")
            del node[key]
    return node


def _tidy_type(value: Any, node: JsonObject, path: str, report: Report, upper: bool) -> None:
    if isinstance(value, str) and value in TYPES:
        node["type"] = value
        return
    kinds = kinds_of(value) if value != [] else ()
    if not kinds:
        report("dropped", f"dropped type at {path}: it names none that JSON Schema knows")
        return
    node["type"] = kinds[0] if len(kinds) == 1 else list(kinds)
    if node["type"] == value or [*kinds] == value:
        return
    if not (upper and isinstance(value, str) and value == kinds[0].upper()):
        report("rewritten", f"rewrote type at {path} as {', '.join(kinds)}")


def _mend(key: str, value: Any, schema: JsonObject, node: JsonObject, path: str, report: Report) -> bool:
    today = read_older_spelling(key, value, schema)
    if today is not None:
        node.update(today)
        if today:
            report("rewritten", f"rewrote {key} at {path} as {'prefixItems' if key == 'items' else 'a number'}")
        return True
    if key in WELL_FORMED and type(value) is float and value.is_integer() and int in WELL_FORMED[key]:
        node[key] = int(value)
        return True
    return False
