"""Declared response templates: a table of declarations, a reply to each, and what cannot be expressed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman import formats
from dragoman.errors import CannotExpress, ConfigError
from dragoman.formats.declared import from_response_template
from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.plan import Plan
from dragoman.toolset import Toolset

NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
WHOLE = {"type": "function", "function": "{content}"}
LENIENT = {"name": "json", "args": {"allow_non_json": True}}
TOOLS = Toolset(
    [
        {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "limit": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ]
)


class Case(NamedTuple):
    fields: dict[str, Any]
    reply: str
    calls: list[tuple[str, dict[str, Any]]]
    text: str = ""
    thinking: str = ""
    head: Mapping[str, Any] = MappingProxyType({})


def calls_field(**field: Any) -> dict[str, Any]:
    return {"tool_calls": {"repeats": True, "content": "json", **field}}


CASES = {
    "json object in a tag": Case(
        {
            "thinking": {"open": "<think>", "close": "</think>", "content": "text"},
            **calls_field(open="<tool_call>", close="</tool_call>", transform=WHOLE),
            "content": {"close": "<|im_end|>", "content": "text"},
        },
        '<think>Hm.</think>Let me see.\n<tool_call>\n{"name": "search", "arguments": {"query": "a </tool_call> b"}}\n'
        '</tool_call>\n<tool_call>{"name": "ping", "arguments": {}}</tool_call><|im_end|>',
        [("search", {"query": "a </tool_call> b"}), ("ping", {})],
        text="Let me see.\n",
        thinking="Hm.",
        head={"version": 1, "defaults": {"role": "assistant"}, "start_anchor": "<|im_start|>assistant\n"},
    ),
    "json list with other keys": Case(
        {
            "content": {"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
            "thinking": {"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
            **calls_field(
                open="<|START_ACTION|>",
                close="<|END_ACTION|>",
                transform_each=True,
                transform={"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}},
            ),
        },
        '<|START_THINKING|>Two.<|END_THINKING|><|START_ACTION|>[{"tool_name": "search", "parameters": {"query": "x"}},'
        ' {"tool_name": "ping", "parameters": {}}]<|END_ACTION|><|START_RESPONSE|>Done.<|END_RESPONSE|>',
        [("search", {"query": "x"}), ("ping", {})],
        text="Done.",
        thinking="Two.",
    ),
    "members named by a dotted path": Case(
        calls_field(
            open="<tool>",
            close="</tool>",
            transform={"id": "{content.id}", "function": {"name": "{content.name}", "arguments": "{content.args}"}},
        ),
        '<tool>{"id": "a1", "name": "search", "args": {"limit": "3"}}</tool>',
        [("search", {"limit": 3})],
    ),
    "keys without quotes": Case(
        calls_field(open="<tool>", close="</tool>", content_args={"unquoted_keys": True}),
        '<tool>{name: "search", arguments: {query: "x"}}</tool>',
        [("search", {"query": "x"})],
    ),
    "name in the opener": Case(
        calls_field(open_pattern=r"<function=(?P<name>[^\n>]+)>\s*", close_pattern=r"</function>\s*", transform=NAMED),
        'So: <function=search>\n{"query": "x"}</function>',
        [("search", {"query": "x"})],
        text="So: ",
    ),
    "name in a channel's header": Case(
        {
            "thinking": {"open": "<|channel|>analysis<|message|>", "close": "<|end|>"},
            "content": {"open": "<|channel|>final<|message|>", "close_pattern": r"<\|(?:end|return)\|>"},
            **calls_field(
                open_pattern=r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>",
                close="<|call|>",
                transform=NAMED,
            ),
        },
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.search "
        '<|constrain|>json<|message|>{"query": "x"}<|call|><|start|>assistant<|channel|>commentary '
        "to=functions.ping<|message|>{}<|call|>",
        [("search", {"query": "x"}), ("ping", {})],
        thinking="Hm.",
        head={"start_anchor": "<|start|>assistant"},
    ),
    "name inside bare JSON": Case(
        {
            **calls_field(
                open_pattern=r'\{"name":\s*"(?P<name>[^"]+)",\s*"parameters":\s*',
                close_pattern=r"\}<\|eot_id\|>\s*",
                transform=NAMED,
            ),
            "content": {"close_pattern": r"<\|eot_id\|>\s*"},
        },
        '{"name": "search", "parameters": {"query": "x"}}<|eot_id|>',
        [("search", {"query": "x"})],
    ),
    "tags around each argument": Case(
        {
            "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*"},
            **calls_field(
                open_pattern=r"<tool_call>\s*<function=(?P<name>\w+)>",
                close="</tool_call>",
                content="xml-inline",
                content_args={
                    "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
                    "value_parser": LENIENT,
                },
                transform=NAMED,
            ),
            "content": {"close": "eos"},
        },
        'Right.\n<tool_call>\n<function=search>\n<parameter=query>\na <b>\n</parameter>\n<parameter=tags>\n["x"]\n'
        "</parameter>\n</function>\n</tool_call>",
        [("search", {"query": "a <b>", "tags": ["x"]})],
        text="Right.\n",
    ),
    "keys and values in tags of their own": Case(
        calls_field(
            open_pattern=r"<tool_call>(?P<name>\S+)\n?",
            close_pattern=r"</tool_call>\s*",
            content="xml-inline",
            content_args={
                "tag_pattern": r"<arg_key>(?P<key>[^<]+)</arg_key>\s*\n<arg_value>(?P<value>.*?)</arg_value>",
                "value_parser": LENIENT,
            },
            transform=NAMED,
        ),
        "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n<arg_key>limit</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call><tool_call>ping\n</tool_call>",
        [("search", {"query": "x", "limit": 3}), ("ping", {})],
    ),
    "attributes and several closers": Case(
        {
            "thinking": {"open_pattern": r"<\|think\|>", "close": "<|done|>"},
            "content": {"open_pattern": r"<\|say\|>", "close": ["<|done|>", "<|eos|>"]},
            **calls_field(
                open_pattern=r"<\|tool\|>(?P<name>[A-Za-z_]\w*)<\|args\|>",
                close=["<|done|>", "<|eos|>"],
                content="xml-inline",
                content_args={"tag_pattern": r'<arg name="(?P<key>[^"]+)">(?P<value>.*?)</arg>'},
                transform={"name": "{name}", "arguments": "{content}"},
            ),
        },
        '<|think|>Hm.<|done|><|say|>I look.<|done|><|tool|>lookup<|args|><arg name="n">2</arg><|done|>'
        '<|tool|>search<|args|><arg name="limit">2</arg><|eos|>',
        [("lookup", {"n": "2"}), ("search", {"limit": 2})],  # no schema and no value_parser: text stays text
        text="I look.",
        thinking="Hm.",
    ),
    "lines of keys and values": Case(
        {
            "content": {},
            **calls_field(open_pattern=r"<tool (?P<name>\w+)>", close="</tool>", content="kv-lines", transform=NAMED),
        },
        "So <tool search>\nquery: a: b\n limit : 3\nother: 4\n</tool> and on",
        [("search", {"query": "a: b", "limit": 3, "other": "4"})],
        text="So  and on",
    ),
    "lines with separators of their own": Case(
        calls_field(
            open_pattern=r"\[call\]\s*(?P<name>\w+);",
            close="[end]",
            content="kv-lines",
            content_args={"line_sep": ";", "kv_sep": "=", "value_parser": {"name": "json"}},
            transform=NAMED,
        ),
        "[call] search;query=x;other=4[end]",
        [("search", {"query": "x", "other": 4})],
    ),
    "strings between tokens": Case(
        {
            "thinking": {"open": "<|channel>thought\n", "close": "<channel|>"},
            **calls_field(
                open_pattern=r"<\|tool_call>call:(?P<name>\w+)",
                close="<tool_call|>",
                content_args={"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
                transform=NAMED,
            ),
            "content": {"close_pattern": r"(?:<turn\|>|<\|tool_response>|<eos>)\s*|$"},
        },
        '<|channel>thought\nHm.<channel|><|tool_call>call:search{query:<|"|>a, b<|"|>,limit:3}<tool_call|><eos>',
        [("search", {"query": "a, b", "limit": 3})],
        thinking="Hm.",
    ),
    "several openers, and thinking that the prompt may have opened": Case(
        {
            "thinking": {"open_pattern": r"(?:^|<think>\s*)", "close": "</think>"},
            "content": {"open": "<response>\n", "close_pattern": r"\n?</response>"},
            **calls_field(open=["<call>", "[call]"], close=["</call>", "[/call]"], transform=WHOLE),
        },
        '<think>Hm.</think><response>\nHere.</response><call>{"name": "ping"}</call>'
        '[call]{"name": "search", "arguments": {"limit": 1}}[/call]',
        [("ping", {}), ("search", {"limit": 1})],
        text="Here.",
        thinking="Hm.",
    ),
}
ROWS = {name: from_response_template("declared", {**case.head, "fields": case.fields}) for name, case in CASES.items()}
PLANS = {name: Plan([row], named=True) for name, row in ROWS.items()}


def run(name: str, text: str, size: int | None = None) -> Parsed:
    parser = Parser(PLANS[name], TOOLS)
    pieces = [text] if size is None else [text[at : at + size] for at in range(0, len(text), size)]
    return fold([event for piece in pieces for event in parser.feed(piece)] + parser.close())


def outcome(parsed: Parsed) -> tuple[Any, ...]:
    return parsed.text, parsed.thinking, parsed.calls, [(event.raw, event.why, event.span) for event in parsed.broken]


def raw_of(parsed: Parsed) -> str:
    return "".join(event.raw for event in parsed.events if hasattr(event, "raw"))


@pytest.mark.parametrize("name", CASES)
def test_a_reply_is_read_as_declared(name: str) -> None:
    case = CASES[name]
    parsed = run(name, case.reply)
    assert [(call.name, call.arguments) for call in parsed.calls] == case.calls
    assert (parsed.text, parsed.thinking, parsed.broken) == (case.text, case.thinking, [])
    assert raw_of(parsed) == case.reply


@pytest.mark.parametrize("name", CASES)
def test_streamed_is_whole(name: str) -> None:
    reply = CASES[name].reply
    for text in (reply, reply[: len(reply) * 2 // 3], "x" + reply + reply):
        whole = run(name, text)
        assert raw_of(whole) == text
        assert [outcome(run(name, text, size)) for size in (1, 4)] == [outcome(whole)] * 2


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_read(name: str) -> None:
    formats.register(ROWS[name])
    try:
        written = formats.render([("search", {"query": "a b", "limit": 3}), ("ping", {})], "declared")
    finally:
        formats.unregister("declared")
    found = run(name, written).calls
    assert [(call.name, call.arguments) for call in found] == [("search", {"query": "a b", "limit": 3}), ("ping", {})]


@given(st.data())
def test_any_text_is_conserved(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    reply = CASES[name].reply
    cuts = st.tuples(st.integers(0, len(reply)), st.integers(0, len(reply)))
    shuffled = st.lists(cuts.map(lambda cut: reply[min(cut) : max(cut)]) | st.text(max_size=5), max_size=6)
    text = "".join(data.draw(shuffled))
    whole = run(name, text)
    assert raw_of(whole) == text
    assert outcome(run(name, text, 1)) == outcome(whole) == outcome(run(name, text, 4))


def test_an_identifier_is_kept() -> None:
    assert [
        call.id for call in run("members named by a dotted path", CASES["members named by a dotted path"].reply).calls
    ] == ["a1"]


def test_lines_that_are_no_arguments_are_reported() -> None:
    (call,) = run("lines of keys and values", "<tool search>\nwell\nquery: x\nquery: y</tool>").calls
    assert (call.arguments, call.repairs) == ({"query": "y"}, ("skipped_text", "repeated_argument"))


def test_lines_without_their_closer_are_broken() -> None:
    parsed = run("lines of keys and values", "<tool search>\nquery: x\n")
    assert (parsed.calls, [event.name for event in parsed.broken]) == ([], ["search"])


def test_a_value_of_two_lines_cannot_be_written_as_one() -> None:
    formats.register(ROWS["lines of keys and values"])
    try:
        with pytest.raises(CannotExpress):
            formats.render([("search", {"query": "a\nb"})], "declared")
    finally:
        formats.unregister("declared")


def test_a_tokenizer_config_holds_the_declaration() -> None:
    config = {"eos_token": "</s>", "response_template": {"fields": CASES["keys without quotes"].fields}}
    assert from_response_template("declared", config).template == "<tool>{call}</tool>"


def calls_of(**changes: Any) -> dict[str, Any]:
    field = {"open": "<t>", "close": "</t>", "content": "json", **changes}
    return {"fields": {"tool_calls": {key: value for key, value in field.items() if value is not None}}}


XML = {"open": None, "open_pattern": "<t (?P<name>.*?)>", "content": "xml-inline", "transform": NAMED}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an older declaration": ({"type": "object", "properties": {}, "x-regex": "(.*)"}, "response_schema"),
    "an older declaration in a config": ({"eos_token": "</s>", "response_schema": {}}, "response_schema"),
    "another version": ({"version": 2, "fields": {"content": {}}}, "version"),
    "an unknown key": ({"fields": {"content": {}}, "extra": 1}, "extra"),
    "no fields": ({"fields": {}}, "fields"),
    "a field of another kind": ({"fields": {"citations": {"open": "<c>"}}}, "fields.citations"),
    "a field that is no object": ({"fields": {"content": "text"}}, "fields.content"),
    "an unknown key of a field": ({"fields": {"content": {"opens": "<c>"}}}, "fields.content.opens"),
    "a required field": ({"fields": {"content": {"optional": False}}}, "fields.content.optional"),
    "an answer in JSON": ({"fields": {"content": {"content": "json"}}}, "fields.content.content"),
    "a blank marker": ({"fields": {"content": {"close": "\n\n"}}}, "fields.content.close"),
    "a marker that is no text": ({"fields": {"content": {"close": 5}}}, "fields.content.close"),
    "a marker like a hole": ({"fields": {"content": {"close": "{name}"}}}, "fields.content.close"),
    "thinking without an opener": ({"fields": {"thinking": {"close": "</think>"}}}, "fields.thinking"),
    "thinking with a look ahead": (
        {"fields": {"thinking": {"open_pattern": "(?=.*</think>)", "close": "</think>"}}},
        "fields.thinking.open_pattern",
    ),
    "two ways to say one thing": (calls_of(open_pattern="<t>"), "fields.tool_calls.open_pattern"),
    "a broken pattern": (calls_of(open=None, open_pattern="<t>("), "fields.tool_calls.open_pattern"),
    "a counted repetition": (calls_of(open=None, open_pattern="<t{2}>"), "fields.tool_calls.open_pattern"),
    "a repeated group": (calls_of(open=None, open_pattern="(?:<t>)+"), "fields.tool_calls.open_pattern"),
    "a brace with a meaning": (calls_of(open=None, open_pattern=r"<t>\{args\}"), "fields.tool_calls.open_pattern"),
    "too many alternatives": (
        calls_of(open=None, open_pattern="<" + "(?:a|b)" * 6 + ">"),
        "fields.tool_calls.open_pattern",
    ),
    "a group that nobody uses": (calls_of(open=None, open_pattern="<t(?P<x>.*?)>"), "fields.tool_calls.open_pattern"),
    "a name that nobody captures": (calls_of(transform=NAMED), "fields.tool_calls.open"),
    "calls without an opener": (calls_of(open=None), "fields.tool_calls.open"),
    "text passed over before the name": (
        calls_of(open=None, open_pattern="<t.*?:(?P<name>x+):", transform=NAMED),
        "fields.tool_calls",
    ),
    "calls as text": (calls_of(content="text"), "fields.tool_calls.content"),
    "members of other names": (
        calls_of(transform={"name": "{content.fn}", "arguments": "{content.kw}"}),
        "fields.tool_calls.transform",
    ),
    "a name that is always the same": (
        calls_of(transform={"name": "python", "arguments": {"code": "{content}"}}),
        "fields.tool_calls.transform",
    ),
    "an expression as a transform": (calls_of(transform="[*].{a: b}"), "fields.tool_calls.transform"),
    "strings in quotes of their own": (
        calls_of(content_args={"string_delims": [["«", "»"]]}),
        "fields.tool_calls.content_args.string_delims",
    ),
    "tags without a pattern": (calls_of(**XML), "fields.tool_calls.content_args.tag_pattern"),
    "tags without a value": (
        calls_of(**XML, content_args={"tag_pattern": "<(?P<key>.*?)>"}),
        "fields.tool_calls.content_args.tag_pattern",
    ),
    "tags named after their keys": (
        calls_of(**XML, content_args={"tag_pattern": "<(?P<key>.*?)>(?P<value>.*?)</(?P=key)>"}),
        "fields.tool_calls.content_args.tag_pattern",
    ),
    "arguments without a mark": (
        calls_of(**XML, content_args={"tag_pattern": "(?P<key>.*?)=(?P<value>.*?),"}),
        "fields.tool_calls",
    ),
    "tags without an end": (
        calls_of(**XML, close=None, content_args={"tag_pattern": "<(?P<key>.*?)>(?P<value>.*?)</a>"}),
        "fields.tool_calls.close",
    ),
    "values of one type": (
        calls_of(**XML, content_args={"value_parser": {"name": "int"}}),
        "fields.tool_calls.content_args.value_parser.name",
    ),
    "repeated keys as a list": (
        calls_of(**XML, content_args={"merge_duplicates": True}),
        "fields.tool_calls.content_args.merge_duplicates",
    ),
}


@each_row("name", REFUSED)
def test_what_cannot_be_expressed_is_refused_by_its_place(name: str) -> None:
    declaration, path = REFUSED[name]
    with pytest.raises(ConfigError) as refusal:
        from_response_template("declared", declaration)
    assert str(refusal.value).startswith(f"response_template: {path}: ")
    assert refusal.value.next_step
