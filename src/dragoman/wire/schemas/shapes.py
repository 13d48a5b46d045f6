"""Conversion of a normalised schema node to the dialect of the target."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from dragoman.jsonschema.fit import fits, shape_of
from dragoman.jsonschema.keywords import (
    ANNOTATIONS,
    CHILDREN,
    CONSTRAINTS,
    KIND_OF_KEYWORD,
    LISTS,
    MAPS,
    json_text,
    kind_of,
)
from dragoman.types import JsonObject
from dragoman.wire.schemas import walk
from dragoman.wire.schemas.targets import Target
from dragoman.wire.schemas.undo import Branch, Undo
from dragoman.wire.schemas.walk import (
    NOTHING,
    SCALARS,
    CompiledNode,
    Place,
    Walk,
    allow_null,
    extend,
    infer_kinds,
    kinds_in,
    phrase,
    set_kinds,
    settle_choices,
    spell_out_nullable,
)

# --------------------------------------------------------------------------------------------------------------------
# Enums for targets that accept only strings: the values become strings, and Undo converts them back.


def need_text(node: JsonObject, row: Target) -> bool:
    """Whether the choices of a node cannot be sent as they are."""
    if row.text_enums == "all":
        return True
    return row.text_enums == "compound" and any(isinstance(value, dict | list) for value in node["enum"])


def shape_as_text(shaper: Shaper, node: JsonObject, place: Place) -> CompiledNode:
    """Convert an enum to strings. Null becomes a type and not a value; other values are written as JSON."""
    texts, meant = _write(shaper, node["enum"], place)
    null = any(value is None for value in node["enum"])
    if not texts:
        return CompiledNode({"type": shaper.case("null")}) if null else CompiledNode({"type": shaper.case("string")})
    rest = {key: value for key, value in node.items() if key not in ("type", "enum") and key not in KIND_OF_KEYWORD}
    for key in node:
        if key in KIND_OF_KEYWORD:
            shaper.losses.add("dropped", f"dropped {key} beside enum at {place.path}")
    out, notes = shaper.finish(rest, place)
    if meant:
        kinds = " or ".join(dict.fromkeys(kind_of(value) for value in meant.values()))
        notes.append(f"stands for {kinds}")
        shaper.undone = True
        shaper.losses.add("text_enum", f"wrote the enum at {place.path} as strings")
    nullable = null and (not kinds_in(node) or "null" in kinds_in(node))
    words = shaper.type_words(["string", "null"] if nullable and shaper.row.nullable else ["string"], True)
    choices: list[Any] = list(texts)
    schema = _described({**words, "enum": choices, **out}, notes)
    if nullable and not shaper.row.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return CompiledNode(schema, Undo(values=meant))


def _write(shaper: Shaper, values: list[Any], place: Place) -> tuple[list[str], dict[str, Any]]:
    """Return the values as strings, and the original values of those that were not strings."""
    texts: dict[str, None] = {}
    for value in values:
        if isinstance(value, str):
            if value:
                texts[value] = None
            else:
                shaper.losses.add("dropped", f"dropped the empty string from enum at {place.path}")
    meant: dict[str, Any] = {}
    for value in values:
        if isinstance(value, str) or value is None:
            continue
        text = json_text(value)
        if text in texts:
            shaper.losses.add("dropped", f"dropped {text} from enum at {place.path}: a string reads the same")
        else:
            texts[text] = None
            meant[text] = value
    return list(texts), meant


# --------------------------------------------------------------------------------------------------------------------
# Arrays: their items, tuples, and arrays without possible items.


def rewrite_tuple(shaper: Shaper, node: JsonObject, path: str) -> None:
    """Convert a tuple to a list whose items fit any of its schemas."""
    positions = node.pop("prefixItems")
    rest = node.get("items")
    variants = [*positions, *([rest] if isinstance(rest, dict) else [])]
    node.pop("items", None)
    if variants:
        node["items"] = variants[0] if len(variants) == 1 else {"anyOf": variants}
    shaper.losses.add("merged", f"merged prefixItems at {path} into one schema for all items")


def shape_items(
    shaper: Shaper, node: JsonObject, place: Place, parts: JsonObject, notes: list[str], undo: dict[str, Any]
) -> bool:
    """The items of an array, compiled into `parts`; False when no array can fit."""
    row = shaper.row
    if "prefixItems" in node:
        made = [shaper.visit(each, place.below("prefixItems", n)) for n, each in enumerate(node["prefixItems"])]
        if any(each.schema is None for each in made):
            return False
        parts["prefixItems"] = [each.schema for each in made]
        if any(each.undo for each in made):
            undo["prefix"] = tuple(each.undo for each in made)
    if "items" not in node:
        if not row.items_needed:
            return True
        shaper.losses.add("added", f"added items at {place.path}")
        if not row.typed:
            parts["items"] = {}
            return True
    inner = shaper.visit(node.get("items", True), place.below("items"))
    if inner.schema is not None:
        parts["items"] = inner.schema
        if inner.undo:
            undo["items"] = inner.undo
        return True
    parts["items"] = {"type": shaper.case("string")}
    if row.keeps("maxItems"):
        parts["maxItems"] = 0
    notes.append("leave it empty")
    return True


# --------------------------------------------------------------------------------------------------------------------
# Objects: their properties, their required properties, and objects with free keys.

_PAIRED = frozenset({"type", "properties", "required", "additionalProperties", "patternProperties", "propertyOrdering"})
_LONGEST_NAME = 64


def is_map(node: JsonObject, kinds: list[str], row: Target) -> bool:
    """Whether an object has only free keys, and the target cannot express that."""
    if not row.pairs or node.get("properties") or [kind for kind in kinds if kind != "null"] != ["object"]:
        return False
    # Closed targets can say "no properties at all"; the others take no object without any.
    return node.get("additionalProperties") is not False or not row.closed


def is_emptied(node: JsonObject, parts: JsonObject, row: Target) -> bool:
    """Whether an object has lost all its properties on the way to a target that takes none without any."""
    return row.pairs and not row.closed and bool(node.get("properties")) and not parts.get("properties")


def shape_pairs(shaper: Shaper, node: JsonObject, place: Place) -> CompiledNode:
    """Convert an object with free keys to a list of keys and values."""
    additional = node.get("additionalProperties", True)
    patterns = node.get("patternProperties")
    if isinstance(patterns, dict) and len(patterns) == 1 and not isinstance(additional, dict):
        additional = next(iter(patterns.values()))
    value = shaper.visit(True if additional is False else additional, place.below("additionalProperties"))
    if value.schema is None:
        value = CompiledNode({"type": shaper.case("string")})
    shaper.losses.add("pairs", f"wrote the object at {place.path} as a list of keys and values")
    shaper.undone = True
    pair: JsonObject = {
        "type": shaper.case("object"),
        "properties": {"key": {"type": shaper.case("string")}, "value": value.schema},
        "required": ["key", "value"],
    }
    if shaper.row.closed:
        pair["additionalProperties"] = False
    out, notes = shaper.finish({key: each for key, each in node.items() if key not in _PAIRED}, place)
    notes.append("an object, written as a list of its keys and values")
    if node.get("additionalProperties") is False:
        notes.append("leave it empty")
    kinds = ["array" if kind == "object" else kind for kind in kinds_in(node)]
    schema = {**shaper.type_words(kinds, False), **out, "items": pair}
    schema["description"] = extend(out.get("description"), notes)
    items = Undo(members={"value": value.undo}) if value.undo else None
    return CompiledNode(schema, Undo(pairs=True, items=items))


def shape_members(
    shaper: Shaper, node: JsonObject, place: Place, notes: list[str], *, root: bool
) -> tuple[JsonObject, dict[str, Any]] | None:
    """Return the properties of an object, the keywords about them, and the Undo.

    None if a required property can have no value.
    """
    row = shaper.row
    required = node.get("required", [])
    asked_for = frozenset(required)
    properties: JsonObject = {}
    undo: dict[str, Any] = {}
    members: dict[str, Undo] = {}
    absent: list[str] = []
    renamed = _rename(shaper, node.get("properties", {}), place)
    for name, schema in node.get("properties", {}).items():
        made = shaper.visit(schema, place.below("properties", name))
        if made.schema is None:
            if name in asked_for:
                return None
            continue
        wire_name = renamed.get(name, name)
        properties[wire_name] = made.schema
        if made.undo:
            members[wire_name] = made.undo
        if row.all_required and name not in asked_for:
            properties[wire_name] = allow_null(made.schema)
            if not fits(shape_of(schema, shaper.references.root), None):
                absent.append(wire_name)
    if absent:
        shaper.losses.add("nullable", f"asks for null where these are absent at {place.path}: {', '.join(absent)}")
        undo["absent"] = frozenset(absent)
    if renamed:
        undo["names"] = {wire_name: name for name, wire_name in renamed.items()}
    shaper.undone = shaper.undone or bool(absent or renamed)
    parts: JsonObject = {}
    if "properties" in node or row.closed:
        parts["properties"] = properties
    _require(shaper, node, [renamed.get(name, name) for name in required], properties, parts, place)
    _shape_additional(shaper, node, place, parts, notes, undo, root)
    _order(shaper, node, renamed, properties, parts, place)
    if members:
        undo["members"] = members
    return parts, undo


def _require(
    shaper: Shaper, node: JsonObject, required: list[str], properties: JsonObject, parts: JsonObject, place: Place
) -> None:
    row = shaper.row
    if row.known_required:
        unknown = [name for name in required if name not in properties]
        if unknown:
            shaper.losses.add("dropped", f"dropped {', '.join(unknown)} from required at {place.path}: not defined")
        required = [name for name in dict.fromkeys(required) if name in properties]
    if row.all_required:
        parts["required"] = list(properties)
    elif required or ("required" in node and row.kept is None):
        parts["required"] = required


def _shape_additional(
    shaper: Shaper,
    node: JsonObject,
    place: Place,
    parts: JsonObject,
    notes: list[str],
    undo: dict[str, Any],
    root: bool,
) -> None:
    row = shaper.row
    given = node.get("additionalProperties")
    if row.closed:
        parts["additionalProperties"] = False
        if given not in (None, False):
            shaper.losses.add("closed", f"closed {place.path} to further properties")
    elif given is None:
        return
    elif not row.keeps("additionalProperties") or (root and row.root_kept is not None):
        if given is True:
            shaper.losses.add_annotation("additionalProperties", place.path)
        elif given is False:
            shaper.losses.add("dropped", f"dropped additionalProperties at {place.path}")
        else:
            shaper.leave_out("additionalProperties", given, place, None if root else notes)
    elif isinstance(given, bool):
        parts["additionalProperties"] = given
    else:
        made = shaper.visit(given, place.below("additionalProperties"))
        parts["additionalProperties"] = False if made.schema is None else made.schema
        if made.undo:
            undo["others"] = made.undo


def _order(
    shaper: Shaper, node: JsonObject, renamed: dict[str, str], properties: JsonObject, parts: JsonObject, place: Place
) -> None:
    order = node.get("propertyOrdering")
    if order is None:
        return
    if shaper.row.keeps("propertyOrdering"):
        names = [renamed.get(name, name) for name in order if isinstance(name, str)]
        parts["propertyOrdering"] = [name for name in names if name in properties or shaper.row.kept is None]
    else:
        shaper.losses.add_annotation("propertyOrdering", place.path)


@cache
def _pattern(names: str) -> re.Pattern[str]:
    return re.compile(names)


def _rename(shaper: Shaper, properties: JsonObject, place: Place) -> dict[str, str]:
    """Return new names for the properties whose names the target rejects."""
    if not shaper.row.names:
        return {}
    fits = _pattern(shaper.row.names).fullmatch
    renamed: dict[str, str] = {}
    taken = {name for name in properties if fits(name)}
    for name in properties:
        if name in taken and fits(name):
            continue
        clean = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:_LONGEST_NAME]
        if not fits(clean):
            clean = f"_{clean}"[:_LONGEST_NAME]
        candidate, number = clean, 1
        while candidate in taken:
            number += 1
            ending = f"_{number}"
            candidate = clean[: _LONGEST_NAME - len(ending)] + ending
        taken.add(candidate)
        renamed[name] = candidate
        shaper.losses.add("renamed", f"renamed {place.below('properties', name).path} to {candidate}")
    return renamed


# --------------------------------------------------------------------------------------------------------------------
# Conversion of each flattened node.

_EXPLAINED = CONSTRAINTS | {"default", "examples", "example", "nullable"}
"""Keywords that are described in the description if the target does not accept them."""
_MEMBERS = frozenset({"properties", "required", "additionalProperties", "propertyOrdering"})
_SEQUENCE = frozenset({"items", "prefixItems"})
_UNIONS = ("anyOf", "oneOf", "allOf")
_BUILT = _MEMBERS | _SEQUENCE | {"type", *_UNIONS}


class Shaper(Walk):
    """The walk with its second half: from flattened nodes to compiled schemas."""

    def visit(self, schema: Any, place: Place) -> CompiledNode:
        """Return the compiled form of a schema below the root."""
        if isinstance(schema, bool) and self.row.kept is None:
            return CompiledNode(schema)
        node, place = self.flatten(schema, place)
        return NOTHING if node is None else self.shape(node, place)

    def shape(self, node: JsonObject, place: Place, *, root: bool = False) -> CompiledNode:
        if self.row.kept is not None:
            node = spell_out_nullable(node)
        if "$ref" in node:
            return self._shape_reference(node, place)
        if self.row.kept is None:
            return self.build(node, place, root=root)
        if not self._rewrite(node, place):
            return NOTHING
        if self.row.split_unions and "anyOf" in node:
            node = self._part_union(node, place)
            if "anyOf" in node:
                return self.shape_union(node, place)
        kinds = kinds_in(node)
        if "enum" in node and need_text(node, self.row):
            return shape_as_text(self, node, place)
        if self._must_split(node, kinds):
            return self.shape_union(_split_kinds(node, kinds), place)
        if not root and is_map(node, kinds, self.row):
            return shape_pairs(self, node, place)
        return self.build(node, place, root=root)

    # ---- rewriting in place --------------------------------------------------------------------------------------

    def _rewrite(self, node: JsonObject, place: Place) -> bool:
        """Rewrite forms that the target does not accept; return False if no value is left."""
        row, path = self.row, place.path
        if "const" in node and (not row.keeps("const") or (row.typed and not _is_plain_constant(node))):
            self.losses.add("rewritten", f"rewrote const as enum at {path}")
            node["enum"] = [node.pop("const")]
        if "oneOf" in node and not row.keeps("oneOf"):
            self.losses.add("rewritten", f"rewrote oneOf as anyOf at {path}")
            merged = self._merge({"anyOf": node.pop("oneOf")}, {"anyOf": node.get("anyOf", [True])}, place)
            node["anyOf"] = merged["anyOf"] if merged else [True]
        if "enum" in node:
            settle_choices(node, path, self.losses)
            if not node["enum"]:
                self.losses.add("dropped", f"dropped {path}: its enum allows no value")
                return False
        self._rewrite_limits(node, path)
        if "prefixItems" in node and not row.keeps("prefixItems"):
            rewrite_tuple(self, node, path)
        if row.typed and "type" not in node and "anyOf" not in node and "const" not in node:
            self._name_type(node, path)
        return True

    def _rewrite_limits(self, node: JsonObject, path: str) -> None:
        """For integers, "more than 3" is "at least 4"."""
        for exclusive, limit, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            bound = node.get(exclusive)
            if type(bound) is not int or self.row.keeps(exclusive) or not self.row.keeps(limit):
                continue
            if kinds_in(node) == ["integer"]:
                stricter = max if step > 0 else min
                node[limit] = stricter(node.get(limit, bound + step), bound + step)
                del node[exclusive]
                self.losses.add("rewritten", f"rewrote {exclusive} as {limit} at {path}")

    def _name_type(self, node: JsonObject, path: str) -> None:
        kinds = infer_kinds(node)
        if "enum" in node and not self.row.type_lists:
            return  # The enum is sufficient, and the target does not accept several types.
        if kinds:
            set_kinds(node, kinds)
            self.losses.add("typed", f"took {path} to be of type {' or '.join(kinds)}")
            return
        self.losses.add("narrowed", f"narrowed {path} from anything to {', '.join(SCALARS)}")
        for key in [key for key in node if key in KIND_OF_KEYWORD]:
            self.losses.add("dropped", f"dropped {key} at {path}")
            del node[key]
        node["anyOf"] = [{"type": kind} for kind in SCALARS]

    def _part_union(self, node: JsonObject, place: Place) -> JsonObject:
        """Separate a union from constraints, if the target does not accept both in one schema."""
        if node.keys().isdisjoint(CONSTRAINTS):
            return node
        branches = node["anyOf"]
        if "properties" in node and all(map(walk.only_requires, branches)):
            merged = self.merge_unions(node, "anyOf", branches, place)
            merged.setdefault("type", "object")
            return merged
        self.losses.add("rewritten", f"moved what stands beside anyOf at {place.path} into its branches")
        return walk.distribute(node, "anyOf")

    def _must_split(self, node: JsonObject, kinds: list[str]) -> bool:
        several = len([kind for kind in kinds if kind != "null"]) > 1
        if "enum" in node or not kinds:
            return False
        if self.row.type_lists:
            return several and is_map(node, ["object"] if "object" in kinds else [], self.row)
        return several or (len(kinds) > 1 and not self.row.nullable)

    # ---- unions --------------------------------------------------------------------------------------------------

    def shape_union(self, node: JsonObject, place: Place) -> CompiledNode:
        """`anyOf` with nothing but annotations beside it."""
        made = [self.visit(each, place.below("anyOf", n)) for n, each in enumerate(node["anyOf"])]
        made = [each for each in made if each.schema is not None]
        if not made:
            return NOTHING
        out, notes = self.finish(node, place)
        if self.row.nullable:
            made, null = _without_null(made)
            if not made:
                return CompiledNode({"type": self.case("null"), **_described(out, notes)})
            made = [CompiledNode(_nullable(each.schema), each.undo) for each in made] if null else made
        if self.row.lone_unions:
            return self._lone_union(made, out, notes)
        beside = _described(out, notes)
        if len(made) == 1 and len(node["anyOf"]) > 1 and "$ref" not in made[0].schema:
            return CompiledNode({**made[0].schema, **beside}, made[0].undo)
        return CompiledNode({"anyOf": [each.schema for each in made], **beside}, self.undo_branches(made))

    def _lone_union(self, made: list[CompiledNode], out: JsonObject, notes: list[str]) -> CompiledNode:
        """Whatever stood beside the union goes into its first branch; one branch alone needs no union."""
        beside = _described(out, notes)
        first = made[0]
        if len(made) == 1 and "anyOf" not in first.schema:
            return CompiledNode({**first.schema, **beside}, first.undo)
        if beside.get("description"):
            first = CompiledNode(_describe_first(first.schema, beside["description"]), first.undo)
        if len(made) == 1:
            return first
        made = [first, *made[1:]]
        return CompiledNode({"anyOf": [each.schema for each in made]}, self.undo_branches(made))

    def undo_branches(self, made: list[CompiledNode]) -> Undo:
        if not any(each.undo for each in made):
            return Undo()
        return Undo(branches=tuple(Branch(each.schema, each.undo) for each in made))

    # ---- references that stay ------------------------------------------------------------------------------------

    def _shape_reference(self, node: JsonObject, place: Place) -> CompiledNode:
        reference = node.pop("$ref")
        beside = {key: value for key, value in node.items() if key in CONSTRAINTS or key in _UNIONS}
        if beside and self.row.references == "bare":
            if not self.references.is_cyclic(reference):
                flat, inner = self.flatten({**node, "$ref": reference}, place, whole=True)
                return NOTHING if flat is None else self.shape(flat, inner)
            for key in beside:
                self.losses.add("dropped", f"dropped {key} beside $ref at {place.path}")
                del node[key]
        name = self.name_definition(reference)
        pointer = {"$ref": name if name == "#" else f"#/$defs/{name}"}
        undo = Undo(reference=name)
        if not node:
            return CompiledNode(pointer, undo)
        if self.row.references == "bare":
            out, notes = self.finish(node, place)
            described = _described(out, notes)
            return CompiledNode({"anyOf": [pointer], **described} if described else pointer, undo)
        siblings = self.build(node, place)
        if siblings.schema is None:
            return NOTHING
        return CompiledNode(
            {**pointer, **siblings.schema}, Undo(every=(siblings.undo, undo)) if siblings.undo else undo
        )

    # ---- putting a node together ---------------------------------------------------------------------------------

    def build(self, node: JsonObject, place: Place, *, root: bool = False) -> CompiledNode:
        """Compile every keyword of a node: members, items, branches if the target accepts them here, and the rest."""
        kinds = kinds_in(node)
        parts: JsonObject = {}
        notes: list[str] = []
        undo: dict[str, Any] = {}
        if "object" in kinds or not _MEMBERS.isdisjoint(node):
            members = shape_members(self, node, place, notes, root=root)
            if members is None:
                return NOTHING
            parts, undo = members
            if is_emptied(node, parts, self.row) and not root:
                return shape_pairs(self, {**node, "properties": {}, "additionalProperties": False}, place)
        is_array = "array" in kinds or not _SEQUENCE.isdisjoint(node)
        if is_array and not shape_items(self, node, place, parts, notes, undo):
            return NOTHING
        if not self._shape_unions(node, place, parts, undo):
            return NOTHING
        if kinds:
            parts |= self.type_words(kinds, "enum" in node)
        out, more = self.finish(node, place, root=root)
        order = dict.fromkeys([*(key for key in node if key in parts or key in out), *parts, *out])
        schema = {key: parts[key] if key in parts else out[key] for key in order}
        return CompiledNode(_described(schema, notes + more, room=not root or self._has_room_at_root()), Undo(**undo))

    def _has_room_at_root(self) -> bool:
        return self.row.root_kept is None or "description" in self.row.root_kept

    def _shape_unions(self, node: JsonObject, place: Place, parts: JsonObject, undo: dict[str, Any]) -> bool:
        every: list[Undo] = []
        for keyword in _UNIONS:
            if keyword not in node:
                continue
            made = [self.visit(each, place.below(keyword, n)) for n, each in enumerate(node[keyword])]
            if keyword == "allOf":
                if any(each.schema is None for each in made):
                    return False
                every += [each.undo for each in made if each.undo]
            else:
                made = [each for each in made if each.schema is not None]
                if not made:
                    return False
                branches = self.undo_branches(made)
                every += [branches] if branches else []
            parts[keyword] = [each.schema for each in made]
        if every:
            undo["every"] = tuple(every)
        return True

    def type_words(self, kinds: list[str], with_choices: bool) -> JsonObject:
        if self.row.nullable and len(kinds) > 1:
            rest = [kind for kind in kinds if kind != "null"]
            word = {"type": self.case(rest[0])}
            return {**word, "nullable": True} if "null" in kinds else word
        if len(kinds) > 1 and not self.row.type_lists and with_choices:
            return {}  # The choices say it all.
        return {"type": self.case(kinds[0]) if len(kinds) == 1 else [self.case(kind) for kind in kinds]}

    def case(self, kind: str) -> str:
        return kind.upper() if self.row.upper else kind

    def finish(self, node: JsonObject, place: Place, *, root: bool = False) -> tuple[JsonObject, list[str]]:
        """Return the keywords without schemas that stay, and describe the others in the description."""
        kinds = kinds_in(node)
        node = {key: value for key, value in node.items() if key not in _BUILT}
        kept = self.row.root_kept if root and self.row.root_kept is not None else self.row.kept
        room = not root or self._has_room_at_root()
        out: JsonObject = {}
        notes: list[str] = []
        for key, value in node.items():
            if kept is None:
                out[key] = self._visit_others(key, value, place)
            elif key in kept and self._takes_value(key, value, kinds):
                out[key] = value
            elif key == "description":
                self.losses.add("dropped", f"dropped description at {place.path}")
            else:
                self.leave_out(key, value, place, notes if room else None)
        return out, notes

    def _takes_value(self, key: str, value: Any, kinds: list[str]) -> bool:
        if key == "format" and self.row.formats is not None:
            is_number = "integer" in kinds or "number" in kinds
            return value in (self.row.number_formats if is_number else self.row.formats)
        if key == "minItems" and self.row.most_min_items is not None:
            return bool(value <= self.row.most_min_items)
        return True

    def leave_out(self, key: str, value: Any, place: Place, notes: list[str] | None) -> None:
        """Report a keyword that cannot stay, and describe it in the description if the target allows that."""
        if key in ANNOTATIONS or key not in _EXPLAINED or (key == "default" and value is None):
            self.losses.add_annotation(key, place.path)
            return
        words = phrase(key, value) if self.row.describes and notes is not None else ""
        if words and notes is not None:
            notes.append(words)
            self.losses.add("described", f"dropped {key} at {place.path}, put in words in the description")
        else:
            self.losses.add("dropped", f"dropped {key} at {place.path}")

    def _visit_others(self, key: str, value: Any, place: Place) -> Any:
        """Schemas in keywords that only the open targets keep (`not`, `if`, ...): compiled, for what they refer to."""
        if key in MAPS:
            return {name: self._visit_other(each, place.below(key, name)) for name, each in value.items()}
        if key in CHILDREN:
            return self._visit_other(value, place.below(key))
        if key in LISTS:
            return [self._visit_other(each, place.below(key, n)) for n, each in enumerate(value)]
        return value

    def _visit_other(self, schema: Any, place: Place) -> Any:
        made = self.visit(schema, place)
        return False if made.schema is None else made.schema


def _described(schema: JsonObject, notes: list[str], *, room: bool = True) -> JsonObject:
    if not notes or not room:
        return schema
    return {**schema, "description": extend(schema.get("description"), notes)}


def _describe_first(schema: JsonObject, description: str) -> JsonObject:
    """A schema with words in front of its own; in a union they go to the first branch that is none itself."""
    if "anyOf" in schema:
        first, *rest = schema["anyOf"]
        return {"anyOf": [_describe_first(first, description), *rest]}
    words = [description, schema.get("description", "")]
    return {**schema, "description": "; ".join(filter(None, words))}


def _nullable(schema: JsonObject) -> JsonObject:
    if "anyOf" in schema:
        return {"anyOf": [_nullable(branch) for branch in schema["anyOf"]]}
    return {**schema, "nullable": True}


def _without_null(made: list[CompiledNode]) -> tuple[list[CompiledNode], bool]:
    """The branches other than null, and whether null was among them."""
    rest = [each for each in made if each.schema.get("type") not in ("NULL", "null")]
    return rest, len(rest) < len(made)


def _is_plain_constant(node: JsonObject) -> bool:
    """Whether a constant can stand as it is, beside its type, where only scalars and single types may."""
    kinds = kinds_in(node)
    return not isinstance(node["const"], dict | list) and (not kinds or kinds == [kind_of(node["const"])])


def _split_kinds(node: JsonObject, kinds: list[str]) -> JsonObject:
    """A list of types as a union, each branch with the keywords that speak of its type."""
    branches = []
    for kind in kinds:
        spoken = "number" if kind == "integer" else kind
        branch = {key: value for key, value in node.items() if KIND_OF_KEYWORD.get(key) == spoken}
        branches.append({"type": kind, **branch})
    rest = {key: value for key, value in node.items() if key not in KIND_OF_KEYWORD and key != "type"}
    return {**rest, "anyOf": branches}
