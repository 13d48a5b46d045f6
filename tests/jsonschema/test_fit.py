"""Whether a value fits a schema: the verdict of an independent validator, for every supported keyword."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema_rs import validator_for
from tests.jsonschema.strategies import NAMES, scalars, schemas, structural, values

from dragoman.jsonschema.fit import Memo, Steps, fits, fits_plainly, resembles, shape_of


def accepts(schema: Any, value: Any) -> bool:
    return bool(validator_for(schema, validate_formats=False).is_valid(value))


def has_whole_float(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(has_whole_float, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


@settings(max_examples=5 * settings().max_examples // 2)
@given(structural, values)
@example({"const": [1]}, [True])
@example({"const": 1, "enum": [2]}, 1)
@example({"type": "integer"}, 1.0)
@example({"enum": [1.0]}, 1)
def test_fits_agrees_with_the_validator(schema: Any, value: Any) -> None:
    wanted = accepts(schema, value)
    assert fits(shape_of(schema), value, exact=False) == wanted
    if not has_whole_float(value):
        assert fits(shape_of(schema), value) == wanted


@given(structural, values)
def test_references_are_followed(schema: Any, value: Any) -> None:
    root = {"$ref": "#/$defs/part", "$defs": {"part": schema}}
    assert fits(shape_of(root), value, exact=False) == accepts(root, value)


@given(schemas, values)
def test_what_the_validator_accepts_fits(schema: Any, value: Any) -> None:
    if accepts(schema, value):
        assert fits(shape_of(schema), value, exact=False)


@given(structural, values)
def test_what_fits_also_resembles(schema: Any, value: Any) -> None:
    if isinstance(schema, dict) and accepts(schema, value):
        assert resembles(value, schema, schema)


_declared = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "float", "boolean", "array", "object"])},
    optional={
        "enum": st.lists(scalars, max_size=3),
        "items": st.fixed_dictionaries({"type": st.sampled_from(["string", "integer"])}),
        "description": st.just("x"),
    },
)
_plain = st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from(NAMES), _declared, max_size=3)},
    optional={
        "type": st.sampled_from(["object", "array"]),
        "required": st.lists(st.sampled_from(NAMES), max_size=2),
        "additionalProperties": st.booleans(),
    },
)


@given(_plain, st.dictionaries(st.sampled_from(NAMES), scalars | st.lists(scalars, max_size=2), max_size=3))
def test_the_fast_path_never_says_more_than_the_slow_one(schema: Any, arguments: Any) -> None:
    if fits_plainly(arguments, schema):
        assert fits(shape_of(schema), arguments)


def test_most_arguments_take_the_fast_path() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
        "required": ["a"],
    }
    assert fits_plainly({"a": "x", "b": [1, 2]}, schema)
    assert not fits_plainly({"b": [1]}, schema)
    assert not fits_plainly({"a": "x", "b": ["y"]}, schema)
    assert not fits_plainly({"a": "x", "c": 1}, schema)


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        ({"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}, {"n": 5.0}, True),
        ({"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}, {"n": "5"}, False),
        ({"type": "STRING", "nullable": True}, None, True),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1], True),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"xy": 1}, True),
        (
            {"properties": {"a": {"properties": {"b": {"properties": {"c": {"const": 1}}}}}}},
            {"a": {"b": {"c": 2}}},
            True,
        ),
        ({"properties": {"a": {"properties": {"b": {"const": 1}}}}}, {"a": {"b": 2}}, False),
        ({"allOf": [{"type": "string"}]}, 5, False),
    ],
)
def test_a_branch_is_recognized_by_its_first_two_levels(schema: Any, value: Any, wanted: bool) -> None:
    assert resembles(value, schema, schema) == wanted


def test_unions_that_double_ask_each_question_once() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]}]}
        for n in range(20)
    }
    root = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d20": {"const": "never"}}}
    memo = Memo(Steps())
    assert not fits(shape_of(root), "x", 0, memo)
    assert len(memo) <= 40
