"""Holding a model to its format: a grammar in the request, where the endpoint takes one.

A capable model is left free: it is held only where the caller demands a call, for in text mode nobody else enforces
that. A weak one is held always, and is kept from going on and on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dragoman import formats
from dragoman.errors import ConfigError
from dragoman.formats import Format
from dragoman.toolset import Toolset
from dragoman.types import JsonObject
from dragoman.wire.codec import Choice
from dragoman.wire.failures import Loss
from dragoman.wire.quirks import Quirks

_WEAK: dict[str, Any] = {"most_calls": 1, "most_items": 8, "longest_text": 200}
"""Narrower limits: a model that small repeats itself wherever it may."""


class Held(Struct, frozen=True):
    """The fields that hold the reply, and why there are none where there ought to be."""

    fields: JsonObject = {}
    loss: Loss | None = None


def hold(tools: Toolset, format: str | Format, choice: Choice, quirks: Quirks, *, weak: bool) -> Held:
    """The fields of a request that hold the reply to the format and to the choice of a tool; none where none is due."""
    if not (weak or choice.mode in ("required", "none") or choice.names) or not len(tools):
        return Held()
    if not quirks.grammar_field or (quirks.grammar_syntax == "json_schema" and choice.mode != "required"):
        # A reply in words is no JSON, so a schema can only hold a call.
        return Held()
    try:
        written = formats.grammar(
            tools, format, quirks.grammar_syntax, tool_choice=_write(choice), **(_WEAK if weak else {})
        )
    except ConfigError as error:
        return Held(loss=Loss("dropped", "options", f"the reply is not held by a grammar: {error}"))
    value = msgspec.json.decode(written) if quirks.grammar_syntax == "json_schema" else written
    return Held(nest(quirks.grammar_field, value))


def nest(path: str, value: Any) -> JsonObject:
    """`a.b` with a value, as an object in an object."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> JsonObject:
    """Fields over others; objects are merged."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _write(choice: Choice) -> str | dict[str, Any]:
    if choice.names:
        return {"mode": choice.mode, "names": list(choice.names)}
    return choice.mode
