"""The words that teach a model a format: which tools there are, and how to write a call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from dragoman.types import JsonObject, Tool

_first_sentence = re.compile(r"[^\n]*?[.!?](?=\s|$)").match
SENTENCE_LIMIT = 80


def write_instructions(tools: Iterable[Tool], example: str, *, compact: bool) -> str:
    """Instructions for a system prompt. `compact` spends one line on a tool instead of its whole schema."""
    described = [_describe_in_a_line(tool) if compact else _describe(tool) for tool in tools]
    listing = ("\n" if compact else "\n\n").join(described)
    parts = [
        "You can use tools." + (" These are available:" if described else " None are available right now."),
        listing,
        "To call a tool, write exactly this, with the tool's name and your arguments:",
        example,
        "Write one such block for each call; several calls may follow one another. After your calls, stop: the results "
        "are given to you before you go on. When you need no tool, answer in plain text and write no such block.",
    ]
    return "\n\n".join(part for part in parts if part)


def _describe(tool: Tool) -> str:
    schema = json.dumps(tool.parameters or {"type": "object", "properties": {}}, ensure_ascii=False)
    description = f"{tool.description.strip()}\n" if tool.description.strip() else ""
    return f"## {tool.name}\n{description}Arguments (JSON Schema): {schema}"


def _describe_in_a_line(tool: Tool) -> str:
    sentence = tool.description.strip()
    match = _first_sentence(sentence)
    sentence = (match.group() if match else sentence.split("\n", 1)[0])[:SENTENCE_LIMIT]
    return f"- {tool.name}({_signature(tool.parameters)})" + (f" — {sentence}" if sentence else "")


def _signature(schema: JsonObject) -> str:
    """Parameters as a signature: required ones first, then the others by name, marked with a question mark."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    listed = schema.get("required")
    required = [name for name in listed if name in properties] if isinstance(listed, list) else []
    optional = sorted(name for name in properties if name not in required)
    written = [f"{name}: {_type(properties[name])}" for name in required]
    written += [f"{name}?: {_type(properties[name])}" for name in optional]
    return ", ".join(written)


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    if kind == "array":
        return f"{_type(schema.get('items'))}[]" if isinstance(schema.get("items"), dict) else "array"
    return str(kind)


def sample_call(tools: Iterable[Tool]) -> tuple[str, JsonObject]:
    """A call to show as an example: the first tool with its required arguments."""
    for tool in tools:
        properties = tool.parameters.get("properties")
        if not isinstance(properties, dict):
            return tool.name, {}
        required = tool.parameters.get("required")
        names = required if isinstance(required, list) and required else list(properties)[:2]
        return tool.name, {name: _sample(properties.get(name)) for name in names if isinstance(name, str)}
    return "tool_name", {"argument": "value"}


def _sample(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "value"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    samples: dict[Any, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
    kind = schema.get("type")
    return samples.get(kind, "value") if isinstance(kind, str) else "value"
