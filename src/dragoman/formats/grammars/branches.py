"""What a schema allows, taken apart: one branch for each kind of value and each constant.

References are followed, unions are spread out, `allOf` is merged. What a grammar cannot say is left out and reported,
so that whoever uses the grammar knows what still has to be validated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from dragoman.args.schemas import KIND_OF_TYPE, kinds_of, resolve
from dragoman.formats.grammars.merging import merge, sound
from dragoman.types import JsonObject

KINDS = ("string", "integer", "number", "boolean", "null", "object", "array")
LITERAL = "literal"
_HINTS = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_UNSAID = {
    "string": ("contentEncoding",),
    "integer": ("multipleOf",),
    "number": ("multipleOf",),
    "object": (
        "minProperties",
        "maxProperties",
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
    ),
    "array": ("uniqueItems", "contains", "unevaluatedItems"),
}
_ANYWHERE = ("not", "if")
_MOST_BRANCHES = 200
_PATIENCE = 1000

Report = Callable[[str, str, str], None]
"""Takes the path of a place, the keyword and what became of it."""


class Branch(Struct, frozen=True):
    """One kind of value with the schema that speaks about it; of a constant the value itself."""

    kind: str
    schema: JsonObject
    value: Any = None


class Place(Struct, frozen=True):
    """Where in the schema we are, and how often references may still lead into themselves from here."""

    path: str
    room: int
    above: tuple[int, ...] = ()

    def child(self, name: str) -> Place:
        return Place(f"{self.path}.{name}", self.room, self.above)

    def enter(self, target: JsonObject) -> Place | None:
        """The place behind a reference; None if there is no room to go in once more."""
        again = id(target) in self.above
        if again and not self.room:
            return None
        return Place(self.path, self.room - again, (*self.above, id(target)))


class Branches:
    """Takes the schemas of one tool apart."""

    def __init__(self, root: JsonObject, report: Report) -> None:
        self.root = root
        self.report = report
        self._patience = 0

    def of(self, schema: object, place: Place) -> list[tuple[Branch, Place]]:
        """The branches of a schema, each with the place from which its own parts are to be read."""
        # No further than that: unions inside of unions multiply, and may lead nowhere.
        self._patience = _PATIENCE
        found = list(islice(self._spread(schema, place, 0), _MOST_BRANCHES + 1))
        if len(found) > _MOST_BRANCHES:
            self.report(place.path, "anyOf", f"only the first {_MOST_BRANCHES} alternatives are offered")
        return found[:_MOST_BRANCHES]

    def target(self, reference: object) -> JsonObject | None:
        found = resolve(reference, self.root)
        return found if isinstance(found, dict) else None

    def _spread(self, schema: object, place: Place, depth: int) -> Iterator[tuple[Branch, Place]]:
        if not isinstance(schema, dict):
            if schema is not False:
                yield from ((Branch(kind, {}), place) for kind in KINDS if kind != "integer")
            return
        self._patience -= 1
        if depth > 30 or self._patience < 0:
            self.report(place.path, "$ref", "too many unions inside each other; the rest is left out")
            return
        schema = sound(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self._follow(schema, reference, place, depth)
        elif isinstance(union := schema.get("anyOf", schema.get("oneOf")), list) and union:
            keyword = "anyOf" if "anyOf" in schema else "oneOf"
            rest = {key: value for key, value in schema.items() if key != keyword}
            for each in union:
                yield from self._spread(self._join(rest, each, place), place, depth + 1)
            if keyword == "oneOf" and not _are_disjoint(union, self.target):
                self.report(place.path, "oneOf", "read as anyOf: a value may fit more than one alternative")
        elif isinstance(schema.get("allOf"), list):
            yield from self._merge_all(schema, place, depth)
        else:
            yield from self._kinds(schema, place)

    def _follow(self, schema: JsonObject, reference: str, place: Place, depth: int) -> Iterator[tuple[Branch, Place]]:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        target = self.target(reference)
        if target is None:
            self.report(place.path, "$ref", f"{reference!r} leads nowhere; anything is accepted")
            yield from self._spread(rest, place, depth + 1)
            return
        inside = place.enter(target)
        if inside is not None:
            yield from self._spread(self._join(rest, target, place), inside, depth + 1)

    def _merge_all(self, schema: JsonObject, place: Place, depth: int) -> Iterator[tuple[Branch, Place]]:
        merged: object = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            while isinstance(part, dict) and isinstance(part.get("$ref"), str):
                target = self.target(part["$ref"])
                inside = None if target is None else place.enter(target)
                if target is None or inside is None:
                    return
                part, place = self._join({k: v for k, v in part.items() if k != "$ref"}, target, place), inside
            merged = self._join(merged, part, place)
        yield from self._spread(merged, place, depth + 1)

    def _join(self, one: object, other: object, place: Place) -> object:
        return merge(one, other, lambda keyword, why: self.report(place.path, keyword, why))

    def _kinds(self, schema: JsonObject, place: Place) -> Iterator[tuple[Branch, Place]]:
        kinds = kinds_of(schema["type"]) if "type" in schema else ()
        if "const" in schema or isinstance(schema.get("enum"), list):
            yield from self._literals(schema, kinds, place)
            return
        if schema.get("nullable") is True and "null" not in kinds and kinds:
            kinds = (*kinds, "null")
        kinds = kinds or _guess_kinds(schema) or tuple(kind for kind in KINDS if kind != "integer")
        if "number" in kinds:
            kinds = tuple(kind for kind in kinds if kind != "integer")
        for kind in kinds:
            for keyword in (*_UNSAID.get(kind, ()), *_ANYWHERE):
                if schema.get(keyword) not in (None, False):
                    self.report(place.path, keyword, "not held by the grammar")
            yield Branch(kind, schema), place

    def _literals(self, schema: JsonObject, kinds: tuple[str, ...], place: Place) -> Iterator[tuple[Branch, Place]]:
        values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]]
        if schema.get("nullable") is True and None not in values:
            values = [*values, None]
            kinds = (*kinds, "null") if kinds else ()
        for value in values:
            kind = KIND_OF_TYPE.get(type(value))
            if kind is not None and (not kinds or kind in kinds or (kind == "integer" and "number" in kinds)):
                if "const" in schema and not _same(value, schema["const"]):
                    continue
                yield Branch(LITERAL, schema, value), place


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _guess_kinds(schema: JsonObject) -> tuple[str, ...]:
    return tuple(kind for kind, keywords in _HINTS.items() if any(key in schema for key in keywords))


def _are_disjoint(union: list[Any], target: Callable[[object], JsonObject | None]) -> bool:
    """Whether it is plain that no value fits two of the alternatives."""
    looked_up = [target(each["$ref"]) if isinstance(each, dict) and "$ref" in each else each for each in union]
    return all(_differ(one, other) for index, one in enumerate(looked_up) for other in looked_up[index + 1 :])


def _differ(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    values, others = _values(one), _values(other)
    if values is not None and others is not None:
        return not any(_same(value, another) for value in values for another in others)
    kinds, other_kinds = kinds_of(one.get("type")), kinds_of(other.get("type"))
    if kinds and other_kinds and not (_widen(kinds) & _widen(other_kinds)):
        return True
    return kinds == other_kinds == ("object",) and _told_apart(one, other)


def _values(schema: JsonObject) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def _widen(kinds: tuple[str, ...]) -> set[str]:
    return {"number" if kind == "integer" else kind for kind in kinds}


def _told_apart(one: JsonObject, other: JsonObject) -> bool:
    """Two objects of which a required member is a different constant in each."""
    required = set(one.get("required") or ()) & set(other.get("required") or ())
    members, others = one.get("properties") or {}, other.get("properties") or {}
    return any(
        _differ(members[key], others[key])
        for key in sorted(required)
        if key in members and key in others and _values(members[key]) and _values(others[key])
    )
