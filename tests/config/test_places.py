"""The lines of keys are found in every shape that TOML has."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.layers import find_lines, line_of

SHAPES = [
    ("plain", "a = 1\nb = 2\n", {("a",): 1, ("b",): 2}),
    ("a table", "\n[t]\n\na = 1\n", {("t",): 2, ("t", "a"): 4}),
    ("a dotted header", "[ t . 'u v' ]\na = 1\n", {("t", "u v", "a"): 2}),
    ("a list of tables", "[[t]]\na = 1\n[[t]]\na = 2\n", {("t",): 1, ("t", "a"): 2}),
    ("a list over lines", "a = [\n '[', # ]\n 2,\n]\nb = 1\n", {("a",): 1, ("b",): 5}),
    ("a text over lines", 'a = """\nb = 1\n""\\""\n"""\nc = 1\n', {("a",): 1, ("c",): 5}),
    ("a raw text over lines", "a = '''\n[x]\n''\n'''\nc = 1\n", {("a",): 1, ("c",): 5}),
    ("quotes in a text", 'a = "# \\" ["\nb = 1 # \'\n"c d" = 2', {("a",): 1, ("b",): 2, ("c d",): 3}),
    ("an inline table", "a = { b = 1, c = [2] }\nd = 1\n", {("a",): 1, ("d",): 2}),
    ("comments", "# a = 1\n  # [t]\nb = 1 # c = 2\n", {("b",): 3}),
    ("dates", "a = 1979-05-27T07:32:00Z\nb = 07:32:00\n", {("a",): 1, ("b",): 2}),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_lines_of_keys(text: str, expected: dict[tuple[str, ...], int]) -> None:
    tomllib.loads(text)
    found = find_lines(text)
    assert {path: found.get(path) for path in expected} == expected
    assert not [path for path in found if path == ("x",)], "what stands in a text is no key"


def test_what_stands_inside_a_value_is_where_the_value_is() -> None:
    assert line_of(find_lines("\na = { b = 1 }\n"), ("a", "b", "c")) == 2
    assert line_of({}, ("a",)) is None


def test_windows_line_ends() -> None:
    assert find_lines("a = 1\r\n[t]\r\nb = 2\r\n") == {("a",): 1, ("t",): 2, ("t", "b"): 3}


KEYS = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
VALUES = st.sampled_from(["1", '"x"', "[1,\n2]", "'''\n[q]\n'''", '"""\n#"""', "{ z = 1 }", "true # = 1"])


@given(st.lists(st.tuples(KEYS, VALUES, st.integers(0, 2)), unique_by=lambda row: row[0], max_size=12))
def test_a_line_is_where_its_key_was_written(rows: list[tuple[str, str, int]]) -> None:
    text, expected = "", {}
    for key, value, blanks in rows:
        text += "\n" * blanks
        expected[(key,)] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    tomllib.loads(text)
    assert find_lines(text) == expected
