"""The tools of a request as one wire can take them: named by its rule, with schemas that it understands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from dragoman.types import JsonObject, Tool
from dragoman.wire.aliases import Namer, NameRule
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.schemas import compile_schema


class Offered(Struct, frozen=True):
    """One tool: ours, its name on the wire, and the schema of its parameters for the wire."""

    tool: Tool
    name: str
    schema: JsonObject


class Offer(Struct, frozen=True):
    """The tools that can be offered, and the report of what they lost. A tool that cannot be expressed is left out."""

    tools: list[Offered]
    losses: list[Loss]
    namer: Namer
    undo: dict[str, Any]

    def name_of(self, ours: str) -> str | None:
        """The name on the wire of a tool that is offered; None for any other."""
        return next((offered.name for offered in self.tools if offered.tool.name == ours), None)


def offer(tools: Iterable[Tool], names: NameRule, target: str, quirks: Quirks) -> Offer:
    """Compile the tools for a schema target and name them by a rule."""
    given = list(tools)
    losses: list[Loss] = []
    namer = Namer(names, [tool.name for tool in given], quirks.name_limit)
    offered: list[Offered] = []
    undo: dict[str, Any] = {}
    seen: set[str] = set()
    for tool in given:
        where = f"tool {tool.name}"
        if tool.name in seen:
            losses.append(Loss("left_out", where, "a second tool of the same name was left out"))
            continue
        seen.add(tool.name)
        compiled = compile_schema(tool, target, inline=quirks.inline_references)
        losses += compiled.losses
        if compiled.schema is None:
            continue
        name = namer.name(tool.name)
        if name != tool.name:
            losses.append(Loss("renamed", where, f"it is called {name} on this wire"))
        if compiled.undo:
            undo[tool.name] = compiled.undo
        offered.append(Offered(tool, name, compiled.schema))
    return Offer(offered, losses, namer, undo)
