"""Tools and options as clients of generateContent send them, read into ours."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import Request, Tool
from dragoman.wire import registry

GEMINI = registry.get("gemini")


def read(body: Any) -> Request:
    return GEMINI.decode_request(body)


def turn(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


# ---- tools ---------------------------------------------------------------------------------------------------------


def declared(**fields: Any) -> Tool:
    [tool] = read({"tools": [{"functionDeclarations": [{"name": "f", **fields}]}]}).tools
    return tool


@pytest.mark.parametrize(
    ("given", "standard"),
    [
        (
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
            {"type": "object", "properties": {"a": {"type": "string"}}},
        ),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"any_of": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "2"},
            {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        ),
        ({"type": "TYPE_UNSPECIFIED", "title": "T"}, {"title": "T"}),
        ({"ref": "#/defs/x", "defs": {"x": {"type": "NULL"}}}, {"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}),
        ({"properties": {"type": {"type": "STRING"}, "a_b": None}}, {"properties": {"type": {"type": "string"}}}),
    ],
)
def test_parameters_in_the_dialect_of_the_wire(given: dict[str, Any], standard: dict[str, Any]) -> None:
    assert declared(parameters=given).parameters == standard


def test_parameters_in_the_standard_form() -> None:
    schema = {"type": "object", "properties": {"a_b": {"type": "string"}}}
    assert declared(parameters_json_schema=schema).parameters == schema
    assert declared().parameters == {}


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "any"}, "required"),
        ({"mode": "NONE"}, "none"),
        ({"mode": "ANY", "allowed_function_names": ["f"]}, {"name": "f"}),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f", "g"]}, {"mode": "auto", "names": ["f", "g"]}),
        ({"mode": "VALIDATED"}, "auto"),
        ({"mode": "MODE_UNSPECIFIED"}, None),
        ({"mode": 7}, None),
        ({}, None),
    ],
)
def test_tool_choice(config: dict[str, Any], choice: Any) -> None:
    assert read({"toolConfig": {"functionCallingConfig": config}}).options.get("tool_choice") == choice


def test_validated_calls_are_asked_for_again() -> None:
    body = {
        "contents": [turn("user", {"text": "Hi"})],
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
    }
    assert GEMINI.encode_request(read(body)) == body


@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        ({"thinkingBudget": 0}, {"enabled": False}),
        ({"thinkingBudget": -1}, {"enabled": True}),
        ({"thinking_budget": 512, "include_thoughts": True}, {"budget": 512, "summary": "auto"}),
        ({"thinkingLevel": "HIGH"}, {"effort": "high"}),
        ({"thinkingLevel": "minimal"}, {"effort": "minimal"}),
        ({"includeThoughts": False}, None),
    ],
)
def test_reasoning(thinking: dict[str, Any], reasoning: Any) -> None:
    assert read({"generationConfig": {"thinkingConfig": thinking}}).options.get("reasoning") == reasoning


def test_a_response_schema_of_the_wire_is_translated_and_kept() -> None:
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}}
    body = {"contents": [turn("user", {"text": "Hi"})], "generationConfig": config}
    request = read(body)
    schema = {"type": "array", "items": {"type": "string"}}
    assert request.options["response_format"] == {"type": "json_schema", "schema": schema}
    assert GEMINI.encode_request(request) == body
