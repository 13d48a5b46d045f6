"""Keywords of JSON Schema, references, and merging of schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any
from urllib.parse import unquote

import msgspec

from dragoman.args.schemas import resolve
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


def json_text(value: Any) -> str:
    """A value as compact JSON; what JSON cannot hold is shown as Python does."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def extend(description: Any, notes: list[str]) -> str:
    """A description with notes in brackets behind it."""
    text = description if isinstance(description, str) else ""
    note = "; ".join(notes)
    if not note:
        return text
    return f"{text} ({note})" if text else f"({note})"


# --------------------------------------------------------------------------------------------------------------------
# The words of JSON Schema: which hold schemas, which speak of one kind of value, and what their values look like.

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
    | {
        "deprecated",
        "readOnly",
        "writeOnly",
        "discriminator",
        "contentEncoding",
        "contentMediaType",
        "propertyOrdering",
    }
)
"""Keywords that ask nothing of a value: leaving them out changes no verdict."""

KIND_OF_KEYWORD: dict[str, str] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"), "array"),
    **dict.fromkeys(("additionalItems", "unevaluatedItems", "minContains", "maxContains"), "array"),
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames", "dependentRequired"), "object"),
    **dict.fromkeys(("dependentSchemas", "unevaluatedProperties", "propertyOrdering"), "object"),
}
"""The kind of value that a keyword speaks of."""

CONSTRAINTS = frozenset(KIND_OF_KEYWORD) | {"type", "enum", "const", "not", "if", "then", "else"}
"""Keywords that narrow what a value may be, unions and references apart."""

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
"""The Python types that the value of a keyword may have; keywords that are not listed take anything."""

_KIND_OF_TYPE: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
    dict: "object",
    list: "array",
}


def kind_of(value: Any) -> str:
    """The JSON Schema name of a value's type."""
    return _KIND_OF_TYPE.get(type(value), "")


def is_of(value: Any, kinds: frozenset[str] | set[str] | list[str]) -> bool:
    """Whether a value has one of these types; whole floats count as integers, integers as numbers."""
    kind = kind_of(value)
    if kind in kinds:
        return True
    if kind == "integer":
        return "number" in kinds
    return kind == "number" and "integer" in kinds and float(value).is_integer()


def same(first: Any, second: Any) -> bool:
    """Equality as JSON sees it: 1 and true differ, at any depth."""
    if type(first) is not type(second):
        numbers = {int, float}
        return type(first) in numbers and type(second) in numbers and bool(first == second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(value, second[key]) for key, value in first.items())
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def child_place(path: str, *steps: str | int) -> str:
    """The JSON path of a place in a schema: `$.properties.id`, `$.anyOf[0]`, `$.properties["odd name"]`."""
    for step in steps:
        if isinstance(step, int):
            path = f"{path}[{step}]"
        elif step.replace("$", "_").isidentifier():
            path = f"{path}.{step}"
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            path = f'{path}["{escaped}"]'
    return path


# --------------------------------------------------------------------------------------------------------------------
# Where references lead: the schemas behind `$ref`, and which of them lead back to themselves.

_MISSING: Any = object()
_MOST_STEPS = 200_000


class ReferenceLimit(Exception):
    """The references of a schema take more steps to follow than any real schema needs."""


class References:
    """The references of one root schema."""

    __slots__ = ("_cyclic", "_found", "_size", "_steps", "root", "takes_null")

    def __init__(self, root: Any) -> None:
        self.root = root
        self._found: dict[str, Any] = {}
        self._cyclic: frozenset[str] | None = None
        self._size = 0
        self._steps = 0
        self.takes_null: dict[str, bool] = {}
        """What is known of the schemas behind references; False while one is looked at, for a circle adds nothing."""

    def has(self, reference: str) -> bool:
        return self._find(reference) is not _MISSING

    def target(self, reference: str) -> Any:
        return self._find(reference)

    def size(self) -> int:
        """How many objects the root holds, of schemas and otherwise."""
        if self._size == 0:
            self._size = sum(1 for _ in self._objects_in(self.root))
        return self._size

    def is_cyclic(self, reference: str) -> bool:
        """Whether following the reference may lead back to it."""
        if self._cyclic is None:
            self._cyclic = self._find_cyclic()
        return reference in self._cyclic

    def _find(self, reference: str) -> Any:
        found = self._found.get(reference, self)
        if found is self:
            found = self._found[reference] = follow(reference, self.root)
        return found

    def _find_cyclic(self) -> frozenset[str]:
        """What is left when all those are taken away that lead nowhere further, and all that nothing leads to."""
        leads_to: dict[str, set[str]] = {}
        waiting = list(self._references_in(self.root))
        while waiting:
            reference = waiting.pop()
            if reference not in leads_to and self.has(reference):
                leads_to[reference] = set(self._references_in(self.target(reference)))
                waiting.extend(leads_to[reference])
        for reference, onward in leads_to.items():
            leads_to[reference] = {each for each in onward if each in leads_to}
        return frozenset(_without_ends(_reversed(_without_ends(leads_to))))

    def _references_in(self, schema: Any) -> Iterator[str]:
        for node in self._objects_in(schema):
            reference = node.get("$ref")
            if isinstance(reference, str):
                yield reference

    def _objects_in(self, schema: Any) -> Iterator[dict[str, Any]]:
        seen: set[int] = set()
        waiting = [schema]
        while waiting:
            node = waiting.pop()
            if not isinstance(node, dict | list) or id(node) in seen:
                continue
            seen.add(id(node))
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise ReferenceLimit
            if isinstance(node, dict):
                yield node
                waiting.extend(node.values())
            else:
                waiting.extend(node)


def _without_ends(leads_to: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without the nodes from which no path goes on for ever."""
    comes_from = _reversed(leads_to)
    open_ways = {node: len(onward) for node, onward in leads_to.items()}
    ends = [node for node, ways in open_ways.items() if not ways]
    gone = set(ends)
    while ends:
        for before in comes_from[ends.pop()]:
            open_ways[before] -= 1
            if not open_ways[before]:
                gone.add(before)
                ends.append(before)
    return {node: onward - gone for node, onward in leads_to.items() if node not in gone}


def _reversed(leads_to: dict[str, set[str]]) -> dict[str, set[str]]:
    comes_from: dict[str, set[str]] = {node: set() for node in leads_to}
    for node, onward in leads_to.items():
        for each in onward:
            comes_from[each].add(node)
    return comes_from


def follow(reference: str, root: Any) -> Any:
    """The schema that a pointer leads to; a private mark when it leads out of the whole, nowhere, or to no schema."""
    node = resolve(reference, root, missing=_MISSING)
    return node if isinstance(node, dict | bool) else _MISSING


def place_of(reference: str) -> str:
    """The JSON path of what a reference points to."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in unquote(reference[1:]).split("/")[1:]]
    return child_place("$", *steps)


def leads_somewhere(reference: str, root: Any) -> bool:
    return follow(reference, root) is not _MISSING


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
