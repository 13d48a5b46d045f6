"""The way through a schema: every node is flattened, shaped for the target, and put together again.

A node comes out as a compiled schema, with what has to be undone in its values, or as nothing at all: no value can
fit it. Nothing spreads upwards as far as it must: an optional property disappears, a branch disappears, and only when
the root itself is left with nothing the tool cannot be offered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dragoman.types import JsonObject
from dragoman.wire.schemas import unions
from dragoman.wire.schemas.losses import Losses
from dragoman.wire.schemas.merging import merge
from dragoman.wire.schemas.nodes import tidy
from dragoman.wire.schemas.pointers import References, place_of
from dragoman.wire.schemas.targets import Target
from dragoman.wire.schemas.undo import NOTHING_TO_UNDO, Undo
from dragoman.wire.schemas.vocabulary import child_place

MOST_NODES = 10_000
MOST_DEPTH = 60


class TooLarge(Exception):
    """Written out, the schema has more nodes than are worth sending."""


class Inexpressible(Exception):
    """The tool cannot be offered to this target; the words say why."""


class Place(NamedTuple):
    """Where in the schema we are, how deep, and how often a recursion has been entered on the way."""

    path: str = "$"
    depth: int = 0
    levels: int = 0

    def below(self, *steps: str | int) -> Place:
        return Place(child_place(self.path, *steps), self.depth + 1, self.levels)


class Made(NamedTuple):
    """A compiled schema (None: nothing fits it) with what has to be undone."""

    schema: Any
    undo: Undo = NOTHING_TO_UNDO


NOTHING = Made(None)


class Walk:
    """One compilation: the row of the target, the references of the schema, and the account so far."""

    __slots__ = (
        "_nodes",
        "_taken",
        "definitions",
        "levels",
        "losses",
        "names",
        "recursive",
        "references",
        "row",
        "undone",
        "waiting",
    )

    def __init__(self, row: Target, root: Any, losses: Losses, levels: int) -> None:
        self.row = row
        self.references = References(root)
        self.losses = losses
        self.levels = levels
        self.recursive = False
        """Whether a recursion was written out: with fewer levels, less would come of it."""
        self.undone = False
        """Whether anything has to be undone at all."""
        self.names: dict[str, str] = {}
        """References that stay, with the names of their definitions."""
        self.waiting: list[str] = []
        self.definitions: dict[str, Made] = {}
        self._nodes = 0
        self._taken: dict[str, int] = {}

    def spend(self) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise TooLarge

    # ---- flattening: booleans, references and allOf -------------------------------------------------------------

    def flatten(self, schema: Any, place: Place, *, whole: bool = False) -> tuple[JsonObject | None, Place]:
        """A node without the references and `allOf` that cannot stay; `whole` leaves none of them."""
        self.spend()
        if place.depth > MOST_DEPTH:
            self.losses.add("cut", f"cut off what is nested deeper than {MOST_DEPTH} levels")
            return None, place
        if not isinstance(schema, dict):
            return self._flatten_odd(schema, place), place
        node: JsonObject | None = tidy(schema, place.path, self.losses, upper=self.row.upper)
        assert node is not None
        node.pop("$defs", None)
        node.pop("definitions", None)
        if "$ref" in node:
            node, place = self._flatten_reference(node, place, whole)
        if node is not None and "allOf" in node and (whole or not self.row.keeps("allOf")):
            node, place = self._flatten_parts(node, place)
        return node, place

    def _flatten_odd(self, schema: Any, place: Place) -> JsonObject | None:
        if schema is False:
            self.losses.add("dropped", f"dropped {place.path}: its schema allows no value")
            return None
        if schema is not True:
            self.losses.add("dropped", f"dropped the schema at {place.path}: it is none")
        return {}

    def _flatten_reference(self, node: JsonObject, place: Place, whole: bool) -> tuple[JsonObject | None, Place]:
        reference = node["$ref"]
        if not self.references.has(reference):
            self.losses.add("dropped", f"dropped $ref {reference} at {place.path}: it points nowhere in this schema")
            del node["$ref"]
            return node, place
        if not whole and self._stays(reference):
            return node, place
        del node["$ref"]
        levels = place.levels
        if self.references.is_cyclic(reference):
            levels += 1
            self.recursive = True
            if levels > self.levels:
                self.losses.add("cut", f"cut the recursion of {reference} after {self.levels} levels")
                return None, place
            if self.levels > 1 and self._nodes > 60 + 4 * self.references.size():
                raise TooLarge
        self.losses.add("inlined", f"inlined {reference}")
        # What is found there is reported where it was written, once, and not at every place that refers to it.
        path = place.path if node.keys() - {"title", "description"} else place_of(reference)
        inner = Place(path, place.depth + 1, levels)
        below, inner = self.flatten(self.references.target(reference), inner, whole=whole)
        return (None if below is None else self._merge(below, node, inner)), inner

    def _stays(self, reference: str) -> bool:
        if self.row.references == "inline":
            return False
        return self.row.recursion == "keep" or not self.references.is_cyclic(reference)

    def _flatten_parts(self, node: JsonObject, place: Place) -> tuple[JsonObject | None, Place]:
        self.losses.add("merged", f"merged allOf at {place.path}")
        merged: JsonObject | None = {}
        levels = deepest = place.levels
        for part in node.pop("allOf"):
            flat, inner = self.flatten(part, Place(place.path, place.depth + 1, levels), whole=True)
            deepest = max(deepest, inner.levels)
            merged = None if flat is None or merged is None else self._merge(merged, flat, place)
            if merged is None:
                return None, place
        return self._merge(merged or {}, node, place), Place(place.path, place.depth, deepest)

    def _merge(self, under: JsonObject, over: JsonObject, place: Place) -> JsonObject | None:
        def conflict(keyword: str) -> None:
            self.losses.add("dropped", f"dropped one of two {keyword} at {place.path}")

        merged = merge(under, over, conflict)
        if merged is None:
            self.losses.add("dropped", f"dropped {place.path}: its parts contradict each other")
        return merged

    # ---- the root ------------------------------------------------------------------------------------------------

    def flatten_object(self, schema: Any, place: Place) -> JsonObject | None:
        """A node as a plain object, with the branches of its unions merged into it; None when it can be no object."""
        node, place = self.flatten(schema, place, whole=True)
        if node is None:
            return None
        for keyword in ("anyOf", "oneOf"):
            if keyword not in node:
                continue
            found = [self.flatten_object(each, place.below(keyword, n)) for n, each in enumerate(node[keyword])]
            branches = [branch for branch in found if branch is not None]
            if not branches:
                return None
            node = self.merge_unions(node, keyword, branches, place)
        kinds = node.get("type", "object")
        if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
            return None
        return {"type": "object", **{key: value for key, value in node.items() if key != "type"}}

    def merge_unions(self, node: JsonObject, keyword: str, branches: list[JsonObject], place: Place) -> JsonObject:
        self.losses.add("merged", f"merged the branches of {keyword} at {place.path}")
        other = "oneOf" if keyword == "anyOf" else "anyOf"
        merged = unions.merge_branches(node, branches)
        if other in node:
            merged[other] = node[other]
        note = unions.sets_of_names(branches)
        if note and self.row.describes:
            description = merged.get("description")
            merged["description"] = f"{description} ({note})" if description else f"({note})"
        return merged

    # ---- definitions that stay -----------------------------------------------------------------------------------

    def name_definition(self, reference: str) -> str:
        """The name under which a reference stays; the schema behind it is compiled once, later."""
        if reference == "#":
            return "#"
        name = self.names.get(reference)
        if name is None:
            last = reference.rpartition("/")[2]
            clean = "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in last) or "part"
            name = clean
            while name in self.definitions:
                self._taken[clean] = self._taken.get(clean, 1) + 1
                name = f"{clean}_{self._taken[clean]}"
            self.names[reference] = name
            self.definitions[name] = NOTHING
            self.waiting.append(reference)
            if reference != f"#/$defs/{name}":
                self.losses.add("rewritten", f"moved {reference} to #/$defs/{name}")
        return name
