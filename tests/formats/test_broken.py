"""Broken calls: whether the text ended inside the call, or the call is malformed."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.formats.strategies import NAMES, PLAIN, TOOLS, try_render
from tests.tables import each_row

from dragoman import formats
from dragoman.events import CallBroken
from dragoman.extraction.judge import read_broken

LONGEST = 400
"""How much of a rendering is cut at every position; all parts of a call come before that."""

MALFORMED = {
    "hermes": '<tool_call>\n{"name": "search", "arguments": {"query": ]}}\n</tool_call>',
    "hermes, no name": '<tool_call>\n{"query": "x"}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=search>\n<parameter=>\nx\n</parameter>\n</function>\n</tool_call>",
    "minimax_m3": '~<tool_call>\n~<invoke name="search">~<query>a~<send>b~</query>~</invoke>\n~</tool_call>'.replace(
        "~", "]<]minimax[>["
    ),
    "mistral_v11": '[TOOL_CALLS]search[ARGS]{"query": ]}',
    "llama3_json": '<|python_tag|>{"nobody": "search", "parameters": {"query": "x"}}',
    "harmony": '<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": ]}<|call|>',
    "react": 'Action: search\nAction Input: {"query": ]}\nObservation: none',
    "cohere_command_r": 'Action: ```json\n[{"query": "x"}]\n```',
    "lfm2": "<|tool_call_start|>[search(query=)(]<|tool_call_end|>",
    "gemma4": "<|tool_call>call:search{query:]}<tool_call|>",
    "glm_lines": 'search/{"query": ]}\n',
    "kimi_k3": '<|open|>call tool="search"<|sep|>no argument<|close|>call<|sep|>',
    "perl": '[TOOL_CALL]\n{tool => "search", args => { --query }}\n[/TOOL_CALL]',
    "xml_attributes": '<tool_call name="search" query={]></tool_call>',
}
"""Calls whose content is malformed, and which are closed or complete."""


@cache
def _cuts(name: str) -> list[tuple[str, CallBroken]]:
    """Every broken call that a cut produces, with the text before the cut."""
    texts = [text for calls in PLAIN.values() if (text := try_render(calls, name)) is not None]
    places = [text[:place] for text in texts for place in range(1, min(len(text), LONGEST))]
    return [(text, broken) for text in places for broken in formats.parse(text, name, TOOLS).broken]


@each_row("name", NAMES)
def test_a_call_that_the_end_of_the_text_breaks_is_cut(name: str) -> None:
    assert [(text, broken.why) for text, broken in _cuts(name) if not broken.is_cut] == []


@each_row("name", NAMES)
def test_a_cut_is_noticed_however_the_text_arrives(name: str) -> None:
    for text, broken in _cuts(name)[::7]:
        parser = formats.parser(name, TOOLS)
        events = [event for character in text for event in parser.feed(character)] + parser.close()
        assert [event.is_cut for event in events if isinstance(event, CallBroken)][-1:] == [broken.is_cut], text


@each_row("rest", ["", "\n", " And so on.\n"])
@each_row("case", MALFORMED)
def test_a_call_that_is_malformed_is_not_cut(case: str, rest: str) -> None:
    text = MALFORMED[case] + rest
    for pieces in ([text], list(text)):
        parser = formats.parser(case.partition(",")[0], TOOLS)
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
        broken = [event for event in events if isinstance(event, CallBroken)]
        assert broken, case
        assert not any(event.is_cut for event in broken), broken


def test_a_stray_send_tag_makes_a_call_malformed_and_not_truncated() -> None:
    (broken,) = formats.parse(MALFORMED["minimax_m3"], "minimax_m3", TOOLS).broken
    assert "send" in broken.why
    assert read_broken(broken).kind == "malformed"


@each_row("name", NAMES)
def test_a_cut_call_is_reported_as_truncated(name: str) -> None:
    assert {read_broken(broken).kind for _, broken in _cuts(name)} <= {"truncated"}


def test_a_name_at_the_end_is_a_call_only_of_a_tool_without_parameters() -> None:
    def read(text: str, *tools: dict[str, Any]) -> list[Any]:
        calls = formats.parse(
            text, tools=[{"name": name, "parameters": schema} for tool in tools for name, schema in tool.items()]
        ).calls
        return [(call.name, call.arguments, call.repairs) for call in calls]

    free: dict[str, Any] = {"type": "object"}
    bound = {"type": "object", "properties": {"city": {"type": "string"}}}
    closed = [("list_tides", {}, ("closed_wrapper",))]
    assert read("[TOOL_CALLS]list_tides", {"list_tides": free}) == closed
    assert read("Now.[TOOL_CALLS] list_tides\n", {"list_tides": free, "log_dive": bound}) == closed
    assert read("[TOOL_CALLS]list_tides", {"list_tides": bound}) == []
    assert read("[TOOL_CALLS]list_tides", {"list_tides": free, "list_tides_of": free}) == [], "it may be cut"
    assert read("[TOOL_CALLS]list_tide", {"list_tides": free}) == []
    assert read("[TOOL_CALLS]list_tides and more", {"list_tides": free}) == []
    assert read("[TOOL_CALLS]other", {"list_tides": free}) == []


UNCLOSED = {
    "harmony": '<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{{"city": "Oslo"}}',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>"
    '{{"city": "Oslo"}}<|tool_calls_section_end|>',
    "hermes": '<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Oslo"}}}}',
}


def test_an_unclosed_call_is_a_call_only_of_an_offered_tool() -> None:
    tools = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]
    wrong: dict[str, Any] = {}
    for format_name, text in UNCLOSED.items():
        for way in (format_name, "auto"):
            known = formats.parse(text.format(name="get_weather"), way, tools)
            unknown = formats.parse(text.format(name="get_time"), way, tools)
            free = formats.parse(text.format(name="get_time"), way)
            seen = [len(known.calls), len(unknown.calls), len(unknown.broken), len(free.calls)]
            if seen != [1, 0, 1, 1]:
                wrong[f"{format_name} as {way}"] = seen
    assert not wrong
