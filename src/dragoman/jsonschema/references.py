"""References of a schema: their targets, which of them are cyclic, and how far they may be expanded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from dragoman.jsonschema.keywords import child_place

# --------------------------------------------------------------------------------------------------------------------
# How far references may be expanded.
#
# A schema of 1 kB can refer to its own parts so often that it has a billion nodes once the references are expanded.
# Code that expands references, or follows each path through them, counts nodes and levels in a budget.

MOST_NODES = 10_000
"""More nodes than any useful schema has, with its references expanded."""
MOST_DEPTH = 60
"""More levels than any real schema has."""


class ExpansionLimit(Exception):
    """The expanded references of a schema have more nodes than the budget allows."""


class Budget:
    """How many nodes one task may still visit, and how deep it may go."""

    __slots__ = ("depth", "nodes", "spent")

    def __init__(self, nodes: int = MOST_NODES, depth: int = MOST_DEPTH) -> None:
        self.nodes = nodes
        self.depth = depth
        self.spent = 0

    def allows(self, depth: int = 0) -> bool:
        """Count one node; return False if there are too many, or if this one is too deep."""
        self.spent += 1
        return self.spent <= self.nodes and depth <= self.depth

    def spend(self) -> None:
        """Count one node. Raises ExpansionLimit if there are too many."""
        if not self.allows():
            raise ExpansionLimit


# --------------------------------------------------------------------------------------------------------------------
# Pointers.

_MISSING: Any = object()


def resolve(reference: object, root: object, missing: object = True) -> object:
    """Resolve a JSON pointer such as `#/$defs/place` in `root`; return `missing` if it does not resolve."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return missing
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return missing
    node = root
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isascii() and key.isdigit() and len(key) < 9 and int(key) < len(node):
            node = node[int(key)]
        else:
            return missing
    return node


def follow(reference: str, root: Any) -> Any:
    """Return the schema at a pointer; a private sentinel if it is outside, missing, or not a schema."""
    node = resolve(reference, root, missing=_MISSING)
    return node if isinstance(node, dict | bool) else _MISSING


def place_of(reference: str) -> str:
    """Return the JSON path of the target of a reference."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in unquote(reference[1:]).split("/")[1:]]
    return child_place("$", *steps)


def refuse_to_fetch(address: str) -> Any:
    """The callback of the validator for a reference to another document: always raises."""
    raise LookupError(f"{address} is elsewhere")


# --------------------------------------------------------------------------------------------------------------------
# The graph of references: their targets, and which of them are cyclic.

_MOST_STEPS = 200_000


class ReferenceLimit(Exception):
    """The references of a schema need more steps than any real schema."""


class References:
    """The references of one root schema."""

    __slots__ = ("_cyclic", "_found", "_size", "_steps", "root")

    def __init__(self, root: Any) -> None:
        self.root = root
        self._found: dict[str, Any] = {}
        self._cyclic: frozenset[str] | None = None
        self._size = 0
        self._steps = 0

    def has(self, reference: str) -> bool:
        return self.target(reference) is not _MISSING

    def target(self, reference: str) -> Any:
        if reference not in self._found:
            self._found[reference] = follow(reference, self.root)
        return self._found[reference]

    def size(self) -> int:
        """The number of objects in the root, schemas and others."""
        if self._size == 0:
            self._size = sum(1 for _ in self.objects())
        return self._size

    def objects(self) -> Iterator[dict[str, Any]]:
        """Return every object in the root, schemas and others. Raises ReferenceLimit if there are too many."""
        return self._objects_in(self.root)

    def is_cyclic(self, reference: str) -> bool:
        """Whether following the reference may lead back to it."""
        if self._cyclic is None:
            self._cyclic = self._find_cyclic()
        return reference in self._cyclic

    def _find_cyclic(self) -> frozenset[str]:
        """Find the cyclic references: remove all nodes without successors, then all nodes without predecessors."""
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
    """Return the graph without the nodes from which no infinite path starts."""
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


# --------------------------------------------------------------------------------------------------------------------
# The number of schemas that a validator visits for one value.
#
# A validator tries the branches of a union in sequence and follows every reference in them. If each of 30 definitions
# refers to the next one twice, it visits a billion schemas for a single string, or for a value with 30 levels, and it
# cannot be interrupted.

MOST_VISITS = 10_000_000
"""The validator takes up to half a second for so many."""
_MOST_PAIRS = 60_000
"""How many pairs of a schema and a value are counted before a value counts as too large."""

_LISTS_IN_PLACE = ("allOf", "anyOf", "oneOf")
_CHILDREN_IN_PLACE = ("not", "if", "then", "else", "propertyNames")
_MAPS_IN_PLACE = ("dependentSchemas", "dependencies")
_FOR_EVERY_MEMBER = ("additionalProperties", "unevaluatedProperties")
_FOR_EVERY_ITEM = ("items", "contains", "additionalItems", "unevaluatedItems")
_FOR_ONE_ITEM = ("prefixItems", "items")

Visit = tuple[dict[str, Any], Any]
"""A schema, and the value to which it is applied."""


def multiplies(root: Any, most: int = MOST_NODES) -> bool:
    """Whether more than `most` schemas apply to one value at one place. The work is linear in the size of `root`."""
    references = References(root)
    counts: dict[int, int] = {}
    try:
        return any(_count(node, references, counts, most) > most for node in references.objects())
    except ReferenceLimit:
        return True


def _count(node: dict[str, Any], references: References, counts: dict[int, int], most: int) -> int:
    """Return the number of schemas that apply to the same value as this one. A cycle adds nothing."""
    waiting = [(node, False)]
    while waiting:
        each, is_left = waiting.pop()
        if is_left:
            below = sum(counts[id(inner)] for inner in _applied_in_place(each, references))
            counts[id(each)] = min(1 + below, most + 1)
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


class Effort:
    """How many schemas of a root the validator visits for a value.

    The validator remembers its result for a reference that leads back to itself, and only for such a reference. So the
    target of one counts once for each value, and every other schema as often as a path leads to it.
    """

    __slots__ = ("_is_close", "_most", "_recursive", "_references", "_visits_per_value", "multiplies")

    def __init__(self, root: Any, most: int = MOST_VISITS) -> None:
        self._references = References(root)
        self._most = most
        self._recursive: list[Visit] = []
        self.multiplies = False
        """Whether more schemas apply to one value at one place than any real schema has."""
        self._visits_per_value = _bound_of(root)
        self._is_close = False
        if self._visits_per_value > MOST_NODES:
            self.multiplies = multiplies(root)

    def exceeds(self, value: Any) -> bool:
        """Whether the validator would visit more schemas than it should."""
        nodes = _nodes_in(value)
        if self._visits_per_value * nodes <= self._most:
            return False
        try:
            if not self._is_close:
                self._is_close = True
                self._visits_per_value = self._sum(self._bounds, None)
            if self._visits_per_value * nodes <= self._most:
                return False
            return self._sum(self._applied, value) > self._most
        except ReferenceLimit:
            return True

    def _sum(self, applied: Callable[[dict[str, Any], Any], list[list[Visit]]], value: Any) -> int:
        """Count the visits of the root and of every recursive reference."""
        counts: dict[tuple[int, int], int] = {}
        self._recursive = [(self._references.root, value)]
        seen: set[tuple[int, int]] = set()
        total = 0
        while self._recursive and total <= self._most:
            schema, each = self._recursive.pop()
            if (id(schema), id(each)) not in seen:
                seen.add((id(schema), id(each)))
                total += self._count(applied, schema, each, counts)
        return total

    def _count(
        self,
        applied: Callable[[dict[str, Any], Any], list[list[Visit]]],
        schema: dict[str, Any],
        value: Any,
        counts: dict[tuple[int, int], int],
    ) -> int:
        """Count a visit of a schema and all visits that follow from it; of a list of alternatives, the largest."""
        stack: list[tuple[dict[str, Any], Any, list[list[Visit]] | None]] = [(schema, value, None)]
        while stack:
            node, each, below = stack.pop()
            key = (id(node), id(each))
            if below is not None:
                visits = sum(max(counts.get((id(inner), id(part)), 0) for inner, part in ways) for ways in below)
                counts[key] = min(1 + visits, self._most + 1)
            elif key not in counts:
                if len(counts) > _MOST_PAIRS:
                    raise ReferenceLimit
                counts[key] = 0
                below = applied(node, each)
                stack.append((node, each, below))
                stack.extend((inner, part, None) for ways in below for inner, part in ways)
        return counts[id(schema), id(value)]

    def _in_place(self, node: dict[str, Any], value: Any) -> list[list[Visit]]:
        reference = node.get("$ref")
        found = _applied_in_place(node, self._references)
        if isinstance(reference, str) and found and self._references.is_cyclic(reference):
            self._recursive.append((found.pop(), value))
        return [[(inner, value)] for inner in found]

    def _bounds(self, node: dict[str, Any], value: Any) -> list[list[Visit]]:
        """The schemas that this one applies to one place of any value."""
        found = self._in_place(node, value)
        found += [[(inner, value)] for inner in _for_every(node, _FOR_EVERY_MEMBER + _FOR_EVERY_ITEM)]
        properties = node.get("properties")
        ways = [properties.values()] if isinstance(properties, dict) else []
        ways += [node[key] for key in _FOR_ONE_ITEM if isinstance(node.get(key), list)]
        alternatives = [[(inner, value) for inner in way if isinstance(inner, dict)] for way in ways]
        return found + [each for each in alternatives if each]

    def _applied(self, node: dict[str, Any], value: Any) -> list[list[Visit]]:
        """The schemas that this one applies to this value and to its members or items."""
        found = self._in_place(node, value)
        if isinstance(value, dict):
            found += [[(inner, item)] for inner in _for_every(node, _FOR_EVERY_MEMBER) for item in value.values()]
            properties = node.get("properties")
            if isinstance(properties, dict):
                pairs = [(properties.get(name), item) for name, item in value.items()]
                found += [[(inner, item)] for inner, item in pairs if isinstance(inner, dict)]
        elif isinstance(value, list):
            found += [[(inner, item)] for inner in _for_every(node, _FOR_EVERY_ITEM) for item in value]
            for inners in (node.get(key) for key in _FOR_ONE_ITEM):
                if isinstance(inners, list):
                    found += [[pair] for pair in zip(inners, value, strict=False) if isinstance(pair[0], dict)]
        return found


def _bound_of(root: Any) -> int:
    """A quick bound for the visits of one place of a value: a reference at most doubles them, and may be recursive."""
    try:
        text = msgspec.json.encode(root)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return MOST_NODES + 1
    references = min(text.count(b'"$ref"'), 16)
    return text.count(b"{") * (references + 1) << references


def _for_every(node: dict[str, Any], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    found: list[Any] = [node.get(key) for key in keys]
    patterns = node.get("patternProperties")
    if "additionalProperties" in keys and isinstance(patterns, dict):
        found += patterns.values()
    return [each for each in found if isinstance(each, dict)]


def _nodes_in(value: Any) -> int:
    """The number of values in a value, itself included."""
    count = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return count
