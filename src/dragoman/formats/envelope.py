"""Envelopes: JSON values that state calls, under the many keys that models use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import Undecodable, decode
from dragoman.args.tolerant import repair
from dragoman.toolset import Toolset, fold, without_namespace
from dragoman.types import JsonObject, Tool

NAME_KEYS = ("name", "function", "tool_name", "tool", "function_name", "action", "tool_call", "recipient_name")
ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "input", "tool_input", "params", "action_input", "tool_args", "kwargs"),
    *("inputs", "tool_arguments", "tool_parameters", "tool_params", "function_args", "function_arguments"),
)
ID_KEYS = ("id", "tool_call_id", "call_id")
LIST_KEYS = ("tool_calls", "calls", "function_calls", "toolcalls", "toolCalls", "tool_uses")
# Members that may hold the whole call: {"tool": {"name": ..., "arguments": ...}}.
NEST_KEYS = ("function", "function_call", "tool_call", "tool", "functionCall", "toolCall", "tool_use", "call")
# Names that models give to the envelope itself: {"name": "tool_call", "arguments": {"name": ..., "arguments": ...}}.
WRAPPER_NAMES = frozenset(("tool_call", "toolcall", "tool-call", "function_call", "functioncall", "tool", "call"))
_NESTS = frozenset(NEST_KEYS)
_ARGUMENTS = frozenset(ARGUMENT_KEYS)
_LABEL_KEYS = frozenset((*ID_KEYS, "type", "role", "index"))
"""Members that describe the envelope and hold no argument."""
_SCHEMA_KEYS = frozenset(("type", "properties", "required", "additionalProperties"))
KNOWN_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *LIST_KEYS, *NEST_KEYS, *_LABEL_KEYS, "content", "text"))


def properties_of(tool: Tool | None) -> dict[str, Any]:
    """Return the declared parameters of a tool by name, in their order; empty if its schema declares none."""
    properties = tool.parameters.get("properties") if tool is not None else None
    return properties if isinstance(properties, dict) else {}


def required_of(tool: Tool | None) -> list[str]:
    required = tool.parameters.get("required") if tool is not None else None
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def schema_of(tool: Tool | None, key: str) -> JsonObject | None:
    """Return the schema of one parameter of a tool."""
    schema = properties_of(tool).get(key)
    return schema if isinstance(schema, dict) else None


def fits(arguments: JsonObject, tool: Tool | None) -> bool:
    """Whether these can be the arguments of the tool: only declared keys, all required ones, and no object for text."""
    if tool is None or not arguments.keys() >= set(required_of(tool)):
        return False
    properties = properties_of(tool)
    if not properties:
        return True
    return all(key in properties and not _is_nested_wrongly(value, properties[key]) for key, value in arguments.items())


def _is_nested_wrongly(value: Any, schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return isinstance(value, dict | list) and kind in ("string", "number", "integer", "boolean")


def is_plain_text(schema: JsonObject | None) -> bool:
    """Whether a value can only be a string, so that it may be emitted while it grows."""
    return schema is not None and schema.get("type") == "string" and "enum" not in schema


def by_position(positional: list[Any], keywords: JsonObject, tool: Tool | None) -> JsonObject | None:
    """Assign positional values to the declared parameters, in their order; None if there are too many values."""
    names = list(properties_of(tool))
    arguments = dict(zip(names, positional, strict=False))
    if len(positional) > len(names) or not arguments.keys().isdisjoint(keywords):
        return None
    return arguments | keywords


class DecodedCall(Struct, frozen=True):
    """A call as an envelope states it; its name and arguments are not checked yet."""

    name: str
    arguments: JsonObject
    id: str | None = None
    repairs: tuple[str, ...] = ()


class Envelope(Struct, frozen=True):
    calls: tuple[DecodedCall, ...]
    content: str = ""


class NoCall(Exception):
    """The value is well-formed but not a call; or it is a call whose arguments are not an object (`broken`)."""

    def __init__(self, why: str, *, broken: bool = False) -> None:
        super().__init__(why)
        self.broken = broken


def read_envelope(
    value: Any, tools: Toolset | None = None, *, name_is_key: bool = False, strict: bool = False
) -> Envelope:
    """Return the calls of a decoded JSON value. `strict` requires written arguments, as unmarked formats do."""
    if isinstance(value, list):
        calls: list[DecodedCall] = []
        for element in value:
            calls.extend(read_envelope(element, tools, name_is_key=name_is_key, strict=strict).calls)
        if not calls:
            raise NoCall("an empty list")
        return Envelope(tuple(calls))
    if not isinstance(value, dict):
        raise NoCall("neither an object nor a list of objects")
    blocks = value.get("content")
    if isinstance(blocks, list):
        return _read_blocks(blocks, tools)
    for key in LIST_KEYS:
        if isinstance(value.get(key), list):
            content = value.get("content")
            calls_of_list = read_envelope(value[key], tools, strict=strict).calls
            return Envelope(calls_of_list, content if isinstance(content, str) else "")
    inner = _read_content(value, tools) if len(value) == 1 else None
    return inner or Envelope((_read_call(value, tools, name_is_key, strict),))


def _read_blocks(blocks: list[Any], tools: Toolset | None) -> Envelope:
    """Read a message of content blocks, as in Anthropic's API: text and tool_use."""
    objects = [block for block in blocks if isinstance(block, dict)]
    calls = [block for block in objects if block.get("type") == "tool_use"]
    texts = [block["text"] for block in objects if block.get("type") == "text" and isinstance(block.get("text"), str)]
    if not calls:
        raise NoCall("a list of content without a call")
    return Envelope(tuple(_read_call(block, tools, name_is_key=False, strict=True) for block in calls), "".join(texts))


def _read_content(value: JsonObject, tools: Toolset | None) -> Envelope | None:
    """{"content": "{\\"name\\": ...}"}: a call as JSON text, in the place of the answer."""
    content = value.get("content")
    if not isinstance(content, str) or content.lstrip()[:1] != "{":
        return None
    try:
        found = read_envelope(decode(content), tools, strict=True)
    except (Undecodable, NoCall):
        return None
    return Envelope(tuple(DecodedCall(w.name, w.arguments, w.id, (*w.repairs, "double_encoded")) for w in found.calls))


def _read_call(value: JsonObject, tools: Toolset | None, name_is_key: bool, strict: bool) -> DecodedCall:
    single = _read_single_key(value, tools, name_is_key)
    if single is not None:
        return single
    nest = None
    if not _NESTS.isdisjoint(value):
        nest = next((key for key in NEST_KEYS if isinstance(value.get(key), dict) and _name_key(value[key])), None)
    body: JsonObject = value if nest is None else {**value, **value[nest]}
    if nest is not None and nest not in value[nest]:
        del body[nest]
    name_key = _name_key(body if nest is None else value[nest])
    if name_key is None:
        raise NoCall("the JSON names no tool")
    name: str = body[name_key].strip()
    arguments, repairs = _read_arguments_of(body, name_key, tools, strict=strict, encoded=nest is not None)
    inner = _unwrap(name, arguments, tools)
    if inner is not None:
        return DecodedCall(
            inner.name, inner.arguments, inner.id or _read_id(value), (*repairs, *inner.repairs, "unwrapped_call")
        )
    return DecodedCall(name, arguments, _read_id(value) or _read_id(body), repairs)


def _name_key(body: JsonObject) -> str | None:
    first = body.get(NAME_KEYS[0])
    if isinstance(first, str) and first[:1].isalpha():
        return NAME_KEYS[0]
    return next((key for key in NAME_KEYS if isinstance(body.get(key), str) and _has_letter(body[key])), None)


def _has_letter(text: str) -> bool:
    """Whether a text can be a name: `...` is a placeholder, and `0` a counter."""
    return text[:1].isalpha() or any(map(str.isalpha, text))


def _read_arguments_of(
    body: JsonObject, name_key: str, tools: Toolset | None, *, strict: bool, encoded: bool
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the arguments of an envelope. Members that are neither read nor a label make the call broken."""
    given = [key for key in body if key in _ARGUMENTS and key != name_key]
    if len(given) > 1:
        given = [key for key in ARGUMENT_KEYS if key in given]
    if any(body[key] not in (None, "", body[given[0]]) for key in given[1:]):
        raise NoCall(f"both {given[0]!r} and another member hold arguments", broken=True)
    if given:
        return read_arguments(body[given[0]], encoded=encoded)
    if strict:
        raise NoCall("the JSON has a name and no arguments")
    others = {key: value for key, value in body.items() if key != name_key}
    unread = {key: value for key, value in others.items() if key not in _LABEL_KEYS and value is not None}
    tool = None if tools is None else tools.find(body[name_key].strip())
    declared = {key: value for key, value in others.items() if key in unread or key in required_of(tool)}
    if not declared:
        return {}, ()
    if properties_of(tool) and fits(declared, tool):
        return declared, ("flat_arguments",)
    lone = next(iter(unread.values())) if len(unread) == 1 else None
    if isinstance(lone, dict) and fits(lone, tool):
        return lone, ("unusual_keys",)
    raise NoCall(f"the member {next(iter(declared))!r} is not understood", broken=True)


def _read_single_key(value: JsonObject, tools: Toolset | None, name_is_key: bool) -> DecodedCall | None:
    """Read {"get_weather": {"city": "Oslo"}}: the key is the name."""
    if len(value) != 1:
        return None
    ((name, arguments),) = value.items()
    if not name_is_key and (tools is None or tools.find(name) is None or not isinstance(arguments, dict)):
        return None
    if name_is_key and name in NAME_KEYS and isinstance(arguments, str):
        return None
    if not _has_letter(name):
        raise NoCall("the JSON names no tool")
    settled, repairs = read_arguments(arguments)
    return DecodedCall(name, settled, None, repairs if name_is_key else (*repairs, "name_as_key"))


def _unwrap(name: str, arguments: JsonObject, tools: Toolset | None) -> DecodedCall | None:
    if name not in WRAPPER_NAMES or (tools is not None and tools.find(name) is not None):
        return None
    try:
        return _read_call(arguments, tools, name_is_key=False, strict=True)
    except NoCall:
        return None


def _read_id(value: JsonObject) -> str | None:
    found = next((value[key] for key in ID_KEYS if key in value), None)
    if isinstance(found, str):
        return found or None
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else None


def read_arguments(value: Any, *, encoded: bool = False) -> tuple[JsonObject, tuple[str, ...]]:
    """Return arguments that are an object, JSON text of one, or empty. Anything else makes the call broken."""
    if isinstance(value, dict):
        return value, ()
    if value is None:
        return {}, ()
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0], ("unwrapped_arguments",)
    if isinstance(value, str):
        if not value.strip():
            return {}, ()
        rules = () if encoded else ("double_encoded",)
        try:
            decoded = decode(value)
        except Undecodable:
            mended = repair(value)
            decoded, rules = mended.value, (*rules, *mended.rules)
            if "closed_string" in rules:
                raise NoCall("the text of the arguments ends inside a string", broken=True) from None
        if isinstance(decoded, dict):
            return decoded, rules
    kind = {list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), "no object"
    )
    raise NoCall(f"the arguments are {kind}, not an object", broken=True)


_PARALLEL = "multitooluseparallel"
_MOST_PARALLEL = 64


def read_parallel(name: str, arguments: JsonObject) -> list[DecodedCall]:
    """Return the calls in a call of `multi_tool_use.parallel`; empty if it is another call, or one cannot be read.

    Models of OpenAI learned this tool, which calls several tools at once. Nobody offers it.
    """
    uses = arguments.get("tool_uses")
    if fold(without_namespace(name)) != _PARALLEL or not isinstance(uses, list) or len(uses) > _MOST_PARALLEL:
        return []
    calls: list[DecodedCall] = []
    for use in uses:
        named = use.get("recipient_name") if isinstance(use, dict) else None
        if not isinstance(named, str) or "parameters" not in use or use.keys() - {"recipient_name", "parameters"}:
            return []
        try:
            inner, repairs = read_arguments(use["parameters"])
        except NoCall:
            return []
        calls.append(DecodedCall(without_namespace(named), inner, None, (*repairs, "unwrapped_call")))
    return calls


# --------------------------------------------------------------------------------------------------------------------
# Arguments inside an object of their own, which is not a parameter of the tool.


def unwrap_arguments(
    arguments: JsonObject, tool: Tool, find: Callable[[str], Tool | None]
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the arguments without an envelope around them, and the repairs."""
    if len(arguments) == 1 or "properties" in arguments:
        return _unwrap_object(arguments, tool)
    if len(arguments) == 2 and "name" in arguments:
        return _unwrap_call(arguments, tool, find)
    return arguments, ()


def _unwrap_object(arguments: JsonObject, tool: Tool) -> tuple[JsonObject, tuple[str, ...]]:
    """{"input": {"city": "Oslo"}} for a tool with a parameter `city` and no `input`: return the inner object.

    A model that copies the schema writes {"type": "object", "properties": {"city": "Oslo"}}.
    """
    properties = properties_of(tool)
    copied = arguments.get("properties")
    if isinstance(copied, dict) and "properties" not in properties and arguments.keys() <= _SCHEMA_KEYS:
        if not copied or not properties or not fits(copied, tool):
            return arguments, ()
        return copied, ("unwrapped_arguments",)
    key, inner = next(iter(arguments.items()))
    if len(arguments) > 1 or key not in ARGUMENT_KEYS or key in properties:
        return arguments, ()
    try:
        found, _ = read_arguments(inner)
    except NoCall:
        return arguments, ()
    if not found or not properties.keys() >= found.keys():
        return arguments, ()
    return found, ("unwrapped_arguments",)


def _unwrap_call(
    arguments: JsonObject, tool: Tool, find: Callable[[str], Tool | None]
) -> tuple[JsonObject, tuple[str, ...]]:
    """{"name": "search", "arguments": {...}} as the arguments of `search` itself: return the inner object."""
    name, properties = arguments["name"], properties_of(tool)
    key = next((key for key in ARGUMENT_KEYS if key in arguments), "")
    inner = arguments.get(key)
    if not isinstance(name, str) or not isinstance(inner, dict) or key in properties or "name" in properties:
        return arguments, ()
    if find(name) is not tool:
        return arguments, ()
    return inner, ("unwrapped_call",)
