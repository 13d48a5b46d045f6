"""References of a schema: their targets, which of them are cyclic, and how far they may be expanded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

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
