"""Validation reports every fault with its place, and survives every schema."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from tests.args.schema_strategies import JSON, SCHEMA_SOUP, fitting

from dragoman.args import validate

INTEGER = {"type": "integer"}


def faults(value: Any, schema: Any) -> list[str]:
    return [str(fault) for fault in validate(value, schema)]


WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "unit": {"enum": ["c", "f"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 10},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "maxItems": 3},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}


def test_every_fault_is_reported_with_its_place() -> None:
    value = {"city": "P", "days": 11, "tags": ["ok", 5, "NO"], "nuit": "c"}
    assert faults(value, WEATHER) == [
        "$: missing required 'unit'",
        "$: unexpected 'nuit', did you mean 'unit'?",
        "$.city: must have at least 2 characters",
        "$.days: must be at most 10, got 11",
        "$.tags[1]: expected string, got 5",
        "$.tags[2]: does not match the pattern ^[a-z]+$",
    ]


@pytest.mark.parametrize(
    ("value", "schema", "fault"),
    [
        ("abc", INTEGER, "$: expected integer, got 'abc'"),
        (True, INTEGER, "$: expected integer, got true"),
        (None, INTEGER, "$: expected integer, got null"),
        ({}, INTEGER, "$: expected integer, got an object"),
        ([], {"type": ["integer", "null"]}, "$: expected null or integer, got an array"),
        ("d", {"enum": ["c", "f", None]}, "$: not one of 'c', 'f', null"),
        (4, {"const": 5}, "$: must be 5"),
        (3, {"exclusiveMinimum": 3}, "$: must be more than 3, got 3"),
        (3, {"multipleOf": 2}, "$: must be a multiple of 2, got 3"),
        ([1, 1], {"uniqueItems": True}, "$: has the same item more than once"),
        ([], {"minItems": 1}, "$: must have at least 1 items"),
        ({"a b": "x"}, {"properties": {"a b": INTEGER}}, "$[\"a b\"]: expected integer, got 'x'"),
        ({"x": "y"}, {"additionalProperties": INTEGER}, "$.x: expected integer, got 'y'"),
        ("x" * 100, INTEGER, "$: expected integer, got '" + "x" * 57 + "...'"),
        (1, {"not": {}}, None),
    ],
)
def test_faults_are_short_and_plain(value: Any, schema: dict[str, Any], fault: str | None) -> None:
    found = faults(value, schema)
    assert len(found) == 1
    assert fault is None or found == [fault]


CIRCLE = {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": INTEGER}, "required": ["kind"]}
SQUARE = {"type": "object", "properties": {"kind": {"const": "square"}, "side": INTEGER}, "required": ["kind"]}


@pytest.mark.parametrize(
    ("value", "schema", "fault"),
    [
        ("x", {"anyOf": [INTEGER, {"type": "null"}]}, "$: expected integer or null, got 'x'"),
        ({"kind": "square", "side": "x"}, {"anyOf": [CIRCLE, SQUARE]}, "$.side: expected integer, got 'x'"),
        ({"kind": "oval"}, {"anyOf": [CIRCLE, SQUARE]}, "$: fits none of the 2 forms that it may take"),
        (
            {"kind": "circle", "radius": "x"},
            {"oneOf": [CIRCLE, {"type": "null"}]},
            "$.radius: expected integer, got 'x'",
        ),
        (5, {"oneOf": [INTEGER, {"type": "number"}]}, "$: fits 2 of the forms of which it may take one"),
        ({"a": "x"}, {"allOf": [{"properties": {"a": INTEGER}}, {}]}, "$.a: expected integer, got 'x'"),
    ],
)
def test_of_a_union_the_branch_that_was_meant_is_explained(value: Any, schema: dict[str, Any], fault: str) -> None:
    assert faults(value, schema) == [fault]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "wibble"},
        {"type": 5},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#"},
        {"pattern": "("},
        {"minimum": "3"},
        {"required": True},
        {"anyOf": []},
        {"$schema": "http://example.com/unknown"},
        {"$id": "wibble:wobble", "$ref": "other"},
        {"properties": []},
        5,
        [],
        None,
        True,
    ],
)
def test_a_schema_that_makes_no_sense_accepts_anything(schema: Any) -> None:
    assert validate({"a": 1}, schema) == []


def test_a_broken_keyword_behind_a_reference_does_not_silence_the_others() -> None:
    schema = {"items": {"$ref": "#/$defs/word"}, "$defs": {"word": {"type": "string", "pattern": "["}}}
    assert faults(["ok", 1], schema) == ["$[1]: expected string, got 1"]


def test_one_broken_keyword_does_not_silence_the_others() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "("}, "b": {"type": "dict", "required": True}}}
    assert faults({"a": 1, "b": 2}, schema) == ["$.a: expected string, got 1", "$.b: expected object, got 2"]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "float"}, 1.5, "x"),
        ({"type": "dict", "properties": {"a": {"type": "int"}}}, {"a": 1}, {"a": "x"}),
        ({"type": "tuple", "items": {"type": "str"}}, ["x"], [1]),
        ({"items": [{"type": "string"}, INTEGER]}, ["x", 1], [1, 1]),
        ({"minimum": 3, "exclusiveMinimum": True}, 4, 3),
        ({"type": "integer", "nullable": True}, None, "x"),
        ({"type": "string", "enum": ["a"], "nullable": True}, None, "b"),
        ({"$ref": "#/components/n", "nullable": True, "components": {"n": INTEGER}}, None, "x"),
        ({"properties": {"type": {"type": "int"}}}, {"type": 3}, {"type": "x"}),
        ({"definitions": {"n": INTEGER}, "items": {"$ref": "#/definitions/n"}}, [1], ["x"]),
    ],
)
def test_the_spellings_of_other_dialects_count(schema: dict[str, Any], good: Any, bad: Any) -> None:
    assert validate(good, schema) == []
    assert validate(bad, schema) != []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": float("nan")}, "$.a: nan is not a number that JSON can hold"),
        ({"a": ["\ud800"]}, "$.a[0]: a lone surrogate"),
        ({"a": 10**400}, "$.a: an integer of more than 400 digits"),
        ({"\udc00": 1}, "$: a key that is not a string"),
        ({1: 1}, "$: a key that is not a string"),
        ({"a": {1, 2}}, "$.a: set is not a JSON value"),
    ],
)
def test_what_json_cannot_hold_is_a_fault_by_every_schema(value: Any, fault: str) -> None:
    assert faults(value, {}) == [fault]


def test_depth_is_limited_before_the_schema_is_asked() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert [fault.why for fault in validate(value, {"items": {"$ref": "#"}})] == ["nested deeper than 100 levels"]


def test_a_tree_of_unions_is_explained_without_trying_every_combination() -> None:
    node = {"$ref": "#/$defs/node"}
    branches = [{"type": "object", "properties": {"of": node, each: {}}, "required": ["of"]} for each in ("and", "or")]
    schema = {**node, "$defs": {"node": {"anyOf": [*branches, {"type": "string"}]}}}
    value: Any = 5
    for _ in range(60):
        value = {"of": value}
    assert faults(value, schema) == ["$: fits none of the 3 forms that it may take"]


def test_a_branch_is_recognised_by_its_required_names_all_the_way_down() -> None:
    node = {"$ref": "#/$defs/node"}
    branches = [{"type": "object", "properties": {each: node}, "required": [each]} for each in ("and", "or", "not")]
    schema = {**node, "$defs": {"node": {"anyOf": [*branches, {"type": "string"}]}}}
    assert faults({"and": {"not": {"or": 5}}}, schema) == ["$.and.not.or: expected object or string, got 5"]


def test_the_schema_engine_is_loaded_only_when_something_is_validated() -> None:
    program = (
        "import sys, dragoman.args as args; before = 'jsonschema_rs' in sys.modules;"
        "args.validate(1, {'type': 'string'}); print(before, 'jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# ---- laws ----------------------------------------------------------------------------------------------------------


@given(fitting())
def test_a_value_that_was_made_for_a_schema_fits_it(pair: tuple[dict[str, Any], Any]) -> None:
    assert validate(pair[1], pair[0]) == []


@given(JSON, SCHEMA_SOUP)
def test_no_value_and_no_schema_raises(value: Any, schema: Any) -> None:
    assert all(fault.path.startswith("$") and fault.why for fault in validate(value, schema))
