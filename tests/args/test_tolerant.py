"""The tolerant reader: every dialect that models write, what it notes about them, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.args.tolerant import TolerantReader
from dragoman.args.tolerant_scalars import Unreadable, evaluate

words = st.text(st.characters(exclude_categories=["Cs"]))
quoted_words = st.text(st.sampled_from("\"'`“”\\ ,:{}[]()=a1\n")) | words
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | quoted_words
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(quoted_words, inner, max_size=4), max_leaves=20
)
python_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(quoted_words, inner, max_size=4)
    ),
    max_leaves=20,
)
FRAGMENTS = [
    *('{"a": ', '"', "'", "“", "”", "`", '"""', "\\", "\\u", "\\ud83d", "\\x4", "{", "}", "[", "]", "(", ")", ",", ":"),
    *("=", "**", "a=", "a: ", "b_c", "1", "-", "+", ".5", "0x", "1_0", "1e999", "\n", " ", "\t", "//", "#", "/*", "*/"),
    *(
        "true",
        "None",
        "nan",
        "lambda x: ",
        "dict(",
        "f'",
        'rb"',
        "...",
        "\ud800",
        "\x00",
        "é",
        "2*3",
        ", 'k': ",
        '", "',
    ),
]
fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)


def read(text: str, **options: bool) -> tuple[Any, list[str]]:
    reader = TolerantReader(text, **options)
    value, end = reader.value(0)
    assert end == len(text)
    return value, reader.rules


def as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_lists(inner) for key, inner in value.items()}
    return [as_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


# ---- laws ------------------------------------------------------------------------------------------------------------


@given(json_values, st.sampled_from([100, 99]), st.booleans(), st.booleans())
def test_json_is_read_as_json_and_nothing_is_noted(value: Any, max_depth: int, escaped: bool, pretty: bool) -> None:
    # Below the usual depth the fast scanner is left out, so both ways of reading are held to the same law.
    text = json.dumps(value, ensure_ascii=escaped, indent=2 if pretty else None)
    reader = TolerantReader(text, max_depth=max_depth)
    assert reader.value(0) == (value, len(text))
    assert reader.rules == []


@given(python_values, st.booleans())
def test_python_literals_are_read_as_python_reads_them(value: Any, python: bool) -> None:
    text = repr(value)
    reader = TolerantReader(text, python=python)
    assert reader.value(0) == (as_lists(value), len(text))
    assert not python or reader.rules == []


names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name != "lambda")


@given(st.lists(python_values, max_size=3), st.dictionaries(names, python_values, max_size=4), words)
def test_arguments_of_a_python_call_are_read_as_python_reads_them(
    positional: list[Any], keywords: dict[str, Any], after: str
) -> None:
    if len(positional) == 1 and isinstance(positional[0], dict) and not keywords:
        positional = []
    written = ", ".join([*map(repr, positional), *(f"{key}={value!r}" for key, value in keywords.items())]) + ")"
    reader = TolerantReader("tool(" + written, python=True)
    assert reader.arguments(5) == (as_lists(positional), as_lists(keywords), 5 + len(written))
    assert reader.rules == []


@given(st.text(st.characters()) | fragments, st.booleans(), st.booleans(), st.booleans())
def test_no_text_raises_anything_but_unreadable(text: str, python: bool, closing: bool, whole: bool) -> None:
    reader = TolerantReader(text, python=python, closing=closing)
    try:
        value, end = reader.value(0, whole=whole)
    except Unreadable as error:
        assert 0 <= error.position <= len(text)
    else:
        assert 0 < end <= len(text)
        # Whatever was read can be sent on: no surrogates, no NaN.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@given(st.text(st.characters()) | fragments, st.booleans())
def test_no_arguments_raise_anything_but_unreadable(text: str, closing: bool) -> None:
    reader = TolerantReader(text, python=True, closing=closing)
    try:
        positional, keywords, end = reader.arguments(0)
    except Unreadable as error:
        assert 0 <= error.position <= len(text)
    else:
        assert 0 <= end <= len(text)
        json.dumps([positional, keywords], allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("opening", ["[", '{"a":', "(", "dict(a=", "[{'b':(", "f(", "((1+"])
def test_bottomless_nesting_is_refused(opening: str) -> None:
    text = opening * 100_000
    for options in ({}, {"python": True}, {"closing": True}, {"python": True, "max_depth": 10_000}):
        with pytest.raises(Unreadable):
            TolerantReader(text, **options).value(0)
        with pytest.raises(Unreadable):
            TolerantReader(text, **options).arguments(0)


def test_nesting_is_read_up_to_the_limit_of_the_reader() -> None:
    assert TolerantReader("['a', " * 20 + "]" * 20, max_depth=20).value(0)[1] == 140
    with pytest.raises(Unreadable, match="nested deeper than 19 at position 114"):
        TolerantReader("['a', " * 20 + "]" * 20, max_depth=19).value(0)


# ---- dialects --------------------------------------------------------------------------------------------------------


@each_row(
    ("text", "value", "rules"),
    [
        ("{'city': 'Paris'}", {"city": "Paris"}, ["single_quotes"]),
        ('{"a": 1, "b": [1, 2,],}', {"a": 1, "b": [1, 2]}, ["trailing_comma"]),
        ('{"a": True, "b": None}', {"a": True, "b": None}, ["python_literals"]),
        ('{"a": undefined}', {"a": None}, ["python_literals"]),
        ('["a", (1, 2), ()]', ["a", [1, 2], []], ["python_literals"]),
        ('{"re": r"\\d+\\n", "b": b"x"}', {"re": "\\d+\\n", "b": "x"}, ["python_literals"]),
        ("{city: 'Paris', $max: 3, 7: 'x'}", {"city": "Paris", "$max": 3, "7": "x"}, ["bare_key", "single_quotes"]),
        ('{"a": 1 /* one */, // two\n "b": 2 # three\n}', {"a": 1, "b": 2}, ["comment"]),
        ('{"url": "http://x.org/#a"} ', {"url": "http://x.org/#a"}, []),
        ('{"text": "line one\nline two\t."}', {"text": "line one\nline two\t."}, ["raw_newline"]),
        ("{“city”: “Paris”}", {"city": "Paris"}, ["smart_quotes"]),
        ('{"say": "“hello”"}', {"say": "“hello”"}, []),
        ("{‘say’: ‘it’s me’}", {"say": "it’s me"}, ["smart_quotes", "escaped_quotes"]),
        ('{"query": `select "a"`}', {"query": 'select "a"'}, ["backtick_quotes"]),
        ('{"code": """if x:\n  print("y")"""}', {"code": 'if x:\n  print("y")'}, ["triple_quotes"]),
        ("[+1, .5, 5., 1_000, 0x1F, -0b11]", [1, 0.5, 5.0, 1000, 31, -3], ["number_spelling"]),
        ('{"zip": 01234}', {"zip": "01234"}, ["expression_as_text"]),
        ('{"a": 1\n"b": 2}', {"a": 1, "b": 2}, ["missing_comma"]),
        ('{"a": "x" "b": "y"}', {"a": "x", "b": "y"}, ["missing_comma"]),
        ('["a"\n "b"\n {"c": 4} {"d": 5}\n 3]', ["a", "b", {"c": 4}, {"d": 5}, 3], ["missing_comma"]),
        ('{"a": 1,, "b": 2}', {"a": 1, "b": 2}, ["extra_comma"]),
        ('{"a" => 1, b = 2}', {"a": 1, "b": 2}, ["equals_for_colon", "bare_key"]),
        ('("one " "two")', "one two", ["joined_strings"]),
        ('{"check\\_in": "a\\_b"}', {"check_in": "a_b"}, ["bad_escape"]),
        ("{check\\_in: 1}", {"check_in": 1}, ["bare_key", "bad_escape"]),
    ],
)
def test_what_is_not_json_is_read_and_noted(text: str, value: Any, rules: list[str]) -> None:
    read_value, read_rules = read(text.rstrip())
    assert read_value == value
    assert set(read_rules) == set(rules)


@pytest.mark.parametrize(
    ("written", "meant", "rules"),
    [
        (r'"\' \$ \_ \`"', "' $ _ `", ["bad_escape"]),
        (r'"\x41\u0042"', "AB", ["bad_escape"]),
        (r'"C:\Users\me \d+ \."', "C:\\Users\\me \\d+ \\.", ["bad_escape"]),
        ('"curl \\\n  -X"', "curl \\\n  -X", ["raw_newline", "bad_escape"]),
        (r'"\u{1F600}"', "\U0001f600", []),
        (r'"\ud83d\ude00"', "\U0001f600", []),
        (r"'\ud83d\ude00 \U0001F600'", "\U0001f600 \U0001f600", ["single_quotes", "bad_escape"]),
        (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t', []),
    ],
)
def test_escapes(written: str, meant: str, rules: list[str]) -> None:
    value, noted = read(f"[{written}]")
    assert value == [meant]
    assert set(noted) == set(rules)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"text": "He said "hello", and left", "n": 1}', {"text": 'He said "hello", and left', "n": 1}),
        ('{"cmd": "echo "hi" && ls", "n": 1}', {"cmd": 'echo "hi" && ls', "n": 1}),
        ("{'text': 'it's what it's', 'b': 'you're'}", {"text": "it's what it's", "b": "you're"}),
        ('{"args": {"code": "print("}")"}}', {"args": {"code": 'print("}")'}}),
        ('["a "b" c", "d"]', ['a "b" c', "d"]),
        ('{"url": "see "x", http://y.org", "z": 1}', {"url": 'see "x", http://y.org', "z": 1}),
        ('{"body": "{"name": "x", "age": 3}"}', {"body": '{"name": "x", "age": 3}'}),
        ('{"rows": "[{"a": [1]}, {"b": "c"}]", "n": 1}', {"rows": '[{"a": [1]}, {"b": "c"}]', "n": 1}),
        ("""['f(x='a', y="b")']""", ["""f(x='a', y="b")"""]),
    ],
)
def test_quotes_that_were_not_escaped_are_content(text: str, value: Any) -> None:
    assert read(text) in ((value, ["escaped_quotes"]), (value, ["single_quotes", "escaped_quotes"]))


def test_a_quote_that_closes_the_value_closes_it_whatever_follows() -> None:
    assert TolerantReader('{"a": "b"} and "so" on').value(0) == ({"a": "b"}, 10)
    assert TolerantReader("{'a': 'b'}</call>").value(0) == ({"a": "b"}, 10)
    assert TolerantReader("'a' 'b'").value(0) == ("a", 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a value"),
        ("{'a': 1, 'a': 2}", "duplicate key 'a'"),
        ("[nan]", "not a finite number"),
        ("[1e999, ]", "number too large"),
        ("[+1" + "0" * 400 + "]", "integer of more than 400 digits"),
        ("[0x" + "f" * 5000 + "]", "integer of more than 400 digits"),
        (r"['\ud800']", "lone surrogate"),
        ("['\ud800']", "lone surrogate"),
        ("{'\ud800': 1}", "lone surrogate"),
        (r"['\U00110000']", "no such character"),
        ("{'a' 1}", "expected ':'"),
        ("{'a': hello}", "expected a value"),
        ("[1 2]", "expected ',' or ']'"),
        ("{'a': 1]", "expected ',' or '}'"),
        ("{!: 1}", "expected a key"),
        ('{"a": "x, "b": "y"}', "string without end"),
        ("/* never closed", "expected a value"),
    ],
)
def test_what_is_refused_and_why(text: str, why: str) -> None:
    with pytest.raises(Unreadable) as refused:
        TolerantReader(text).value(0)
    assert refused.value.why == why


@pytest.mark.parametrize("text", ["", "[1, 2", '{"a', '{"a":', '{"a": "b', '{"a": 1,', "[", "{'a': 1", "f('x"])
def test_a_text_that_ends_too_early_is_told_from_one_that_is_wrong(text: str) -> None:
    with pytest.raises(Unreadable) as refused:
        TolerantReader(text, python=True).arguments(0)
    assert refused.value.cut


# ---- closing what was left open --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "rules"),
    [
        ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}, ["closed_brackets"]),
        ('{"a": [1, 2}', {"a": [1, 2]}, ["closed_brackets"]),
        ('{"a": {"b": "Paris}}', {"a": {"b": "Paris"}}, ["closed_string"]),
        ('{"a": "Par', {"a": "Par"}, ["closed_string", "closed_brackets"]),
    ],
)
def test_closers_are_added_only_when_asked_for(text: str, value: Any, rules: list[str]) -> None:
    reader = TolerantReader(text, closing=True)
    assert reader.value(0)[0] == value
    assert reader.rules == rules
    with pytest.raises(Unreadable):
        TolerantReader(text).value(0)


# ---- python calls ----------------------------------------------------------------------------------------------------


def arguments(text: str) -> tuple[list[Any], dict[str, Any], list[str]]:
    reader = TolerantReader(text, python=True)
    positional, keywords, end = reader.arguments(0)
    assert end == len(text)
    return positional, keywords, reader.rules


@each_row(
    ("text", "keywords", "rules"),
    [
        (")", {}, []),
        (" city = 'Paris' , days=3, )", {"city": "Paris", "days": 3}, []),
        (
            "a=True, b=None, c=(1,), d=(2), e=dict(f=1), g={1, 2})",
            {"a": True, "b": None, "c": [1], "d": 2, "e": {"f": 1}, "g": [1, 2]},
            [],
        ),
        ("a=1,  # the first\n b='''x\n'y' z''')", {"a": 1, "b": "x\n'y' z"}, []),
        ("a='x' 'y', b='x' + \"y\", c=r'\\d' f'{e}')", {"a": "xy", "b": "xy", "c": "\\d{e}"}, []),
        ("**{'a': 1}, b=2)", {"a": 1, "b": 2}, []),
        ('a=true, b={"c": null})', {"a": True, "b": {"c": None}}, []),
        ("{'a': 1})", {"a": 1}, ["object_as_arguments"]),
        ("'a': 1, \"b\"=2)", {"a": 1, "b": 2}, ["quoted_keyword", "colon_for_equals"]),
        ("city: 'Paris')", {"city": "Paris"}, ["colon_for_equals"]),
        ("check\\_in='a', \\_out='b')", {"check_in": "a", "_out": "b"}, ["bad_escape"]),
        (
            "a=foo.bar, b=New York, c=lambda x, y: x**2)",
            {"a": "foo.bar", "b": "New York", "c": "lambda x, y: x**2"},
            ["expression_as_text"],
        ),
        (
            "a=f(x, [1, 'y)']), b=[n for n in m], c='x'.upper())",
            {"a": "f(x, [1, 'y)'])", "b": "[n for n in m]", "c": "'x'.upper()"},
            ["expression_as_text"],
        ),
        ("a=2*3, b=1/4, c=(1 + 2) ** 2, d=-7 // 2)", {"a": 6, "b": 0.25, "c": 9, "d": -4}, ["evaluated_arithmetic"]),
        (
            "a=2024-12-25, b=10:30, c=2024-12, d=555-123-4567, e=007)",
            {"a": "2024-12-25", "b": "10:30", "c": "2024-12", "d": "555-123-4567", "e": "007"},
            ["expression_as_text"],
        ),
        ("body='Let's meet', code='print('a')')", {"body": "Let's meet", "code": "print('a')"}, ["escaped_quotes"]),
        ("artist='Gogh, platform='Sotheby')", {"artist": "Gogh", "platform": "Sotheby"}, ["closed_string"]),
        (
            "stops=['Philadelphia', 'Washington D.C., 'Atlanta'])",
            {"stops": ["Philadelphia", "Washington D.C.", "Atlanta"]},
            ["closed_string"],
        ),
        ("a='x'\n b=2)", {"a": "x", "b": 2}, ["missing_comma"]),
        ('q="{"a": "b"}")', {"q": '{"a": "b"}'}, ["escaped_quotes"]),
    ],
)
def test_named_arguments(text: str, keywords: dict[str, Any], rules: list[str]) -> None:
    assert arguments(text) == ([], keywords, rules)


def test_positional_arguments_keep_their_order() -> None:
    assert arguments("5, 'x', [1], unit='m')") == ([5, "x", [1]], {"unit": "m"}, [])


def test_a_string_without_its_closing_quote_does_not_swallow_the_next_call() -> None:
    text = "units='meters), area(radius=15, units='meters')"
    reader = TolerantReader(text, python=True)
    assert reader.arguments(0) == ([], {"units": "meters"}, 14)
    assert reader.rules == ["closed_string"]


def test_arguments_may_have_another_closer() -> None:
    assert TolerantReader("a='x', b=2] and", python=True).arguments(0, "]") == ([], {"a": "x", "b": 2}, 11)
    assert TolerantReader("a: 'x'}", python=True).arguments(0, "}") == ([], {"a": "x"}, 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=1, a=2)", "duplicate argument 'a'"),
        ("a=1, **{'a': 2})", "cannot spread this into arguments"),
        ("**parameters)", "cannot spread this into arguments"),
        ("city: str, days: int = 3)", "a signature, not a call"),
        ("...)", "a placeholder, not a value"),
        ("a=inf)", "not a finite number"),
        ("a=, b=1)", "expected a value"),
        ("a=[1, 2), b=3)", "expected ',' or ']'"),
        ("a=f(x", "expression without end"),
    ],
)
def test_arguments_that_are_refused_and_why(text: str, why: str) -> None:
    with pytest.raises(Unreadable) as refused:
        TolerantReader(text, python=True).arguments(0)
    assert refused.value.why == why


# ---- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value"),
    [("2*3", 6), ("1/2", 0.5), ("2**3**2", 512), ("-2**2", -4), ("7 % 4 - 1", 2), ("1e3 * .5", 500.0), ("--(3)", 3)],
)
def test_a_sum_has_the_value_python_gives_it(source: str, value: float) -> None:
    assert evaluate(source) == value


@pytest.mark.parametrize(
    "source",
    ["9**9**9", "1/0", "(-8)**.5", "1e308*10", "2 3", "2*", "(1", "x*2", "", "()", "08+1", "1" * 401, "9" * 79 + "**9"],
)
def test_what_has_no_reasonable_value_is_no_sum(source: str) -> None:
    assert evaluate(source) is None
