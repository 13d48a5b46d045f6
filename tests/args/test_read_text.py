"""Formats without types: the schema says what a text stands for, and a string is never touched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.args.schema_strategies import SCHEMA_SOUP, TEXTS, fitting

from dragoman.args import read_text, validate

INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", INTEGER, 5),
        (" 5\n", INTEGER, 5),
        ("12345678901234567890123", INTEGER, 12345678901234567890123),
        ("3.0", INTEGER, 3),
        ("2.5", {"type": "number"}, 2.5),
        ("3", {"type": "number"}, 3),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("null", {"type": "null"}, None),
        ("None", {"type": ["integer", "null"]}, None),
        ('{"a": [1]}', {"type": "object"}, {"a": [1]}),
        (' ["NYC"] ', {"type": "array", "items": STRING}, ["NYC"]),
        ("{}", {"properties": {"a": INTEGER}}, {}),
        ("[]", {"items": INTEGER}, []),
        ("7", {"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, 7),
        ("7", {"anyOf": [INTEGER, {"type": "null"}]}, 7),
        ("null", {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}]}, None),
        ("5", {"type": "int"}, 5),
    ],
)
def test_text_is_read_as_the_schema_wants_it(text: str, schema: dict[str, Any], value: Any) -> None:
    read = read_text(text, schema)
    assert same(read.value, value)
    assert read.changes == ()


@pytest.mark.parametrize(
    "text", ["", " spaced \n", "5", "null", "true", '"quoted"', "[1]", "\\C|\\.", "a\x00b", "\ud800"]
)
def test_a_string_keeps_every_character(text: str) -> None:
    assert read_text(text, STRING).value == text


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("five", INTEGER),
        ("3.5", INTEGER),
        ("1/2", {"type": "number"}),
        ("1", {"type": "boolean"}),
        ("", INTEGER),
        ("null", INTEGER),
        ("{broken", {"type": "object"}),
        ("just words", {"type": "object"}),
        ("{1, 2, 3}", {"type": "object"}),
        ("[1, 2]", {"type": "object"}),
        ("9" * 5000, INTEGER),
    ],
)
def test_what_cannot_be_read_stays_text_for_validation_to_fault(text: str, schema: dict[str, Any]) -> None:
    read = read_text(text, schema)
    assert read.value == text
    assert read.changes == ()
    assert validate(read.value, schema) != []


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        pytest.param("null", {"type": ["string", "null"]}, None, id="null is null"),
        pytest.param("none", {"type": ["string", "null"]}, "none", id="but none is a word"),
        pytest.param("None", {"type": ["string", "null"]}, "None", id="in any spelling"),
        pytest.param("hello", {"type": ["null", "string"]}, "hello", id="a word is a string"),
        pytest.param("5", {"type": ["string", "integer"]}, "5", id="string named first"),
        pytest.param("5", {"type": ["integer", "string"]}, 5, id="integer named first"),
        pytest.param("five", {"type": ["integer", "string"]}, "five", id="no integer, so a string"),
        pytest.param("5", {"anyOf": [STRING, INTEGER]}, "5", id="string named first in a union"),
        pytest.param("5", {"oneOf": [INTEGER, STRING]}, 5, id="integer named first in a union"),
        pytest.param('{"a": 1}', {"oneOf": [STRING, {"type": "object"}]}, {"a": 1}, id="a structure speaks for itself"),
        pytest.param("{'a': 1}", {"oneOf": [STRING, {"type": "object"}]}, "{'a': 1}", id="but not when it is broken"),
        pytest.param(
            '["a"]', {"anyOf": [STRING, {"type": "array", "items": INTEGER}]}, '["a"]', id="nor when it misfits"
        ),
        pytest.param("null", {"enum": ["null", None]}, "null", id="the literal member first"),
        pytest.param("1", {"enum": [1, "1"]}, "1", id="the literal member before the number"),
        pytest.param("2", {"enum": [1, 2]}, 2, id="a number of an enum"),
        pytest.param("2", {"enum": [1, 2, "auto"]}, 2, id="a number of a mixed enum"),
        pytest.param("true", {"const": True}, True, id="a constant"),
    ],
)
def test_unions_and_enums(text: str, schema: dict[str, Any], value: Any) -> None:
    assert same(read_text(text, schema).value, value)


@pytest.mark.parametrize(
    ("text", "schema", "value", "rules"),
    [
        ("Celsius", {"enum": ["celsius", "kelvin"]}, "celsius", ["enum_case"]),
        ("{'a': True, 'b': None}", {"type": "object"}, {"a": True, "b": None}, ["single_quotes", "python_literals"]),
        (r"[{\"id\": \"1\"}]", {"type": "array"}, [{"id": "1"}], ["double_encoded"]),
        (r"[\"two\\nlines\"]", {"type": "array"}, ["two\nlines"], ["double_encoded"]),
        ('{"n": "1"}', {"type": "object", "properties": {"n": INTEGER}}, {"n": 1}, ["string_to_integer"]),
        ("NYC", {"type": "array", "items": STRING}, ["NYC"], ["wrapped_in_list"]),
    ],
)
def test_what_goes_beyond_reading_is_reported(text: str, schema: dict[str, Any], value: Any, rules: list[str]) -> None:
    read = read_text(text, schema, path="$.x")
    assert read.value == value
    assert [change.rule for change in read.changes] == rules
    assert all(change.path.startswith("$.x") for change in read.changes)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1.10", 1.1),
        ("true", True),
        ("True", True),
        ("null", None),
        ("None", None),
        ('{"a": 1}', {"a": 1}),
        ("[1]", [1]),
        ('"quoted"', '"quoted"'),
        ("[not json]", "[not json]"),
        ("NaN", "NaN"),
        ("plain words", "plain words"),
        ("007", "007"),
        ("", ""),
    ],
)
def test_without_a_type(text: str, value: Any) -> None:
    assert same(read_text(text, None).value, value), "no schema mentions the argument"
    assert same(read_text(text, {}).value, value), "the schema allows anything"


def test_references_are_looked_up_in_the_root() -> None:
    root = {"$defs": {"place": {"type": "object"}}}
    assert read_text('{"city": "Shanghai"}', {"$ref": "#/$defs/place"}, root=root).value == {"city": "Shanghai"}


# ---- laws ----------------------------------------------------------------------------------------------------------


def is_unambiguous(schema: dict[str, Any]) -> bool:
    return '"string"' not in json.dumps(schema) and "enum" not in schema and "const" not in schema


@given(fitting())
def test_what_was_written_as_json_is_read_back(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    if isinstance(value, str) or not is_unambiguous(schema.get("$defs", {}).get("part", schema)):
        return
    read = read_text(json.dumps(value), schema)
    assert read.value == value


@given(TEXTS | st.sampled_from(["null", "5", "[1]", "{}", "true", "{'a': 1}", "[" * 5000]), SCHEMA_SOUP)
def test_no_text_and_no_schema_raises(text: str, schema: Any) -> None:
    assert json.dumps(read_text(text, schema).value)
