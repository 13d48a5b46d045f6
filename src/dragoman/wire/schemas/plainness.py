"""The quick look: most schemas need nothing done for most targets, and are passed on as they are."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.types import JsonObject
from dragoman.wire.schemas.pointers import leads_somewhere
from dragoman.wire.schemas.targets import ROOT_ONLY_OBJECT, ROWS, Target
from dragoman.wire.schemas.vocabulary import CHILDREN, LISTS, MAPS, TYPES, WELL_FORMED

_MOST_LEVELS = 60


class Look(Struct, frozen=True, gc=False):
    """What the quick look has to know of one target."""

    fine: frozenset[str]
    """Keywords that need no further look once their value is well formed."""
    refused: frozenset[str]
    """Keywords at which the quick look gives up."""
    open: bool
    """Whether keywords that nobody knows may stay."""
    name_pattern: re.Pattern[str] | None
    items_needed: bool
    known_required: bool


def _look_of(row: Target) -> Look | None:
    if row.upper or row.closed:
        return None
    special = MAPS | CHILDREN | LISTS | {"type", "required", "enum", "$ref"}
    known = frozenset(WELL_FORMED) | special | {"const", "default"}
    refused = set() if row.kept is None else {key for key in known if key not in row.kept}
    if row.references == "inline" or row.recursion == "cut":
        refused.add("$ref")
    if row.split_unions:
        refused.add("anyOf")
    return Look(
        fine=frozenset((row.kept if row.kept is not None else known) - special),
        refused=frozenset(refused),
        open=row.kept is None,
        name_pattern=re.compile(row.names) if row.names else None,
        items_needed=row.items_needed,
        known_required=row.known_required,
    )


_LOOKS = {name: _look_of(row) for name, row in ROWS.items()}
_INLINE_LOOKS = {
    name: look and replace(look, refused=look.refused | {"$ref", "$defs", "definitions"})
    for name, look in _LOOKS.items()
}


def is_plain(schema: JsonObject, row: Target, *, inline: bool = False) -> bool:
    """Whether a schema can go to the target untouched. False is no verdict: the compiler finds out."""
    look = _INLINE_LOOKS[row.name] if inline else _LOOKS[row.name]
    if look is None or schema.get("type") != "object" or not ROOT_ONLY_OBJECT.isdisjoint(schema):
        return False
    if row.root_kept is not None and not row.root_kept.issuperset(schema):
        return False
    if row.omits_empty and not schema.get("properties"):
        return False
    level: list[Any] = [schema]
    for _ in range(_MOST_LEVELS):
        below: list[Any] = []
        for node in level:
            if type(node) is not dict:
                if type(node) is bool and look.open:
                    continue
                return False
            if not _is_plain_node(node, look, schema, below):
                return False
        if not below:
            return True
        level = below
    return False


def _is_plain_node(node: JsonObject, look: Look, root: JsonObject, below: list[Any]) -> bool:
    fine = look.fine
    for key, value in node.items():
        if key == "type":
            if type(value) is str:
                if value not in TYPES or (value == "array" and look.items_needed and "items" not in node):
                    return False
            elif not _is_plain_type_list(value, node, look):
                return False
            continue
        types = WELL_FORMED.get(key)
        if types is not None and type(value) not in types:
            return False
        if key in fine:
            continue
        if key in look.refused or not _is_plain_keyword(key, value, node, look, root, below):
            return False
    return True


def _is_plain_type_list(value: Any, node: JsonObject, look: Look) -> bool:
    if type(value) is not list or not value or not all(type(kind) is str and kind in TYPES for kind in value):
        return False
    return not ("array" in value and look.items_needed and "items" not in node) and len(set(value)) == len(value)


def _is_plain_keyword(key: str, value: Any, node: JsonObject, look: Look, root: JsonObject, below: list[Any]) -> bool:
    if key in MAPS:
        return _is_plain_map(key, value, look, below)
    if key in CHILDREN:
        if type(value) is dict:
            below.append(value)
            return True
        return look.open or key == "additionalProperties"
    if key in LISTS:
        below.extend(value)
        return bool(value)
    if key == "required":
        known = node.get("properties", {}) if look.known_required else None
        return all(type(name) is str and (known is None or name in known) for name in value)
    if key == "enum":
        return bool(value)
    if key == "$ref":
        return leads_somewhere(value, root)
    return look.open


def _is_plain_map(key: str, value: JsonObject, look: Look, below: list[Any]) -> bool:
    if key == "properties" and look.name_pattern is not None:
        matches = look.name_pattern.fullmatch
        if not all(matches(name) for name in value):
            return False
    below.extend(value.values())
    return True
