"""Calls that are nearly right: what each format reads, what it repairs by name, and what it must never make up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.odd_cases import account, tool

from dragoman import formats
from dragoman.formats import Parsed
from dragoman.toolset import Toolset

TOOLS = Toolset(
    [
        tool("move", ["x"], x="integer", note="string"),
        tool("search", ["query"], query="string", limit="integer"),
        tool("ping"),
        tool("send", ["to", "body"], to="string", body="string"),
    ]
)

Calls = list[tuple[str, dict[str, Any]]]


def read(text: str, name: str = "auto", tools: Toolset | None = TOOLS) -> Parsed:
    """Parse a text, and check that pieces of any size give the same."""
    whole = formats.parse(text, name, tools)
    for size in (1, 2, 7):
        stage = formats.parser(name, tools)
        events = [event for at in range(0, len(text), size) for event in stage.feed(text[at : at + size])]
        assert account(formats.fold([*events, *stage.close()])) == account(whole), size
    return whole


def calls_of(parsed: Parsed) -> Calls:
    return [(call.name, call.arguments) for call in parsed.calls]


# ---- arguments under other keys --------------------------------------------------------------------------------------

JSON_WRAPPERS = {
    "hermes": "<tool_call>\n{}\n</tool_call>",
    "longcat": "<longcat_tool_call>{}</longcat_tool_call>",
    "tool_call_tags": "<toolcall>{}</toolcall>",
    "fenced": "~~~tool_call\n{}\n~~~",
    "fenced_tool_call": "```tool_call\n{}\n```",
    "mistral": "[TOOL_CALLS] [{}]",
    "jamba": "<tool_calls>[{}]</tool_calls>",
    "nemotron_toolcall": "<TOOLCALL>[{}]</TOOLCALL>",
    "cohere_command4": "<|START_ACTION|>[{}]<|END_ACTION|>",
    "llama3_json": "<|python_tag|>{}",
    "phi4": "functools[{}]",
    "internlm": "<|action_start|><|plugin|>\n{}<|action_end|>",
}

READABLE = {
    "tool_args": '{"name": "move", "tool_args": {"x": 1}}',
    "kwargs": '{"name": "move", "kwargs": {"x": 1}}',
    "params before the name": '{"params": {"x": 1}, "name": "move"}',
    "text under a common key": '{"name": "move", "tool_args": "{\\"x\\": 1}"}',
    "a lone object under any key": '{"name": "move", "payload": {"x": 1}}',
    "a lone object and an id": '{"id": "c1", "name": "move", "data": {"x": 1}}',
    "flat": '{"name": "move", "x": 1}',
    "properties": '{"name": "move", "properties": {"x": 1}}',
    "properties inside": '{"name": "move", "arguments": {"properties": {"x": 1}}}',
    "a copied schema": '{"name": "move", "arguments": {"type": "object", "properties": {"x": 1}}}',
    "a call in a member": '{"tool": {"name": "move", "arguments": {"x": 1}}}',
    "a function_call": '{"function_call": {"name": "move", "arguments": "{\\"x\\": 1}"}}',
    "arguments beside the function": '{"function": {"name": "move"}, "arguments": {"x": 1}}',
    "toolcalls": '{"toolcalls": [{"name": "move", "arguments": {"x": 1}}]}',
}

UNREADABLE = {
    "an unknown key": '{"name": "move", "payload": [1]}',
    "a text": '{"name": "move", "content": "x is 1"}',
    "two objects": '{"name": "ping", "first": {"x": 1}, "second": {"y": 2}}',
    "an object that does not fit": '{"name": "search", "payload": {"y": 2}}',
    "flat, and a key too many": '{"name": "move", "x": 1, "y": 2}',
    "no such parameter": '{"name": "ping", "speed": 3}',
    "two members with arguments": '{"name": "move", "arguments": {"x": 1}, "input": {"x": 2}}',
    "an unknown key beside the function": '{"function": {"name": "move"}, "payload": [1]}',
    "a schema with definitions": '{"name": "search", "properties": {"query": {"type": "string"}}}',
}


@pytest.mark.parametrize("body", READABLE.values(), ids=READABLE)
@pytest.mark.parametrize("name", JSON_WRAPPERS)
def test_arguments_are_read_under_any_key_that_states_them(name: str, body: str) -> None:
    text = JSON_WRAPPERS[name].replace("{}", body)
    for reader in (name, "auto"):
        assert calls_of(read(text, reader)) == [("move", {"x": 1})], reader


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("name", JSON_WRAPPERS)
def test_members_that_are_not_understood_never_become_empty_arguments(name: str, body: str) -> None:
    text = JSON_WRAPPERS[name].replace("{}", body)
    for reader in (name, "auto"):
        parsed = read(text, reader)
        assert parsed.calls == [], reader
        assert parsed.broken, reader


@pytest.mark.parametrize("name", JSON_WRAPPERS)
def test_a_name_without_any_other_member_has_no_arguments(name: str) -> None:
    for body in ('{"name": "ping"}', '{"name": "ping", "id": "a1", "type": "function"}'):
        assert calls_of(read(JSON_WRAPPERS[name].replace("{}", body), name)) == [("ping", {})]


def test_unusual_members_are_named_as_repairs() -> None:
    repairs = {
        key: read(JSON_WRAPPERS["hermes"].replace("{}", body)).calls[0].repairs for key, body in READABLE.items()
    }
    assert repairs["flat"] == ("flat_arguments",)
    assert repairs["a lone object under any key"] == repairs["properties"] == ("unusual_keys",)
    assert repairs["properties inside"] == ("unwrapped_arguments",)
    assert repairs["tool_args"] == ()


def test_without_tools_an_unknown_member_is_not_guessed() -> None:
    parsed = read('<tool_call>{"name": "f", "payload": {"x": 1}}</tool_call>', tools=None)
    assert (parsed.calls, len(parsed.broken)) == ([], 1)
    assert json.loads(parsed.broken[0].raw.removeprefix("<tool_call>").removesuffix("</tool_call>"))["name"] == "f"
