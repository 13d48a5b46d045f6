"""Strict JSON: what is JSON comes back as it was, what would lose data or surprise a tool is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.args.decoder import MAX_DEPTH, Undecodable, decode, raw_decode

words = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(words, inner, max_size=5), max_leaves=30
)


@given(json_values, st.booleans(), st.sampled_from([None, 2]))
def test_every_json_text_is_read_as_it_was_written(value: Any, escaped: bool, indent: int | None) -> None:
    assert decode(json.dumps(value, ensure_ascii=escaped, indent=indent)) == value


@given(json_values, words)
def test_a_value_in_the_middle_of_a_text_is_read_to_its_end(value: Any, after: str) -> None:
    document = json.dumps([value])
    assert raw_decode("call: " + document + after, 6) == ([value], 6 + len(document))


@given(
    st.text(st.characters())
    | st.lists(st.sampled_from(['"', "{", "[", "]", "}", ":", ",", "1", "\\u", "d83d"])).map("".join)
)
def test_no_text_raises_anything_but_undecodable(text: str) -> None:
    try:
        decode(text)
    except Undecodable as error:
        assert 0 <= error.position <= len(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"city": "Rome", "city": "Oslo"}', "duplicate key 'city'"),
        ('{"a": {"b": 1, "b": 1}}', "duplicate key 'b'"),
        ('{"x": NaN}', "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[1e999]", "number too large"),
        ("1" * 401, "integer of more than 400 digits"),
        ('"\\ud800"', "lone surrogate"),
        ('"a \\uDC00 b"', "lone surrogate"),
        ('{"\\ud83d": 1}', "lone surrogate"),
        ('["a", "\ud800"]', "lone surrogate"),
        ("[" * 101 + "]" * 101, "nested deeper than 100"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested deeper than 100"),
        ("[" * 1_000_000, "nested deeper than 100"),
        ("", "expected a value"),
        ("  ", "expected a value"),
        ("{'a': 1}", "expecting property name enclosed in double quotes"),
        ('{"a": 1} ok', "text after the value"),
        ('"a\nb"', "invalid control character at"),
    ],
)
def test_what_is_refused_and_why(text: str, why: str) -> None:
    with pytest.raises(Undecodable) as refused:
        decode(text)
    assert refused.value.why == why


@pytest.mark.parametrize(
    "value",
    [
        10**400 - 1,
        -(10**400) + 1,
        "\U0001f600 and \\ud800 written out",
        "[" * 500,
        ['"[' * 200, "\\" * 11],
        [[]] * 300,
        "\x00\x7f\u2028",
    ],
)
def test_what_only_looks_like_trouble_is_accepted(value: Any) -> None:
    assert decode(json.dumps(value)) == value


def test_nesting_is_accepted_up_to_the_limit() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(decode(text)) == text


@pytest.mark.parametrize(
    ("text", "position"),
    [('{"a": 1} ok', 9), ('[1, 2, "\ud800"]', 8), ("[1, 2", 5), ('  {"a" 1}', 7), ("[" * 101 + "]" * 101, 100)],
)
def test_the_place_of_a_fault_is_told(text: str, position: int) -> None:
    with pytest.raises(Undecodable, match=f"at position {position}$") as refused:
        decode(text)
    assert refused.value.position == position


def test_a_value_is_read_without_looking_at_what_follows_it() -> None:
    assert raw_decode('  {"a": [1]} \ud800 NaN', 0) == ({"a": [1]}, 12)


BROKEN = st.text(alphabet='{}[]":,\\ \nabu01-.e', max_size=40) | st.sampled_from(
    ['{"a": 1 "b"}', '{"a": [1, 2}', '"no end', "123", "tru", '{"a": "' + "x" * 1500, "[" * 300, '{"a": 1, "a": 2}']
)


@given(BROKEN, st.integers(65_530, 70_000), st.sampled_from(["", "\n" * 50, "}" * 1500]))
def test_where_a_value_stands_in_a_long_text_makes_no_difference(text: str, before: int, after: str) -> None:
    def read(whole: str, position: int) -> object:
        try:
            value, end = raw_decode(whole, position)
        except Undecodable as refused:
            return str(refused).partition(" at position")[0], refused.position - position
        return value, end - position

    assert read("\n" * before + "!" + text + after, before + 1) == read(text + after, 0)
