"""Calls written as objects: which of the many key spellings names the tool, and where its arguments are."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.tolerant import Tolerant
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.loose.found import TYPE_NAMES, Offered, properties_of, required_of
from dragoman.toolset import fold
from dragoman.types import JsonObject, Tool

NAME_KEYS = (
    "name",
    "function",
    "tool",
    "tool_name",
    "function_name",
    "action",
    "tool_call",
    "function_call",
    "recipient_name",
    "func",
    "method",
    "api",
)
ARGUMENT_KEYS = (
    "arguments",
    "parameters",
    "args",
    "input",
    "tool_input",
    "params",
    "action_input",
    "kwargs",
    "inputs",
    "function_args",
)
_ARGUMENT_KEYS = frozenset(ARGUMENT_KEYS)
_ENVELOPE_KEYS = frozenset(("id", "type", "call_id", "tool_call_id", "index"))
"""Members that stand beside the arguments of a flat call without being arguments, unless the tool declares them."""
_LIST_KEYS = ("tool_calls", "function_calls", "calls", "tool_uses", "functions", "actions", "tools")

OPENING = re.compile(r"\{\s*(?:\\*[\"'`“‘]|[^\W\d]\w*\s*:)")
"""A brace that may open an object: code blocks and formulas (`{x}`, `{a + b}`) are not even tried."""

# Read from the brace backwards: NAME{  NAME\n{  NAME: {  "NAME": {  'NAME', {  **NAME** = {
_NAME_REVERSED = re.compile(r"\s{0,40}([:,=>]?)\s{0,8}([\"'`*]{0,3})([\w.\-\\]{1,200})([\"'`*]{0,3})")


class Spoken(Struct, gc=False):
    """What an object says when it is read as a call."""

    tool: Tool
    arguments: JsonObject
    repairs: list[str]


def read_value(text: str, position: int) -> tuple[Any, int, list[str]]:
    """The JSON-like value at a place, its end, and the repairs it took; raises Unreadable."""
    if not text.startswith("{'", position):
        try:
            value, end = raw_decode(text, position)
            return value, end, []
        except Undecodable:
            pass
    try:
        return _read(Tolerant(text), position)
    except Unreadable as error:
        if error.cut:
            raise
    return _read(Tolerant(text, python=True), position)


def _read(reader: Tolerant, position: int) -> tuple[Any, int, list[str]]:
    value, end = reader.value(position)
    return value, end, reader.rules


class Named(Struct, gc=False):
    """A name in front of an object."""

    start: int
    tool: Tool
    item: bool
    """Name and object are items of a list or a tuple: ['NAME', {...}]."""


def name_before(text: str, brace: int, floor: int, offered: Offered) -> Named | None:
    """The tool whose name stands before an object, as its key, its title or the item before it."""
    head = text[max(floor, brace - 280) : brace][::-1]
    match = _NAME_REVERSED.match(head)
    if match is None:
        return None
    written = match[3][::-1]
    start = brace - match.end(3)
    if written.lower() in _ARGUMENT_KEYS:
        # {'NAME', 'parameters': {...}}: the name stands before the key.
        return name_before(text, start - len(match[2]), floor, offered)
    tool = offered.find(written)
    if tool is None and "." in written and not match[1]:
        # A sentence that ran into the call: `Let me look.get_weather` and the object on the next line.
        written = written.rpartition(".")[2]
        tool, start = offered.find(written), brace - match.start(3) - len(written)
    elif match[2] and match[4] == match[2]:
        start -= len(match[4])
    return None if tool is None else Named(start, tool, match[1] == ",")


def read_object(value: JsonObject, offered: Offered, depth: int = 0) -> Spoken | None:
    """The call that an object states, whichever keys it uses; None when it states none."""
    for key in NAME_KEYS:
        named = value.get(key)
        if isinstance(named, str):
            tool = offered.find(named) if named else None
            if tool is not None:
                return _with_arguments(value, key, tool, offered)
            inner = _wrapped(value, named)
        else:
            inner = named
        if isinstance(inner, dict) and depth < 3:
            spoken = read_object(inner, offered, depth + 1)
            if spoken is not None:
                return spoken
            spoken = _split(value, key, inner, offered)
            if spoken is not None:
                return spoken
    return _keyed(value, offered) if len(value) == 1 and not offered.open else None


def _keyed(value: JsonObject, offered: Offered) -> Spoken | None:
    """{"NAME": {...}}: the name is the only key."""
    ((key, arguments),) = value.items()
    tool = offered.find(key) if isinstance(arguments, dict) else None
    if tool is None or is_definition(arguments, tool):
        return None
    return Spoken(tool, arguments, [])


def _wrapped(value: JsonObject, named: str) -> Any:
    """The inner call of {"name": "tool_call", "arguments": {"name": ..., "arguments": ...}}."""
    if fold(named) in ("toolcall", "functioncall", "function", "tool", "call"):
        return next((value[key] for key in ARGUMENT_KEYS if key in value), None)
    return None


def _split(value: JsonObject, key: str, inner: JsonObject, offered: Offered) -> Spoken | None:
    """{"function": {"name": "f"}, "arguments": {...}}: the name is inside, the arguments beside it."""
    named = inner.get("name")
    if isinstance(named, str) and any(argument in value for argument in ARGUMENT_KEYS):
        tool = offered.find(named)
        if tool is not None:
            return _with_arguments(value, key, tool, offered)
    return None


def holds_calls(value: JsonObject, offered: Offered) -> bool:
    """Whether an object is only the wrapper of calls: {"tool_calls": [...]}, or tool names as keys."""
    if any(isinstance(value.get(key), list | dict) for key in _LIST_KEYS):
        return True
    if offered.open or not value:
        return False
    return all(isinstance(inner, dict) and offered.find(key) is not None for key, inner in value.items())


def _with_arguments(value: JsonObject, name_key: str, tool: Tool, offered: Offered) -> Spoken | None:
    for key in ARGUMENT_KEYS:
        if key in value and key != name_key:
            arguments, repairs = as_arguments(value[key], tool)
            if arguments is None or is_definition(arguments, tool):
                return None
            return Spoken(tool, arguments, repairs)
    if offered.open:
        return None
    return _flat(value, name_key, tool)


def _flat(value: JsonObject, name_key: str, tool: Tool) -> Spoken | None:
    """{"name": "f", "city": "Paris"}: arguments beside the name, when the tool declares all of them."""
    known = {fold(name) for name in properties_of(tool)}
    arguments = {
        key: inner
        for key, inner in value.items()
        if key != name_key and (key not in _ENVELOPE_KEYS or fold(key) in known)
    }
    if not all(fold(key) in known for key in arguments):
        return None
    if not arguments:
        return None if required_of(tool) else Spoken(tool, {}, [])
    return Spoken(tool, arguments, ["flat_arguments"])


def as_arguments(raw: Any, tool: Tool) -> tuple[JsonObject | None, list[str]]:
    """The arguments that a value stands for: an object, JSON text of one, or the values in the declared order."""
    if isinstance(raw, dict):
        return raw, []
    if raw is None or raw == "":
        return {}, []
    if isinstance(raw, str):
        return _from_text(raw)
    if isinstance(raw, list):
        if len(raw) == 1 and isinstance(raw[0], dict):
            return raw[0], ["unwrapped_list"]
        return by_position(raw, {}, tool), ["positional_arguments"]
    return None, []


def _from_text(raw: str) -> tuple[JsonObject | None, list[str]]:
    try:
        value, end, rules = read_value(raw, 0)
    except Unreadable:
        return None, []
    if isinstance(value, dict) and not raw[end:].strip():
        return value, ["double_encoded", *rules]
    return None, []


def by_position(positional: list[Any], keywords: JsonObject, tool: Tool) -> JsonObject | None:
    """Positional values under the names the schema declares, in its order; None when they do not fit in."""
    names = list(properties_of(tool))
    if len(positional) > len(names):
        return None
    arguments = dict(zip(names, positional, strict=False))
    if any(name in arguments for name in keywords):
        return None
    arguments.update(keywords)
    return arguments


def is_definition(arguments: JsonObject, tool: Tool) -> bool:
    """Whether the arguments are a schema: the model repeated (or invented) a tool's definition."""
    declared = properties_of(tool)
    if isinstance(arguments.get("properties"), dict) and "properties" not in declared:
        return True
    return bool(arguments) and all(map(_is_declaration, arguments.values()))


def _is_declaration(value: Any) -> bool:
    """A parameter's declaration in place of its value: {"type": "string", "description": ...}, or "string"."""
    if isinstance(value, dict):
        return isinstance(value.get("type"), str) and "description" in value
    return isinstance(value, str) and value in TYPE_NAMES
