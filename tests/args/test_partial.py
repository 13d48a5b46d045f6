"""A JSON object while it grows: every cut gives the same object, and each character is read once."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.args.schema_strategies import JSON
from tests.tables import each_row

from dragoman.args import PartialObject, PartialUpdate

OBJECTS = st.dictionaries(st.text(max_size=6), JSON | st.floats(allow_nan=False, allow_infinity=False), max_size=4)


def feed_all(pieces: list[str]) -> tuple[PartialObject, list[PartialUpdate]]:
    reader = PartialObject()
    return reader, [grown for piece in pieces for grown in reader.feed(piece)]


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def test_a_user_interface_sees_which_string_grew_and_by_what() -> None:
    reader = PartialObject()
    assert reader.feed('{"path": "a.txt", "text": "Dear') == [
        PartialUpdate(("path",), "a.txt", True, "a.txt"),
        PartialUpdate(("text",), "Dear"),
    ]
    assert reader.growing == ("text",)
    assert reader.feed(" \\u00e9l\\n") == [PartialUpdate(("text",), " él\n")]
    assert reader.value == {"path": "a.txt", "text": "Dear él\n"}
    assert not reader.complete
    assert reader.feed('"}') == [
        PartialUpdate(("text",), "", True, "Dear él\n"),
        PartialUpdate((), "", True, {"path": "a.txt", "text": "Dear él\n"}),
    ]
    assert reader.complete
    assert reader.growing is None


def test_numbers_and_words_appear_when_they_are_complete() -> None:
    reader = PartialObject()
    assert reader.feed('{"a": [1, -2.5e1, 12') == [
        PartialUpdate(("a", 0), "", True, 1),
        PartialUpdate(("a", 1), "", True, -25.0),
    ]
    assert reader.feed("3, tru") == [PartialUpdate(("a", 2), "", True, 123)]
    assert reader.value == {"a": [1, -25.0, 123]}
    assert reader.feed("e, nul") == [PartialUpdate(("a", 3), "", True, True)]
    assert reader.feed('l, {"b": [] }') == [
        PartialUpdate(("a", 4), "", True, None),
        PartialUpdate(("a", 5, "b"), "", True, []),
        PartialUpdate(("a", 5), "", True, {"b": []}),
    ]
    assert reader.failed is None


def test_a_character_written_in_two_halves_appears_once_both_are_there() -> None:
    reader = PartialObject()
    assert reader.feed('{"a": "\\ud83d') == []
    assert reader.value == {"a": ""}
    assert reader.feed("\\ude0") == []
    assert reader.feed("0") == [PartialUpdate(("a",), "😀")]


def test_a_key_is_shown_only_with_its_value() -> None:
    reader = PartialObject()
    assert reader.feed('{"lon') == []
    assert reader.growing is None
    assert reader.value == {}
    assert reader.feed('g": "x') == [PartialUpdate(("long",), "x")]


@each_row(
    ("text", "value"),
    [
        pytest.param("[1]", {}, id="a list"),
        pytest.param("hello", {}, id="prose"),
        pytest.param('{"a": 1,}', {"a": 1}, id="a trailing comma"),
        pytest.param("{'a': 1}", {}, id="single quotes"),
        pytest.param("{a: 1}", {}, id="a bare key"),
        pytest.param('{"a" 1}', {}, id="no colon"),
        pytest.param('{"a": 1 "b": 2}', {"a": 1}, id="no comma"),
        pytest.param('{"a": [1}', {"a": [1]}, id="the wrong closer"),
        pytest.param('{"a": 01}', {}, id="a leading zero"),
        pytest.param('{"a": 1.}', {}, id="a trailing dot"),
        pytest.param('{"a": 1e999}', {}, id="a number that overflows"),
        pytest.param('{"a": ' + "9" * 401 + "}", {}, id="a huge integer"),
        pytest.param('{"a": NaN}', {}, id="not a number"),
        pytest.param('{"a": trye}', {}, id="a misspelled word"),
        pytest.param('{"a": "b\nc"}', {"a": "b"}, id="a raw newline"),
        pytest.param('{"a": "b\\x41"}', {"a": "b"}, id="a bad escape"),
        pytest.param('{"a": "b\\u12G4"}', {"a": "b"}, id="bad hex"),
        pytest.param('{"a": "b\\u+123"}', {"a": "b"}, id="a sign in hex"),
        pytest.param('{"a": "b\\ud83dx"}', {"a": "b"}, id="half a character"),
        pytest.param('{"a": "b\\ud83d\\u0041"}', {"a": "b"}, id="half a character and another"),
        pytest.param('{"a": "b\\ude00"}', {"a": "b"}, id="the second half alone"),
        pytest.param('{"a": "b\ud800"}', {"a": "b"}, id="a raw surrogate"),
        pytest.param('{"a": 1, "a": 2}', {"a": 1}, id="a key twice"),
        pytest.param('{"a": 1} and more', {"a": 1}, id="text after the object"),
    ],
)
def test_text_that_is_no_json_stops_the_reader_and_keeps_what_was_there(text: str, value: dict[str, Any]) -> None:
    for pieces in ([text], list(text)):
        reader, _ = feed_all(pieces)
        assert reader.failed
        assert not reader.complete
        assert reader.value == value
        assert reader.feed('{"b": 2}') == []
        assert reader.value == value


def test_depth_is_limited() -> None:
    reader, _ = feed_all(['{"a":' * 5000])
    assert reader.failed == "nested deeper than 100 levels"
    assert feed_all(['{"a":' + "[" * 99 + "]" * 99 + "}"])[0].complete


def test_a_piece_costs_the_same_however_long_the_string_has_become() -> None:
    reader = PartialObject()
    reader.feed('{"text": "' + "x" * 4_000_000)
    tracemalloc.start()
    try:
        for _ in range(100):
            reader.feed("abcd")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000, "what was read before is neither copied nor read again"
    assert reader.value["text"] == "x" * 4_000_000 + "abcd" * 100


# ---- laws ----------------------------------------------------------------------------------------------------------


@given(OBJECTS, st.lists(st.integers(0, 10_000), max_size=8), st.sampled_from([None, 2]), st.booleans())
def test_any_cut_gives_the_object(
    value: dict[str, Any], places: list[int], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    for pieces in (cut(text, places), list(text), [text]):
        reader, _ = feed_all(pieces)
        assert reader.failed is None
        assert reader.complete
        assert json.dumps(reader.value) == json.dumps(value)


@given(OBJECTS, st.lists(st.integers(0, 10_000), max_size=8))
def test_the_deltas_of_a_string_add_up_to_it(value: dict[str, Any], places: list[int]) -> None:
    _, grown = feed_all(cut(json.dumps(value), places))
    texts: dict[Any, str] = {}
    for each in grown:
        texts[each.path] = texts.get(each.path, "") + each.delta
        if each.complete and isinstance(each.value, str):
            assert texts[each.path] == each.value


@given(st.lists(st.text(alphabet='{}[]":,\\utfn0123456789.eE- d8', max_size=6) | st.text(max_size=3), max_size=12))
def test_garbage_never_raises_and_cuts_do_not_matter(pieces: list[str]) -> None:
    reader, _ = feed_all(pieces)
    whole, _ = feed_all(["".join(pieces)])
    assert json.dumps(reader.value) == json.dumps(whole.value)
    assert (reader.complete, reader.failed) == (whole.complete, whole.failed)


@given(OBJECTS, st.lists(st.integers(0, 10_000), max_size=8))
def test_looking_at_the_value_changes_nothing(value: dict[str, Any], places: list[int]) -> None:
    pieces = cut(json.dumps(value), places)
    reader = PartialObject()
    watched = []
    for piece in pieces:
        watched += reader.feed(piece)
        assert reader.value is reader.value
    assert watched == feed_all(pieces)[1]
