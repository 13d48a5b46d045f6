"""Formats whose messages run in channels: what their headers may look like, and what stands in each channel."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.odd_cases import TOOLS, Rows, account, calls_of, write, write_checked
from tests.tables import each_row

from dragoman.errors import CannotExpress
from dragoman.formats.catalogue.other_rows import CHANNEL_ROWS
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

CHANNELS = Rows(CHANNEL_ROWS)
SEARCH = [("search", {"query": "x"})]
NS = "]<]minimax[>["
ATEM = '<atem:function_calls>\n<atem:invoke name="{name}">\n{parameters}</atem:invoke>\n</atem:function_calls>'


def atem(name: str, **parameters: str) -> str:
    written = "".join(f'<atem:parameter name="{key}">{value}</atem:parameter>\n' for key, value in parameters.items())
    return ATEM.format(name=name, parameters=written)


# ---- harmony ---------------------------------------------------------------------------------------------------------

HEADERS = {
    "as trained": "<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>",
    "the start belongs to the prompt": "<|channel|>commentary to=functions.search <|constrain|>json<|message|>",
    "recipient first": "<|start|>assistant to=functions.search<|channel|>commentary <|constrain|>json<|message|>",
    "recipient first, start in the prompt": " to=functions.search<|channel|>commentary json<|message|>",
    "no constraint": "<|channel|>commentary to=functions.search<|message|>",
    "json without the marker": "<|channel|>commentary to=functions.search json<|message|>",
    "code": "<|channel|>commentary to=functions.search code<|message|>",
    "in the analysis channel": "<|channel|>analysis to=functions.search <|constrain|>json<|message|>",
    "two channels": "<|channel|>commentary<|channel|>commentary to=functions.search <|constrain|>json<|message|>",
    "question marks": "<|channel|>commentary to=functions.search?? <|constrain|>json<|message|>",
    "no channel": "<|start|>assistant to=functions.search <|constrain|>json<|message|>",
    "no namespace": "<|channel|>commentary to=search <|constrain|>json<|message|>",
}


@each_row("closer", ["<|call|>", "<|end|>", "<|return|>"])
@each_row("header", HEADERS.values(), ids=HEADERS)
def test_a_drifting_header_still_names_the_tool(header: str, closer: str) -> None:
    parsed = CHANNELS.read("harmony", header + '{"query": "x"}' + closer)
    assert (calls_of(parsed), parsed.text.strip(), parsed.broken) == (SEARCH, "", [])
    assert parsed.calls[0].repairs == ()


def test_a_missing_message_marker_is_a_repair() -> None:
    parsed = CHANNELS.read(
        "harmony", '<|channel|>commentary to=functions.search <|constrain|>json{"query": "x"}<|call|>'
    )
    assert calls_of(parsed) == SEARCH
    assert parsed.calls[0].repairs == ("missing_marker",)


def test_complete_json_at_the_end_of_the_text_is_a_call_whose_wrapper_was_closed() -> None:
    parsed = CHANNELS.read("harmony", '<|channel|>commentary to=functions.search<|message|>{"query": "x"}')
    assert calls_of(parsed) == SEARCH
    assert parsed.calls[0].repairs == ("closed_wrapper",)


@pytest.mark.parametrize(
    ("body", "rule"), [('{"query": "x"', "closed_brackets"), ('{"query": "x<|call|>', "closed_string")]
)
def test_complete_values_that_lack_only_their_end_are_a_call(body: str, rule: str) -> None:
    parsed = CHANNELS.read("harmony", f"<|channel|>commentary to=functions.search<|message|>{body}")
    assert calls_of(parsed) == SEARCH
    assert {rule, "closed_wrapper"} <= set(parsed.calls[0].repairs)


@pytest.mark.parametrize("body", ['{"query": "x', "", '{"query": "x<|call|> and'])
def test_a_call_that_was_cut_off_is_broken(body: str) -> None:
    parsed = CHANNELS.read("harmony", f"<|channel|>commentary to=functions.search<|message|>{body}")
    assert calls_of(parsed) == []
    assert [broken.name for broken in parsed.broken] in (["search"], [None])


def test_words_instead_of_arguments_are_broken_and_the_next_call_lives() -> None:
    text = (
        "<|channel|>commentary to=functions.search<|message|>no json<|call|>"
        + HEADERS["as trained"]
        + '{"query": "x"}<|call|>'
    )
    parsed = CHANNELS.read("harmony", text)
    assert calls_of(parsed) == SEARCH
    assert [broken.name for broken in parsed.broken] == ["search"]


CONVERSATIONS = {
    "final": ("<|channel|>final<|message|>Hello.<|return|>", "Hello.", ""),
    "constrained final": ('<|channel|>final <|constrain|>json<|message|>{"a": 1}<|return|>', '{"a": 1}', ""),
    "preamble": ("<|channel|>commentary<|message|>Let me look.<|end|>", "Let me look.", ""),
    "analysis, then final": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
        "Hi.",
        "Hm.",
    ),
    "a drifting analysis": ("<|channel|>analysis ??<|message|>Hm.<|end|><|channel|>final<|message|>Hi.", "Hi.", "Hm."),
    "analysis left open": (
        "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
        "Hi.",
        "Hm.",
    ),
    "addressed to the conversation": (
        "<|start|>assistant<|channel|>commentary to=assistant<|channel|>final<|message|>Hi.",
        "Hi.",
        "",
    ),
    "an empty message": ("<|channel|>final<|end|>Hi.", "Hi.", ""),
    "no header at all": ("Hello.", "Hello.", ""),
    "a marker that is talked about": (
        "The <|channel|> token\nbegins a header.",
        "The <|channel|> token\nbegins a header.",
        "",
    ),
}


@pytest.mark.parametrize(("text", "answer", "thinking"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_channels_are_text_or_thinking(text: str, answer: str, thinking: str) -> None:
    parsed = CHANNELS.read("harmony", text)
    assert (parsed.text, parsed.thinking, parsed.calls, parsed.broken) == (answer, thinking, [], [])


def test_the_builtin_python_takes_source_text() -> None:
    parsed = CHANNELS.read("harmony", '<|channel|>analysis to=python code<|message|>print({"a": 1})\n<|call|>')
    assert calls_of(parsed) == [("python", {"code": 'print({"a": 1})\n'})]


def test_builtin_tools_keep_their_namespace() -> None:
    parsed = CHANNELS.read(
        "harmony", '<|channel|>analysis to=browser.open <|constrain|>json<|message|>{"id": 1}<|call|>'
    )
    assert calls_of(parsed) == [("browser.open", {"id": 1})]
    assert parsed.calls[0].known_tool is False


def test_a_call_inside_open_thinking_is_refused() -> None:
    parsed = CHANNELS.read(
        "harmony", "<|channel|>analysis<|message|>I could " + HEADERS["as trained"] + '{"query": "x"}<|call|>'
    )
    assert calls_of(parsed) == []
    assert [event.call.name for event in parsed.refused] == ["search"]


# ---- kimi_k3 ---------------------------------------------------------------------------------------------------------


def k3(*elements: str) -> str:
    return "".join(
        f"<|{'close' if element[0] == '/' else 'open'}|>{element.removeprefix('/')}<|sep|>" for element in elements
    )


def k3_argument(key: str, kind: str, text: str) -> str:
    return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{text}<|close|>argument<|sep|>'


def k3_call(name: str, *arguments: str) -> str:
    return f'<|open|>call tool="{name}" index="1"<|sep|>{"".join(arguments)}<|close|>call<|sep|>'


def test_the_response_channel_is_unwrapped() -> None:
    text = (
        k3("response")
        + "Let me look."
        + k3("/response", "tools")
        + k3_call("search", k3_argument("query", "string", "x"))
    )
    parsed = CHANNELS.read("kimi_k3", text + k3("/tools", "/message"))
    assert (calls_of(parsed), parsed.text) == (SEARCH, "Let me look.")


@pytest.mark.parametrize("blank", ["", " "])
def test_the_think_channel_is_thinking(blank: str) -> None:
    text = (
        f"<|open|>{blank}think{blank}<|sep|>Hm.<|close|>{blank}think{blank}<|sep|>{k3('response')}Hi.{k3('/response')}"
    )
    parsed = CHANNELS.read("kimi_k3", text)
    assert (parsed.thinking, parsed.text) == ("Hm.", "Hi.")


TYPED: dict[str, tuple[str, str, Any]] = {
    "string": ("string", '5 "quoted" &quot; <b>', '5 "quoted" &quot; <b>'),
    "empty string": ("string", "", ""),
    "number": ("number", "42", 42),
    "boolean": ("boolean", "true", True),
    "null": ("null", "null", None),
    "object": ("object", '{"a": [1]}', {"a": [1]}),
    "an object that is none": ("object", "{not json", "{not json"),
}


@pytest.mark.parametrize(("kind", "text", "value"), TYPED.values(), ids=TYPED)
def test_the_stated_type_decides(kind: str, text: str, value: Any) -> None:
    parsed = CHANNELS.read("kimi_k3", k3_call("note", k3_argument("value", kind, text)), None)
    assert calls_of(parsed) == [("note", {"value": value})]


def test_attributes_are_unescaped() -> None:
    assert calls_of(CHANNELS.read("kimi_k3", k3_call("a&amp;b", k3_argument("k&quot;", "string", "x")), None)) == [
        ("a&b", {'k"': "x"})
    ]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ('<|open|>tools<|sep|><|open|>call tool="search" index="1"', 1),
        ('<|open|>call tool="search" index="1"<|sep|><|open|>argument key="query" type="string"<|sep|>x', 1),
        ('<|open|>call index="1"<|sep|><|close|>call<|sep|>', 1),
        ("<|open|>tools<|sep|><|open|>", 0),
        ("<|close|>resp", 0),
    ],
)
def test_cut_tags_leave_no_markup_behind(text: str, broken: int) -> None:
    parsed = CHANNELS.read("kimi_k3", text)
    assert (parsed.text, calls_of(parsed), len(parsed.broken)) == ("", [], broken)


def test_missing_closers_are_repaired_only_where_the_value_is_whole() -> None:
    parsed = CHANNELS.read(
        "kimi_k3", k3("tools") + k3_call("search", '<|open|>argument key="query" type="string"<|sep|>x')
    )
    assert calls_of(parsed) == SEARCH
    assert parsed.calls[0].repairs == ("closed_argument",)


# ---- minimax_m3 ------------------------------------------------------------------------------------------------------


def m3(*tags: str) -> str:
    """Tags with their token before them; what is no tag is text."""
    return "".join(NS + tag if tag[0] == "<" else tag for tag in tags)


M3_VALUES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "text to the letter": (("<query>", ' a "b" \\ <c>\n', "</query>"), {"query": ' a "b" \\ <c>\n'}),
    "a number by the schema": (("<limit>", "3", "</limit>"), {"limit": 3}),
    "items make a list": (
        ("<tags>", "<item>", "a", "</item>", "<item>", "b", "</item>", "</tags>"),
        {"tags": ["a", "b"]},
    ),
    "elements make an object": (("<near>", "<lat>", "x", "</lat>", "</near>"), {"near": {"lat": "x"}}),
    "json where a structure is wanted": (("<near>", '{"lat": 1.5}', "</near>"), {"near": {"lat": 1.5}}),
    "nested": (
        ("<near>", "<to>", "<item>", "<name>", "a", "</name>", "</item>", "</to>", "</near>"),
        {"near": {"to": [{"name": "a"}]}},
    ),
    "nothing": ((), {}),
}


@pytest.mark.parametrize(("tags", "arguments"), M3_VALUES.values(), ids=M3_VALUES)
def test_elements_become_values(tags: tuple[str, ...], arguments: dict[str, Any]) -> None:
    text = m3("<tool_call>", "\n", '<invoke name="search">', *tags, "</invoke>", "\n", "</tool_call>")
    parsed = CHANNELS.read("minimax_m3", f"<mm:think>Hm.</mm:think>Wait.{text}")
    assert calls_of(parsed) == [("search", arguments)]
    assert (parsed.text, parsed.thinking) == ("Wait.", "Hm.")


UNION = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/pair"}]}
PAIR = {
    "type": "object",
    "properties": {"one": {"type": "integer"}, "two": {"type": "array", "items": {"type": "number"}}},
}


def test_unions_and_references_type_the_leaves() -> None:
    offered = Toolset([{"name": "f", "parameters": {"properties": {"p": UNION}, "$defs": {"pair": PAIR}}}])
    elements = ("<p>", "<one>", "1", "</one>", "<two>", "<item>", "2", "</item>", "</two>", "</p>")
    parsed = CHANNELS.read("minimax_m3", m3('<invoke name="f">', *elements, "</invoke>"), offered)
    assert calls_of(parsed) == [("f", {"p": {"one": 1, "two": [2]}})]


@pytest.mark.parametrize(
    "tags",
    [
        ("<query>", "x", "</wrong>", "</invoke>"),
        ("<near>", "text", "<a>", "1", "</a>", "</near>", "</invoke>"),
        ("<near>", "<a>", "1", "</a>", "<a>", "2", "</a>", "</near>", "</invoke>"),
        ("<query>", "x"),
        ("loose text", "</invoke>"),
    ],
)
def test_crossed_elements_are_broken_and_the_next_call_lives(tags: tuple[str, ...]) -> None:
    whole = m3('<invoke name="ping">', "</invoke>") if tags[-1] == "</invoke>" else ""
    parsed = CHANNELS.read("minimax_m3", m3('<invoke name="search">', *tags) + whole)
    assert calls_of(parsed) == ([("ping", {})] if whole else [])
    assert [broken.name for broken in parsed.broken] == ["search"]


def test_deep_nesting_is_broken_and_raises_nothing() -> None:
    text = m3('<invoke name="search">', *["<near>"] * 5000, *["</near>"] * 5000, "</invoke>")
    assert [broken.name for broken in CHANNELS.run("minimax_m3", [text]).broken] == ["search"]


# ---- inkling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["", "<|message_model|>", "<|message_model|>search"])
def test_blocks_may_have_a_header(header: str) -> None:
    block = '<|content_invoke_tool_json|>{"name": "search", "args": {"query": "x"}}<|end_message|>'
    text = (
        "<|message_model|><|content_thinking|>Hm.<|end_message|><|message_model|><|content_text|>Wait.<|end_message|>"
    )
    parsed = CHANNELS.read("inkling", f"{text}{header}{block}<|content_model_end_sampling|>")
    assert (calls_of(parsed), parsed.text, parsed.thinking) == (SEARCH, "Wait.", "Hm.")


# ---- muse_glimmer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [" to=search<|message|>", "<|start|>assistant to=search<|message|>"])
def test_a_message_for_a_tool_makes_calls(start: str) -> None:
    parsed = CHANNELS.read("muse_glimmer", start + atem("search", query=" a\n<b>\n", limit="3") + "<|eom|>")
    assert calls_of(parsed) == [("search", {"query": " a\n<b>\n", "limit": 3})]
    assert parsed.text.strip() == ""


def test_what_is_for_the_user_is_text_also_when_it_quotes_a_call() -> None:
    quoted = "Write\n<|start|>assistant to=search<|message|>" + atem("search", query="x")
    parsed = CHANNELS.read(
        "muse_glimmer", f" to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>{quoted}"
    )
    assert (calls_of(parsed), parsed.text.lstrip(), parsed.thinking) == ([], quoted, "Hm.")


def test_xml_without_a_header_is_text() -> None:
    text = "Example:\n" + atem("search", query="x")
    assert CHANNELS.read("muse_glimmer", text).text == text


@pytest.mark.parametrize(
    ("offered", "name"), [(["search"], "search"), (["search.search"], "search.search"), (["other"], "search.search")]
)
def test_a_doubled_name_collapses_only_for_an_offered_tool(offered: list[str], name: str) -> None:
    text = "<|start|>assistant to=search.search<|message|>" + atem("search.search", query="x")
    parsed = CHANNELS.read("muse_glimmer", text, Toolset({"name": offer} for offer in offered))
    assert calls_of(parsed) == [(name, {"query": "x"})]


# ---- all of them together --------------------------------------------------------------------------------------------

CALLS = [
    ToolCall(
        "",
        "search",
        {"query": 'a "b"\n<c> & ]\\', "limit": -3, "tags": ["x", "y"], "near": {"a": [1, None, {"b": 2.5}]}},
    ),
    ToolCall("", "ping", {}),
]


@pytest.mark.parametrize("row", CHANNEL_ROWS, ids=lambda row: row.name)
def test_what_a_row_writes_all_rows_together_read(row: Any) -> None:
    parsed = CHANNELS.run("all", [write(CALLS, row)])
    assert calls_of(parsed) == [(call.name, call.arguments) for call in CALLS]
    assert {call.provenance.format for call in parsed.calls if call.provenance} == {row.name}


UNWRITABLE = {
    "harmony": ToolCall("", "two words", {}),
    "kimi_k3": ToolCall("", "f", {"a": "x<|close|>argument<|sep|>"}),
    "minimax_m3": ToolCall("", "f", {"a": f"x{NS}</a>"}),
    # One closer alone can be told from the end of the value by what follows it; this text cannot.
    "muse_glimmer": ToolCall("", "f", {"a": "x</atem:parameter>\n</atem:invoke>"}),
}


@pytest.mark.parametrize(("name", "call"), UNWRITABLE.items(), ids=UNWRITABLE)
def test_what_a_format_cannot_carry_is_refused(name: str, call: ToolCall) -> None:
    with pytest.raises(CannotExpress):
        write_checked([call], CHANNELS.rows[name])


FRAGMENTS = [
    *HEADERS.values(),
    *(
        "<|start|>",
        "<|channel|>",
        "analysis",
        "final",
        "<|message|>",
        "<|end|>",
        "<|call|>",
        "to=functions.",
        "??",
        "assistant",
    ),
    *("<|open|>", "<|close|>", "<|sep|>", "call", 'tool="search"', "argument", 'key="query"', "think", "response"),
    *(k3("tools"), k3_argument("query", "string", "x"), k3_call("search")),
    *(
        NS,
        "<invoke",
        ' name="search">',
        m3("<query>"),
        m3("</query>"),
        m3("</invoke>"),
        m3("<item>"),
        m3("<tool_call>"),
    ),
    *(
        "<|message_model|>",
        "<|content_invoke_tool_json|>",
        "<|content_text|>",
        "<|end_message|>",
        '{"name": "search", "args": {}}',
    ),
    *(" to=self", " to=search", "<|eom|>", atem("search", query="x"), "<atem:invoke", "</atem:parameter>"),
    *("{", "}", '"', "\\", "\n", " ", "x", "é", "\ud800", "\x00"),
]


@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.sampled_from(["all", *CHANNELS.rows]),
    st.integers(1, 7),
)
def test_no_mixture_of_markers_raises_or_depends_on_the_pieces(text: str, name: str, size: int) -> None:
    whole = CHANNELS.run(name, [text], TOOLS)
    assert "".join(event.raw for event in whole.events if hasattr(event, "raw")) == text
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert account(CHANNELS.run(name, pieces, TOOLS)) == account(whole)
