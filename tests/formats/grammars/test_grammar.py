"""Grammars from formats: what they allow by the tool choice, in which formats, and in which syntaxes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from llguidance import LLMatcher
from tests.formats.grammars.asking import PING, WEATHER, accepts
from tests.formats.grammars.engines import Judge
from tests.formats.grammars.gbnf_engine import Gbnf
from tests.formats.grammars.strategies import NAMES, WITHOUT

from dragoman import formats
from dragoman.errors import ConfigError
from dragoman.formats.registry import rows
from dragoman.types import JsonObject

OSLO = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
PINGED = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'


# ---- the choice ------------------------------------------------------------------------------------------------------

CHOICES: list[tuple[Any, bool, bool, bool]] = [
    # tool_choice, a reply, a call of ping, a call of get_weather
    ("auto", True, True, True),
    ("required", False, True, True),
    ("any", False, True, True),
    ("none", True, False, False),
    ({"name": "ping"}, False, True, False),
    ({"type": "function", "function": {"name": "get_weather"}}, False, False, True),
    ({"mode": "required", "names": ["ping"]}, False, True, False),
    ({"mode": "auto", "names": ["ping"]}, True, True, False),
]


@pytest.mark.parametrize(("choice", "reply", "ping", "weather"), CHOICES, ids=[str(row[0]) for row in CHOICES])
def test_the_choice_decides_what_may_be_written(choice: Any, reply: bool, ping: bool, weather: bool) -> None:
    tools = [WEATHER, PING]
    assert accepts("It rains.", tools, tool_choice=choice) == reply
    assert accepts(PINGED, tools, tool_choice=choice) == ping
    assert accepts(OSLO, tools, tool_choice=choice) == weather


def test_without_tools_only_a_reply_is_left() -> None:
    assert accepts("Hello.", [])
    assert not accepts(PINGED, [])


@pytest.mark.parametrize("choice", ["sometimes", {"name": "nobody"}, {"names": ["ping", "nobody"]}, {}, {"name": 5}])
def test_a_choice_that_means_nothing_is_refused(choice: Any) -> None:
    with pytest.raises(ConfigError, match="does not name an offered tool"):
        formats.grammar([PING], tool_choice=choice)


@pytest.mark.parametrize(("most", "made", "wanted"), [(1, 1, True), (1, 2, False), (3, 3, True), (3, 4, False)])
@pytest.mark.parametrize("name", ["hermes", "jamba", "json", "kimi_k2"])
def test_no_more_calls_than_allowed(name: str, most: int, made: int, wanted: bool) -> None:
    text = formats.render([("ping", {})] * made, name)
    assert accepts(text, [PING], name, tool_choice="required", most_calls=most) is wanted


@pytest.mark.parametrize("text", ["", " ", "\nHi", "<tool_call>", "Well, <tool_call>", "<think>", "a</think>"])
def test_what_is_no_plain_reply(text: str) -> None:
    assert not accepts(text, [PING])


@pytest.mark.parametrize("text", ["Hi", "<", "<tool", "a < b", "<tool_calls>", "<b>x</b>\n", "<tool_<tool_"])
def test_what_is_one(text: str) -> None:
    assert accepts(text, [PING])


def test_a_reply_may_be_given_an_end() -> None:
    assert accepts("a" * 20, [PING], longest_reply=20)
    assert not accepts("a" * 21, [PING], longest_reply=20)


# ---- tags ------------------------------------------------------------------------------------------------------------


def test_a_value_between_tags_holds_none_of_them() -> None:
    tools = [WEATHER]
    around = "<tool_call>\n<function=get_weather>\n<parameter=city>\n{}\n</parameter>\n</function>\n</tool_call>"
    for value in ("Oslo", "", "a<b></b>", "</param", "<parameter", "\n\n", "x</parameter"):
        assert accepts(around.format(value), tools, "qwen3_coder", tool_choice="required"), value
    for value in ("</parameter>", "a</function>", "<parameter=x>", "</tool_call>b"):
        assert not accepts(around.format(value), tools, "qwen3_coder", tool_choice="required"), value


def test_a_weak_model_cannot_run_on_for_ever_between_tags() -> None:
    grammar = Gbnf(formats.grammar([WEATHER], "glm47", tool_choice="required", longest_text=50))
    start = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>"
    for again in ("a", "<", "<a", "</arg_value", "\n", "é"):
        text = start + again * 2000
        assert grammar.follow(text) < len(text), again


def test_types_that_are_stated_are_stated_right() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": ["string", "number"]}}}}
    text = (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x" string="{}">{}'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    )
    for stated, value, wanted in (("true", "abc", True), ("false", "5", True), ("false", "abc", False)):
        assert accepts(text.format(stated, value), [tool], "deepseek_v32", tool_choice="required") is wanted


def test_an_enum_member_that_would_be_read_as_another_value_is_left_out() -> None:
    tool = {
        "name": "f",
        "parameters": {"type": "object", "properties": {"x": {"enum": ["1", 1, 2]}}, "required": ["x"]},
    }
    report = formats.grammar_report([tool], "glm47", tool_choice="required")
    assert [(loss.path, loss.keyword) for loss in report.losses] == [("$.x", "enum")]
    for value in ("1", "2"):
        text = f"<tool_call>f<arg_key>x</arg_key><arg_value>{value}</arg_value></tool_call>"
        assert accepts(text, [tool], "glm47", tool_choice="required")
    assert formats.parse(text, "glm47", [tool]).calls[0].arguments == {"x": 2}


# ---- formats and syntaxes --------------------------------------------------------------------------------------------


def test_nearly_every_format_has_a_grammar() -> None:
    assert sorted({row.name for row in rows()} - set(NAMES)) == list(WITHOUT)


@pytest.mark.parametrize("name", WITHOUT)
def test_the_others_say_so(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        formats.grammar([PING], name)
    assert "hermes" in caught.value.next_step


def test_a_row_of_ones_own_has_a_grammar_as_well() -> None:
    mine = formats.Format(name="mine", template="<<{name}>>{args}<</>>", separator=" ")
    text = formats.render([("get_weather", {"city": "Oslo"}), ("ping", {})], mine)
    assert Judge(formats.grammar([WEATHER, PING], mine, "lark", tool_choice="required")).accepts(text)


def test_the_wrapper_of_one_turn_has_a_grammar_as_well() -> None:
    row = formats.nonce_format("k7Qx93bb")
    text = formats.render([("ping", {})], row)
    judge = Judge(formats.grammar([PING], row, "lark"))
    assert judge.accepts(text)
    assert not judge.accepts(text.replace("k7Qx93bb", "k7Qx93bc"))


def test_an_unknown_syntax_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lark'"):
        formats.grammar([PING], syntax="larks")  # type: ignore[arg-type]


def test_a_json_schema_says_the_same() -> None:
    tools = [WEATHER, PING, {"name": "f", "parameters": {"$ref": "#/$defs/a", "$defs": {"a": WEATHER["parameters"]}}}]
    schema = formats.grammar(tools, "json", "json_schema", tool_choice="required", most_calls=2)
    options = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    judge = Judge(LLMatcher.grammar_from_json_schema(schema, defaults=options))
    lark = Judge(formats.grammar(tools, "json", "lark", tool_choice="required", most_calls=2))
    one, other = ("get_weather", {"city": "Oslo"}), ("f", {"city": "Rome"})
    for calls in ([one], [("ping", {})], [one, other], [other]):
        assert judge.accepts(formats.render(calls, "json"))
        assert lark.accepts(formats.render(calls, "json"))
    for text in (
        formats.render([one] * 3, "json"),
        '{"name": "nobody", "arguments": {}}',
        '{"name": "get_weather", "arguments": {}}',
        '{"name": "ping", "arguments": {"a": 1}}',
        '{"name": "f", "arguments": {"city": 5}}',
        "It rains.",
    ):
        assert not judge.accepts(text)
        assert not lark.accepts(text)


@pytest.mark.parametrize(
    ("format", "choice", "hint"),
    [("hermes", "required", "gbnf"), ("json", "auto", "required"), ("json", "none", "gbnf")],
)
def test_a_json_schema_is_refused_where_it_cannot_say_it(format: str, choice: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        formats.grammar([PING], format, "json_schema", tool_choice=choice)
    assert hint in caught.value.next_step


# ---- size and sameness -----------------------------------------------------------------------------------------------


def _many(count: int) -> list[JsonObject]:
    kinds: list[JsonObject] = [
        {"type": "string"},
        {"type": "integer", "minimum": 0, "maximum": 100},
        {"enum": ["a", "b"]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "boolean"}}},
    ]
    return [
        {
            "name": f"tool_{number:03}",
            "parameters": {"type": "object", "properties": {f"key{at}": kinds[at % 5] for at in range(10)}},
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("syntax", ["gbnf", "lark"])
@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "json"])
def test_the_size_grows_with_the_tools_and_no_faster(name: str, syntax: Any) -> None:
    small, large = (len(formats.grammar(_many(count), name, syntax)) for count in (25, 50))
    assert small < large < 2.1 * small
    assert large < 120_000


def test_optional_members_do_not_multiply() -> None:
    def size(count: int) -> int:
        properties = {f"key{number:03}": {"type": "null"} for number in range(count)}
        return len(formats.grammar([{"name": "f", "parameters": {"type": "object", "properties": properties}}]))

    assert size(200) < 2.2 * size(100)


def test_the_text_is_the_same_whatever_the_hash_seed() -> None:
    code = (
        "from dragoman import formats; import hashlib; "
        "t=[{'name':'f','parameters':{'type':'object','properties':{'a':{'type':['string','null']},'b':{}}}}]; "
        "print([hashlib.sha256(formats.grammar(t,n,s).encode()).hexdigest() "
        "for n in ('hermes','qwen3_coder','deepseek_v32','ollama_tools') for s in ('gbnf','lark')])"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1
