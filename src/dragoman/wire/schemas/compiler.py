"""`compile_schema`: compiles one JSON Schema for one target and reports every change."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, nearest
from dragoman.jsonschema.references import ExpansionLimit, ReferenceLimit
from dragoman.types import JsonObject, Tool
from dragoman.wire.failures import Loss
from dragoman.wire.schemas.shapes import Shaper
from dragoman.wire.schemas.targets import ROOT_ONLY_OBJECT, ROWS, TARGETS, Target, exceeded
from dragoman.wire.schemas.undo import NOTHING_TO_UNDO, Undo
from dragoman.wire.schemas.walk import Inexpressible, Losses, Place

_LEVELS_OF_RECURSION = (4, 3, 2, 1)
"""The depths to which a recursion is expanded: the first that gives a schema within the limits is used."""

_KEPT = 256
_LONGEST_KEPT = 64_000


class Compiled(Struct, frozen=True):
    """A schema for one target. It is read-only: it may be the tool's own schema, or be cached."""

    schema: JsonObject | None
    """None: the target cannot express the tool, which is left out. `{}`: it has no parameters to send."""
    losses: tuple[Loss, ...] = ()
    undo: Undo = NOTHING_TO_UNDO


_remembered: dict[tuple[bytes, str, str, bool], Compiled | None] = {}
"""The cache of compiled schemas, by their inputs; None for schemas that are sent unchanged."""


def compile_schema(tool: Tool, target: str, *, inline: bool = False) -> Compiled:
    """Compile the parameters of a tool for a target; `inline` expands references that the target would keep."""
    row = ROWS.get(target)
    if row is None:
        guess = nearest(str(target), TARGETS)
        hint = f"did you mean {guess!r}?" if guess else f"the targets are {', '.join(TARGETS)}"
        raise ConfigError(f"there is no schema target named {target!r}", hint=hint)
    parameters: Any = tool.parameters
    if parameters is None or parameters is True or parameters == {}:
        return Compiled(_empty(row))
    if inline:
        row = replace(row, references="inline", recursion="cut")
    # Every request sends the same tools. The cache compares their text, not their identity.
    try:
        key = (msgspec.json.encode(parameters), tool.name, target, inline)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _compile(parameters, tool.name, row)
    if key in _remembered:
        return _remembered[key] or Compiled(parameters)
    made = _compile(parameters, tool.name, row)
    # Most schemas need no change for most targets.
    found = made if made.losses or made.undo or made.schema != parameters else None
    if len(key[0]) <= _LONGEST_KEPT:
        if len(_remembered) >= _KEPT:
            _remembered.clear()
        _remembered[key] = found
    return found or Compiled(parameters)


def _empty(row: Target) -> JsonObject:
    if row.omits_empty:
        return {}
    if row.closed:
        empty: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
        return {**empty, "required": []} if row.all_required else empty
    return {"type": "object", "properties": {}}


def _compile(parameters: Any, name: str, row: Target) -> Compiled:
    why = "its schema is too large once its references are expanded"
    for levels in _LEVELS_OF_RECURSION:
        losses = Losses(name)
        shaper = Shaper(row, parameters, losses, levels)
        try:
            return _run(shaper, parameters)
        except ExpansionLimit:
            if shaper.recursive:
                continue
        except Inexpressible as problem:
            why = str(problem)
        except ReferenceLimit:
            why = "its references are too entangled"
        except RecursionError:
            why = "its schema is nested too deeply"
        break
    losses.add("left_out", f"left out: {why}")
    return Compiled(None, losses.finish())


def _run(shaper: Shaper, parameters: Any) -> Compiled:
    row = shaper.row
    if not isinstance(parameters, dict):
        raise Inexpressible("its parameters are not a JSON Schema")
    node = shaper.flatten_object(parameters, Place())
    if node is None:
        raise Inexpressible("its parameters cannot be an object")
    for keyword in sorted(ROOT_ONLY_OBJECT & node.keys()):
        shaper.losses.add("dropped", f"dropped {keyword} at $: the root is a plain object")
        del node[keyword]
    if row.kept is not None:
        node.pop("nullable", None)  # Arguments are never null.
    made = shaper.shape(node, Place(), root=True)
    if made.schema is None:
        raise Inexpressible("no arguments could fit its parameters")
    schema: JsonObject = made.schema
    if row.omits_empty and not schema.get("properties"):
        for keyword in sorted(schema.keys() - {"type", "properties"}):
            shaper.losses.add("dropped", f"dropped {keyword} at $: there are no parameters to declare")
        return Compiled({}, shaper.losses.finish())
    definitions, undoing = _compile_definitions(shaper)
    if definitions:
        schema = {**schema, "$defs": definitions}
    if row.limits is not None:
        why = exceeded(schema, row.limits)
        if why:
            raise Inexpressible(f"too large for this target: {why}")
    undo = NOTHING_TO_UNDO
    if shaper.undone:
        undoing["#"] = made.undo
        undo = replace(made.undo, definitions=undoing, root=schema)
    return Compiled(schema, shaper.losses.finish(), undo)


def _compile_definitions(shaper: Shaper) -> tuple[JsonObject, dict[str, Undo]]:
    """Compile the definitions of the references that stay; each may add further definitions."""
    while shaper.waiting:
        reference = shaper.waiting.pop(0)
        name = shaper.names[reference]
        made = shaper.visit(shaper.references.target(reference), Place().below("$defs", name))
        if made.schema is None:
            raise Inexpressible(f"nothing could fit {reference}")
        shaper.definitions[name] = made
    definitions = {name: made.schema for name, made in shaper.definitions.items()}
    return definitions, {name: made.undo for name, made in shaper.definitions.items()}
