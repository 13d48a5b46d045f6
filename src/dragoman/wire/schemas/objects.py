"""Objects: their properties, what they require, and those whose keys are free."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.types import JsonObject
from dragoman.wire.schemas.nodes import allow_null, kinds_in, takes_null
from dragoman.wire.schemas.targets import Target
from dragoman.wire.schemas.undo import Undo
from dragoman.wire.schemas.walk import Made, Place
from dragoman.wire.schemas.wording import extend

if TYPE_CHECKING:
    from dragoman.wire.schemas.shaping import Shaper

_PAIRED = frozenset({"type", "properties", "required", "additionalProperties", "patternProperties", "propertyOrdering"})
_LONGEST_NAME = 64


class Members(Struct, frozen=True):
    """The compiled keywords of an object, and what has to be undone in it."""

    parts: JsonObject
    undo: dict[str, Any]


def is_map(node: JsonObject, kinds: list[str], row: Target) -> bool:
    """Whether an object has free keys alone, and the target cannot say so."""
    if not row.pairs or node.get("properties") or [kind for kind in kinds if kind != "null"] != ["object"]:
        return False
    # Closed targets can say "no properties at all"; the others take no object without any.
    return node.get("additionalProperties") is not False or not row.closed


def is_emptied(node: JsonObject, parts: JsonObject, row: Target) -> bool:
    """Whether an object has lost all its properties on the way to a target that takes none without any."""
    return row.pairs and not row.closed and bool(node.get("properties")) and not parts.get("properties")


def shape_pairs(shaper: Shaper, node: JsonObject, place: Place) -> Made:
    """An object with free keys, written as a list of keys and values."""
    additional = node.get("additionalProperties", True)
    patterns = node.get("patternProperties")
    if isinstance(patterns, dict) and len(patterns) == 1 and not isinstance(additional, dict):
        additional = next(iter(patterns.values()))
    value = shaper.visit(True if additional is False else additional, place.below("additionalProperties"))
    if value.schema is None:
        value = Made({"type": shaper.case("string")})
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
    return Made(schema, Undo(pairs=True, items=items))


def shape_members(shaper: Shaper, node: JsonObject, place: Place, notes: list[str], *, root: bool) -> Members | None:
    """The properties of an object and all that speaks of them; None when one that is required can have no value."""
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
            if not takes_null(schema, shaper.references):
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
    return Members(parts, undo)


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
    """New names for the properties whose own the target refuses."""
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
