"""Instructions for the system prompt: the tools, and how to write a call in a format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from dragoman.errors import CannotExpress, ConfigError
from dragoman.formats.nonce import nonce_format
from dragoman.formats.plan import Plan
from dragoman.formats.registry import get, plan_for
from dragoman.formats.renderer import as_calls, render
from dragoman.formats.template import Format
from dragoman.jsonschema.references import resolve
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# The text of the instructions: the list of the tools, and how to write a call.

Layout = Literal["schema", "list"]
"""How tools are described: by their JSON Schemas, or by a heading and one line per parameter."""

SENTENCE_LIMIT = 80
_ENUM_LIMIT = 60
_SAMPLE_LIMIT = 200
_first_sentence = re.compile(r"[^\n]*?[.!?](?=\s|$)").match
_VALUES = ("Anna", "blue", "Monday", "tea", "Lima", "river", "Bob", "green", "May", "salt", "Rome", "stone")
_NUMBERS = (12, 40, 7)
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format"})
_SAMPLES: dict[Any, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
_DEEPEST = 3
_MOST_ITEMS = 4
_MOST_STEPS = 8
_WORDS = {
    "command": "date",
    "path": "notes.txt",
    "file_path": "notes.txt",
    "url": "https://example.com",
    "query": "weather in Oslo",
    "city": "Oslo",
}
"""Sample values for string parameters with common names. A model that copies one does no harm."""


def write_instructions(
    tools: Iterable[Tool], example: str, *, compact: bool = False, layout: Layout = "schema", note: str = ""
) -> str:
    """Write the instructions. `compact` uses one line per tool; `note` follows the example."""
    offered = list(tools)
    if compact:
        return _write_compact(offered, example, note)
    if layout == "list":
        return _write_list(offered, example, note)
    parts = [
        "You can use tools." + (" These are available:" if offered else " None are available right now."),
        "\n\n".join(map(_describe, offered)),
        "To call a tool, write exactly this, with the tool's name and your arguments:",
        example,
        note,
        "Write one such block for each call; several calls may follow one another. After your calls, stop: the results "
        "are given to you before you go on. When you need no tool, answer in plain text and write no such block.",
    ]
    return "\n\n".join(part for part in parts if part)


def _write_compact(tools: list[Tool], example: str, note: str) -> str:
    parts = [
        "Tools (? is optional):" if tools else "No tools right now.",
        "\n".join(map(describe_in_a_line, tools)),
        "To call one, write:",
        example,
        note,
        "After your calls, stop and wait for the results. To answer, write plain text.",
    ]
    return "\n\n".join(part for part in parts if part)


def _write_list(tools: list[Tool], example: str, note: str) -> str:
    lines = ["You have access to the following tools:"]
    for tool in tools:
        lines += [f"## {tool.name}", *filter(None, [tool.description.strip()]), *_describe_parameters(tool.parameters)]
    return "\n".join([*lines, "To use a tool, respond with:", example, *filter(None, [note])])


# ---- one tool --------------------------------------------------------------------------------------------------------


def _describe(tool: Tool) -> str:
    schema = json.dumps(tool.parameters or {"type": "object", "properties": {}}, ensure_ascii=False)
    description = f"{tool.description.strip()}\n" if tool.description.strip() else ""
    return f"## {tool.name}\n{description}Arguments (JSON Schema): {schema}"


def first_sentence(words: str, limit: int = SENTENCE_LIMIT) -> str:
    """Return the first sentence of a description, or its first line, up to a limit."""
    words = words.strip()
    match = _first_sentence(words)
    return (match.group() if match else words.split("\n", 1)[0])[:limit].rstrip()


def describe_in_a_line(tool: Tool) -> str:
    """Return one line with the name, the parameters and the first sentence of the description."""
    sentence = first_sentence(tool.description)
    return f"- {tool.name}({_signature(tool.parameters)})" + (f" — {sentence}" if sentence else "")


def _describe_parameters(schema: JsonObject) -> list[str]:
    lines = []
    for name, rule, required in _parameters(schema):
        described = rule.get("description") if isinstance(rule, dict) else None
        words = f": {' '.join(described.split())}" if isinstance(described, str) and described.strip() else ""
        lines.append(f"- {name} ({_type(rule)}, {'required' if required else 'optional'}){words}")
    return ["Parameters:", *lines] if lines else ["Parameters: none"]


def _signature(schema: JsonObject) -> str:
    """Write parameters as a signature: required ones first, then the others by name, with a question mark."""
    written = [f"{name}: {_type(rule)}" for name, rule, required in _parameters(schema) if required]
    optional = sorted((name, _type(rule)) for name, rule, required in _parameters(schema) if not required)
    return ", ".join([*written, *(f"{name}?: {kind}" for name, kind in optional)])


def _parameters(schema: JsonObject) -> Iterator[tuple[str, Any, bool]]:
    """Return name, schema and whether it is required; required parameters first, in the order of `required`."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    listed = schema.get("required")
    required = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    first = [name for name in dict.fromkeys(required) if name in properties]
    yield from ((name, properties[name], True) for name in first)
    yield from ((name, rule, False) for name, rule in properties.items() if name not in first)


def _type(schema: Any, depth: int = 0) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return _choices(schema["enum"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    if kind == "array":
        items = schema.get("items")
        return f"{_type(items, depth + 1)}[]" if isinstance(items, dict) and depth < 4 else "array"
    return str(kind)


def _choices(values: list[Any]) -> str:
    """Return the values of an enum, as many as fit. If the model guesses another one, validation reports it."""
    shown: list[str] = []
    room = _ENUM_LIMIT
    for value in values:
        written = json.dumps(value, ensure_ascii=False, default=str)
        room -= len(written) + 1
        if shown and room < 0:
            return "|".join([*shown, "..."])
        shown.append(written)
    return "|".join(shown)


# ---- the example -----------------------------------------------------------------------------------------------------


def sample_calls(tools: Iterable[Tool]) -> Iterator[tuple[str, JsonObject]]:
    """Return calls for the example, the best first: a tool with its required arguments; the last names no tool.

    If the format cannot write a call, the next one is tried.
    """
    for tool in tools:
        yield tool.name, _sample_arguments(tool.parameters)
    yield "tool_name", {"argument": "value"}


def vary_arguments(arguments: JsonObject, schema: JsonObject, count: int) -> list[JsonObject]:
    """Return the arguments of an example several times, with other values each time and for each member."""
    words = iter(_VALUES * count)
    return [_vary(arguments, schema, number, words) for number in range(count)]


def _vary(value: Any, schema: Any, number: int, words: Iterator[str], root: Any = None) -> Any:
    root = schema if root is None else root
    schema = _settle(schema, root)
    listed = schema.get("enum")
    if isinstance(listed, list) and value in listed:
        return listed[(listed.index(value) + number) % len(listed)]
    if isinstance(value, dict):
        inner = schema.get("properties")
        inner = inner if isinstance(inner, dict) else {}
        return {name: _vary(each, inner.get(name), number, words, root) for name, each in value.items()}
    if isinstance(value, bool):
        return value is (number % 2 == 0)
    if schema.keys() & _BOUNDS:
        return value
    if isinstance(value, int) and value == _SAMPLES["integer"]:
        return _NUMBERS[number % len(_NUMBERS)]
    return next(words, value) if value == "value" or value in _WORDS.values() else value


def _sample_arguments(schema: JsonObject) -> JsonObject:
    parameters = [*_parameters(_settle(schema, schema))]
    chosen = [found for found in parameters if found[2]] or parameters[:2]
    return {name: _sample(name, rule, schema) for name, rule, _ in chosen}


def _settle(schema: Any, root: JsonObject) -> JsonObject:
    """Follow references, and take the first alternative that is not null."""
    for _ in range(_MOST_STEPS):
        if not isinstance(schema, dict):
            return {}
        branches: list[Any] = next(
            (schema[key] for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list)), []
        )
        if "$ref" in schema:
            schema = resolve(schema["$ref"], root, missing={})
        elif branches and not schema.keys() & {"type", "properties", "enum", "const"}:
            schema = next((each for each in branches if each != {"type": "null"}), {})
        else:
            return schema
    return {}


def _sample(name: str, schema: Any, root: JsonObject, depth: int = 0) -> Any:
    """Return a value for the example: one from the schema, else one that fits its type."""
    schema = _settle(schema, root)
    lists = [schema.get(key) for key in ("examples", "enum")]
    listed = [values[0] for values in lists if isinstance(values, list) and values]
    for value in (schema.get("const"), *listed, schema.get("example"), schema.get("default")):
        if value is not None and _is_short(value):
            return value
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if kind in ("string", None) and "properties" not in schema:
        return _WORDS.get(name.lower(), "value")
    if "properties" in schema and depth < _DEEPEST:
        needed = [(inner, rule) for inner, rule, required in _parameters(schema) if required]
        return {inner: _sample(inner, rule, root, depth + 1) for inner, rule in needed}
    if kind == "array" and depth < _DEEPEST:
        places, least = schema.get("prefixItems"), schema.get("minItems")
        if isinstance(places, list) and len(places) <= _MOST_ITEMS:
            return [_sample(name, each, root, depth + 1) for each in places]
        most = 1 if schema.get("uniqueItems") is True else _MOST_ITEMS
        if isinstance(least, int) and 1 <= least <= most:
            return [_sample(name, schema.get("items"), root, depth + 1)] * least
    return _SAMPLES.get(kind, "value") if isinstance(kind, str) else "value"


def _is_short(value: Any) -> bool:
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False)) <= _SAMPLE_LIMIT
    except (TypeError, ValueError, RecursionError):
        return False


# --------------------------------------------------------------------------------------------------------------------
# The instructions as part of a system prompt, for models without native tools.

FULL_LIMIT = 4096
"""The size of a system prompt in bytes above which models without native tools stop following it."""
_NONCE_NOTE = "The id is for this turn alone: copy it exactly into every call."


def instruct(
    tools: Toolset, format: str | Format, *, compact: bool, layout: Layout = "schema", nonce: str | None = None
) -> str:
    """Return the instructions for these tools and this format. The parser has verified the example."""
    if layout not in ("schema", "list"):
        raise ConfigError(f"unknown layout {layout!r}", hint="use schema or list; compact=True is a separate option")
    row = nonce_format(nonce) if nonce is not None else format if isinstance(format, Format) else get(format)
    plan = plan_for(row if row is format or nonce is not None else row.name)
    note = "" if nonce is None else _NONCE_NOTE
    return write_instructions(tools, _example(tools, row, plan), compact=compact, layout=layout, note=note)


def _example(tools: Toolset, row: Format, plan: Plan) -> str:
    refusal: CannotExpress | None = None
    for sample in sample_calls(tools):
        try:
            return render(as_calls([sample]), row, plan)
        except CannotExpress as cannot:
            refusal = refusal or cannot
    raise refusal or CannotExpress("$", "this format cannot write an example")


def augment(existing: str | None, instructions: str) -> str:
    """Return the user's prompt unchanged, one blank line, then the instructions."""
    return f"{existing}\n\n{instructions}" if existing else instructions


def needs_compact(prompt: str, *, native: bool, weak: bool) -> str | None:
    """Return why the compact instructions should replace this full prompt; None if they need not."""
    if weak:
        return "the profile of the model marks it as weak"
    size = len(prompt.encode("utf-8", "surrogatepass"))
    if not native and size > FULL_LIMIT:
        return f"the prompt has {size} bytes; a model without native tools follows at most {FULL_LIMIT}"
    return None
