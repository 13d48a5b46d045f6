"""Each flattened node, made into what the target takes."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.schemas import arrays, choices, objects, unions
from dragoman.wire.schemas.nodes import SCALARS, infer_kinds, kinds_in, set_kinds, settle_choices, spell_out_nullable
from dragoman.wire.schemas.undo import Branch, Undo
from dragoman.wire.schemas.vocabulary import ANNOTATIONS, CHILDREN, CONSTRAINTS, KIND_OF_KEYWORD, LISTS, MAPS, kind_of
from dragoman.wire.schemas.walk import NOTHING, Made, Place, Walk
from dragoman.wire.schemas.wording import extend, phrase

_EXPLAINED = CONSTRAINTS | {"default", "examples", "example", "nullable"}
"""What is worth words in the description when it cannot stay."""
_MEMBERS = frozenset({"properties", "required", "additionalProperties", "propertyOrdering"})
_SEQUENCE = frozenset({"items", "prefixItems"})
_UNIONS = ("anyOf", "oneOf", "allOf")
_BUILT = _MEMBERS | _SEQUENCE | {"type", *_UNIONS}


class Shaper(Walk):
    """The walk with its second half: from flattened nodes to compiled schemas."""

    __slots__ = ()

    def visit(self, schema: Any, place: Place) -> Made:
        """The compiled form of a schema anywhere below the root."""
        if isinstance(schema, bool) and self.row.kept is None:
            return Made(schema)
        node, place = self.flatten(schema, place)
        return NOTHING if node is None else self.shape(node, place)

    def shape(self, node: JsonObject, place: Place, *, root: bool = False) -> Made:
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
        if "enum" in node and choices.need_text(node, self.row):
            return choices.shape_as_text(self, node, place)
        if self._must_split(node, kinds):
            return self.shape_union(_split_kinds(node, kinds), place)
        if not root and objects.is_map(node, kinds, self.row):
            return objects.shape_pairs(self, node, place)
        return self.build(node, place, root=root)

    # ---- rewriting in place --------------------------------------------------------------------------------------

    def _rewrite(self, node: JsonObject, place: Place) -> bool:
        """The forms that a target does not take, in forms that it does; False when no value is left."""
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
            arrays.rewrite_tuple(self, node, path)
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
            return  # The choices say it all, and several types could not be named.
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
        """A union alone, or constraints alone, where the two may not stand side by side."""
        if node.keys().isdisjoint(CONSTRAINTS):
            return node
        branches = node["anyOf"]
        if "properties" in node and all(map(unions.only_requires, branches)):
            merged = self.merge_unions(node, "anyOf", branches, place)
            merged.setdefault("type", "object")
            return merged
        self.losses.add("rewritten", f"moved what stands beside anyOf at {place.path} into its branches")
        return unions.distribute(node, "anyOf")

    def _must_split(self, node: JsonObject, kinds: list[str]) -> bool:
        several = len([kind for kind in kinds if kind != "null"]) > 1
        if "enum" in node or not kinds:
            return False
        if self.row.type_lists:
            return several and objects.is_map(node, ["object"] if "object" in kinds else [], self.row)
        return several or (len(kinds) > 1 and not self.row.nullable)

    # ---- unions --------------------------------------------------------------------------------------------------

    def shape_union(self, node: JsonObject, place: Place) -> Made:
        """`anyOf` with nothing but annotations beside it."""
        made = [self.visit(each, place.below("anyOf", n)) for n, each in enumerate(node["anyOf"])]
        made = [each for each in made if each.schema is not None]
        if not made:
            return NOTHING
        out, notes = self.finish(node, place)
        if self.row.nullable:
            made, null = _without_null(made)
            if not made:
                return Made({"type": self.case("null"), **_described(out, notes)})
            made = [Made(_nullable(each.schema), each.undo) for each in made] if null else made
        if self.row.lone_unions:
            return self._lone_union(made, out, notes)
        beside = _described(out, notes)
        if len(made) == 1 and len(node["anyOf"]) > 1 and "$ref" not in made[0].schema:
            return Made({**made[0].schema, **beside}, made[0].undo)
        return Made({"anyOf": [each.schema for each in made], **beside}, self.undo_branches(made))

    def _lone_union(self, made: list[Made], out: JsonObject, notes: list[str]) -> Made:
        """Whatever stood beside the union goes into its first branch; one branch alone needs no union."""
        beside = _described(out, notes)
        first = made[0]
        if len(made) == 1 and "anyOf" not in first.schema:
            return Made({**first.schema, **beside}, first.undo)
        if beside.get("description"):
            first = Made(_describe_first(first.schema, beside["description"]), first.undo)
        if len(made) == 1:
            return first
        made = [first, *made[1:]]
        return Made({"anyOf": [each.schema for each in made]}, self.undo_branches(made))

    def undo_branches(self, made: list[Made]) -> Undo:
        if not any(each.undo for each in made):
            return Undo()
        return Undo(branches=tuple(Branch(each.schema, each.undo) for each in made))

    # ---- references that stay ------------------------------------------------------------------------------------

    def _shape_reference(self, node: JsonObject, place: Place) -> Made:
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
            return Made(pointer, undo)
        if self.row.references == "bare":
            out, notes = self.finish(node, place)
            described = _described(out, notes)
            return Made({"anyOf": [pointer], **described} if described else pointer, undo)
        siblings = self.build(node, place)
        if siblings.schema is None:
            return NOTHING
        return Made({**pointer, **siblings.schema}, Undo(every=(siblings.undo, undo)) if siblings.undo else undo)

    # ---- putting a node together ---------------------------------------------------------------------------------

    def build(self, node: JsonObject, place: Place, *, root: bool = False) -> Made:
        """Every keyword of a node, compiled: members, items, branches where they may stand beside others, the rest."""
        kinds = kinds_in(node)
        parts: JsonObject = {}
        notes: list[str] = []
        undo: dict[str, Any] = {}
        if "object" in kinds or not _MEMBERS.isdisjoint(node):
            members = objects.shape_members(self, node, place, notes, root=root)
            if members is None:
                return NOTHING
            if objects.is_emptied(node, members.parts, self.row) and not root:
                return objects.shape_pairs(self, {**node, "properties": {}, "additionalProperties": False}, place)
            parts |= members.parts
            undo |= members.undo
        is_array = "array" in kinds or not _SEQUENCE.isdisjoint(node)
        if is_array and not arrays.shape_items(self, node, place, parts, notes, undo):
            return NOTHING
        if not self._shape_unions(node, place, parts, undo):
            return NOTHING
        if kinds:
            parts |= self.type_words(kinds, "enum" in node)
        out, more = self.finish(node, place, root=root)
        order = dict.fromkeys([*(key for key in node if key in parts or key in out), *parts, *out])
        schema = {key: parts[key] if key in parts else out[key] for key in order}
        return Made(_described(schema, notes + more, room=not root or self._has_room_at_root()), Undo(**undo))

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
        """The keywords that hold no schemas: those that stay, and the words for those that do not."""
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
        """Report a keyword that cannot stay, and put it in words where the target has room for them."""
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


def _without_null(made: list[Made]) -> tuple[list[Made], bool]:
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
