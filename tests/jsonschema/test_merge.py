"""Merging: the result accepts what both schemas accept, by the verdict of an independent validator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from jsonschema_rs import validator_for
from tests.jsonschema.strategies import schemas, values

from dragoman import formats
from dragoman.jsonschema.merge import merge
from dragoman.types import Tool
from dragoman.wire.schemas import compile_schema


def accepts(schema: Any, value: Any) -> bool:
    return bool(validator_for(schema, validate_formats=False).is_valid(value))


def merged(first: Any, second: Any) -> tuple[Any, list[dict[str, Any]]]:
    left: list[dict[str, Any]] = []
    return merge(first, second, left.append), left


CLOSED = {"properties": {"a": {"type": "string"}}, "additionalProperties": False}
OPEN = {"properties": {"b": {"type": "string"}}}


@settings(max_examples=5 * settings().max_examples // 2)
@given(schemas, schemas, values)
@example(CLOSED, OPEN, {"b": "x"})
@example({"prefixItems": [True]}, {"items": {"type": "string"}}, [5])
@example({"contains": {"const": 1}}, {"contains": {"const": 2}}, [1, 2])
@example({"oneOf": [{"type": "string"}, {"minLength": 2}]}, {"oneOf": [{"maxLength": 3}, True]}, "abcd")
@example({"const": 1}, {"const": 1.0}, 1)
@example({"enum": [1, True]}, {"enum": [1.0]}, True)
@example({"patternProperties": {"^a": True}, "additionalProperties": False}, {"additionalProperties": False}, {"a": 1})
@example({"then": False}, {"if": True}, 1)
@example({"minContains": 2}, {"contains": True}, [1])
def test_the_merged_schema_accepts_exactly_what_both_accept(first: Any, second: Any, value: Any) -> None:
    joined, left = merged(first, second)
    wanted = accepts(first, value) and accepts(second, value)
    assert accepts({"allOf": [joined, *left]}, value) == wanted
    if wanted:
        assert accepts(joined, value)


@given(schemas, values)
def test_merging_with_anything_changes_nothing(schema: Any, value: Any) -> None:
    assert merged(schema, True) == (schema, [])
    assert merged(True, schema) == (schema, [])
    again, left = merged(schema, schema)
    assert not left
    assert accepts(again, value) == accepts(schema, value)


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ({"type": "str"}, {"type": ["string", "null"]}, {"type": "string"}),
        ({"type": "number"}, {"type": ["integer", "string"]}, {"type": "integer"}),
        ({"type": "string"}, {"type": "object"}, False),
        ({"const": 1}, {"const": 2}, False),
        ({"const": 1}, {"enum": [1, 2]}, {"const": 1}),
        ({"const": 1}, {"enum": [2, 3]}, False),
        ({"enum": ["a"]}, {"type": "integer"}, False),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"enum": ["b"]}),
        ({"required": ["a"]}, {"required": "a"}, {"required": ["a"]}),
        ({"description": "one"}, {"description": "two"}, {"description": "two"}),
        (
            CLOSED,
            OPEN,
            {"properties": {"a": {"type": "string"}, "b": False}, "additionalProperties": False},
        ),
        (
            {"oneOf": [{"minimum": 1}, {"type": "string"}]},
            {"oneOf": [{"maximum": 5}]},
            {"oneOf": [{"allOf": [{"minimum": 1}, {"maximum": 5}]}, {"allOf": [{"type": "string"}, {"maximum": 5}]}]},
        ),
    ],
)
def test_keywords_are_joined(first: Any, second: Any, wanted: Any) -> None:
    assert merged(first, second) == (wanted, [])


def test_unions_with_too_many_pairs_are_left() -> None:
    first = {"anyOf": [{"minimum": n} for n in range(5)]}
    second = {"anyOf": [{"maximum": n} for n in range(4)]}
    assert merged(first, second) == (first, [second])


def test_large_enums_are_joined_in_one_pass() -> None:
    class Counted(int):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    many = {"enum": [Counted(n) for n in range(2_000)]}
    joined, _ = merged(many, {"enum": list(range(1_000, 3_000))})
    assert joined["enum"] == list(range(1_000, 2_000))
    assert Counted.compared < 20_000


# ---- both callers ----------------------------------------------------------------------------------------------------


def make_tool(*parts: dict[str, Any]) -> Tool:
    return Tool("x", parameters={"type": "object", "properties": {"p": {"allOf": list(parts)}}})


def test_a_closed_part_closes_the_whole_on_the_wire_and_in_the_grammar() -> None:
    tool = make_tool({"type": "object", **CLOSED}, {"type": "object", **OPEN})
    compiled = compile_schema(tool, "gemini_json")
    assert compiled.schema is not None
    assert compiled.schema["properties"]["p"]["properties"] == {"a": {"type": "string"}}
    assert '\\"b\\"' not in formats.grammar([tool])
    assert '\\"a\\"' in formats.grammar([tool])


def test_constants_that_contradict_each_other_leave_nothing() -> None:
    tool = make_tool({"const": "one"}, {"const": "other"})
    compiled = compile_schema(tool, "gemini_json")
    assert compiled.schema is not None
    assert compiled.schema == {}  # No parameter is left, and this target then takes no schema at all.
    text = formats.grammar([tool])
    assert "one" not in text and "other" not in text


def test_exclusive_alternatives_are_held_on_both_sides() -> None:
    first = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    second = {"oneOf": [{"enum": ["a"]}, {"enum": [5]}]}
    compiled = compile_schema(make_tool(first, second), "gemini_json")
    assert compiled.schema is not None
    assert [accepts(compiled.schema, {"p": value}) for value in ("a", 5, "b", 6)] == [True, True, False, False]
    report = formats.grammar_report([make_tool(first, second)])
    assert not [loss for loss in report.losses if loss.keyword == "oneOf"]
