"""The grammar of values: what a schema allows, in the notation of a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman.args.loader import validate
from dragoman.formats.grammars.nodes import (
    EMPTY,
    NEVER,
    Limits,
    Node,
    Notation,
    Rules,
    Text,
    choice,
    maybe,
    repeat,
    row,
)
from dragoman.formats.grammars.patterns import bounds_of, form, integer, translate, whole_or_fraction
from dragoman.jsonschema.dialect import sound
from dragoman.jsonschema.keywords import KIND_OF_TYPE, kinds_of
from dragoman.jsonschema.merge import merge
from dragoman.jsonschema.references import Budget, resolve
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The branches of a schema: one for each kind of value and each constant.
#
# References are followed, unions are expanded, `allOf` is merged. What a grammar cannot express is left out and
# reported as a loss, so that the caller knows what validation must still check.

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
_MERGED_LATER = frozenset({"anyOf", "oneOf", "$ref"})
_MOST_BRANCHES = 200
_MOST_STEPS = 1000
_MOST_LEVELS = 30
_MOST_VALUES = 4000
"""More values than the schemas of one tool describe, with their references expanded."""

Report = Callable[[str, str, str], None]
"""Takes the path in the schema, the keyword, and what the grammar does instead."""


class Branch(Struct, frozen=True):
    """One kind of value with its schema; for a constant, the value itself."""

    kind: str
    schema: JsonObject
    value: Any = None


class Place(Struct, frozen=True):
    """A place in the schema, and how often a recursive reference may still be followed from here."""

    path: str
    room: int
    above: tuple[int, ...] = ()

    def child(self, name: str) -> Place:
        return Place(f"{self.path}.{name}", self.room, self.above)

    def enter(self, target: JsonObject) -> Place | None:
        """Return the place that a reference points to; None if the recursion limit is reached."""
        again = id(target) in self.above
        if again and not self.room:
            return None
        return Place(self.path, self.room - again, (*self.above, id(target)))


class Branches:
    """Splits the schemas of one tool into branches."""

    def __init__(self, root: JsonObject, report: Report) -> None:
        self.root = root
        self.report = report
        self.budget = Budget(_MOST_VALUES)
        """How many values of this tool may still be expanded."""
        self._steps = Budget(_MOST_STEPS, _MOST_LEVELS)

    def of(self, schema: object, place: Place) -> list[tuple[Branch, Place]]:
        """Return the branches of a schema, each with the place for its own parts."""
        # The number is limited: nested unions multiply, and may accept nothing.
        self._steps = Budget(_MOST_STEPS, _MOST_LEVELS)
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
        if not self._steps.allows(depth):
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
            self.report(place.path, "$ref", f"{reference!r} does not resolve; anything is accepted")
            yield from self._spread(rest, place, depth + 1)
            return
        inside = place.enter(target)
        if inside is not None:
            yield from self._spread(self._join(rest, target, place), inside, depth + 1)

    def _merge_all(self, schema: JsonObject, place: Place, depth: int) -> Iterator[tuple[Branch, Place]]:
        merged: object = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            while isinstance(part, dict) and isinstance(part.get("$ref"), str):
                rest = {key: value for key, value in part.items() if key != "$ref"}
                target = self.target(part["$ref"])
                if target is None:
                    self.report(place.path, "$ref", f"{part['$ref']!r} does not resolve; anything is accepted")
                    part = rest
                    continue
                inside = place.enter(target)
                if inside is None:
                    return
                part, place = self._join(rest, target, place), inside
            merged = self._join(merged, part, place)
        yield from self._spread(merged, place, depth + 1)

    def _join(self, one: object, other: object, place: Place) -> object:
        left: list[JsonObject] = []
        merged = merge(one, other, left.append)
        for each in left if isinstance(merged, dict) else ():
            if each.keys() <= _MERGED_LATER:
                # It is merged into each branch of the existing union, or of the reference.
                merged["allOf"] = [*merged.get("allOf", ()), each]
                continue
            for keyword in each:
                self.report(place.path, keyword, "stated twice with different values; the second is not enforced")
        return merged

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
                    self.report(place.path, keyword, "not enforced by the grammar")
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
    """Whether it is certain that no value fits two of the alternatives."""
    looked_up = [target(each["$ref"]) if isinstance(each, dict) and "$ref" in each else each for each in union]
    return all(_differ(one, other) for index, one in enumerate(looked_up) for other in looked_up[index + 1 :])


def _differ(one: Any, other: Any) -> bool:
    """Whether a part of one excludes a part of the other; the branches of two unions are merged in pairs."""
    return any(_exclude(part, another) for part in _parts(one) for another in _parts(other))


def _parts(schema: Any) -> list[Any]:
    parts = schema.get("allOf") if isinstance(schema, dict) else None
    return [schema, *parts] if isinstance(parts, list) else [schema]


def _exclude(one: Any, other: Any) -> bool:
    """Whether no value fits both: no value at all, or no object, because a member that both require cannot fit both."""
    merged = merge(one, other, lambda left: None)
    if not isinstance(merged, dict) or not kinds_of(one.get("type")) == kinds_of(other.get("type")) == ("object",):
        return merged is False
    required = set(one.get("required") or ()) & set(other.get("required") or ())
    members, others = one.get("properties") or {}, other.get("properties") or {}
    return any(key in members and key in others and _differ(members[key], others[key]) for key in sorted(required))


# --------------------------------------------------------------------------------------------------------------------
# The values that a schema allows, in a notation.

_SAID_BY_LITERALS = frozenset({"type", "enum", "const", "title", "description", "default", "nullable", "examples"})


_WORDS = frozenset({"title", "description", "default", "examples"})
_MOST_CHARACTERS = 20_000
_MOST_ITEMS = 1000
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


class Member(Struct, frozen=True):
    """A property of an object."""

    key: str
    schema: object
    required: bool
    place: Place


def members_of(schema: JsonObject, place: Place) -> list[Member] | None:
    """Return the members of an object, in the order of the schema; None if the schema names none."""
    properties = schema.get("properties")
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    known = properties if isinstance(properties, dict) else {}
    if not known and not names:
        additional = schema.get("additionalProperties")
        closed = additional is False or (isinstance(properties, dict) and additional is None)
        return [] if closed else None
    free = schema.get("additionalProperties", True)
    keys = [*known, *(name for name in names if name not in known)]
    wanted = frozenset(names)
    return [Member(key, known.get(key, free), key in wanted, place.child(key)) for key in keys]


class SchemaCache:
    """A cache of the grammars of schemas: many tools contain the same schemas."""

    def __init__(self, losses: Sized) -> None:
        self._losses = losses
        self._known: dict[tuple[str, bytes], Any] = {}

    def recall(self, kind: str, schema: object, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached unless it depends on the place: through references, or through losses."""
        if not isinstance(schema, dict):
            return make()
        try:
            text = _encode({key: value for key, value in schema.items() if key not in _WORDS})
        except (TypeError, ValueError, RecursionError):
            return make()
        if b"$ref" in text:
            return make()
        found: T | None = self._known.get((kind, text))
        if found is None:
            before = len(self._losses)
            found = make()
            if len(self._losses) == before:
                self._known[kind, text] = found
        return found


class Values:
    """The values of one tool's schemas."""

    def __init__(
        self, branches: Branches, rules: Rules, limits: Limits, notation: Notation, memory: SchemaCache
    ) -> None:
        self.memory = memory
        self.branches = branches
        self.rules = rules
        self.limits = limits
        self.notation = notation
        self._known: dict[tuple[int, int], Node] = {}
        self._free: dict[int, Node] = {}

    def value(self, schema: object, place: Place) -> Node:
        """Return the grammar of all values that the schema allows."""
        if not isinstance(schema, dict):
            return NEVER if schema is False else self._anything(place)
        reference = schema.get("$ref")
        if isinstance(reference, str) and schema.keys() - _WORDS == {"$ref"}:
            return self._referenced(schema, reference, place)
        if not schema.keys() - _WORDS:
            return self._anything(place)
        return self.memory.recall(self.notation.name, schema, lambda: self._spread(schema, place))

    def _spread(self, schema: JsonObject, place: Place) -> Node:
        budget = self.branches.budget
        if not budget.allows():
            why = f"more than {budget.nodes} values once its references are expanded; anything is accepted"
            self.branches.report(place.path, "$ref", why)
            return self.free(self.limits.depth)
        return choice(self.branch(branch, inside) for branch, inside in self.branches.of(schema, place))

    def _referenced(self, schema: JsonObject, reference: str, place: Place) -> Node:
        """Return the rule of a definition. There is one for each depth, shared by all references."""
        target = self.branches.target(reference)
        key = (id(target), place.room - (id(target) in place.above))
        if target is None or key not in self._known:
            self._known[key] = self.rules.define(reference.rpartition("/")[2] or "part", self._spread(schema, place))
        return self._known[key]

    def branch(self, branch: Branch, place: Place) -> Node:
        """Return the grammar of one branch."""
        kind, schema = branch.kind, branch.schema
        if kind == "string":
            return self.string(schema, place)
        if kind == "object":
            return self._object(schema, place)
        if kind == "array":
            return self._array(schema, place)
        if kind == LITERAL:
            return self.literal(branch, place)
        return self.rules.define(kind, choice(self.scalars(kind, schema)))

    def scalars(self, kind: str, schema: JsonObject) -> tuple[Node, ...]:
        """Return numbers, booleans and null; a number that is not an integer comes second."""
        if kind == "integer":
            return (integer(*bounds_of(schema)),)
        if kind == "number":
            return whole_or_fraction(*bounds_of(schema))
        words = (self.notation.true, self.notation.false) if kind == "boolean" else (self.notation.null,)
        return tuple(map(Text, words))

    def literal(self, branch: Branch, place: Place) -> Node:
        """Return a constant, if it fits the rest of the schema and can be written here."""
        if branch.schema.keys() - _SAID_BY_LITERALS and validate(branch.value, branch.schema):
            return NEVER
        found = self.notation.literal(branch.value)
        if found is None:
            self.branches.report(place.path, "enum", f"{branch.value!r} cannot be written in this format")
        return found or NEVER

    def _bounds(self, schema: JsonObject, place: Place, what: str, counted: int) -> tuple[int, int | None]:
        """Return the minimum and maximum of a schema. A very large maximum is replaced by our own limit."""
        least, most = count(schema, f"min{what}") or 0, count(schema, f"max{what}")
        if least > counted:
            self.branches.report(place.path, f"min{what}", f"only up to {counted} are counted")
        return min(least, counted), None if most is not None and most > counted else most

    # ---- texts ---------------------------------------------------------------------------------------------------

    def string(self, schema: JsonObject, place: Place) -> Node:
        """Return a string, by its form or by its length."""
        least, most = self._bounds(schema, place, "Length", _MOST_CHARACTERS)
        known = form(str(schema.get("format")))
        if "pattern" in schema:
            known = self._pattern(schema, place) or known
        elif "format" in schema and known is None:
            self.branches.report(place.path, "format", f"{schema['format']!r} is not known; any string is accepted")
        if known is not None:
            if least or most is not None:
                self.branches.report(place.path, "maxLength", "only the form of the string is enforced, not its length")
            return self.rules.define("form", self.notation.form(known))
        if most is not None and most < least:
            return NEVER
        limit = self.limits.characters
        if most is None and limit is None and "maxLength" in schema:
            most = _MOST_CHARACTERS
        if most is None and limit is not None:
            return self.rules.define("text", self.notation.text(least, max(limit, least), exact=False))
        return self.rules.define("text", self.notation.text(least, most, exact=most is not None))

    def _pattern(self, schema: JsonObject, place: Place) -> Node | None:
        found = translate(str(schema["pattern"]), self.notation)
        if found is None:
            self.branches.report(place.path, "pattern", "not enforced by the grammar")
        return found

    # ---- objects -------------------------------------------------------------------------------------------------

    def _object(self, schema: JsonObject, place: Place) -> Node:
        members = members_of(schema, place)
        if members is None:
            return self._map(schema, place)
        return row(Text("{"), self.listed([(self._pair(member), member.required) for member in members]), Text("}"))

    def _pair(self, member: Member) -> Node:
        key = self.notation.key(member.key)
        if key is None:
            self.branches.report(member.place.path, "properties", "the key cannot be written in this format")
            return NEVER
        return row(key, Text(self.notation.colon), self.value(member.schema, member.place))

    def listed(self, pairs: list[tuple[Node, bool]]) -> Node:
        """Return members in order, with commas between those that are present. The size is linear in the members."""
        if any(pair == NEVER and required for pair, required in pairs):
            return NEVER
        pairs = [pair for pair in pairs if pair[0] != NEVER]
        comma = Text(self.notation.comma)
        leading = next((index for index, (_, required) in enumerate(pairs) if required), len(pairs))
        if leading == 0:
            return self._behind(pairs[1:], row(pairs[0][0]), comma) if pairs else EMPTY
        # The first optional member that is present has no comma before it; the members after it are shared.
        shared = [(self.rules.define("member", pair), required) for pair, required in pairs]
        tail: Node = EMPTY
        ways: list[Node] = []
        for index in range(len(shared) - 1, -1, -1):
            pair, required = shared[index]
            if index <= leading:
                ways.insert(0, row(pair, tail))
            following = row(comma, pair)
            tail = row(following if required else maybe(following), tail)
            if index <= leading:
                tail = self.rules.define("members", tail)
        return choice(ways if leading < len(shared) else [*ways, EMPTY])

    def _behind(self, pairs: list[tuple[Node, bool]], first: Node, comma: Node) -> Node:
        rest = (row(comma, pair) if required else maybe(row(comma, pair)) for pair, required in pairs)
        return row(first, *rest)

    def _map(self, schema: JsonObject, place: Place) -> Node:
        """Return an object with free keys."""
        self.branches.report(place.path, "properties", "none are named: keys are free and may repeat")
        extra = schema.get("additionalProperties", True)
        inner = self.free(self.limits.depth - 1) if extra is True else self.value(extra, place.child("*"))
        return self._entries(inner)

    def _entries(self, inner: Node) -> Node:
        if inner == NEVER:
            return Text("{}")
        key = self.rules.define("key", self.notation.text(1, 64, exact=False))
        pair = self.rules.define("entry", row(key, Text(self.notation.colon), inner))
        return self._bracketed("{", [], pair, 0, self.limits.items, "}")

    # ---- lists ---------------------------------------------------------------------------------------------------

    def _array(self, schema: JsonObject, place: Place) -> Node:
        prefix = schema.get("prefixItems")
        items = schema.get("items", True)
        if isinstance(items, list):
            prefix, items = items, schema.get("additionalItems", True)
        first = [
            self.value(each, place.child(str(index)))
            for index, each in enumerate(prefix if isinstance(prefix, list) else ())
        ]
        least, stated = self._bounds(schema, place, "Items", _MOST_ITEMS)
        most = max(self.limits.items, least, len(first)) if stated is None else stated
        rest = self.rules.define("item", self.value(items, place.child("*")) if most > len(first) else NEVER)
        return self._bracketed("[", first, rest, least, most, "]")

    def _bracketed(self, opening: str, first: list[Node], rest: Node, least: int, most: int, closing: str) -> Node:
        """Return a list in brackets: some fixed parts, then a repeated one."""
        comma = Text(self.notation.comma)
        taken = len(first)
        if rest == NEVER:
            most = min(most, taken)
        if NEVER in first:
            most = min(most, first.index(NEVER))
        if most < least:
            return NEVER
        body: Node = EMPTY
        if most > taken:
            again = row(comma, rest) if taken else rest
            extra = most - taken
            needed = max(0, least - taken)
            if taken:
                body = repeat(again, needed, extra)
            else:
                body = row(rest, repeat(row(comma, rest), max(0, needed - 1), extra - 1))
                body = body if needed else maybe(body)
        for index in range(min(taken, most) - 1, -1, -1):
            body = row(comma if index else EMPTY, first[index], body)
            body = body if index < least else maybe(body)
            if index % _LEVELS_PER_RULE == _LEVELS_PER_RULE - 1:
                body = self.rules.define("items", body)
        return row(Text(opening), body, Text(closing))

    # ---- anything --------------------------------------------------------------------------------------------------

    def _anything(self, place: Place) -> Node:
        self.branches.report(place.path, "type", "not stated: any value is accepted, and keys of objects may repeat")
        return self.free(self.limits.depth)

    def free(self, depth: int) -> Node:
        """Return any value with at most this depth."""
        if depth in self._free:
            return self._free[depth]
        ways = [self.string({}, _FREE), *(self.rules.define(kind, choice(self.scalars(kind, {}))) for kind in _SCALARS)]
        if depth > 0:
            inner = self.rules.define("any", self.free(depth - 1))
            ways += [self._bracketed("[", [], inner, 0, self.limits.items, "]"), self._entries(inner)]
        made = self._free[depth] = self.rules.define(f"any-{depth}", choice(ways))
        return made


_FREE = Place("$", 0)
_LEVELS_PER_RULE = 32
_SCALARS = ("number", "boolean", "null")


def count(schema: JsonObject, key: str) -> int | None:
    """Return the count that a schema states for a keyword, if it states one."""
    value: Any = schema.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
