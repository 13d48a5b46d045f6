"""Schemas that were made, or grown, to do harm: they cost little, and only their own tool."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import each_row
from tests.wire.schemas.dialects import faults_of, nodes

from dragoman.jsonschema.references import MOST_NODES
from dragoman.types import Tool
from dragoman.wire.schemas import TARGETS, compile_schema

every_target = pytest.mark.parametrize("target", TARGETS)


def laughing(generations: int, fan: int) -> dict[str, Any]:
    """Each definition refers to the next one many times over."""
    definitions: dict[str, Any] = {f"d{generations}": {"type": "string"}}
    for n in range(generations):
        properties = {f"p{m}": {"$ref": f"#/$defs/d{n + 1}"} for m in range(fan)}
        definitions[f"d{n}"] = {"type": "object", "properties": properties}
    return {"type": "object", "properties": {"root": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def entangled(count: int) -> dict[str, Any]:
    """Each definition refers to every other one."""
    properties = {f"p{n}": {"$ref": f"#/$defs/d{n}"} for n in range(count)}
    node = {"type": "object", "properties": properties}
    return {"type": "object", "properties": properties, "$defs": {f"d{n}": node for n in range(count)}}


def nested(levels: int, keyword: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: [schema]} if keyword in ("anyOf", "allOf") else {"type": "array", "items": schema}
    return {"type": "object", "properties": {"p": schema}}


def chained(length: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    definitions[f"d{length}"] = {"type": "string"}
    return {"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


HOSTILE = {
    "billion laughs": laughing(9, 10),
    "billion laughs by allOf": {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/d0"}},
        "$defs": {
            **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(9)},
            "d9": {"type": "object"},
        },
    },
    "entangled": entangled(12),
    "very entangled": entangled(150),
    "deep arrays": nested(5_000, "items"),
    "deep unions": nested(5_000, "anyOf"),
    "deep allOf": nested(5_000, "allOf"),
    "long chain": chained(500),
    "circle of references": {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/a"}, "q": {"type": "string"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "allOf of itself": {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
    },
    "root of itself": {"$ref": "#"},
    "many unions": {
        "type": "object",
        "properties": {"p": {"allOf": [{"anyOf": [{"minimum": n}, {"maximum": n}]} for n in range(50)]}},
    },
    "deep default": {"type": "object", "properties": {"p": {"type": "string", "default": nested(5_000, "items")}}},
    "deep enum": {
        "type": "object",
        "properties": {"p": {"enum": [nested(5_000, "items"), nested(5_000, "items")]}},
    },
}


@each_row("target", TARGETS)
@each_row("name", HOSTILE)
def test_hostile_schemas_are_cut_or_left_out(name: str, target: str) -> None:
    compiled = compile_schema(Tool("x", parameters=HOSTILE[name]), target)
    if compiled.schema is None:
        assert [loss.rule for loss in compiled.losses].count("left_out") == 1
    else:
        assert compiled.schema is HOSTILE[name] or sum(1 for _ in nodes(compiled.schema)) <= MOST_NODES
        assert faults_of(compiled.schema, target) == []
    assert len(compiled.losses) < 20_000


@pytest.mark.parametrize("target", ["openai", "gemini_json", "mistral"])
def test_references_that_multiply_cost_nothing_where_they_stay(target: str) -> None:
    schema = laughing(9, 10)
    assert compile_schema(Tool("x", parameters=schema), target).schema is schema


@pytest.mark.parametrize("target", ["gemini", "ollama"])
def test_references_that_multiply_leave_the_tool_out_where_they_cannot_stay(target: str) -> None:
    compiled = compile_schema(Tool("x", parameters=laughing(9, 10)), target)
    assert compiled.schema is None
    assert str(compiled.losses[-1]) == "tool x: left out: its schema is too large once its references are expanded"


@pytest.mark.parametrize("target", ["gemini", "ollama", "bedrock", "anthropic_strict"])
def test_an_entangled_recursion_is_cut_at_fewer_levels(target: str) -> None:
    compiled = compile_schema(Tool("x", parameters=entangled(12)), target)
    assert compiled.schema is not None
    assert "tool x: cut the recursion of #/$defs/d0 after 1 levels" in map(str, compiled.losses)
