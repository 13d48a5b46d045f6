"""A fast check whether a value fits a schema. Schemas are prepared once."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.jsonschema.keywords import KIND_OF_TYPE, TYPES_OF_KIND, key_of, kinds_of, same
from dragoman.jsonschema.references import MOST_DEPTH, resolve
from dragoman.toolset import fold
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Prepared schemas: a form of JSON Schema that is fast to check.
#
# A shape contains only structure (types, enums, properties, items, unions, references); validation checks patterns and
# ranges. A schema is prepared on first use and cached by identity, so a later change of the dict in place has no effect
# here. A server receives equal schemas again and again as new objects, so the cache also finds the shape of an equal
# schema.

_KEPT_ROOTS = 256
_KEPT_SHAPES = 4096
_LONGEST_KEPT = 64_000

_JSON_TYPES = frozenset(KIND_OF_TYPE)


class Shape(Struct, eq=False):
    """One prepared schema, with the properties that coercion needs."""

    schema: object
    """A strong reference, so that no other object gets the identity under which it is cached."""
    kinds: tuple[str, ...] = ()
    types: frozenset[type] | None = None
    leaf: frozenset[type] | None = _JSON_TYPES
    """The types that are accepted without further checks; None if there are further checks."""
    choices: tuple[Any, ...] | None = None
    texts: frozenset[str] = frozenset()
    others: frozenset[Any] = frozenset()
    """The keys of the other choices."""
    properties: dict[str, Shape] = {}
    folded: dict[str, str | None] = {}
    """Property names by their folded spelling; None if two names share one."""
    required: tuple[str, ...] = ()
    additional: Shape | None = None
    open_to_extra: bool = False
    """Whether the schema explicitly allows additional properties."""
    prefix: tuple[Shape, ...] = ()
    items: Shape | None = None
    unions: tuple[tuple[Shape, ...], ...] = ()
    parts: tuple[Shape, ...] = ()
    vocabulary: frozenset[str] | None = None
    reading: tuple[str, ...] | None = None


ANYTHING = Shape(True)
NOTHING = Shape(False, types=frozenset(), leaf=frozenset())
NULL = Shape({"type": "null"}, kinds=("null",), types=TYPES_OF_KIND["null"], leaf=TYPES_OF_KIND["null"])


class _Root:
    """A root schema with all shapes prepared under it; references are resolved against the root."""

    __slots__ = ("kept", "root", "shapes")

    def __init__(self, root: object) -> None:
        self.root = root
        self.shapes: dict[int, Shape] = {}
        self.kept: list[object] = []

    def shape(self, schema: object, depth: int = 0) -> Shape:
        if not isinstance(schema, dict):
            return NOTHING if schema is False else ANYTHING
        found = self.shapes.get(id(schema))
        if found is not None:
            return found
        if depth > MOST_DEPTH:
            return ANYTHING
        if schema.get("nullable") is True and _COMBINERS.intersection(schema):
            return self._or_null(schema, depth)
        target = self._target(schema)
        if "$ref" in schema and not _CONSTRAINTS.intersection(schema):
            shape = self.shape(target, depth + 1)
            self.kept.append(schema)
            self.shapes[id(schema)] = shape
            return shape
        shape = Shape(schema)
        self.shapes[id(schema)] = shape
        self._fill(shape, schema, depth + 1)
        if "$ref" in schema:
            shape.parts += (self.shape(target, depth + 1),)
        _settle(shape)
        return shape

    def _or_null(self, schema: dict[str, Any], depth: int) -> Shape:
        inner = {key: value for key, value in schema.items() if key != "nullable"}
        self.kept.append(inner)
        shape = Shape(schema)
        self.shapes[id(schema)] = shape
        shape.unions = ((self.shape(inner, depth + 1), NULL),)
        _settle(shape)
        return shape

    def _target(self, schema: dict[str, Any]) -> object:
        """Return the schema that `$ref` resolves to; True (accepts anything) if it does not resolve or is cyclic."""
        seen: set[int] = set()
        node: object = schema
        while isinstance(node, dict) and "$ref" in node:
            if id(node) in seen:
                return True
            seen.add(id(node))
            node = resolve(node["$ref"], self.root)
            if isinstance(node, dict) and _CONSTRAINTS.intersection(node):
                break
        return node

    def _fill(self, shape: Shape, schema: dict[str, Any], depth: int) -> None:
        shape.kinds = kinds_of(schema.get("type")) if "type" in schema else ()
        if shape.kinds and schema.get("nullable") is True and "null" not in shape.kinds:
            shape.kinds += ("null",)
        if shape.kinds:
            shape.types = frozenset().union(*(TYPES_OF_KIND[kind] for kind in shape.kinds))
        self._fill_choices(shape, schema)
        self._fill_object(shape, schema, depth)
        self._fill_array(shape, schema, depth)
        unions = [schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) and schema[key]]
        shape.unions = tuple(tuple(self.shape(branch, depth) for branch in union) for union in unions)
        if isinstance(schema.get("allOf"), list):
            shape.parts = tuple(self.shape(part, depth) for part in schema["allOf"])

    def _fill_choices(self, shape: Shape, schema: dict[str, Any]) -> None:
        enum = schema.get("enum")
        if "const" in schema:
            const = schema["const"]
            is_allowed = not isinstance(enum, list) or any(same(const, each) for each in enum)
            shape.choices = (const,) if is_allowed else ()
        elif isinstance(enum, list):
            shape.choices = tuple(enum)
        else:
            return
        if schema.get("nullable") is True and None not in shape.choices:
            shape.choices += (None,)
        shape.texts = frozenset(choice for choice in shape.choices if isinstance(choice, str))
        shape.others = frozenset(key_of(choice) for choice in shape.choices if type(choice) in _JSON_TYPES - {str})

    def _fill_object(self, shape: Shape, schema: dict[str, Any], depth: int) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            shape.properties = {name: self.shape(each, depth) for name, each in properties.items()}
            for name in shape.properties:
                key = fold(name)
                shape.folded[key] = None if key in shape.folded else name
        required = schema.get("required")
        if isinstance(required, list):
            shape.required = tuple(name for name in required if isinstance(name, str))
        if "patternProperties" in schema:
            shape.open_to_extra = True
        elif "additionalProperties" in schema:
            shape.additional = self.shape(schema["additionalProperties"], depth)
            shape.open_to_extra = shape.additional is not NOTHING

    def _fill_array(self, shape: Shape, schema: dict[str, Any], depth: int) -> None:
        prefix, items = schema.get("prefixItems"), schema.get("items")
        if isinstance(items, list):  # The older spelling of a tuple.
            prefix, items = items, schema.get("additionalItems")
        if isinstance(prefix, list):
            shape.prefix = tuple(self.shape(each, depth) for each in prefix)
        if items is not None:
            shape.items = self.shape(items, depth)


_COMBINERS = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_CONSTRAINTS = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties"}
    | {"items", "prefixItems", "anyOf", "oneOf", "allOf"}
)


def _settle(shape: Shape) -> None:
    """Mark the shapes that consist of a type only: the common case, and the fast one."""
    _join_plain_branches(shape)
    asks_more = (
        shape.choices is not None
        or shape.properties
        or shape.required
        or shape.additional is not None
        or shape.prefix
        or shape.items is not None
        or shape.unions
        or shape.parts
    )
    shape.leaf = None if asks_more else _JSON_TYPES if shape.types is None else shape.types


def _join_plain_branches(shape: Shape) -> None:
    """Replace a union of plain types by the list of these types, which is faster to check."""
    if len(shape.unions) != 1 or shape.kinds or shape.parts:
        return
    branches = shape.unions[0]
    if all(branch.kinds and branch.leaf is branch.types for branch in branches):
        shape.kinds = tuple(dict.fromkeys(kind for branch in branches for kind in branch.kinds))
        shape.types = frozenset().union(*(TYPES_OF_KIND[kind] for kind in shape.kinds))
        shape.unions = ()


_write = msgspec.json.Encoder().encode

_roots: dict[int, tuple[object, _Root]] = {}
"""By the identity of a root schema: the schema, to keep the identity in use, and its shapes."""
_equals: dict[bytes, _Root] = {}
"""The same by the text of a schema."""


def shape_of(schema: object, root: object = None) -> Shape:
    """Return the shape of a schema; `root` is the schema for its references, by default the schema itself."""
    base = schema if root is None else root
    entry = _roots.get(id(base))
    if entry is None or len(entry[1].shapes) > _KEPT_SHAPES:
        if not isinstance(base, dict):
            return NOTHING if schema is False else ANYTHING
        if len(_roots) >= _KEPT_ROOTS:
            _roots.clear()
        entry = _roots[id(base)] = (base, _root_of(base) if entry is None else _Root(base))
    known = entry[1]
    if schema is base:
        # The root may be that of an equal schema.
        schema = known.root
    shape = known.shapes.get(id(schema))
    return shape if shape is not None else known.shape(schema)


def _root_of(base: dict[str, Any]) -> _Root:
    """Return the prepared root of an equal schema, or a new one."""
    try:
        text = _write(base)
        known = _equals.get(text)
        # The text does not distinguish a list from a tuple, and the other schema may have changed: compare both.
        if known is not None and known.root == base:
            return known
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _Root(base)
    made = _Root(base)
    if len(text) <= _LONGEST_KEPT:
        if len(_equals) >= _KEPT_ROOTS:
            _equals.clear()
        _equals[text] = made
    return made


def vocabulary(shape: Shape) -> frozenset[str]:
    """Return every property name of a shape, its parts and its branches."""
    if shape.vocabulary is None:
        seen: set[int] = set()
        waiting = [shape]
        names: set[str] = set()
        while waiting:
            each = waiting.pop()
            if id(each) not in seen:
                seen.add(id(each))
                names.update(each.properties)
                waiting.extend(each.parts)
                waiting.extend(branch for union in each.unions for branch in union)
        shape.vocabulary = frozenset(names)
    return shape.vocabulary


def reading_kinds(shape: Shape) -> tuple[str, ...]:
    """Return every kind that a shape accepts, in the order of its schema; () means anything."""
    if shape.reading is None:
        kinds: dict[str, None] = {}
        _gather(shape, kinds, set())
        shape.reading = tuple(kinds)
    return shape.reading


def _gather(shape: Shape, kinds: dict[str, None], seen: set[int]) -> None:
    if id(shape) in seen:
        return
    seen.add(id(shape))
    own = shape.kinds
    if not own and shape.choices is not None:
        own = tuple(KIND_OF_TYPE[type(choice)] for choice in shape.choices if type(choice) in KIND_OF_TYPE)
    if not own and (shape.properties or shape.required or shape.additional is not None):
        own = ("object",)
    if not own and (shape.items is not None or shape.prefix):
        own = ("array",)
    kinds.update(dict.fromkeys(own))
    if not own:
        for branch in (*(branch for union in shape.unions for branch in union), *shape.parts):
            _gather(branch, kinds, seen)


# --------------------------------------------------------------------------------------------------------------------
# The structural check of a value against a prepared schema. Coercion calls it first, so it must be fast.
#
# A value that a full validator accepts fits here too; the reverse is not true, since only the structure is checked:
# `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `prefixItems`, `anyOf`, `allOf`
# and references. For schemas of these keywords, the result equals the validator's. `oneOf` is read as `anyOf`, and
# patterns, ranges and `not` are ignored. The one exception is a whole float for an integer, which is the same
# number but not the same type in Python: it fits only if `exact` is false.

MAX_DEPTH = 100
"""Below this many levels of value and union, a value counts as fitting, so that recursion is bounded."""

_LEVELS = 2

MOST_EXACT = 2**53
"""A float from here on may stand for several integers."""

MOST_STEPS = 500_000
"""After so many steps, a value counts as fitting, too: a schema with many branches and a large value multiply."""


class Steps:
    """How many steps the checks of one task may still take."""

    __slots__ = ("_keys", "left")

    def __init__(self) -> None:
        self.left = MOST_STEPS
        self._keys: dict[int, tuple[Any, _Key]] = {}

    def key_of(self, value: Any) -> _Key:
        """Return the key of a value; it is computed once, however many enums are searched for it."""
        known = self._keys.get(id(value))
        if known is None:
            known = self._keys[id(value)] = (value, _Key(value))
            self.left -= known[1].size
        self.left -= known[1].size >> 4
        return known[1]


class _Key:
    """The key of a value, with its hash."""

    __slots__ = ("_hash", "_key", "size")

    def __init__(self, value: Any) -> None:
        self._key = key_of(value)
        self._hash = hash(self._key)
        self.size = _count_nodes(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return bool(self._key == other)


def _count_nodes(value: Any) -> int:
    waiting, count = [value], 0
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return count


class Memo(dict[tuple[int, int], bool]):
    """The results of one check for the places that several branches lead to."""

    __slots__ = ("steps",)

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps


def fits(shape: Shape, value: Any, depth: int = 0, memo: Memo | None = None, exact: bool = True) -> bool:
    """Whether the value has the structure of the shape."""
    kind = type(value)
    types = shape.types
    if types is not None and kind not in types:
        is_whole = kind is float and int in types and value.is_integer() and abs(value) < MOST_EXACT
        if exact or not is_whole:
            return False
    if shape.leaf is not None:
        return True
    if shape.choices is not None and not is_choice(shape, value, None if memo is None else memo.steps):
        return False
    if depth > MAX_DEPTH:
        return True
    if kind is dict:
        if not _fits_object(shape, value, depth, memo, exact):
            return False
    elif kind is list and not _fits_array(shape, value, depth, memo, exact):
        return False
    if shape.unions or shape.parts:
        return _fits_combined(shape, value, depth, memo, exact)
    return True


def resembles(value: Any, schema: Any, root: JsonObject) -> bool:
    """Whether a value has the types, constants and names of a schema, down to two levels.

    This selects a branch of a union: a fault at a deeper level does not mean that another branch was meant.
    """
    return fits(shape_of(schema, root), value, MAX_DEPTH + 1 - _LEVELS, None, False)


def is_choice(shape: Shape, value: Any, steps: Steps | None = None) -> bool:
    """Whether the value is a member of the enum. As in JSON, 1 equals 1.0, and true is not a number."""
    if type(value) is str:
        return value in shape.texts
    if not shape.others:
        return False
    if steps is None or type(value) not in (dict, list):
        return key_of(value) in shape.others
    return steps.left <= 0 or steps.key_of(value) in shape.others


def _fits_object(shape: Shape, value: dict[str, Any], depth: int, memo: Memo | None, exact: bool) -> bool:
    for name in shape.required:
        if name not in value:
            return False
    if memo is not None:
        memo.steps.left -= len(value) + len(shape.required)
    properties = shape.properties
    additional = shape.additional
    for key, item in value.items():
        child = properties.get(key)
        if child is None:
            if additional is None:
                continue
            child = additional
        leaf = child.leaf
        if leaf is not None and type(item) in leaf:
            continue
        if not fits(child, item, depth + 1, memo, exact):
            return False
    return True


def _fits_array(shape: Shape, value: list[Any], depth: int, memo: Memo | None, exact: bool) -> bool:
    for child, item in zip(shape.prefix, value, strict=False):
        if not fits(child, item, depth + 1, memo, exact):
            return False
    items = shape.items
    if items is None:
        return True
    if memo is not None:
        memo.steps.left -= len(value)
    leaf = items.leaf
    for item in value[len(shape.prefix) :] if shape.prefix else value:
        if leaf is not None and type(item) in leaf:
            continue
        if not fits(items, item, depth + 1, memo, exact):
            return False
    return True


def _fits_combined(shape: Shape, value: Any, depth: int, memo: Memo | None, exact: bool) -> bool:
    # Branches may lead to the same places; each check runs once, so nested unions do not take exponential time.
    memo = Memo(Steps()) if memo is None else memo
    key = (id(shape), id(value))
    known = memo.get(key)
    if known is None:
        memo[key] = True  # Assumed true during the check: a union that contains itself adds no new condition.
        known = memo[key] = _fits_every(shape, value, depth + 1, memo, exact)
    return known


def _fits_every(shape: Shape, value: Any, depth: int, memo: Memo, exact: bool) -> bool:
    steps = memo.steps
    for part in shape.parts:
        steps.left -= 1
        if steps.left > 0 and not fits(part, value, depth, memo, exact):
            return False
    for union in shape.unions:
        for branch in union:
            steps.left -= 1
            if steps.left <= 0 or fits(branch, value, depth, memo, exact):
                break
        else:
            return False
    return True


# --------------------------------------------------------------------------------------------------------------------
# The fast path: most arguments fit their schema, and the check needs no prepared schema.
#
# Preparation pays off only for a schema that is used again. Over 1,500 real texts, each with its own tools, parsing
# takes 70 us in the median with this path and 98 us without it. A test compares the two results.

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
    """Whether the arguments fit a schema of simple types. False only means that `fits` must check."""
    if type(schema) is not dict or schema.get("type", "object") != "object":
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _ROOT_KEYS.issuperset(schema):
        return False
    required = schema.get("required")
    if isinstance(required, list):
        for name in required:
            if isinstance(name, str) and name not in arguments:
                return False
    for name, value in arguments.items():
        declared = properties.get(name)
        if type(declared) is not dict or not _PROPERTY_KEYS.issuperset(declared):
            return False
        kind = declared.get("type")
        if type(kind) is str and type(value) in _PLAIN.get(kind, _NOTHING):
            # Without a call of a function: this runs for every argument of every candidate.
            if "enum" in declared and not _is_chosen(value, declared["enum"]):
                return False
        elif kind != "array" or "enum" in declared or not _items_fit(value, declared.get("items")):
            return False
    return True


def _is_chosen(value: Any, choices: Any) -> bool:
    return choices is None or (isinstance(value, str) and isinstance(choices, list) and value in choices)


def _items_fit(values: Any, declared: Any) -> bool:
    if not isinstance(values, list) or not isinstance(declared, dict) or not _PROPERTY_KEYS.issuperset(declared):
        return False
    kind, choices = declared.get("type"), declared.get("enum")
    accepted = _PLAIN.get(kind, _NOTHING) if isinstance(kind, str) else _NOTHING
    return all([type(value) in accepted and _is_chosen(value, choices) for value in values])
