"""Arguments by their schema: what each keyword allows, where the limits are, and what is reported as not held."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from tests.formats.grammars.asking import PING, WEATHER, accepts, allows
from tests.formats.grammars.gbnf_engine import Gbnf
from tests.formats.grammars.sampling import Sampler
from tests.tables import each_row

from dragoman import formats
from dragoman.args.decoder import read_float
from dragoman.args.loader import validate
from dragoman.errors import ConfigError
from dragoman.formats.grammars.nodes import Chars, Tree
from dragoman.formats.grammars.patterns import Bound, whole_or_fraction
from dragoman.types import JsonObject

VALUES: list[tuple[str, JsonObject, list[Any], list[Any]]] = [
    ("string", {"type": "string"}, ["", "a", 'é"\\\n\t🎉</x>'], [1, None]),
    ("minLength", {"type": "string", "minLength": 2}, ["ab", "日本"], ["", "a"]),
    ("maxLength", {"type": "string", "maxLength": 2}, ["", "ab", '"\n'], ["abc"]),
    ("length", {"type": "string", "minLength": 1, "maxLength": 1}, ["a"], ["", "ab"]),
    ("nothing fits", {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 1}, {"const": 1}]}, [1], ["a", "ab"]),
    ("integer", {"type": "integer"}, [0, -1, 10**15 - 1], [1.5, "1", True, 10**16]),
    ("minimum", {"type": "integer", "minimum": 3}, [3, 4, 10, 99], [2, 0, -3]),
    ("maximum", {"type": "integer", "maximum": 120}, [120, 99, 0, -7], [121, 200, 1000]),
    ("range", {"type": "integer", "minimum": -12, "maximum": 205}, [-12, -1, 0, 9, 199, 205], [-13, -20, 206, 300]),
    ("strict range", {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, [1, 9], [0, 10]),
    ("bounds with a point", {"type": "integer", "minimum": 0.5, "maximum": 2.5}, [1, 2], [0, 3]),
    ("number", {"type": "number"}, [0, -1.5, 1e-07, 123456.789], ["1", None]),
    (
        "number range",
        {"type": "number", "minimum": 0, "maximum": 0.5},
        [0, 0.0, 0.5, 0.25, 0.4999],
        [0.51, 0.6, 1, -0.1],
    ),
    ("negative", {"type": "number", "minimum": -2.5, "maximum": -1}, [-1, -1.0, -2.5, -2.25], [-0.9, -2.51, -3, 0]),
    ("above", {"type": "number", "exclusiveMinimum": 0}, [0.001, 1, 1000.5], [0, 0.0, -1]),
    ("below", {"type": "number", "exclusiveMaximum": 1.5}, [1.49, 1, 0, -5], [1.5, 1.51, 2]),
    ("oldest draft", {"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1, 0]),
    ("boolean", {"type": "boolean"}, [True, False], [None, 0]),
    ("null", {"type": "null"}, [None], [False]),
    ("nullable", {"type": "integer", "nullable": True}, [None, 5], ["5"]),
    ("other languages", {"type": "int"}, [5], ["5"]),
    ("types", {"type": ["string", "null"]}, ["a", None], [1]),
    ("enum", {"enum": ["a", 1, None, [1, 2]]}, ["a", 1, None, [1, 2]], ["b", 2, []]),
    ("enum of a type", {"type": "string", "enum": ["a", 1]}, ["a"], [1]),
    ("const", {"const": {"k": 1}}, [{"k": 1}], [{}, 1]),
    ("items", {"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 2]], [["a"], 1]),
    ("minItems", {"type": "array", "items": {"type": "null"}, "minItems": 2}, [[None] * 2, [None] * 3], [[], [None]]),
    ("maxItems", {"type": "array", "items": {"type": "null"}, "maxItems": 2}, [[], [None] * 2], [[None] * 3]),
    ("no items", {"type": "array", "items": {"type": "null"}, "maxItems": 0}, [[]], [[None]]),
    (
        "prefixItems",
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "null"}},
        [[], ["a"], ["a", 1], ["a", 1, None]],
        [[1], ["a", "b"], ["a", 1, 2]],
    ),
    (
        "optional and required members keep their order",
        {"type": "object", "properties": {k: {"type": "null"} for k in "abcd"}, "required": ["c"]},
        [{"c": None}, {"a": None, "c": None}, {"b": None, "c": None, "d": None}, dict.fromkeys("abcd")],
        [{}, {"a": None}, {"c": None, "a": None}, {"c": None, "e": None}],
    ),
    (
        "all optional",
        {"type": "object", "properties": {k: {"type": "null"} for k in "abc"}},
        [{}, {"a": None}, {"c": None}, {"a": None, "c": None}, dict.fromkeys("abc")],
        [{"b": None, "a": None}, {"d": None}],
    ),
    ("closed", {"type": "object", "properties": {}}, [{}], [{"a": 1}]),
    ("map", {"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1, "b c": 2}], [{"a": "b"}]),
    ("required without a schema", {"type": "object", "required": ["a"]}, [{"a": 1}, {"a": [{}]}], [{}, {"b": 1}]),
    ("anything", {}, ["a", 1, None, {"a": [1, {"b": 2}]}], [[[[[]]]]]),
    ("anyOf", {"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer", "minimum": 5}]}, ["a", 5], ["ab", 4]),
    ("oneOf", {"oneOf": [{"type": "boolean"}, {"type": "null"}]}, [True, None], [1]),
    ("anyOf beside a type", {"type": "string", "anyOf": [{"maxLength": 1}, {"minLength": 3}]}, ["a", "abc"], ["ab", 1]),
    ("allOf", {"allOf": [{"type": "integer"}, {"minimum": 2}, {"maximum": 3}]}, [2, 3], [1, 4, 2.5]),
    (
        "allOf of unions",
        {"allOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"anyOf": [{"minimum": 5}, {"type": "null"}]}]},
        [5, 9, None],
        [4, "a"],
    ),
    ("false", {"anyOf": [False, {"type": "null"}]}, [None], ["a"]),
    ("reference", {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, [5], ["a"]),
    ("date", {"type": "string", "format": "date"}, ["2024-02-29", "2023-12-31"], ["2023-02-29", "2023-13-01", "x"]),
    (
        "date-time",
        {"type": "string", "format": "date-time"},
        ["2024-01-31T23:59:59Z"],
        ["2024-01-31", "2024-04-31T00:00:00Z"],
    ),
    ("time", {"type": "string", "format": "time"}, ["23:59:59+01:00"], ["24:00:00Z"]),
    ("uuid", {"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
    ("email", {"type": "string", "format": "email"}, ["a.b+c@example.org"], ["a@b", "@b.c", "a..b@c.d"]),
    ("ipv4", {"type": "string", "format": "ipv4"}, ["0.0.0.0", "255.1.20.199"], ["256.1.1.1", "1.2.3"]),
]


@each_row(("schema", "good", "bad"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_arguments_follow_their_schema(schema: JsonObject, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert allows(dict(schema), value), value
    for value in bad:
        assert not allows(dict(schema), value), value


def _tree(depth: int) -> JsonObject:
    return {"label": "a", "next": _tree(depth - 1)} if depth else {"label": "a"}


@pytest.mark.parametrize(("deepest", "depth", "wanted"), [(3, 3, True), (3, 4, False), (1, 1, True), (1, 2, False)])
def test_recursion_has_an_end(deepest: int, depth: int, wanted: bool) -> None:
    node = {
        "type": "object",
        "properties": {"label": {"type": "string"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["label"],
    }
    assert allows({"$ref": "#/$defs/node", "$defs": {"node": node}}, _tree(depth), deepest=deepest) is wanted


def test_what_can_never_end_is_left_out() -> None:
    endless = {"type": "object", "properties": {"next": {"$ref": "#/$defs/endless"}}, "required": ["next"]}
    tool = {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/endless"}},
            "$defs": {"endless": endless},
        },
    }
    assert accepts('{"name": "f", "arguments": {}}', [tool], "json", tool_choice="required")
    tool["parameters"]["required"] = ["x"]  # type: ignore[index]
    with pytest.raises(ConfigError, match="none of the tools can be called"):
        formats.grammar([tool], "json", tool_choice="required")
    assert not accepts('{"name": "f", "arguments": {}}', [tool, PING], "json", tool_choice="required")


@pytest.mark.parametrize(
    ("options", "schema", "good", "bad"),
    [
        ({"longest_text": 5}, {"type": "string"}, "abcde", "abcdef"),
        ({"longest_text": 5}, {"type": "string", "maxLength": 7}, "abcdefg", "abcdefgh"),
        ({"longest_text": 2}, {"type": "string", "minLength": 4}, "abcd", "abcde"),
        ({"most_items": 2}, {"type": "array", "items": {"type": "null"}}, [None] * 2, [None] * 3),
        ({"most_items": 2}, {"type": "array", "items": {"type": "null"}, "maxItems": 4}, [None] * 4, [None] * 5),
        ({"deepest": 1}, {}, [1], [[1]]),
    ],
)
def test_limits_hold_where_the_schema_states_none(options: Any, schema: JsonObject, good: Any, bad: Any) -> None:
    assert allows(schema, good, **options)
    assert not allows(schema, bad, **options)


@pytest.mark.parametrize("most", [1499, 1500, 1501, 2000, 4321])
def test_very_long_texts_are_counted_exactly(most: int) -> None:
    schema = {"type": "string", "maxLength": most}
    assert allows(dict(schema), "a" * most)
    assert not allows(dict(schema), "a" * (most + 1))


@pytest.mark.parametrize("most", [5, 40, 200, 900])
def test_texts_between_tags_are_counted_exactly(most: int) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string", "maxLength": most}}}}
    for name in ("qwen3_coder", "deepseek_v32", "minicpm5"):
        for length, wanted in ((most, True), (most + 1, False)):
            text = formats.render([("f", {"x": "a" * length})], name)
            assert accepts(text, [tool], name, tool_choice="required") is wanted


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
@pytest.mark.parametrize("longest", [10, 3000])
def test_the_limit_of_texts_holds_in_every_kind_of_format(name: str, longest: int) -> None:
    for length, wanted in ((longest, True), (longest + 1, False)):
        text = formats.render([("get_weather", {"city": "a" * length})], name)
        assert accepts(text, [WEATHER], name, tool_choice="required", longest_text=longest) is wanted


def test_a_limit_beyond_counting_is_none() -> None:
    assert allows({"type": "string", "maxLength": 2**31}, "a" * 30, longest_text=30)
    assert not allows({"type": "string", "maxLength": 2**31}, "a" * 31, longest_text=30)
    assert not allows({"type": "array", "items": {"type": "null"}, "maxItems": 10**6}, [None] * 17)
    assert allows({"type": "string", "maxLength": 2**31}, "a" * 2000, longest_text=None)


def test_a_text_without_end() -> None:
    assert allows({"type": "string"}, "a" * 5000, longest_text=None)


# ---- patterns --------------------------------------------------------------------------------------------------------

PATTERNS: list[tuple[str, list[str], list[str]]] = [
    ("^[A-Z]{3}$", ["NOK", "USD"], ["NO", "nok", "NOKK", ""]),
    ("^a|b$", ["a", "axx", "b", "xxb"], ["x", "ba"]),
    ("^(?:ab|cd)+$", ["ab", "abcd"], ["", "abc"]),
    (r"^\d{1,3}(\.\d+)?$", ["1", "123.5"], ["1.", ".5", "1234"]),
    (r"^\w+@\w+\.[a-z]{2,4}$", ["a_1@b.org"], ["a@b", "@b.org"]),
    ("^[^,]*$", ["", 'a"b\\c\n', "日本"], ["a,b"]),
    (r"^[\w.-]+$", ["a.b-c"], ["a b", ""]),
    (r"^a.c$", ["abc", 'a"c', "a日c"], ["ac", "a\nc"]),
    ("b", ["b", "abc"], ["", "ac"]),
    (r"^\S+ \S+$", ["a b"], ["ab", " b"]),
    ("^x*?y{2}$", ["yy", "xyy"], ["xy"]),
    (r"^[a\]]+$", ["a]"], ["b"]),
    ("^(a+)+$", ["aaa"], ["b"]),
    ("^$", [""], ["a"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS, ids=[row[0] for row in PATTERNS])
def test_simple_patterns_are_held(pattern: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "string", "pattern": pattern}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}
    for name in ("json", "glm47"):
        assert formats.grammar_report([tool], name, tool_choice="required").losses == ()
    for text in good:
        assert validate({"x": text}, tool["parameters"]) == []  # type: ignore[arg-type]
        assert allows(dict(schema), text), text
    for text in bad:
        assert not allows(dict(schema), text), text


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", r"(a)\1", r"\bword\b", "^a{2}{3}$", "(", "[", "a**", r"\p{L}", "a$b", "[[:alpha:]]"]
)
def test_other_patterns_are_reported(pattern: str) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}}
    assert [loss.keyword for loss in formats.grammar_report([tool]).losses] == ["pattern"]
    assert allows({"type": "string", "pattern": pattern}, "anything")


# ---- what is not held ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5, "properties": []},
        {"properties": {"a": 5}, "required": "a"},
        {"anyOf": "x", "allOf": True, "enum": 5},
        {"type": "array", "prefixItems": 1.5, "minItems": "two"},
        {"$ref": "#"},
        {"$ref": "#/properties/x/properties", "properties": {"x": {"$ref": "#"}}},
        {"enum": [float("nan")]},
        {"minimum": float("inf"), "maximum": True},
        {"type": "string", "minLength": 10**9},
        {"allOf": [{"anyOf": [{"minimum": n}, {"maximum": n}]} for n in range(40)]},
    ],
)
def test_no_schema_is_too_odd(schema: JsonObject) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}
    for name in ("hermes", "qwen3_coder", "pythonic", "gemma4"):
        assert Gbnf(formats.grammar([tool, PING], name, tool_choice="required"))


def test_a_schema_that_is_nested_without_end_leaves_its_tool_out() -> None:
    deep: JsonObject = {"type": "null"}
    for _ in range(2000):
        deep = {"type": "array", "items": deep}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": deep}}}
    report = formats.grammar_report([tool, PING], tool_choice="required")
    assert [loss.why for loss in report.losses] == ["nested too deeply; the tool is left out"]


LOSSES: list[tuple[JsonObject, str]] = [
    ({"type": "string", "pattern": "^(?=a)b"}, "pattern"),
    ({"type": "string", "format": "uri"}, "format"),
    ({"type": "string", "format": "date", "maxLength": 10}, "maxLength"),
    ({"type": "integer", "multipleOf": 5}, "multipleOf"),
    ({"type": "integer", "not": {"const": 5}}, "not"),
    ({"type": "array", "items": {"type": "null"}, "uniqueItems": True}, "uniqueItems"),
    ({"type": "object", "properties": {}, "minProperties": 1}, "minProperties"),
    ({"type": "object"}, "properties"),
    ({}, "type"),
    ({"$ref": "https://example.org/schema"}, "$ref"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    ({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]}, "pattern"),
]


@pytest.mark.parametrize(("schema", "keyword"), LOSSES, ids=[f"{row[1]} {number}" for number, row in enumerate(LOSSES)])
def test_what_is_not_held_is_reported(schema: JsonObject, keyword: str) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}
    losses = formats.grammar_report([tool]).losses
    assert keyword in {loss.keyword for loss in losses if loss.tool == "f" and loss.path == "$.x"}
    assert all(str(loss).startswith("f $") for loss in losses)


@pytest.mark.parametrize("schema", [row[1] for row in VALUES if row[0] in ("allOf", "oneOf", "date", "range", "enum")])
def test_what_is_held_is_no_loss(schema: JsonObject) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}
    assert formats.grammar_report([tool]).losses == ()


def test_alternatives_with_a_member_that_tells_them_apart_are_no_loss() -> None:
    ways = [
        {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in ("cat", "dog")
    ]
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"oneOf": ways}}}}
    assert formats.grammar_report([tool]).losses == ()


def test_a_tool_that_cannot_be_named_is_left_out() -> None:
    odd = {"name": "two words", "parameters": {"type": "object", "properties": {}}}
    report = formats.grammar_report([odd, PING], "qwen3_coder")
    assert [loss.keyword for loss in report.losses] == ["name"]
    assert "two words" not in report.text
    with pytest.raises(ConfigError, match="none of the tools"):
        formats.grammar([odd], "qwen3_coder", tool_choice="required")


def test_a_key_that_cannot_be_written_is_left_out_or_takes_its_tool_along() -> None:
    tool: JsonObject = {"name": "f", "parameters": {"type": "object", "properties": {"a<b>": {"type": "null"}}}}
    assert [loss.path for loss in formats.grammar_report([tool], "qwen3_coder").losses] == ["$.a<b>"]
    tool["parameters"]["required"] = ["a<b>"]
    with pytest.raises(ConfigError, match="none of the tools"):
        formats.grammar([tool], "qwen3_coder", tool_choice="required")


# ---- digits ----------------------------------------------------------------------------------------------------------

KEPT_NUMBERS = (
    "0.1 -2.5 7.0 0.30000000000000004 123456.78901234567 999999999999999.0 999999999999999.5 12.000000 0.99 19.999"
)
WHOLE_IF_ROUNDED = (
    "388986479028574.0240 483942714121403.997 0.99999999999999999 1.00000000000000000001 4503599627370497.4"
    " 99999999999.999999 1234567.00000000001"
)
KEPT_EXPONENTS = "1e5 -2.5e-07 1.2345678901234567e+22 1.2345678901234567e-07 6.02e23 1e-05 0.0e5"
ROUNDED_EXPONENTS = "1.00000000000000001e5 10.0000000000000000001e-1 9.9999999999999999e-1 0.9007199254740993e16"


@pytest.mark.parametrize("bounds", [{}, {"minimum": 0.0}, {"minimum": -1e17, "maximum": 1e17}])
def test_a_number_that_a_parser_refuses_is_never_written(bounds: JsonObject) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "number", **bounds}}}}
    grammar = Gbnf(formats.grammar([tool], "json", tool_choice="required"))
    for number in f"{WHOLE_IF_ROUNDED} {ROUNDED_EXPONENTS}".split():
        text = f'{{"name": "f", "arguments": {{"x": {number}}}}}'
        assert not formats.parse(text, "json").calls, number
        assert not grammar.accepts(text), number


def test_a_number_that_python_writes_is_accepted() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}
    grammar = Gbnf(formats.grammar([tool], "json", tool_choice="required"))
    for number in f"{KEPT_NUMBERS} {KEPT_EXPONENTS}".split():
        text = f'{{"name": "f", "arguments": {{"x": {number}}}}}'
        assert formats.parse(text, "json").calls[0].arguments == {"x": float(number)}
        assert grammar.accepts(text), number


class DigitSampler(Sampler):
    """Prefers zeros and nines, which come next to whole numbers."""

    def _character(self, node: Chars) -> str:
        fitting = [each for each in "09" if any(low <= each <= high for low, high in node.ranges)]
        return self._lots.choice(fitting) if fitting and self._lots.random() < 0.7 else super()._character(node)


@pytest.mark.parametrize("lower", [None, Bound(Decimal(0)), Bound(Decimal("-5.5"), strict=True)])
def test_every_number_of_a_grammar_can_be_read(lower: Bound | None) -> None:
    lots = random.Random(7)
    nodes = whole_or_fraction(lower, None)
    for _ in range(4000):
        drawn = DigitSampler(Tree(lots.choice(nodes), {}), lots).draw()
        assert read_float(drawn) == float(drawn)
