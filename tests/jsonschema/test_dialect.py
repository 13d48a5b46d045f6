"""Schemas in older or invalid spellings, and their translation to the standard."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from jsonschema_rs import validator_for
from tests.jsonschema.strategies import schemas, values

from dragoman.jsonschema.dialect import normalise, read_older_spelling, sound, tidy


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"type": "str"}, {"type": "string"}),
        ({"type": "Decimal"}, {"type": "number"}),
        ({"type": "whatever"}, {}),
        ({"items": [True, {"type": "int"}]}, {"prefixItems": [True, {"type": "integer"}]}),
        ({"items": [True], "additionalItems": False}, {"prefixItems": [True], "items": False}),
        ({"items": [True], "prefixItems": [False]}, {"prefixItems": [False]}),
        ({"minimum": 3, "exclusiveMinimum": True}, {"minimum": 3, "exclusiveMinimum": 3}),
        ({"minimum": 3, "exclusiveMinimum": False}, {"minimum": 3}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"const": 5, "nullable": True}, {"anyOf": [{"const": 5}, {"type": "null"}]}),
        ({"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"dependentRequired": {"a": "b"}}, {}),
        ({"properties": [], "required": "a", "minLength": -1}, {}),
    ],
)
def test_what_a_schema_means(written: Any, meant: Any) -> None:
    assert normalise(written) == meant


@given(schemas, values)
def test_a_schema_of_the_standard_keeps_its_meaning(schema: Any, value: Any) -> None:
    validator = validator_for(normalise(schema), validate_formats=False)
    assert validator.is_valid(value) == validator_for(schema, validate_formats=False).is_valid(value)


@given(schemas)
def test_a_sound_schema_is_not_touched(schema: Any) -> None:
    if isinstance(schema, dict):
        assert sound(schema) is schema


def test_tidying_reports_every_change() -> None:
    report: list[tuple[str, str]] = []
    node = tidy(
        {"type": "int", "items": [True], "minLength": "x", "maxLength": 3.0}, "$", lambda *each: report.append(each)
    )
    assert node == {"type": "integer", "prefixItems": [True], "maxLength": 3}
    assert report == [
        ("rewritten", "rewrote type at $ as integer"),
        ("rewritten", "rewrote items at $ as prefixItems"),
        ("dropped", "dropped minLength at $: its value is no proper one"),
    ]


def test_only_older_spellings_are_read_as_such() -> None:
    assert read_older_spelling("items", {}, {}) is None
    assert read_older_spelling("exclusiveMaximum", 5, {}) is None
    assert read_older_spelling("exclusiveMaximum", True, {}) == {}
