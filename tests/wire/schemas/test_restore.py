"""What a target changed, undone in the arguments of a call."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import Change, Tool
from dragoman.wire.schemas import compile_schema, restore


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


LEVEL = {"type": "integer", "enum": [1, 2]}
NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}, "level": LEVEL},
    "required": ["name"],
}
RECURSIVE = {**object_of(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}}
SHAPES = {
    "anyOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind"]},
        {
            "type": "object",
            "properties": {"kind": {"const": "dot"}, "r": {"type": ["number", "null"]}},
            "required": ["kind"],
        },
    ]
}


@pytest.mark.parametrize(
    ("target", "schema", "written", "meant", "rules"),
    [
        ("openai_strict", object_of(n={"type": "integer"}), {"n": None}, {}, ["null_to_absent"]),
        ("openai_strict", object_of(n={"type": "integer"}), {"n": 3}, {"n": 3}, []),
        ("openai_strict", object_of(n={"type": ["integer", "null"]}), {"n": None}, {"n": None}, []),
        ("openai_strict", object_of(n={"anyOf": [LEVEL, {"type": "null"}]}), {"n": None}, {"n": None}, []),
        (
            "openai_strict",
            object_of(deep=object_of(list={"type": "array", "items": object_of(n=LEVEL)})),
            {"deep": {"list": [{"n": None}, {"n": 1}]}},
            {"deep": {"list": [{}, {"n": 1}]}},
            ["null_to_absent"],
        ),
        (
            "openai_strict",
            RECURSIVE,
            {"root": {"name": "a", "level": None, "next": {"name": "b", "level": 1, "next": None}}},
            {"root": {"name": "a", "next": {"name": "b", "level": 1}}},
            ["null_to_absent", "null_to_absent"],
        ),
        (
            "openai_strict",
            object_of(shape=SHAPES),
            {"shape": {"kind": "circle", "r": None}},
            {"shape": {"kind": "circle"}},
            ["null_to_absent"],
        ),
        (
            "openai_strict",
            object_of(shape=SHAPES),
            {"shape": {"kind": "dot", "r": None}},
            {"shape": {"kind": "dot", "r": None}},
            [],
        ),
        (
            "openai_strict",
            object_of(tags={"type": "object", "additionalProperties": object_of(n={"type": "integer"})}),
            {"tags": [{"key": "a", "value": {"n": None}}, {"key": "b", "value": {"n": 2}}]},
            {"tags": {"a": {}, "b": {"n": 2}}},
            ["null_to_absent", "pairs_to_object"],
        ),
        (
            "openai_strict",
            object_of(tags={"type": "object"}),
            {"tags": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]},
            {"tags": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]},
            [],
        ),
        ("gemini", object_of(level=LEVEL), {"level": "2"}, {"level": 2}, ["text_to_enum_value"]),
        ("gemini", object_of(level=LEVEL), {"level": 2}, {"level": 2}, []),
        ("gemini", object_of(level=LEVEL), {"level": "3"}, {"level": "3"}, []),
        (
            "gemini",
            object_of(all={"type": "array", "items": {"enum": [True, 1.5, "x", None]}}),
            {"all": ["true", "1.5", "x", None]},
            {"all": [True, 1.5, "x", None]},
            ["text_to_enum_value", "text_to_enum_value"],
        ),
        (
            "gemini",
            object_of(either={"anyOf": [LEVEL, {"type": "boolean"}]}),
            {"either": "1"},
            {"either": 1},
            ["text_to_enum_value"],
        ),
        ("gemini", object_of(**{"user-id": LEVEL}), {"user_id": "1"}, {"user-id": 1}, None),
        (
            "anthropic",
            object_of(filter={"allOf": [object_of(**{"$top": {"type": "integer"}})]}),
            {"filter": {"_top": 5}},
            {"filter": {"$top": 5}},
            ["name_restored"],
        ),
        (
            "bedrock",
            object_of(list={"type": "array", "items": object_of(**{"a b": {"type": "integer"}})}),
            {"list": [{"a_b": 5}], "more": 1},
            {"list": [{"a b": 5}], "more": 1},
            ["name_restored"],
        ),
        ("anthropic", object_of(**{"a b": {}}), {"a_b": 1, "a b": 2}, {"a_b": 1, "a b": 2}, []),
    ],
)
def test_arguments_are_restored(
    target: str, schema: dict[str, Any], written: dict[str, Any], meant: dict[str, Any], rules: list[str] | None
) -> None:
    compiled = compile_schema(Tool("x", parameters=schema), target)
    restored, changes = restore(written, compiled.undo)
    assert restored == meant
    if rules is not None:
        assert [change.rule for change in changes] == rules


def test_a_change_names_its_place_and_both_values() -> None:
    schema = object_of(**{"user-id": {"type": "array", "items": LEVEL}})
    compiled = compile_schema(Tool("x", parameters=schema), "gemini")
    _, changes = restore({"user_id": ["1"]}, compiled.undo)
    assert changes == (
        Change('$["user-id"]', "name_restored", "user_id", "user-id"),
        Change('$["user-id"][0]', "text_to_enum_value", "1", 1),
    )


def test_arguments_far_deeper_than_any_schema_do_not_exhaust_the_stack() -> None:
    compiled = compile_schema(Tool("x", parameters=RECURSIVE), "openai_strict")
    deep: dict[str, Any] = {"name": "leaf", "next": None}
    for _ in range(5_000):
        deep = {"name": "a", "next": deep}
    restored, _ = restore({"root": deep}, compiled.undo)
    assert restored["root"]["next"]["name"] == "a"


def test_unions_that_refer_to_themselves_are_undone_in_time() -> None:
    """Were every branch looked at in full depth, this would take 3 ** 60 steps."""
    branch = {**object_of(a={"$ref": "#/$defs/Either"}, n={"type": "integer"}), "additionalProperties": False}
    either = {"anyOf": [branch, {**branch, "description": "b"}, {**branch, "description": "c"}]}
    schema = {**object_of(root={"$ref": "#/$defs/Either"}), "$defs": {"Either": either}}
    compiled = compile_schema(Tool("x", parameters=schema), "openai_strict")
    value: dict[str, Any] = {"a": None, "n": None}
    for _ in range(60):
        value = {"a": value, "n": None}
    restored, changes = restore({"root": value}, compiled.undo)
    assert len(changes) == 62
    assert restored["root"].keys() == {"a"}
