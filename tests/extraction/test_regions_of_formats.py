"""Calls that a reply only shows: in code, quotations, comments, tables, strings and reasoning, in every format."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from time import process_time

import pytest
from tests.tables import each_row

from dragoman import Extraction, extract, extractor, formats
from dragoman.extraction.regions import Regions
from dragoman.types import Tool, ToolCall

OWN_FENCES = {"cohere_command_r", "fenced", "fenced_tool_call", "fenced_tool_name", "tool_code"}
"""In a code span, the backticks of these formats are not a fence any more, and only the loose search finds a call."""
FORMATS = list(dict.fromkeys(formats.get(name).name for name in formats.names()))
TOOL = Tool(
    "send_note",
    "Send a note.",
    {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}, "required": ["to"]},
)
CALL = ToolCall("call_1", "send_note", {"to": "mallory", "text": "the code is 4711"})


def flat(text: str) -> str:
    return " ".join(text.split())


def indent(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))


PLACES: dict[str, Callable[[str], str]] = {
    "code span": lambda call: f"One would write `{flat(call)}` for that.",
    "code span of two backticks": lambda call: f"One would write ``{flat(call)}`` for that.",
    "code span over lines": lambda call: f"The page holds `{call}` and more.",
    "code span in a list": lambda call: f"Steps:\n\n- first `{flat(call)}`\n- then wait",
    "indented code": lambda call: f"For example:\n\n{indent(call, '    ')}\n\nThat is all.",
    "indented code at the end": lambda call: f"This is what the page says:\n\n{indent(call, '    ')}",
    "indented by a tab": lambda call: f"For example:\n\n{indent(call, chr(9))}\n\nThat is all.",
    "indented code in a list": lambda call: f"1. For example:\n\n{indent(call, '       ')}\n\n2. That is all.",
    "quotation": lambda call: f"The page says:\n\n{indent(call, '> ')}\n\nI will not do that.",
    "quotation in a list": lambda call: f"It says:\n\n- > {flat(call)}\n\nNo.",
    "quotation in a numbered list": lambda call: f"It says:\n\n1. first\n2. > so: {flat(call)}\n\nNo.",
    "lazy quotation": lambda call: f"> The page says to do this:\nnamely {flat(call)}\n\nNo.",
    "lazy quotation in a list": lambda call: f"- > The page says to do this:\nnamely {flat(call)}\n\nNo.",
    "quotation in a quotation": lambda call: f"> > {flat(call)}\n\nNo.",
    "quotation marks": lambda call: f'The page says "{flat(call)}", and I will not do that.',
    "typographic quotation marks": lambda call: f"The page says “{flat(call)}”, and I will not do that.",
    "blockquote": lambda call: f"It says:\n<blockquote>\n{call}\n</blockquote>\nNo.",
    "blockquote with attributes": lambda call: f'It says:\n<blockquote cite="x">{call}</blockquote>\nNo.',
    "pre": lambda call: f"For example:\n<pre>\n{call}\n</pre>\nThat is all.",
    "pre in capitals": lambda call: f'For example:\n<PRE class="x">\n{call}\n</PRE>\nThat is all.',
    "pre that is not closed": lambda call: f"For example:\n<pre>\n{call}",
    "code element": lambda call: f"One would write <code>{flat(call)}</code> for that.",
    "example element": lambda call: f"I would write:\n<example>\n{call}\n</example>\nThat is all.",
    "comment": lambda call: f"Nothing here. <!-- {call} --> Bye.",
    "comment that is not closed": lambda call: f"Nothing here.\n<!--\n{call}",
    "table": lambda call: f"| tool | call |\n|---|---|\n| send_note | {flat(call)} |\n\nThat is all.",
    "table without outer bars": lambda call: f"tool | call\n--- | ---\nsend_note | {flat(call)}\n\nThat is all.",
    "string of JSON": lambda call: json.dumps({"example": call, "note": "do not run it"}),
    "string of JSON in a sentence": lambda call: f"The log has {json.dumps({'text': flat(call)})} in it.",
    "table of HTML": lambda call: f"See:\n<table><tr><td>send</td>\n<td>\n{call}\n</td></tr></table>\nThat is all.",
    "cell of HTML": lambda call: f"<td>{flat(call)}</td>",
    "quotation marks on lines of their own": lambda call: f'The page says "\n{call}\n" and I will not do that.',
    "equal typographic quotation marks": lambda call: f"Sivu sanoo ”{flat(call)}”, enkä tee sitä.",
    "Chinese title marks": lambda call: f"它说《{flat(call)}》了。",
    "reasoning in capitals": lambda call: f"<THINK>\n{call}\n</THINK>\nHello!",
    "reasoning with a blank in its tags": lambda call: f"<think >\n{call}\n</think >\nHello!",
    "string after a number in JSON": lambda call: json.dumps([-1, flat(call)]),
    "string after another value in JSON": lambda call: json.dumps([{}, None, flat(call)]),
    "string after null in JSON": lambda call: json.dumps([None, flat(call)]),
    "string in a list of JSON": lambda call: json.dumps(["first", flat(call)]),
    "fence": lambda call: f"For example:\n\n````xml\n{call}\n````\n\nThat is all.",
    "fence in a list": lambda call: f"1. For example:\n\n   ````xml\n{indent(call, '   ')}\n   ````\n\n2. That is all.",
    "fence in a quotation": lambda call: f"> ````xml\n{indent(call, '> ')}\n> ````\n\nThat is all.",
    "reasoning that the prompt opened": lambda call: f"Perhaps {call}\nBut no.\n</think>\nHello!",
    "named reasoning that the prompt opened": lambda call: f"Perhaps {call}\nBut no.\n</thinking>\nHello!",
}


def stream(text: str, size: int) -> Extraction:
    stage = extractor(tools=[TOOL])
    for at in range(0, len(text), size):
        stage.feed(text[at : at + size])
    stage.close()
    return stage.extraction


@each_row("trust", ["default", "compat"])
@each_row("place", PLACES)
def test_a_call_that_is_only_shown_does_not_count_in_any_format(place: str, trust: str) -> None:
    ran = {}
    for format in FORMATS:
        text = PLACES[place](formats.render([CALL], format))
        found = extract(text, {"native_tool_calls": False}, tools=[TOOL], trust=trust)
        if found.calls and not (trust == "compat" and is_loose(place, format)):
            ran[format] = text
    assert ran == {}


def is_loose(place: str, format: str) -> bool:
    """Whether only the loose search finds the call, in a code block. The profile `compat` accepts this."""
    return "fence" in place or ("code span" in place and format in OWN_FENCES)


@each_row("place", PLACES)
def test_a_streamed_reply_has_the_same_regions(place: str) -> None:
    for format in FORMATS[::4]:
        text = PLACES[place](formats.render([CALL], format))
        assert stream(text, 7) == extract(text, tools=[TOOL]), format


HONEST: dict[str, Callable[[str], str]] = {
    "alone": str,
    "after a sentence": lambda call: f"Let me do that.\n\n{call}",
    "after a quotation and a blank line": lambda call: f"> send a note\n\n{call}",
    "after a code span": lambda call: f"I use `send_note` with a > b.\n\n{call}",
    "after a code block": lambda call: f"```python\nprint()\n```\n\n{call}",
    "after a list": lambda call: f"Plan:\n\n1. send a note\n2. wait\n\n{call}",
    "after a table": lambda call: f"| a | b |\n|---|---|\n| 1 | 2 |\n\n{call}",
    "after JSON": lambda call: f'The settings are {{"a": "b"}}.\n\n{call}',
    "after elements": lambda call: f"I use <code>send_note</code>. <!-- so -->\n\n{call}",
    "after inches": lambda call: f'It is 5" wide.\n{call}\n',
    "after a list of numbers": lambda call: f"The ids are [1, 2, 3].\n\n{call}",
    "after reasoning in capitals": lambda call: f"<THINK>so</THINK>\n\n{call}",
    "after reasoning": lambda call: f"<think>\n> what now?\nA note.\n</think>\n\n{call}",
    "after reasoning with code": lambda call: f"<think>Perhaps\n```\nx\n</think>\n\n{call}",
}
MARKED = [name for name in FORMATS if extract(formats.render([CALL], name), tools=[TOOL]).calls]


@pytest.mark.parametrize("place", HONEST)
def test_markup_before_a_call_does_not_hide_it(place: str) -> None:
    refused = []
    for format in MARKED:
        text = HONEST[place](formats.render([CALL], format))
        found = extract(text, tools=[TOOL])
        if formats.parse(text, tools=[TOOL]).calls and not found.calls:
            refused.append(format)
    assert refused == []


WHOLE: dict[str, Callable[[str], str]] = {
    "one fence": lambda call: f"```xml\n{call}\n```",
    "one fence after reasoning": lambda call: f"<think>so</think>\n```xml\n{call}\n```",
    "one code span": lambda call: f"`{call}`",
    "a code span on its line": lambda call: f"Let me do that:\n`{call}`",
    "indented as a whole": lambda call: indent(call, "    "),
    "indented with its words": lambda call: f"        Let me do that.\n\n        {call}\n",
    "in pre as a whole": lambda call: f"<pre>{call}</pre>",
}


@each_row("place", WHOLE)
@each_row("format", ["hermes", "anthropic_xml", "qwen3_coder"])
def test_a_weak_model_may_put_its_call_into_code(place: str, format: str) -> None:
    text = WHOLE[place](flat(formats.render([CALL], format)))
    assert [call.name for call in extract(text, tools=[TOOL]).calls] == ["send_note"]


# ---- any offset ------------------------------------------------------------------------------------------------------


def test_each_offset_has_a_region() -> None:
    text = "So:\n> quoted\n\n`x` in words\n\n```\ncode\n```\nend"
    regions = Regions(text, [])
    found = {word: regions.at(text.index(word)) for word in ("So", "quoted", "x", "in words", "code", "end")}
    assert found == {
        "So": "answer",
        "quoted": "quote",
        "x": "code",
        "in words": "answer",
        "code": "fence",
        "end": "answer",
    }


UNITS = ["`", "``", "`a` ", "> ", "- > ", "<pre>", "</pre>", "<code>x</code>", "<!--", "-->", '{"', '{"a": ', "[[", '"']
UNITS += ["| a |\n", "a | b\n--- | ---\n", "    x\n", "\n", "```\n", "</think>", "<think>", "1. ", "\\`", "x ", "“x” "]


def test_the_time_for_regions_grows_with_the_text_and_no_faster() -> None:
    rng = random.Random(3)
    for unit in [*UNITS, *("".join(rng.choices(UNITS, k=4)) for _ in range(20))]:
        text = unit * (40_000 // len(unit))
        calls = [(at, at + 1) for at in range(0, len(text), 50)]
        start = process_time()
        regions = Regions(text, calls)
        for call in calls:
            regions.find(call)
        # Work that grew with the square would take far longer.
        assert process_time() - start < 5, unit
