"""The size of a compiled schema, measured against what its target takes."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.schemas.targets import Limits
from dragoman.wire.schemas.wording import json_text


def exceeded(schema: JsonObject, limits: Limits) -> str:
    """Which limit a schema exceeds, in words; "" when it is small enough."""
    properties = levels = choices = letters = 0
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        if not isinstance(node, dict):
            continue
        levels = max(levels, level)
        members = node.get("properties", {})
        properties += len(members)
        letters += sum(map(len, members)) + sum(map(len, node.get("$defs", {})))
        values = node.get("enum", [])
        choices += len(values)
        letters += sum(len(value) if isinstance(value, str) else len(json_text(value)) for value in values)
        below = [*members.values(), node.get("items")]
        waiting.extend((each, level + 1) for each in below)
        # Branches and definitions are no level of their own.
        waiting.extend((each, level) for each in node.get("anyOf", []))
        waiting.extend((each, 1) for each in node.get("$defs", {}).values())
    found = (
        ("properties", properties, limits.properties),
        ("levels of nesting", levels - 1, limits.levels),
        ("enum values", choices, limits.choices),
        ("characters of names and enum values", letters, limits.letters),
    )
    return next((f"{count} {what}, at most {most}" for what, count, most in found if count > most), "")
