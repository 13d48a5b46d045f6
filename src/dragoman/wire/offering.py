"""The tools of a request as one wire can take them: named by its rule, with schemas that it understands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.toolset import as_tool
from dragoman.types import JsonObject, Tool
from dragoman.wire.aliases import Namer, NameRule
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.schemas import compile_schema

_write = msgspec.json.Encoder().encode


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


class _Plan(Struct, frozen=True):
    """What becomes of a list of tools: worked out once, and used for every list that reads the same."""

    entries: list[tuple[int, str, JsonObject | None]]
    """The place of each tool that is offered, its name on the wire, and its schema; None: its own, as it is."""
    losses: tuple[Loss, ...]
    namer: Namer
    undo: dict[str, Any]


_KEPT = 64
_LONGEST_KEPT = 256_000
_remembered: dict[tuple[bytes, NameRule, int, str, bool], _Plan] = {}
"""The plans of lists that came before, by the text of the list and all else that they were made from."""


def offer(tools: Iterable[Tool], names: NameRule, target: str, quirks: Quirks) -> Offer:
    """Compile the tools for a schema target and name them by a rule."""
    given = [tool if type(tool) is Tool else as_tool(tool) for tool in tools]
    plan = _plan(given, names, target, quirks)
    offered = [
        Offered(given[place], name, given[place].parameters if schema is None else schema)
        for place, name, schema in plan.entries
    ]
    # The names of calls in the history are added to those of the tools, so everyone gets a namer of his own.
    return Offer(offered, list(plan.losses), plan.namer.fork(), dict(plan.undo))


def _plan(given: list[Tool], names: NameRule, target: str, quirks: Quirks) -> _Plan:
    # The same tools go out with every request. Their text, not their identity, says whether they are the same: a
    # schema that was changed in place is another one.
    try:
        text = _write([(tool.name, tool.parameters) for tool in given])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _make_plan(given, names, target, quirks)
    key = (text, names, quirks.name_limit, target, quirks.inline_references)
    known = _remembered.get(key)
    if known is None:
        known = _make_plan(given, names, target, quirks)
        if len(text) <= _LONGEST_KEPT:
            if len(_remembered) >= _KEPT:
                _remembered.clear()
            _remembered[key] = known
    return known


def _make_plan(given: list[Tool], names: NameRule, target: str, quirks: Quirks) -> _Plan:
    losses: list[Loss] = []
    namer = Namer(names, [tool.name for tool in given], quirks.name_limit)
    entries: list[tuple[int, str, JsonObject | None]] = []
    undo: dict[str, Any] = {}
    seen: set[str] = set()
    for place, tool in enumerate(given):
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
        entries.append((place, name, None if compiled.schema is tool.parameters else compiled.schema))
    return _Plan(entries, tuple(losses), namer, undo)
