"""The work of a validator: what it would do for a schema and a value is counted before it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.jsonschema.patterns import MOST_SIZE, Cost, cost_of
from dragoman.jsonschema.references import MOST_NODES, ReferenceLimit, References

# --------------------------------------------------------------------------------------------------------------------
# The number of schemas that a validator visits for one value.
#
# A validator tries the branches of a union in sequence and follows every reference in them. If each of 30 definitions
# refers to the next one twice, it visits a billion schemas for a single string, or for a value with 30 levels, and it
# cannot be interrupted.

MOST_VISITS = 10_000_000
"""The validator takes up to half a second for so many visits, and a few seconds for patterns of the same cost."""
_MOST_PAIRS = 100_000
"""How many pairs of a schema and a value are counted before a value counts as too large."""
_TEXT_UNIT = 64
"""So many characters count as one value."""

_LISTS_IN_PLACE = ("allOf", "anyOf", "oneOf")
_CHILDREN_IN_PLACE = ("not", "if", "then", "else")
_MAPS_IN_PLACE = ("dependentSchemas", "dependencies")
_FOR_EVERY_MEMBER = ("additionalProperties", "unevaluatedProperties")
_FOR_EVERY_ITEM = ("items", "contains", "additionalItems", "unevaluatedItems")
_FOR_ONE_ITEM = ("prefixItems", "items")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")

Visit = tuple[dict[str, Any], Any]
"""A schema, and the value to which it is applied."""
Ways = tuple[int, list[Visit]]
"""How often the validator takes one of these alternatives."""


def multiplies(root: Any) -> bool:
    """Whether more than MOST_NODES schemas apply at one place of a value. The work is linear in the size of `root`."""
    references = References(root)
    counts: dict[int, int] = {}
    try:
        return any(_count(node, references, counts, MOST_NODES) > MOST_NODES for node in references.objects())
    except ReferenceLimit:
        return True


def _count(node: dict[str, Any], references: References, counts: dict[int, int], most: int) -> int:
    """Return the number of schemas that apply to the same value as this one. A cycle adds nothing."""
    waiting = [(node, False)]
    while waiting:
        each, is_left = waiting.pop()
        if is_left:
            below = sum(counts[id(inner)] for inner in _applied_in_place(each, references))
            # To find what is evaluated, the validator visits the schemas in place once more.
            counts[id(each)] = min(1 + below * (2 if any(key in each for key in _UNEVALUATED) else 1), most + 1)
        elif id(each) not in counts:
            counts[id(each)] = 0
            waiting.append((each, True))
            waiting.extend((inner, False) for inner in _applied_in_place(each, references))
    return counts[id(node)]


def _applied_in_place(node: dict[str, Any], references: References) -> list[dict[str, Any]]:
    found: list[Any] = []
    for key in _LISTS_IN_PLACE:
        branches = node.get(key)
        if isinstance(branches, list):
            found += branches
    found += [node[key] for key in _CHILDREN_IN_PLACE if key in node]
    for key in _MAPS_IN_PLACE:
        dependent = node.get(key)
        if isinstance(dependent, dict):
            found += dependent.values()
    reference = node.get("$ref")
    if isinstance(reference, str):
        found.append(references.target(reference))
    return [each for each in found if isinstance(each, dict)]


# --------------------------------------------------------------------------------------------------------------------
# The size of a value.


class Extent(Struct):
    """The size of a value."""

    nodes: int = 0
    """The values in it, and the length of its texts in units."""
    characters: int = 0
    """The characters of all texts and names in it."""
    nested: int = 0
    """The sum of the sizes of all values in it."""
    has_extreme: bool = False
    """Whether it has a number that is expensive to compare."""
    sizes: dict[int, int] = {}
    """The sizes of the values in it that are larger than one, by identity."""


def measure_whole(value: Any) -> Extent:
    """Measure a value as a whole, which is faster: without the sizes of the values in it."""
    nodes = characters = 0
    has_extreme = False
    waiting = [value]
    while waiting:
        each = waiting.pop()
        nodes += 1
        kind = type(each)
        if kind is str:
            characters += len(each)
        elif kind is dict:
            nodes += len(each)
            characters += sum(map(len, each))
            waiting += each.values()
        elif kind is list:
            waiting += each
        elif (kind is float and is_extreme(each)) or (kind is int and not -_LARGE < each < _LARGE):
            has_extreme = True
    return Extent(nodes + characters // _TEXT_UNIT, characters, has_extreme=has_extreme)


def measure(value: Any) -> Extent:
    """Measure a value. It is at most 100 levels deep."""
    extent = Extent()
    extent.nodes = _measure(value, extent)
    return extent


def _measure(value: Any, extent: Extent) -> int:
    size = 1
    kind = type(value)
    if kind is str:
        extent.characters += len(value)
        size += len(value) // _TEXT_UNIT
    elif kind is dict:
        for key, item in value.items():
            extent.characters += len(key)
            size += 1 + len(key) // _TEXT_UNIT + _measure(item, extent)
    elif kind is list:
        for item in value:
            size += _measure(item, extent)
    elif (kind is int or kind is float) and is_extreme(value):
        extent.has_extreme = True
    if size > 1:
        extent.sizes[id(value)] = size
    extent.nested += size
    return size


def is_extreme(number: float) -> bool:
    """Whether a number needs arithmetic with many digits."""
    size = abs(number)
    return size > _LARGE or (size < _SMALL and size != 0)


# --------------------------------------------------------------------------------------------------------------------
# The work of the keywords of one schema, besides that of the schemas in it. Its unit is the visit of a schema. The
# weights are measured: a comparison of two objects takes the validator twenty times as long as a visit.

_LARGE, _SMALL = 1e15, 1e-15
_COMPARED = 16
"""The comparison with one value of an enum or a constant that is no text."""
_FRACTION, _EXTREME, _DIVIDED = 64, 1_024, 4_096
"""The comparison of an integer with a limit that has a fraction, and of extreme numbers; the division of these."""
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MATCHED = 4
"""The start of a pattern."""


def _length(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _work_with_numbers(node: dict[str, Any], is_extreme_value: bool) -> int:
    work = 0
    for key in _LIMITS:
        limit = node.get(key)
        if isinstance(limit, int | float):
            extreme = is_extreme_value or is_extreme(limit)
            work += _EXTREME if extreme else _FRACTION if isinstance(limit, float) else 1
    unit = node.get("multipleOf")
    if isinstance(unit, int | float):
        work += _DIVIDED if is_extreme_value or is_extreme(unit) else _COMPARED
    return work


class _Choices(Struct, frozen=True):
    """The values that a schema compares with."""

    count: int = 0
    size: int = 0
    """The size of all of them. Scalars count as one, and texts as none: the validator looks them up."""

    def steps(self, size: int) -> int:
        return _COMPARED * min(self.size, self.count * size)


_NO_CHOICES = _Choices()


class _Keywords(Struct, frozen=True):
    """The keywords of one schema, as far as their work depends on the value."""

    fixed: int
    """The most work of its lists and limits for any value without extreme numbers."""
    extreme: int
    """The same of its limits for an extreme number."""
    weight: int
    """The work of its patterns for each character, if all of them are linear."""
    required: int
    dependent: int
    properties: int
    choices: _Choices
    pattern: Cost | None
    names: tuple[Cost, ...]
    """Its patterns for names."""
    is_unique: bool
    asks_unevaluated: bool

    def work(self, value: Any, size: int) -> int:
        """The work for one value."""
        work = self.choices.steps(size)
        kind = type(value)
        if kind is str:
            if self.pattern is not None:
                work += _MATCHED + self.pattern.steps(len(value))
            return work + (len(value) >> 8)
        if kind is dict:
            work += 2 * min(self.required, len(value)) + self.dependent + self.properties
            if self.names:
                lengths = [len(name) for name in value]
                work += 2 * sum(_MATCHED * len(lengths) + sum(map(cost.steps, lengths)) for cost in self.names)
        elif kind is list:
            work += _COMPARED * size if self.is_unique else 0
        elif kind is int or kind is float:
            work += self.extreme if is_extreme(value) else self.fixed
        return work


# Most schemas have none of these, or only a few names.
_WEIGHTY = frozenset(
    {*_LIMITS, *_UNEVALUATED, "enum", "const", "multipleOf", "uniqueItems", "required", "dependentRequired"}
    | {"pattern", "patternProperties"}
)
_FEW_NAMES = 8


def _read_keywords(node: dict[str, Any]) -> _Keywords:
    if _WEIGHTY.isdisjoint(node) and _length(node.get("properties")) < _FEW_NAMES:
        return _NO_WORK
    pattern, names, dependent = node.get("pattern"), node.get("patternProperties"), node.get("dependentRequired")
    own = cost_of(pattern) if isinstance(pattern, str) else None
    costs = tuple(map(cost_of, names)) if isinstance(names, dict) else ()
    needed = len(dependent) + sum(map(_length, dependent.values())) if isinstance(dependent, dict) else 0
    required, properties, choices = _length(node.get("required")), _length(node.get("properties")) >> 3, _choices(node)
    patterns = [*costs, own] if own is not None else costs
    limits = _work_with_numbers(node, is_extreme_value=False)
    lists = 2 * required + needed + properties + _COMPARED * choices.size + 2 * _MATCHED * len(patterns)
    return _Keywords(
        fixed=lists + limits,
        extreme=_work_with_numbers(node, is_extreme_value=True),
        weight=sum(2 * cost.weight for cost in patterns),
        required=required,
        dependent=needed,
        properties=properties,
        choices=choices,
        pattern=own,
        names=costs,
        is_unique=node.get("uniqueItems") is True,
        asks_unevaluated=any(key in node for key in _UNEVALUATED),
    )


_NO_WORK = _Keywords(0, 0, 0, 0, 0, 0, _NO_CHOICES, None, (), False, False)


def _choices(node: dict[str, Any]) -> _Choices:
    enum = node.get("enum")
    values = [*(enum if isinstance(enum, list) else ()), *([node["const"]] if "const" in node else ())]
    if any(isinstance(value, dict | list) for value in values):
        return _Choices(len(values), measure(values).nodes)
    return _NO_CHOICES if all(isinstance(value, str) for value in values) else _Choices(1, 1)


class _Work:
    """The keywords of the schemas of one root, by the identity of a schema, and the sums over all of them."""

    __slots__ = ("_known", "fixed", "has_unevaluated", "is_linear", "nodes", "size", "unique", "weight")

    def __init__(self, references: References) -> None:
        self._known: dict[int, _Keywords] = {}
        self.fixed = self.unique = self.weight = self.size = self.nodes = 0
        self.has_unevaluated, self.is_linear = False, True
        for node in references.objects():
            self.nodes += 1
            own = self.of(node)
            if own is _NO_WORK:
                continue
            self.fixed += own.fixed
            self.unique += own.is_unique
            self.weight += own.weight
            costs = own.names if own.pattern is None else (*own.names, own.pattern)
            self.size += sum(cost.size for cost in costs)
            self.has_unevaluated = self.has_unevaluated or own.asks_unevaluated
            self.is_linear = self.is_linear and all(cost.kind == "linear" for cost in costs)

    def of(self, node: dict[str, Any]) -> _Keywords:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = _read_keywords(node)
        return known


# --------------------------------------------------------------------------------------------------------------------
# The whole work for a value.


class Effort:
    """How much work a validator has with a root and a value.

    The validator remembers its result for a reference that leads back to itself, and only for such a reference. So the
    target of one counts once for each value, and every other schema as often as a path leads to it.
    """

    __slots__ = (
        "_bound",
        "_extent",
        "_is_close",
        "_left",
        "_most",
        "_recursive",
        "_references",
        "_work",
        "refusal",
        "size",
    )

    def __init__(self, root: Any, most: int = MOST_VISITS) -> None:
        self._references = References(root)
        self._most = most
        self._recursive: list[Visit] = []
        self._extent = Extent()
        self._is_close = False
        self._left = 0
        self.size = 0
        """The work to compile the schema."""
        self.refusal = ""
        """Why nothing can be checked with this schema."""
        try:
            self._work = _Work(self._references)
            self._bound = self._quick_bound()
            self.refusal = self._find_refusal()
        except ReferenceLimit:
            self.refusal = "its schema is too large"

    def _find_refusal(self) -> str:
        self.size = 4 * self._work.nodes + 2 * self._work.size
        if self._work.size > MOST_SIZE:
            return f"the patterns of its schema have more than {MOST_SIZE} states"
        if (self._bound[0] > MOST_NODES or self._work.has_unevaluated) and multiplies(self._references.root):
            return f"its schema applies more than {MOST_NODES} schemas to one value"
        return ""

    def _quick_bound(self) -> tuple[int, int, int]:
        """A bound that needs no search: a reference at most doubles the visits of a place, and may be recursive."""
        try:
            text = msgspec.json.encode(self._references.root)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
            return MOST_NODES + 1, 1 << 60, 1 << 60
        references = min(text.count(b'"$ref"'), 16)
        times = (references + 1) << references
        work = self._work
        return (text.count(b"{") + work.fixed) * times, work.weight * times, work.unique * times

    @property
    def has_extreme(self) -> bool:
        """Whether the value that was counted last has an extreme number."""
        return self._extent.has_extreme

    def count(self, value: Any) -> int:
        """Return a bound of the work, at most one above the limit."""
        work = self._work
        self._extent = measure(value) if work.unique else measure_whole(value)
        can_bound = work.is_linear and not work.has_unevaluated and not self._extent.has_extreme
        bound = self._bounded()
        if bound <= self._most and can_bound:
            return bound
        try:
            if not self._is_close and can_bound:
                self._is_close = True
                visits = self._sum(self._bounds, lambda node, _: 1 + work.of(node).fixed, None)
                weight = self._sum(self._bounds, lambda node, _: work.of(node).weight, None)
                unique = self._sum(self._bounds, lambda node, _: int(work.of(node).is_unique), None)
                self._bound = visits, weight, unique
            bound = self._bounded()
            if bound <= self._most and can_bound:
                return bound
            sizes = measure(value).sizes
            return self._sum(
                self._applied, lambda node, each: 1 + work.of(node).work(each, sizes.get(id(each), 1)), value
            )
        except ReferenceLimit:
            return self._most + 1

    def _bounded(self) -> int:
        visits, weight, unique = self._bound
        extent = self._extent
        return visits * extent.nodes + (weight * extent.characters >> 4) + _COMPARED * unique * extent.nested

    def _sum(
        self,
        applied: Callable[[dict[str, Any], Any], list[Ways]],
        own: Callable[[dict[str, Any], Any], int],
        value: Any,
    ) -> int:
        """Count the work for the root and for every recursive reference."""
        if not isinstance(self._references.root, dict):
            return 0
        counts: dict[tuple[int, int], int] = {}
        self._left = _MOST_PAIRS
        self._recursive = [(self._references.root, value)]
        seen: set[tuple[int, int]] = set()
        total = 0
        while self._recursive and total <= self._most:
            schema, each = self._recursive.pop()
            if (id(schema), id(each)) not in seen:
                seen.add((id(schema), id(each)))
                total += self._count(applied, own, schema, each, counts)
        return min(total, self._most + 1)

    def _count(
        self,
        applied: Callable[[dict[str, Any], Any], list[Ways]],
        own: Callable[[dict[str, Any], Any], int],
        schema: dict[str, Any],
        value: Any,
        counts: dict[tuple[int, int], int],
    ) -> int:
        """Count the work of a schema and of all visits that follow from it; of a list of alternatives, the largest."""
        stack: list[tuple[dict[str, Any], Any, list[Ways] | None]] = [(schema, value, None)]
        works: dict[tuple[int, int], int] = {}
        alone = 0
        while stack:
            node, each, below = stack.pop()
            key = (id(node), id(each))
            if below is not None:
                visits = sum(
                    times * max(counts.get((id(inner), id(part)), 0) for inner, part in ways) for times, ways in below
                )
                counts[key] = min(works[key] + visits, self._most + 1)
            elif key not in counts:
                counts[key] = 0
                works[key] = own(node, each)
                alone += works[key]
                if alone > self._most:
                    return alone
                below = applied(node, each)
                self._left -= 1 + len(below)
                if self._left < 0:
                    raise ReferenceLimit
                stack.append((node, each, below))
                stack.extend((inner, part, None) for _, ways in below for inner, part in ways)
        return counts[id(schema), id(value)]

    def _in_place(self, node: dict[str, Any], value: Any) -> list[Ways]:
        reference = node.get("$ref")
        found = _applied_in_place(node, self._references)
        if isinstance(reference, str) and found and self._references.is_cyclic(reference):
            self._recursive.append((found.pop(), value))
        times = 1
        if self._work.of(node).asks_unevaluated:
            # The validator asks the schemas in place about each member or item.
            times = 2 + _length(value)
        return [(times, [(inner, value)]) for inner in found]

    def _bounds(self, node: dict[str, Any], value: Any) -> list[Ways]:
        """The schemas that this one applies to one place of any value."""
        found = self._in_place(node, value)
        every = _for_every(node, (*_FOR_EVERY_MEMBER, *_FOR_EVERY_ITEM, "propertyNames"))
        found += [(1, [(inner, value)]) for inner in every]
        properties = node.get("properties")
        ways = [properties.values()] if isinstance(properties, dict) else []
        ways += [node[key] for key in _FOR_ONE_ITEM if isinstance(node.get(key), list)]
        alternatives = [[(inner, value) for inner in way if isinstance(inner, dict)] for way in ways]
        return found + [(1, each) for each in alternatives if each]

    def _applied(self, node: dict[str, Any], value: Any) -> list[Ways]:
        """The schemas that this one applies to this value and to its members or items."""
        found = self._in_place(node, value)
        pairs: list[tuple[Any, Any]] = []
        if isinstance(value, dict):
            pairs += [(inner, item) for inner in _for_every(node, _FOR_EVERY_MEMBER) for item in value.values()]
            pairs += [(inner, name) for inner in _for_every(node, ("propertyNames",)) for name in value]
            properties = node.get("properties")
            if isinstance(properties, dict):
                pairs += [(properties.get(name), item) for name, item in value.items()]
        elif isinstance(value, list):
            pairs += [(inner, item) for inner in _for_every(node, _FOR_EVERY_ITEM) for item in value]
            for inners in (node.get(key) for key in _FOR_ONE_ITEM):
                if isinstance(inners, list):
                    pairs += zip(inners, value, strict=False)
        return found + [(1, [pair]) for pair in pairs if isinstance(pair[0], dict)]


def _for_every(node: dict[str, Any], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    found: list[Any] = [node.get(key) for key in keys]
    patterns = node.get("patternProperties")
    if "additionalProperties" in keys and isinstance(patterns, dict):
        found += patterns.values()
    return [each for each in found if isinstance(each, dict)]
