"""Loading: decode, repair, coerce and validate in one, for anything that a model may have written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.args.schema_strategies import JSON

from dragoman.args import load
from dragoman.types import Tool

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "where": {"type": "object"}},
    "required": ["city"],
}
WEATHER = Tool("weather", "", SCHEMA)
NO_PARAMETERS = Tool("now")


def test_sound_arguments_pass_untouched() -> None:
    loaded = load('{"city": "Paris", "days": 3}', WEATHER)
    assert loaded.value == {"city": "Paris", "days": 3}
    assert (loaded.repairs, loaded.changes, loaded.errors) == ((), (), ())
    assert loaded.ok


@pytest.mark.parametrize(
    "tool",
    [
        WEATHER,
        SCHEMA,
        {"name": "weather", "parameters": SCHEMA},
        {"name": "weather", "input_schema": SCHEMA},
        {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}},
    ],
    ids=["a Tool", "a bare schema", "a plain dict", "an Anthropic dict", "an OpenAI dict"],
)
def test_a_tool_is_whatever_describes_one(tool: object) -> None:
    assert load({"city": "Paris", "days": "3"}, tool).value == {"city": "Paris", "days": 3}
    assert not load({"days": 3}, tool).ok


@pytest.mark.parametrize("raw", [None, "", "  \n", {}, "{}"])
def test_no_arguments_are_an_empty_object(raw: Any) -> None:
    loaded = load(raw, NO_PARAMETERS)
    assert loaded.value == {}
    assert loaded.ok
    assert loaded.repairs == ()


@pytest.mark.parametrize(
    ("raw", "value", "repairs"),
    [
        ("{'city': 'Paris',}", {"city": "Paris"}, ("single_quotes", "trailing_comma")),
        ('"{\\"city\\": \\"Paris\\"}"', {"city": "Paris"}, ("double_encoded",)),
        ("\"{'city': 'Paris'}\"", {"city": "Paris"}, ("double_encoded", "single_quotes")),
        ('```json\n{"city": "Paris"}\n```', {"city": "Paris"}, ("markdown_fence",)),
    ],
)
def test_every_repair_is_named(raw: str, value: Any, repairs: tuple[str, ...]) -> None:
    loaded = load(raw, WEATHER)
    assert loaded.value == value
    assert loaded.repairs == repairs
    assert loaded.ok


def test_null_for_no_arguments_is_understood_and_reported() -> None:
    assert load("null", NO_PARAMETERS).value == {}
    assert load("null", NO_PARAMETERS).repairs == ("null_arguments",)


def test_changes_by_the_schema_are_reported() -> None:
    loaded = load({"city": 5, "where": '{"x": 1}'}, WEATHER)
    assert loaded.value == {"city": "5", "where": {"x": 1}}
    assert [(change.path, change.rule) for change in loaded.changes] == [
        ("$.city", "number_to_string"),
        ("$.where", "double_encoded"),
    ]


def test_extra_arguments_are_dropped_on_request() -> None:
    raw = {"city": "Paris", "mood": "good"}
    assert load(raw, WEATHER).value == raw
    assert load(raw, WEATHER, drop_extra=True).value == {"city": "Paris"}


def test_arguments_that_break_the_schema_are_kept_with_every_fault() -> None:
    loaded = load('{"days": 3.5}', WEATHER)
    assert loaded.value == {"days": 3.5}
    assert [str(fault) for fault in loaded.errors] == [
        "$: missing required 'city'",
        "$.days: expected integer, got 3.5",
    ]
    assert not loaded.ok


@pytest.mark.parametrize(
    "raw",
    [
        "[1, 2]",
        "5",
        '"just text"',
        "utter nonsense",
        '{"city": ',
        '{"city": "a", "city": "b"}',
        '{"city": NaN}',
        '{"city": "\\ud800"}',
        '{"days": ' + "9" * 500 + "}",
        '{"where":' * 5000,
        [1],
        5,
        b"{}",
        {"city": float("inf")},
        {"city": "\ud800"},
        {"city": {1, 2}},
        {5: "five"},
    ],
    ids=lambda raw: repr(raw)[:30],
)
def test_what_cannot_be_understood_is_never_replaced_by_nothing(raw: Any) -> None:
    loaded = load(raw, WEATHER)
    assert loaded.value is None
    assert len(loaded.errors) == 1
    assert loaded.errors[0].path.startswith("$")


# ---- laws ----------------------------------------------------------------------------------------------------------


@given(st.text() | st.text(alphabet="{}[]\":,\\'truefalsn0123 \n/#`"))
def test_no_text_raises(raw: str) -> None:
    loaded = load(raw, WEATHER)
    assert isinstance(loaded.value, dict) or loaded.errors


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3), JSON)
def test_no_mapping_raises_and_without_a_schema_nothing_changes(raw: dict[str, Any], other: Any) -> None:
    assert load(raw).value == raw or load(raw).errors
    assert load(other, WEATHER).value is None or isinstance(other, dict | str | None)


@given(st.dictionaries(st.sampled_from(["city", "days", "other"]), JSON, max_size=3))
def test_json_text_and_the_mapping_it_stands_for_load_alike(raw: dict[str, Any]) -> None:
    assert load(json.dumps(raw), WEATHER) == load(raw, WEATHER)


def test_a_million_members_are_refused_before_they_are_read() -> None:
    raw = "{" + ",".join(f'"k{number}": 1' for number in range(1_000_000)) + "}"
    loaded = load(raw)
    assert loaded.value is None
    assert [fault.why for fault in loaded.errors] == ["about 1000000 members; the limit is 200000"]


# ---- numbers ---------------------------------------------------------------------------------------------------------

# What an integer parameter gets for these digits as JSON, and as the text of an argument; None: a fault.
INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "3.0": (3, 3),
    "-0.0": (0, 0),
    "1e5": (100_000, None),
    "1.5e1": (15, None),
    "1.0000000000000000": (1, 1),
    "9007199254740991.0": (9007199254740991, 9007199254740991),
    "9007199254740992.0": (None, 9007199254740992),
    "9007199254740993.0": (None, 9007199254740993),
    "9007199254740993e0": (None, None),
    "90071992547409930e-1": (None, None),
    "12345678901234567890": (12345678901234567890, 12345678901234567890),
    "12345678901234567890.0": (None, 12345678901234567890),
    "1.00000000000000000001": (None, None),
    "0.99999999999999999999": (None, None),
    "4503599627370497.5": (None, None),
    "1e16": (None, None),
    "1e300": (None, None),
    "1e400": (None, None),
    "1e-400": (None, None),
    "-1e-400": (None, None),
    "3.5": (None, None),
}


def test_an_integer_is_what_the_digits_say_or_a_fault() -> None:
    for digits, (number, text) in INTEGERS.items():
        for schema in ({"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}):
            tool = {"type": "object", "properties": {"n": schema}}
            long = {"type": "object", "properties": {"n": schema, "pad": {"type": "string"}}}
            # Short texts, long ones, and those that need a repair are read by different decoders.
            loads = {
                "short": load(f'{{"n": {digits}}}', tool),
                "long": load(f'{{"n": {digits}, "pad": "{"x" * 500}"}}', long),
                "repaired": load(f"{{'n': {digits},}}", tool),
            }
            for way, loaded in loads.items():
                found = None if loaded.errors or loaded.value is None else loaded.value["n"]
                assert found == number and type(found) is type(number), (digits, way, loaded)
            loaded = load(f'{{"n": "{digits}"}}', tool)
            assert (None if loaded.errors else loaded.value["n"]) == text, (digits, loaded)


def test_a_number_may_have_an_exponent() -> None:
    tool = {"type": "object", "properties": {"n": {"type": "number"}}}
    for digits in ("1e300", "1e16", "3.14159265358979323846", "0.1", "3.0", "1e-300"):
        assert load(f'{{"n": {digits}}}', tool).value == {"n": float(digits)}
        assert load({"n": float(digits)}, tool).ok


def test_only_the_float_in_the_place_of_an_integer_is_a_fault() -> None:
    numbers = {"type": "array", "items": {"type": "number"}}
    tool = {"type": "object", "properties": {"a": numbers, "b": {"type": "array", "items": {"type": "integer"}}}}
    loaded = load({"a": [1e300, 1], "b": [1, 1e300, 2, 1e17]}, tool)
    assert [str(fault) for fault in loaded.errors] == [
        "$.b[1]: expected integer, got 1e+300: write all its digits",
        "$.b[3]: expected integer, got 1e+17: write all its digits",
    ]
