"""Repair: text that parses is not touched; the rest is read, and every rule that was needed is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.args.tolerant import Repaired, repair

words = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=20
)
objects = st.dictionaries(words, json_values, max_size=4)
FRAGMENTS = [
    *(
        '{"a": ',
        '"b": ',
        '"',
        "'",
        "“",
        "\\",
        '\\"',
        "\\u",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        "=",
        "1",
        "-",
        ".5",
    ),
    *(
        "\n",
        " ",
        "//",
        "#",
        "/*",
        "```",
        "```json\n",
        "~~~",
        "true",
        "None",
        "NaN",
        "Sure: ",
        "\ud800",
        "\x00",
        "2*3",
        ";",
    ),
]


@given(json_values, st.booleans())
def test_text_that_parses_is_not_touched(value: Any, complete: bool) -> None:
    assert repair(json.dumps(value), complete=complete) == Repaired(value, (), None)


@given(
    st.text(st.characters()) | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join),
    st.booleans(),
)
def test_repair_never_raises_and_gives_a_value_or_a_reason(text: str, complete: bool) -> None:
    repaired = repair(text, complete=complete)
    if repaired.error is not None:
        assert repaired == Repaired(None, (), repaired.error)
    else:
        json.dumps(repaired.value, allow_nan=False, ensure_ascii=False).encode()
    assert len(set(repaired.rules)) == len(repaired.rules)


@given(objects)
def test_a_fence_around_an_object_is_all_that_is_repaired(value: dict[str, Any]) -> None:
    assert repair(f"```json\n{json.dumps(value, indent=1)}\n```") == Repaired(value, ("markdown_fence",))


@given(objects.filter(bool), st.data())
def test_an_object_that_was_cut_is_an_error_unless_the_call_is_complete(value: dict[str, Any], data: Any) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    assert repair(text[:cut], complete=False).error is not None
    assert repair(text[:-1]).value == value


@each_row(
    ("rule", "text", "value"),
    [
        ("trailing_comma", '{"city": "Paris", "days": 3,}', {"city": "Paris", "days": 3}),
        ("trailing_comma", '{"city": "Paris"},', {"city": "Paris"}),
        ("single_quotes", "{'city': 'Paris'}", {"city": "Paris"}),
        ("python_literals", '{"metric": True, "unit": None}', {"metric": True, "unit": None}),
        ("raw_newline", '{"content": "import os\nprint(1)\n"}', {"content": "import os\nprint(1)\n"}),
        ("escaped_quotes", '{"command": "git commit -m "first""}', {"command": 'git commit -m "first"'}),
        ("escaped_quotes", '{"code": "print("}")"}', {"code": 'print("}")'}),
        ("escaped_quotes", '"say "hi" now"', 'say "hi" now'),
        ("comment", '{"limit": 10 // at most\n}', {"limit": 10}),
        ("closed_brackets", '{"name": "f", "arguments": {"a": [1, 2]}', {"name": "f", "arguments": {"a": [1, 2]}}),
        ("closed_string", '{"sequence": {"kind": "DNA}}', {"sequence": {"kind": "DNA"}}),
        ("double_encoded", '{\\"city\\": \\"Paris\\"}', {"city": "Paris"}),
        ("markdown_fence", '```json\n{"city": "Paris"}\n```', {"city": "Paris"}),
        ("markdown_fence", '~~~\n{"city": "Paris"}\n~~~\n', {"city": "Paris"}),
        ("markdown_fence", '```{"city": "Paris"}', {"city": "Paris"}),
        ("bad_escape", '{"pattern": "\\d+\\.\\d"}', {"pattern": "\\d+\\.\\d"}),
        ("bad_escape", '{"text": "it\\\'s \\$5"}', {"text": "it's $5"}),
        ("smart_quotes", "{“city”: “Paris”}", {"city": "Paris"}),
        ("backtick_quotes", '{"html": `<a href="x">`}', {"html": '<a href="x">'}),
        ("triple_quotes", '{"code": """print("x")"""}', {"code": 'print("x")'}),
        ("bare_key", '{city: "Paris"}', {"city": "Paris"}),
        ("missing_comma", '{"a": 1\n "b": 2}', {"a": 1, "b": 2}),
        ("extra_comma", '{"a": 1,, "b": 2}', {"a": 1, "b": 2}),
        ("extra_closers", '{"city": "Paris"}}', {"city": "Paris"}),
        ("extra_closers", '{"city": "Paris"}\n]}', {"city": "Paris"}),
        ("surrounding_text", 'Sure! {"city": "Paris"} Anything else?', {"city": "Paris"}),
        ("surrounding_text", '{"city": "Paris"};', {"city": "Paris"}),
        ("expression_as_text", '{"city": Paris, "n": 1}', {"city": "Paris", "n": 1}),
        ("evaluated_arithmetic", '{"angle": 2 * 3.5}', {"angle": 7.0}),
        ("number_spelling", '{"change": +5}', {"change": 5}),
        ("equals_for_colon", '{"city" = "Paris"}', {"city": "Paris"}),
        ("doubled_braces", '{{"a": {{"b": 1}}}}', {"a": {"b": 1}}),
        ("half_quoted_key", '{"name="find", "n": 1}', {"name": "find", "n": 1}),
        ("half_quoted_key", '{"name: "find"}', {"name": "find"}),
        ("quote_tokens", '{"city": <|"|>Oslo, "N"<|"|>}', {"city": 'Oslo, "N"'}),
        ("joined_strings", '{"text": ("one " "two")}', {"text": "one two"}),
        ("wide_punctuation", '{"city"："Paris"，"days"：3}', {"city": "Paris", "days": 3}),
        ("wide_punctuation", '{"time"："date：3，5", "x"："▁a"}', {"time": "date：3，5", "x": "▁a"}),
        ("wide_punctuation", '{"say"："\\"x\\"，\\"y：3"}', {"say": '"x"，"y：3'}),
        ("unusual_blanks", '{▁"city":▁"▁Paris：3"Ċ}', {"city": "▁Paris：3"}),
    ],
)
def test_every_rule_by_name(rule: str, text: str, value: Any) -> None:
    assert repair(text) == Repaired(value, (rule,))


def test_several_rules_are_named_in_the_order_they_were_needed() -> None:
    text = "Here:\n```json\n{'a': True, // yes\n b: 'x',}\n```\nDone."
    rules = ("surrounding_text", "markdown_fence", "single_quotes", "python_literals", "comment", "bare_key")
    assert repair(text) == Repaired({"a": True, "b": "x"}, (*rules, "trailing_comma"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "expected a value at position 0"),
        ("no arguments", "expected a value at position 0"),
        ('{"a": NaN}', "not a finite number at position 6"),
        ("{'a': 1, 'a': 2}", "duplicate key 'a' at position 14"),
        ('{"a": 1} {"b": 2}', "text after the value at position 8"),
        ('{"a": "x, "b": "y"}', "string without end at position 6"),
        ('{"a": 1, "b": }', "expected a value at position 14"),
        ("Use {'a' 1}", "expected ':' at position 9"),
        ("{'a': " * 101, "nested deeper than 100 at position 600"),
        ('{"a": ...}', "a placeholder, not a value at position 6"),
    ],
)
def test_what_cannot_be_understood_is_an_error_and_not_a_guess(text: str, error: str) -> None:
    assert repair(text) == Repaired(None, (), error)


@pytest.mark.parametrize("text", ['{"a": [1, 2', '{"a": "b', '{"a": "b"', '{"a": 1,', "{'a': {'b': Tr"])
def test_nothing_is_closed_in_a_call_that_may_have_been_cut(text: str) -> None:
    assert repair(text, complete=False).error is not None
