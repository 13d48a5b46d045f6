"""Compile one JSON Schema for one target and report every change."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, nearest
from dragoman.jsonschema.keywords import CHILDREN, LISTS, MAPS, TYPES, WELL_FORMED
from dragoman.jsonschema.references import ExpansionLimit, ReferenceLimit, leads_somewhere
from dragoman.types import JsonObject, Tool
from dragoman.wire.failures import Loss
from dragoman.wire.schemas.shapes import Shaper
from dragoman.wire.schemas.targets import ROOT_ONLY_OBJECT, ROWS, TARGETS, Target, exceeded
from dragoman.wire.schemas.undo import NOTHING_TO_UNDO, Undo
from dragoman.wire.schemas.walk import Inexpressible, Losses, Place

# --------------------------------------------------------------------------------------------------------------------
# The quick look: most schemas need nothing done for most targets, and are passed on as they are.

_MOST_LEVELS = 60


class FastPath(Struct, frozen=True, gc=False):
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


def _look_of(row: Target) -> FastPath | None:
    if row.upper or row.closed:
        return None
    special = MAPS | CHILDREN | LISTS | {"type", "required", "enum", "$ref"}
    known = frozenset(WELL_FORMED) | special | {"const", "default"}
    refused = set() if row.kept is None else {key for key in known if key not in row.kept}
    if row.references == "inline" or row.recursion == "cut":
        refused.add("$ref")
    if row.split_unions:
        refused.add("anyOf")
    return FastPath(
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


def _is_plain_node(node: JsonObject, look: FastPath, root: JsonObject, below: list[Any]) -> bool:
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


def _is_plain_type_list(value: Any, node: JsonObject, look: FastPath) -> bool:
    if type(value) is not list or not value or not all(type(kind) is str and kind in TYPES for kind in value):
        return False
    return not ("array" in value and look.items_needed and "items" not in node) and len(set(value)) == len(value)


def _is_plain_keyword(
    key: str, value: Any, node: JsonObject, look: FastPath, root: JsonObject, below: list[Any]
) -> bool:
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


def _is_plain_map(key: str, value: JsonObject, look: FastPath, below: list[Any]) -> bool:
    if key == "properties" and look.name_pattern is not None:
        matches = look.name_pattern.fullmatch
        if not all(matches(name) for name in value):
            return False
    below.extend(value.values())
    return True


# --------------------------------------------------------------------------------------------------------------------
# One JSON Schema, compiled for one target, with an account of what it took.

_LEVELS_OF_RECURSION = (4, 3, 2, 1)
"""How deep a recursion is written out: the first of these that gives a schema of a bearable size."""

_KEPT = 256
_LONGEST_KEPT = 64_000


class Compiled(Struct, frozen=True):
    """A schema for one target. Take it as read-only: it may be the tool's own, or be given out again."""

    schema: JsonObject | None
    """None: the tool cannot be expressed for this target and has to be left out. `{}`: it has no parameters to send."""
    losses: tuple[Loss, ...] = ()
    undo: Undo = NOTHING_TO_UNDO


_remembered: dict[tuple[bytes, str, str, bool], Compiled | None] = {}
"""What was compiled before, by what it was made from; None for schemas that go out as they are."""


def compile_schema(tool: Tool, target: str, *, inline: bool = False) -> Compiled:
    """The parameters of a tool in the dialect of a target; `inline` writes out references that it would keep."""
    row = ROWS.get(target)
    if row is None:
        guess = nearest(str(target), TARGETS)
        hint = f"did you mean {guess!r}?" if guess else f"the targets are {', '.join(TARGETS)}"
        raise ConfigError(f"there is no schema target named {target!r}", hint=hint)
    parameters: Any = tool.parameters
    if parameters is None or parameters is True or parameters == {}:
        return Compiled(_empty(row))
    # The same tools go out with every request. Their text, not their identity, says whether they are the same.
    try:
        key = (msgspec.json.encode(parameters), tool.name, target, inline)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _compile(parameters, tool.name, row, inline) or Compiled(parameters)
    if key in _remembered:
        return _remembered[key] or Compiled(parameters)
    found = _compile(parameters, tool.name, row, inline)
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


def _compile(parameters: Any, name: str, row: Target, inline: bool) -> Compiled | None:
    """The compiled schema; None for one that the target takes as it is."""
    if isinstance(parameters, dict) and is_plain(parameters, row, inline=inline):
        return None
    if inline:
        row = msgspec.structs.replace(row, references="inline", recursion="cut")
    why = "its schema is too large once its references are written out"
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
        raise Inexpressible("its parameters are no JSON Schema")
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
        undo = msgspec.structs.replace(made.undo, definitions=undoing, root=schema)
    return Compiled(schema, shaper.losses.finish(), undo)


def _compile_definitions(shaper: Shaper) -> tuple[JsonObject, dict[str, Undo]]:
    """The definitions that references were left to; compiling one may ask for more."""
    while shaper.waiting:
        reference = shaper.waiting.pop(0)
        name = shaper.names[reference]
        made = shaper.visit(shaper.references.target(reference), Place().below("$defs", name))
        if made.schema is None:
            raise Inexpressible(f"nothing could fit {reference}")
        shaper.definitions[name] = made
    definitions = {name: made.schema for name, made in shaper.definitions.items()}
    return definitions, {name: made.undo for name, made in shaper.definitions.items()}
