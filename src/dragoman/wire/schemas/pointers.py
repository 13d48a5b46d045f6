"""Where references lead: the schemas behind `$ref`, and which of them lead back to themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from dragoman.args.schemas import resolve
from dragoman.wire.schemas.vocabulary import child_place

_MISSING: Any = object()
_MOST_STEPS = 200_000


class Entangled(Exception):
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
                raise Entangled
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
