"""Coercion changes only what the schema refuses, loses nothing, and reports every change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.args.schema_strategies import JSON, SCHEMA_SOUP, fitting
from tests.tables import each_row

from dragoman.args import coerce, validate
from dragoman.types import Change

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}


def of(schema: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, **members}


def changed(value: Any, schema: dict[str, Any]) -> tuple[Any, list[str]]:
    coerced = coerce(value, schema)
    return coerced.value, [change.rule for change in coerced.changes]


@each_row(
    ("value", "schema", "after", "rules"),
    [
        ("3", INTEGER, 3, ["string_to_integer"]),
        (" -12 ", INTEGER, -12, ["string_to_integer"]),
        ("3.0", INTEGER, 3, ["string_to_integer"]),
        ("123456789012345678901234567890", INTEGER, 123456789012345678901234567890, ["string_to_integer"]),
        (3.0, INTEGER, 3, ["whole_number"]),
        ("3.5", NUMBER, 3.5, ["string_to_number"]),
        ("7", NUMBER, 7, ["string_to_number"]),
        ("1e3", NUMBER, 1000.0, ["string_to_number"]),
        ("true", BOOLEAN, True, ["string_to_boolean"]),
        ("False", BOOLEAN, False, ["string_to_boolean"]),
        (3, STRING, "3", ["number_to_string"]),
        (2.5, STRING, "2.5", ["number_to_string"]),
        (True, STRING, "true", ["boolean_to_string"]),
        ("null", {"type": ["integer", "null"]}, None, ["string_to_null"]),
        ("None", {"type": "integer", "nullable": True}, None, ["string_to_null"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}, ["double_encoded"]),
        ("[1, 2]", {"type": "array"}, [1, 2], ["double_encoded"]),
        ("{'a': True}", {"type": "object"}, {"a": True}, ["double_encoded", "single_quotes", "python_literals"]),
        ('["1"]', {"type": "array", "items": INTEGER}, [1], ["double_encoded", "string_to_integer"]),
        ("Paris", {"type": "array", "items": STRING}, ["Paris"], ["wrapped_in_list"]),
        ("3", {"type": "array", "items": INTEGER}, [3], ["wrapped_in_list", "string_to_integer"]),
        ({"a": 1}, {"type": "array", "items": {"type": "object"}}, [{"a": 1}], ["wrapped_in_list"]),
        ('{"a": 1}', {"type": "array", "items": {"type": "object"}}, [{"a": 1}], ["double_encoded", "wrapped_in_list"]),
        ({"x": None}, {"properties": {"x": INTEGER}}, {}, ["null_to_absent"]),
        ({"x": {"y": None}}, {"properties": {"x": {"properties": {"y": STRING}}}}, {"x": {}}, ["null_to_absent"]),
        ("CELSIUS", {"enum": ["celsius", "fahrenheit"]}, "celsius", ["enum_case"]),
        (" celsius", {"type": "string", "enum": ["celsius"]}, "celsius", ["enum_case"]),
        ("2", {"enum": [1, 2]}, 2, ["string_to_integer"]),
        (2, {"enum": ["1", "2"]}, "2", ["number_to_string"]),
        ("Yes", {"const": "yes"}, "yes", ["enum_case"]),
        (["1", 2], {"type": "array", "items": INTEGER}, [1, 2], ["string_to_integer"]),
        (["1", "b"], {"prefixItems": [INTEGER, STRING]}, [1, "b"], ["string_to_integer"]),
    ],
)
def test_what_the_schema_refuses_is_mended(value: Any, schema: dict[str, Any], after: Any, rules: list[str]) -> None:
    assert changed(value, schema) == (after, rules)
    assert type(coerce(value, schema).value) is type(after)
    assert validate(after, schema) == []


@each_row(
    ("value", "schema"),
    [
        pytest.param(3.5, INTEGER, id="a fraction for an integer"),
        pytest.param("3.5", INTEGER, id="a written fraction for an integer"),
        pytest.param("1/2", INTEGER, id="a quotient for an integer"),
        pytest.param("1/2", NUMBER, id="a quotient for a number"),
        pytest.param("007", INTEGER, id="leading zeros"),
        pytest.param("1,000", INTEGER, id="thousands"),
        pytest.param("1_000", INTEGER, id="underscores"),
        pytest.param("٣", INTEGER, id="digits of another script"),
        pytest.param("three", INTEGER, id="a word"),
        pytest.param("9" * 5000, INTEGER, id="thousands of digits"),
        pytest.param("1e999", NUMBER, id="a number that overflows"),
        pytest.param("nan", NUMBER, id="not a number"),
        pytest.param(1e300, INTEGER, id="a float that stands for many integers"),
        pytest.param(1, BOOLEAN, id="one is not true"),
        pytest.param("yes", BOOLEAN, id="yes is not true"),
        pytest.param("", INTEGER, id="nothing is not zero"),
        pytest.param([[1, 2]], {"type": "array", "items": INTEGER}, id="a nested list for a flat one"),
        pytest.param([3], INTEGER, id="a list for its item"),
        pytest.param("3", {"type": "array", "items": {"type": "array", "items": INTEGER}}, id="a list in a list"),
        pytest.param("[draft] call", {"type": "array", "items": STRING}, id="text that only begins like a list"),
        pytest.param(None, {"type": "array"}, id="nothing is no item"),
        pytest.param(None, STRING, id="nothing is no text"),
        pytest.param({"x": None}, {"properties": {"x": STRING}, "required": ["x"]}, id="null for a required argument"),
        pytest.param({"x": None}, {"properties": {"x": {"type": ["string", "null"]}}}, id="null that is allowed"),
        pytest.param({"x": None}, {"additionalProperties": STRING}, id="null under a key that no schema names"),
        pytest.param({"a": 1}, STRING, id="an object is no text"),
        pytest.param('see {"a": 1} there', {"type": "object"}, id="an object inside a sentence"),
        pytest.param("I think celsius is best", {"enum": ["celsius", "kelvin"]}, id="an enum inside a sentence"),
        pytest.param("CELSIUS", {"enum": ["celsius", "Celsius"]}, id="two members of the same spelling"),
        pytest.param("null", {"type": "integer"}, id="null where it is not allowed"),
        pytest.param("anything", {"not": {}}, id="a schema without structure"),
    ],
)
def test_what_would_be_a_loss_or_a_guess_is_left_alone(value: Any, schema: dict[str, Any]) -> None:
    coerced = coerce(value, schema)
    assert coerced.value is value
    assert coerced.changes == ()


def test_every_change_says_where_and_what() -> None:
    schema = of({"type": "array", "items": {"type": "object", "properties": {"a b": INTEGER}}})
    assert coerce({"x": [{"a b": "1"}]}, schema).changes == (
        Change('$.x[0]["a b"]', "string_to_integer", before="1", after=1),
    )


def test_only_what_changes_is_copied() -> None:
    value = {"x": "1", "kept": {"deep": [1]}}
    coerced = coerce(value, of(INTEGER)).value
    assert value["x"] == "1"
    assert coerced["kept"] is value["kept"]


@pytest.mark.parametrize(
    ("value", "schema", "after"),
    [
        ("3", {"anyOf": [STRING, INTEGER]}, "3"),
        ("3", {"anyOf": [BOOLEAN, INTEGER]}, 3),
        ("5", {"anyOf": [{"type": "array", "items": STRING}, INTEGER]}, 5),
        ('{"a": "1"}', {"anyOf": [{"type": "object", "properties": {"a": INTEGER}}, {"type": "null"}]}, {"a": 1}),
        (
            {"a": "1"},
            {"oneOf": [of(STRING, required=["x"]), {"type": "object", "properties": {"a": INTEGER}}]},
            {"a": 1},
        ),
        ({"x": "1", "y": "2"}, {"allOf": [of(INTEGER), {"properties": {"y": NUMBER}}]}, {"x": 1, "y": 2}),
        ({"x": "1"}, {"anyOf": [of(INTEGER, required=["x", "y"]), {"type": "null"}]}, {"x": 1}),
        ("maybe", {"anyOf": [INTEGER, BOOLEAN]}, "maybe"),
        ("null", {"anyOf": [INTEGER, {"type": "null"}]}, None),
        ("5", {"$ref": "#/$defs/count", "nullable": True, "$defs": {"count": INTEGER}}, 5),
    ],
)
def test_of_a_union_the_branch_that_fits_with_the_least_change_is_taken(
    value: Any, schema: dict[str, Any], after: Any
) -> None:
    assert coerce(value, schema).value == after


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"size": INTEGER, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        }
    },
}


def test_references_are_followed_as_deep_as_the_value_goes() -> None:
    coerced = coerce({"size": "1", "next": {"size": "2", "next": '{"size": "3"}'}}, TREE)
    assert coerced.value == {"size": 1, "next": {"size": 2, "next": {"size": 3}}}
    assert [change.path for change in coerced.changes] == ["$.size", "$.next.size", "$.next.next", "$.next.next.size"]


def test_a_part_of_a_schema_is_read_with_the_references_of_its_root() -> None:
    part = {"$ref": "#/definitions/count"}
    assert coerce("5", part, root={"definitions": {"count": INTEGER}}, path="$.n").changes == (
        Change("$.n", "string_to_integer", "5", 5),
    )


@pytest.mark.parametrize(
    ("name", "value", "after"),
    [
        ("int", "3", 3),
        ("float", "2.5", 2.5),
        ("bool", "true", True),
        ("str", 3, "3"),
        ("dict", '{"a": 1}', {"a": 1}),
        ("list", "[1]", [1]),
        ("tuple", "[1]", [1]),
        ("HashMap", "{}", {}),
        ("any", "3", "3"),
        ("wibble", "3", "3"),
    ],
)
def test_type_names_of_other_languages_are_understood(name: str, value: Any, after: Any) -> None:
    assert coerce(value, {"type": name}).value == after


REFUSES_EXTRA = {"additionalProperties": False}


@pytest.mark.parametrize(
    ("value", "schema", "after"),
    [
        pytest.param(
            {"userID": "u"}, {"required": ["user_id"]}, {"user_id": "u"}, id="a required name spelled otherwise"
        ),
        pytest.param({"User-Id": "u"}, REFUSES_EXTRA, {"user_id": "u"}, id="an extra name that is refused"),
        pytest.param({"userID": "u"}, {}, {"userID": "u"}, id="an extra name that is allowed stays"),
        pytest.param({"userID": "u", "user_id": "v"}, REFUSES_EXTRA, None, id="the name is taken"),
        pytest.param({"userID": "u", "USER_ID": "v"}, REFUSES_EXTRA, None, id="two spellings of one name"),
        pytest.param({"identifier": "u"}, REFUSES_EXTRA, None, id="another word"),
    ],
)
def test_a_key_is_renamed_only_when_it_is_refused_and_clear(
    value: dict[str, Any], schema: dict[str, Any], after: dict[str, Any] | None
) -> None:
    coerced = coerce(value, {"type": "object", "properties": {"user_id": STRING}, **schema})
    assert coerced.value == (value if after is None else after)
    assert [change.rule for change in coerced.changes] == (["renamed_key"] if after not in (None, value) else [])


def test_a_key_that_another_part_knows_is_not_renamed() -> None:
    schema = {
        "allOf": [
            {"properties": {"user_id": STRING}, "required": ["user_id"]},
            {"properties": {"userId": INTEGER}},
        ]
    }
    assert coerce({"userId": "5"}, schema).value == {"userId": 5}


def test_extra_arguments_pass_unless_they_are_to_be_dropped() -> None:
    schema = of(INTEGER)
    assert coerce({"x": 1, "y": 2}, schema).changes == ()
    dropped = coerce({"x": "1", "y": 2}, schema, drop_extra=True)
    assert dropped.value == {"x": 1}
    assert dropped.changes[1] == Change("$.y", "dropped_extra", before=2, after=None)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(of(INTEGER, additionalProperties=True), id="further ones are welcome"),
        pytest.param(of(INTEGER, additionalProperties={"type": "integer"}), id="further ones of a type are welcome"),
        pytest.param({"type": "object"}, id="no names are known"),
        pytest.param({"allOf": [of(INTEGER), {"properties": {"y": INTEGER}}]}, id="another part knows the name"),
    ],
)
def test_arguments_that_the_schema_welcomes_are_never_dropped(schema: dict[str, Any]) -> None:
    assert coerce({"x": 1, "y": 2}, schema, drop_extra=True).value == {"x": 1, "y": 2}


# ---- laws ----------------------------------------------------------------------------------------------------------


@given(fitting())
def test_a_value_that_fits_comes_back_as_it_is(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    coerced = coerce(value, schema)
    assert coerced.value is value
    assert coerced.changes == ()


@given(fitting(), JSON)
def test_coercing_twice_changes_nothing_more(pair: tuple[dict[str, Any], Any], value: Any) -> None:
    once = coerce(value, pair[0])
    twice = coerce(once.value, pair[0])
    assert twice.changes == ()
    assert twice.value is once.value


@given(fitting(), JSON)
def test_the_changes_account_for_every_difference(pair: tuple[dict[str, Any], Any], value: Any) -> None:
    before = json.dumps(value)
    coerced = coerce(value, pair[0])
    assert json.dumps(value) == before, "the value that was passed in is not touched"
    assert (json.dumps(coerced.value) != before) == bool(coerced.changes)


@given(JSON, SCHEMA_SOUP, SCHEMA_SOUP | st.none(), st.booleans())
def test_no_value_and_no_schema_raises(value: Any, schema: Any, root: Any, drop_extra: bool) -> None:
    coerced = coerce(value, schema, root=root, drop_extra=drop_extra)
    assert json.dumps(coerced.value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}, INTEGER]},
        {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$ref": "#"},
    ],
)
@settings(max_examples=3, deadline=None)
@given(st.integers(90, 50_000))
def test_depth_and_circles_are_survived(schema: dict[str, Any], depth: int) -> None:
    value = nested(depth)
    assert coerce(value, schema).value is value


def test_a_tree_of_unions_takes_no_more_than_a_look_at_each_place() -> None:
    node = {
        "anyOf": [
            {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "n": INTEGER}, "required": ["n"]},
            {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "m": INTEGER}, "required": ["m"]},
            {"type": "null"},
        ]
    }
    value: Any = "a leaf that fits nowhere"
    for _ in range(40):
        value = {"left": value, "n": "1"}
    assert coerce(value, {"$ref": "#/$defs/node", "$defs": {"node": node}}).value is not None


def test_a_schema_nested_without_end_is_survived() -> None:
    schema: dict[str, Any] = INTEGER
    for _ in range(20_000):
        schema = {"allOf": [schema]}
    assert coerce("3", schema).value == "3"
