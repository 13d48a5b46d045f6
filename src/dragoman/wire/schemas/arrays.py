"""Arrays: what their items are, tuples, and arrays that nothing can stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.types import JsonObject
from dragoman.wire.schemas.walk import Place

if TYPE_CHECKING:
    from dragoman.wire.schemas.shaping import Shaper


def rewrite_tuple(shaper: Shaper, node: JsonObject, path: str) -> None:
    """A list with a schema per position, as a list whose items fit any of them."""
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
