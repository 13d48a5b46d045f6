"""From a schema to the values that it allows, in a notation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman.args.loader import validate
from dragoman.formats.grammars.branches import LITERAL, Branch, Branches, Place
from dragoman.formats.grammars.limits import Limits, Loss
from dragoman.formats.grammars.nodes import EMPTY, NEVER, Node, Rules, Text, choice, maybe, repeat, row
from dragoman.formats.grammars.notation import Notation
from dragoman.formats.grammars.numbers import bounds_of, integer, whole_or_fraction
from dragoman.formats.grammars.patterns import translate
from dragoman.formats.grammars.texts import FORMS
from dragoman.types import JsonObject

_SAID_BY_LITERALS = frozenset({"type", "enum", "const", "title", "description", "default", "nullable", "examples"})


_WORDS = frozenset({"title", "description", "default", "examples"})
_MOST_CHARACTERS = 20_000
_MOST_ITEMS = 1000
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


class Member(Struct, frozen=True):
    """A property of an object, in the order in which the schema names them."""

    key: str
    schema: object
    required: bool
    place: Place


def members_of(schema: JsonObject, place: Place) -> list[Member] | None:
    """The members of an object; None where any will do, because the schema names none."""
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
    return [Member(key, known.get(key, free), key in names, place.child(key)) for key in keys]


class Memory:
    """What was made of a schema, for the next place where the same one stands: tools repeat themselves."""

    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._known: dict[tuple[str, bytes], Any] = {}

    def recall(self, kind: str, schema: object, make: Callable[[], T]) -> T:
        """What `make` returns. Nothing is kept that depends on a place: references, and losses, which name it."""
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

    def __init__(self, branches: Branches, rules: Rules, limits: Limits, notation: Notation, memory: Memory) -> None:
        self.memory = memory
        self.branches = branches
        self.rules = rules
        self.limits = limits
        self.notation = notation
        self._known: dict[tuple[int, int], Node] = {}

    def value(self, schema: object, place: Place) -> Node:
        """Any value that the schema allows."""
        if not isinstance(schema, dict):
            return NEVER if schema is False else self._anything(place)
        reference = schema.get("$ref")
        if len(schema) == 1 and isinstance(reference, str):
            return self._referenced(schema, reference, place)
        if not schema.keys() - _WORDS:
            return self._anything(place)
        return self.memory.recall(self.notation.name, schema, lambda: self._spread(schema, place))

    def _spread(self, schema: JsonObject, place: Place) -> Node:
        return choice(self.branch(branch, inside) for branch, inside in self.branches.of(schema, place))

    def _referenced(self, schema: JsonObject, reference: str, place: Place) -> Node:
        """Definitions are written once for each depth, however many places refer to them."""
        target = self.branches.target(reference)
        key = (id(target), place.room - (id(target) in place.above))
        if target is None or key not in self._known:
            self._known[key] = self.rules.define(reference.rpartition("/")[2] or "part", self._spread(schema, place))
        return self._known[key]

    def branch(self, branch: Branch, place: Place) -> Node:
        """The values of one branch."""
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
        """Numbers, booleans and null; a number that is no integer comes second."""
        if kind == "integer":
            return (integer(*bounds_of(schema)),)
        if kind == "number":
            return whole_or_fraction(*bounds_of(schema))
        words = (self.notation.true, self.notation.false) if kind == "boolean" else (self.notation.null,)
        return tuple(map(Text, words))

    def literal(self, branch: Branch, place: Place) -> Node:
        """A constant, if it fits what else the schema says and can be written here."""
        if branch.schema.keys() - _SAID_BY_LITERALS and validate(branch.value, branch.schema):
            return NEVER
        found = self.notation.literal(branch.value)
        if found is None:
            self.branches.report(place.path, "enum", f"{branch.value!r} cannot be written in this format")
        return found or NEVER

    def _bounds(self, schema: JsonObject, place: Place, what: str, counted: int) -> tuple[int, int | None]:
        """The least and the most that a schema states. A limit beyond counting is none: our own is nearer."""
        least, most = count(schema, f"min{what}") or 0, count(schema, f"max{what}")
        if least > counted:
            self.branches.report(place.path, f"min{what}", f"only up to {counted} are counted")
        return min(least, counted), None if most is not None and most > counted else most

    # ---- texts ---------------------------------------------------------------------------------------------------

    def string(self, schema: JsonObject, place: Place) -> Node:
        """A text, by its form or by its length."""
        least, most = self._bounds(schema, place, "Length", _MOST_CHARACTERS)
        form = FORMS.get(str(schema.get("format")))
        if "pattern" in schema:
            form = self._pattern(schema, place) or form
        elif "format" in schema and form is None:
            self.branches.report(place.path, "format", f"{schema['format']!r} is taken for any text")
        if form is not None:
            if least or most is not None:
                self.branches.report(place.path, "maxLength", "only the form of the text is held, not its length")
            return self.rules.define("form", self.notation.form(form))
        if most is not None and most < least:
            return NEVER
        limit = self.limits.characters
        if most is None and limit is None and "maxLength" in schema:
            most = _MOST_CHARACTERS
        if most is None and limit is not None:
            return self.rules.define("text", self.notation.text(least, max(limit, least), exact=False))
        return self.rules.define("text", self.notation.text(least, most, exact=most is not None))

    def _pattern(self, schema: JsonObject, place: Place) -> Node | None:
        form = translate(str(schema["pattern"]), self.notation)
        if form is None:
            self.branches.report(place.path, "pattern", "not held by the grammar")
        return form

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
        """Members in their order, with commas between those that are there. The size is that of the members."""
        if any(pair == NEVER and required for pair, required in pairs):
            return NEVER
        pairs = [pair for pair in pairs if pair[0] != NEVER]
        comma = Text(self.notation.comma)
        leading = next((index for index, (_, required) in enumerate(pairs) if required), len(pairs))
        if leading == 0:
            return self._behind(pairs[1:], row(pairs[0][0]), comma) if pairs else EMPTY
        # Whichever of the optional members comes first has no comma; what follows it is shared.
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
        """An object whose keys are free."""
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
        """A list between brackets: some parts of their own, then the same one again and again."""
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
        return row(Text(opening), body, Text(closing))

    # ---- anything --------------------------------------------------------------------------------------------------

    def _anything(self, place: Place) -> Node:
        self.branches.report(place.path, "type", "not stated: any value is accepted, and keys of objects may repeat")
        return self.free(self.limits.depth)

    def free(self, depth: int) -> Node:
        """Any value, nested no deeper than this."""
        ways = [self.string({}, _FREE), *(self.rules.define(kind, choice(self.scalars(kind, {}))) for kind in _SCALARS)]
        if depth > 0:
            inner = self.rules.define("any", self.free(depth - 1))
            ways += [self._bracketed("[", [], inner, 0, self.limits.items, "]"), self._entries(inner)]
        return self.rules.define(f"any-{depth}", choice(ways))


_FREE = Place("$", 0)
_SCALARS = ("number", "boolean", "null")


def count(schema: JsonObject, key: str) -> int | None:
    """A number of things that a schema states, if it does."""
    value: Any = schema.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
