"""The walk over a schema: each node is normalised, converted for the target, and assembled again."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from dragoman.jsonschema.dialect import tidy
from dragoman.jsonschema.keywords import (
    CONSTRAINTS,
    KIND_OF_KEYWORD,
    child_place,
    is_of,
    json_text,
    kind_of,
    same,
)
from dragoman.jsonschema.merge import merge
from dragoman.jsonschema.references import Budget, ExpansionLimit, References, place_of
from dragoman.types import JsonObject
from dragoman.wire.failures import Loss
from dragoman.wire.schemas.targets import Target
from dragoman.wire.schemas.undo import NOTHING_TO_UNDO, Undo

# --------------------------------------------------------------------------------------------------------------------
# Constraints as text, for targets that reject the keyword but show the description to the model.

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
    """Return a constraint as a short text; "" if it would be too long."""
    words = value if keyword in _BARE and isinstance(value, str) else json_text(value)
    text = _PHRASES.get(keyword, keyword + ": {}").format(words)
    return text if len(text) <= _LONGEST else ""


def extend(description: Any, notes: list[str]) -> str:
    """Return a description with notes in brackets after it."""
    text = description if isinstance(description, str) else ""
    note = "; ".join(notes)
    if not note:
        return text
    return f"{text} ({note})" if text else f"({note})"


# --------------------------------------------------------------------------------------------------------------------
# The losses of one compilation, in order and without duplicates.


class Losses:
    """Collects the losses of one tool."""

    __slots__ = ("_counted", "_found", "_where")

    def __init__(self, tool_name: str) -> None:
        self._where = f"tool {tool_name}"
        self._found: dict[tuple[str, str], None] = {}
        self._counted: dict[str, dict[str, None]] = {}

    def add(self, rule: str, detail: str) -> None:
        self._found[rule, detail] = None

    def add_annotation(self, keyword: str, path: str) -> None:
        """Add a keyword such as `title`, which is frequent and has no effect: one entry for all its places."""
        self._counted.setdefault(keyword, {})[path] = None

    def finish(self) -> tuple[Loss, ...]:
        found = [Loss(rule, self._where, detail) for rule, detail in self._found]
        for keyword, places in self._counted.items():
            others = f" and {len(places) - 1} more" if len(places) > 1 else ""
            found.append(Loss("dropped", self._where, f"dropped {keyword} at {next(iter(places))}{others}"))
        return tuple(found)


# --------------------------------------------------------------------------------------------------------------------
# Normalisation of one schema node, for all targets: spelling, tuples, constants, nulls, missing types.

SCALARS = ("string", "number", "boolean", "null")
"""The types that replace "anything" for targets in which every schema must name its type."""


def kinds_in(node: JsonObject) -> list[str]:
    kinds = node.get("type")
    return list(kinds) if isinstance(kinds, list) else [] if kinds is None else [kinds]


def set_kinds(node: JsonObject, kinds: list[str]) -> None:
    node["type"] = kinds[0] if len(kinds) == 1 else kinds


def infer_kinds(node: JsonObject) -> list[str]:
    """Infer the types of a schema without `type`, from its values or its keywords; [] for anything."""
    if "enum" in node:
        return list(dict.fromkeys(kind_of(value) for value in node["enum"] if kind_of(value)))
    if "const" in node:
        return [kind_of(node["const"])]
    spoken_of = dict.fromkeys(KIND_OF_KEYWORD[key] for key in node if key in KIND_OF_KEYWORD)
    return list(spoken_of) if len(spoken_of) == 1 else []


def settle_choices(node: JsonObject, path: str, losses: Losses) -> None:
    """Keep in an enum only what its type allows: a validator rejects the other values, and some targets the schema."""
    kinds = kinds_in(node)
    kept = [value for value in node["enum"] if is_of(value, kinds)] if kinds else node["enum"]
    if not kept and node["enum"]:
        losses.add("dropped", f"dropped type at {path}: its enum holds nothing of that type")
        del node["type"]
        kept = node["enum"]
    unique: list[Any] = []
    texts: set[str] = set()
    for value in kept:
        if isinstance(value, str):
            if value not in texts:
                texts.add(value)
                unique.append(value)
        elif len(unique) > 1_000 or not any(same(value, other) for other in unique):
            unique.append(value)
    if len(unique) != len(node["enum"]):
        losses.add("dropped", f"dropped enum values at {path} that its type does not allow, or that stand twice")
        node["enum"] = unique


def spell_out_nullable(node: JsonObject) -> JsonObject:
    """Convert `nullable: true` to JSON Schema: null among the types, the enum values or the branches."""
    if node.pop("nullable", None) is not True:
        return node
    return allow_null(node)


def allow_null(node: JsonObject) -> JsonObject:
    """Return the schema with null allowed."""
    if "$ref" in node or "const" in node or "allOf" in node:
        return {"anyOf": [node, {"type": "null"}]}
    widened = dict(node)
    for keyword in ("anyOf", "oneOf"):
        if keyword in widened:
            branches = widened[keyword]
            if not any(isinstance(branch, dict) and "null" in kinds_in(branch) for branch in branches):
                widened[keyword] = [*branches, {"type": "null"}]
    kinds = kinds_in(widened)
    if kinds and "null" not in kinds:
        widened["type"] = [*kinds, "null"]
    if "enum" in widened and not any(value is None for value in widened["enum"]):
        widened["enum"] = [*widened["enum"], None]
    return widened


# --------------------------------------------------------------------------------------------------------------------
# Unions in places where a target does not accept them: at the root, and next to other constraints.

_MOST_VARIANTS = 16


def merge_branches(node: JsonObject, branches: list[JsonObject]) -> JsonObject:
    """Merge branches to one object with all their properties, which requires what all branches require."""
    merged = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
    own = merged.get("properties", {})
    variants: dict[str, list[Any]] = {}
    for branch in branches:
        for name, schema in branch.get("properties", {}).items():
            known = variants.setdefault(name, [])
            if len(known) < _MOST_VARIANTS and not any(same(schema, other) for other in known):
                known.append(schema)
    properties = dict(own)
    for name, schemas in variants.items():
        either = _either(schemas)
        properties[name] = {"allOf": [own[name], either]} if name in own and not same(own[name], either) else either
    if properties:
        merged["properties"] = properties
    required = list(merged.get("required", []))
    shared = [name for name in branches[0].get("required", []) if all(_asks_for(each, name) for each in branches)]
    required += [name for name in dict.fromkeys(shared) if name not in required]
    if required:
        merged["required"] = required
    if "additionalProperties" not in merged and all(each.get("additionalProperties") is False for each in branches):
        merged["additionalProperties"] = False
    return merged


def _asks_for(branch: JsonObject, name: str) -> bool:
    return name in branch.get("required", [])


def _either(schemas: list[Any]) -> Any:
    """Return a union of schemas; constants, which distinguish branches, become one enum."""
    if len(schemas) == 1:
        return schemas[0]
    if all(isinstance(each, dict) and "const" in each and not (each.keys() - _TAG) for each in schemas):
        choices = {json_text(each["const"]): each["const"] for each in schemas}
        kept = {key: value for key, value in schemas[0].items() if key != "const" and same_in_all(schemas, key)}
        return {**kept, "enum": list(choices.values())}
    return {"anyOf": schemas}


_TAG = frozenset({"type", "const", "title", "description"})


def same_in_all(schemas: list[JsonObject], key: str) -> bool:
    return all(key in each and same(each[key], schemas[0][key]) for each in schemas)


def sets_of_names(branches: list[JsonObject]) -> str:
    """Describe which properties belong together; "" if the branches require the same properties."""
    sets = list(dict.fromkeys(tuple(branch.get("required", [])) for branch in branches))
    if len(sets) < 2 or not all(sets):
        return ""
    return "give one of: " + "; ".join(" and ".join(names) for names in sets)


def only_requires(branch: Any) -> bool:
    """Whether a branch contains nothing but `required`."""
    return isinstance(branch, dict) and branch.keys() <= {"required", "type", "title", "description"}


def distribute(node: JsonObject, keyword: str) -> JsonObject:
    """Move the constraints next to a union into each of its branches."""
    base = {key: value for key, value in node.items() if key in CONSTRAINTS}
    rest = {key: value for key, value in node.items() if key not in CONSTRAINTS}
    rest[keyword] = [_both(base, branch) for branch in node[keyword]]
    return rest


def _both(base: JsonObject, branch: Any) -> Any:
    if branch is True:
        return base
    return {"allOf": [base, branch]} if isinstance(branch, dict) else branch


# --------------------------------------------------------------------------------------------------------------------
# The walk: every node is flattened, converted for the target, and assembled again.
#
# The result of a node is a compiled schema with its Undo, or nothing if no value can fit it. "Nothing" propagates
# upwards as far as necessary: an optional property is removed, a branch is removed, and only if the root itself is
# nothing, the tool cannot be offered.


class Inexpressible(Exception):
    """The tool cannot be offered to this target; the message says why."""


class Place(NamedTuple):
    """A place in the schema, its depth, and how often each recursion was entered on the path."""

    path: str = "$"
    depth: int = 0
    levels: int = 0

    def below(self, *steps: str | int) -> Place:
        return Place(child_place(self.path, *steps), self.depth + 1, self.levels)


class CompiledNode(NamedTuple):
    """A compiled schema (None: no value fits it) with its Undo."""

    schema: Any
    undo: Undo = NOTHING_TO_UNDO


NOTHING = CompiledNode(None)


class Walk:
    """One compilation: the row of the target, the references of the schema, and the losses so far."""

    def __init__(self, row: Target, root: Any, losses: Losses, levels: int) -> None:
        self.row = row
        self.references = References(root)
        self.losses = losses
        self.levels = levels
        self.recursive = False
        """Whether a recursion was expanded: then fewer levels give a smaller schema."""
        self.undone = False
        """Whether there is anything to undo."""
        self.names: dict[str, str] = {}
        """References that stay, with the names of their definitions."""
        self.waiting: list[str] = []
        self.definitions: dict[str, CompiledNode] = {}
        self.budget = Budget()
        self._taken: dict[str, int] = {}

    # ---- flattening: booleans, references and allOf -------------------------------------------------------------

    def flatten(self, schema: Any, place: Place, *, whole: bool = False) -> tuple[JsonObject | None, Place]:
        """Return a node without the references and `allOf` that cannot stay; `whole` removes all of them."""
        self.budget.spend()
        if place.depth > self.budget.depth:
            self.losses.add("cut", f"cut off what is nested deeper than {self.budget.depth} levels")
            return None, place
        if not isinstance(schema, dict):
            return self._flatten_odd(schema, place), place
        node: JsonObject | None = tidy(schema, place.path, self.losses.add, upper=self.row.upper)
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
            self.losses.add("dropped", f"dropped the schema at {place.path}: it is not a schema")
        return {}

    def _flatten_reference(self, node: JsonObject, place: Place, whole: bool) -> tuple[JsonObject | None, Place]:
        reference = node["$ref"]
        if not self.references.has(reference):
            self.losses.add("dropped", f"dropped $ref {reference} at {place.path}: it does not resolve in this schema")
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
            if self.levels > 1 and self.budget.spent > 60 + 4 * self.references.size():
                raise ExpansionLimit
        self.losses.add("inlined", f"inlined {reference}")
        # A loss in a definition is reported once, at the definition, and not at every reference.
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
        def drop(left: JsonObject) -> None:
            for keyword in left:
                self.losses.add("dropped", f"dropped one of two {keyword} at {place.path}")

        merged = merge(under, over, drop)
        if merged is False:
            self.losses.add("dropped", f"dropped {place.path}: its parts contradict each other")
            return None
        return cast(JsonObject, merged)

    # ---- the root ------------------------------------------------------------------------------------------------

    def flatten_object(self, schema: Any, place: Place) -> JsonObject | None:
        """Return a node as a plain object, with the branches of its unions merged; None if it cannot be an object."""
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
        merged = merge_branches(node, branches)
        if other in node:
            merged[other] = node[other]
        note = sets_of_names(branches)
        if note and self.row.describes:
            merged["description"] = extend(merged.get("description"), [note])
        return merged

    # ---- definitions that stay -----------------------------------------------------------------------------------

    def name_definition(self, reference: str) -> str:
        """Return the name of the definition of a reference that stays; the definition is compiled once, later."""
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
