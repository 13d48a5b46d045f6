"""Asking both engines whether a grammar accepts a text."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.grammars.engines import Judge
from tests.formats.grammars.gbnf_engine import Gbnf

from dragoman import formats
from dragoman.types import JsonObject

WEATHER = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PING = {"name": "ping", "parameters": {"type": "object", "properties": {}}}


def accepts(text: str, tools: list[Any], format: str = "hermes", **options: Any) -> bool:
    """Whether the grammar accepts the text; both engines have to be of one mind."""
    lark = Judge(formats.grammar(tools, format, "lark", **options)).accepts(text)
    assert Gbnf(formats.grammar(tools, format, "gbnf", **options)).accepts(text) == lark
    return lark


def allows(schema: JsonObject, value: Any, format: str = "json", **options: Any) -> bool:
    """Whether a tool with one required argument of this schema may be called with this value."""
    tool = {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {"x": schema},
            "required": ["x"],
            "$defs": schema.pop("$defs", {}),
        },
    }
    text = json.dumps({"name": "f", "arguments": {"x": value}}, ensure_ascii=False)
    return accepts(text, [tool], format, tool_choice="required", **options)
