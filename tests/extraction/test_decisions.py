"""The decision tables of the seeds, row by row, and where we decide otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dragoman
from dragoman import extract, wire
from dragoman.errors import ConfigError
from dragoman.extraction.responses import find_wire
from dragoman.types import Message, Reply, Text, ToolCall

READ = {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
PATH = {"path": "/tmp/foo"}
NATIVE = [
    {"id": "call_abc", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "/tmp/foo"}'}}
]
FENCE = '~~~tool_call\n{"name": "read_file", "arguments": {"path": "/tmp/foo"}}\n~~~'
BARE = '{"name": "read_file", "arguments": {"path": "/tmp/foo"}}'


def calls(response: Any, capabilities: Any = None, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    found = extract(response, capabilities, tools=[READ], **options)
    return [(call.name, call.arguments) for call in found.calls]


ONE = [("read_file", PATH)]


# ---- seed 000: native or text, by what the provider says and what the response has -----------------------------------


def test_native_true_with_an_array_is_native() -> None:
    found = extract({"text": FENCE, "tool_calls": NATIVE}, {"native_tool_calls": True}, tools=[READ])
    assert [(call.name, call.provenance.level, call.id) for call in found.calls if call.provenance] == [
        ("read_file", "T5", "call_abc")
    ]
    assert found.text == FENCE, "the text beside native calls is left alone"


def test_native_true_with_an_empty_array_and_fences_is_text() -> None:
    (call,) = extract({"text": FENCE, "tool_calls": []}, {"native_tool_calls": True}, tools=[READ]).calls
    assert call.provenance is not None
    assert (call.provenance.channel, call.provenance.format, call.provenance.level) == ("text", "fenced", "T3")


def test_native_true_with_nothing_is_an_empty_list() -> None:
    found = extract({"text": "Hello.", "tool_calls": []}, {"native_tool_calls": True}, tools=[READ])
    assert (found.calls, found.text) == ([], "Hello.")


def test_native_false_reads_text() -> None:
    assert calls({"text": FENCE}, {"native_tool_calls": False}) == ONE


def test_native_false_with_an_array_reads_the_array() -> None:
    """Seed 000 says text; seed 004 has providers without native support whose models answer natively all the same."""
    assert calls({"text": "", "tool_calls": NATIVE}, {"native_tool_calls": False}) == ONE


def test_native_true_without_fences_still_tries_other_formats_and_bare_json() -> None:
    """Seed 000 returns nothing here; seed 002 added the tier for weak models."""
    assert calls({"text": BARE, "tool_calls": []}, {"native_tool_calls": True}) == ONE
    assert calls(f"<tool_call>\n{BARE}\n</tool_call>", {"native_tool_calls": True}) == ONE


# ---- seed 002: the tiers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [None, {}, {"native_tool_calls": True}, {"native_tool_calling": True}])
def test_unknown_capabilities_behave_as_native(capabilities: Any) -> None:
    assert calls({"text": FENCE, "tool_calls": NATIVE}, capabilities) == ONE
    assert calls({"text": FENCE}, capabilities) == ONE


def test_tier_three_is_the_whole_message_and_nothing_less() -> None:
    assert calls(BARE) == ONE
    assert calls(f"```json\n{BARE}\n```") == ONE
    assert calls(f"```\n{BARE}\n```") == ONE
    assert calls(f"[{BARE}, {BARE}]") == ONE * 2
    assert calls(f"{BARE}\n{BARE}") == ONE * 2
    assert calls('{"tool_calls": [' + BARE + "]}") == ONE
    assert calls(f"<think>hm</think>\n{BARE}") == ONE


def test_json_in_prose_is_a_suspect() -> None:
    found = extract(f"I would call {BARE} now.", tools=[READ])
    assert (found.calls, found.refused) == ([], [])
    (suspect,) = found.suspects
    assert (suspect.name, suspect.level) == ("read_file", "T1")
    assert found.text[slice(*suspect.span)] == BARE
    assert found.text == f"I would call {BARE} now."


def test_json_in_prose_runs_under_compat() -> None:
    (call,) = extract(f"I would call {BARE} now.", tools=[READ], trust="compat").calls
    assert (call.provenance.level, call.provenance.verdict) == ("T1", "allow")


def test_no_match_is_an_empty_list_and_never_none() -> None:
    for response in (None, "", {}, [], {"text": None, "tool_calls": None}, {"text": "Hi"}, 5):
        assert extract(response).calls == []


@pytest.mark.parametrize("field", ["thinking", "reasoning_content", "reasoning"])
def test_a_message_may_have_only_thinking(field: str) -> None:
    assert extract({"role": "assistant", field: "Hm."}).thinking == extract({field: "Hm."}).thinking == "Hm."


def test_a_mapping_that_is_no_reply_is_an_error_that_names_its_keys() -> None:
    for response in ({"type": "tool_use", "name": "read_file", "input": PATH}, {"data": {"choices": []}}):
        with pytest.raises(ConfigError, match=f"{next(iter(response))!r}.* is not a reply"):
            extract(response, tools=[READ])


def test_the_single_call_of_an_old_client_counts() -> None:
    old = {"name": "read_file", "arguments": json.dumps(PATH)}
    message = {"role": "assistant", "content": None, "function_call": old}
    (call,) = extract(message, tools=[READ]).calls
    assert (call.name, call.arguments) == ("read_file", PATH)


def test_self_contained_agents_are_never_parsed() -> None:
    for key in ("self_contained", "self_contained_tools"):
        found = extract({"text": FENCE, "tool_calls": NATIVE}, {key: True}, tools=[READ])
        assert (found.calls, found.refused, found.invalid) == ([], [], [])
        assert found.text == FENCE


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"path": "/tmp/foo"}, PATH), ('{"path": "/tmp/foo"}', PATH), ("", {}), ("{}", {}), ({}, {})],
)
def test_arguments_are_a_mapping_a_json_string_or_an_empty_string(arguments: Any, expected: dict[str, Any]) -> None:
    response = {"tool_calls": [{"function": {"name": "read_file", "arguments": arguments}}]}
    assert calls(response) == [("read_file", expected)]


@pytest.mark.parametrize("arguments", [[1], 5, True, '"text"', "[1]", "not json", "5"])
def test_anything_else_is_an_invalid_call_with_a_reason(arguments: Any) -> None:
    found = extract({"tool_calls": [{"function": {"name": "read_file", "arguments": arguments}}]}, tools=[READ])
    assert found.calls == []
    (invalid,) = found.invalid
    assert (invalid.name, invalid.kind) == ("read_file", "malformed")
    assert invalid.faults[0].why


@pytest.mark.parametrize("body", ['{"name": "read_file", "arguments": null}', '{"name": "read_file"}'])
def test_missing_arguments_count_as_none_in_a_wrapper_and_are_refused_in_bare_json(body: str) -> None:
    (call,) = extract(f"<tool_call>\n{body}\n</tool_call>", tools=[READ]).calls
    assert (call.arguments, [change.rule for change in call.changes]) == ({}, ["null_arguments"])
    found = extract(body, tools=[READ])
    assert found.calls == []
    assert [refused.why for refused in found.refused] in ([], ["bare JSON needs its arguments"])
    assert found.text == body


def test_one_bad_block_never_spoils_its_neighbours() -> None:
    text = f"{FENCE}\n\n~~~tool_call\n{{not json at all\n~~~\n\n{FENCE}"
    found = extract(text, tools=[READ])
    assert [(call.name, call.arguments) for call in found.calls] == ONE * 2
    (bad,) = found.invalid
    assert bad.kind == "malformed"
    assert "not json" in bad.raw
    start, end = bad.provenance.span
    assert text[start:end] == bad.raw


# ---- responses of every shape ----------------------------------------------------------------------------------------


def test_entries_of_every_shape_may_be_mixed() -> None:
    response = {
        "tool_calls": [
            {"id": "1", "function": {"name": "read_file", "arguments": '{"path": "a"}'}},
            {"type": "tool_use", "id": "2", "name": "read_file", "input": {"path": "b"}},
            {"function": {"name": "read_file", "arguments": {"path": "c"}}},
            {"name": "read_file", "arguments": {"path": "d"}},
            {"functionCall": {"name": "read_file", "args": {"path": "e"}}},
            {"toolUse": {"toolUseId": "6", "name": "read_file", "input": {"path": "f"}}},
        ]
    }
    found = extract(response, tools=[READ])
    assert [call.arguments["path"] for call in found.calls] == list("abcdef")
    ids = [call.id for call in found.calls]
    assert (ids[0], ids[1], ids[5]) == ("1", "2", "6")
    assert len(set(ids)) == 6


@pytest.mark.parametrize("wire", dragoman.wire.names())
def test_a_body_of_any_wire_is_understood(wire: str) -> None:
    reply = Reply(Message("assistant", [Text("Looking."), ToolCall("abc123XYZ", "read_file", PATH)]), stop="tool_calls")
    body = dragoman.wire.get(wire).encode_reply(reply)
    found = extract(body, tools=[READ])
    assert [(call.name, call.arguments, call.provenance.level) for call in found.calls] == [("read_file", PATH, "T5")]
    assert found.text == "Looking."


@pytest.mark.parametrize("wire", dragoman.wire.names())
def test_text_calls_in_a_body_of_any_wire_are_found(wire: str) -> None:
    body = dragoman.wire.get(wire).encode_reply(Reply(Message("assistant", [Text(f"Looking.\n{FENCE}")]), stop="end"))
    found = extract(body, {"native_tool_calls": True}, tools=[READ])
    assert [(call.name, call.arguments, call.provenance.level) for call in found.calls] == [("read_file", PATH, "T3")]


def test_both_messages_of_seed_000() -> None:
    chat = {"role": "assistant", "content": None, "tool_calls": NATIVE}
    claude = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_abc", "name": "read_file", "input": {"path": "/tmp/foo"}}],
    }
    assert [(call.id, call.arguments) for call in extract(chat).calls] == [("call_abc", PATH)]
    assert [(call.id, call.arguments) for call in extract(claude).calls] == [("toolu_abc", PATH)]


# ---- ids and names ---------------------------------------------------------------------------------------------------


def test_ids_are_kept_where_given_made_where_missing_and_always_unique() -> None:
    first = extract({"tool_calls": [*NATIVE, *NATIVE, {"name": "read_file", "arguments": {}}]}, tools=[READ])
    ids = [call.id for call in first.calls]
    assert ids[0] == "call_abc"
    assert len(set(ids)) == 3
    history = [Message("assistant", [ToolCall("call_1", "read_file", {})])]
    (later,) = extract(FENCE, tools=[READ], conversation=history).calls
    assert later.id != "call_1"


@pytest.mark.parametrize(
    "name",
    [
        "read_file",
        "Read_File",
        "readfile",
        "read-file",
        "functions.read_file",
        "tool.read_file",
        "default_api.readFile",
        "mcp.read_file",
    ],
)
def test_names_are_recognised_in_other_spellings(name: str) -> None:
    assert calls({"tool_calls": [{"name": name, "arguments": PATH}]}) == ONE


def test_an_alias_counts_only_when_the_user_declared_it() -> None:
    response = {"tool_calls": [{"name": "cat", "arguments": PATH}]}
    assert calls(response) == []
    assert calls(response, aliases={"cat": "read_file"}) == ONE
    assert calls('{"name": "cat", "arguments": {"path": "/tmp/foo"}}', aliases={"cat": "read_file"}) == ONE


@pytest.mark.parametrize("name", ["rеad_file", "ｒead_file", "read_fiIe", "bash"])
def test_homoglyphs_and_strangers_are_unknown_tools(name: str) -> None:
    found = extract({"tool_calls": [{"id": "i", "name": name, "arguments": PATH}]}, tools=[READ, {"name": "shell"}])
    assert found.calls == []
    (invalid,) = found.invalid
    assert (invalid.kind, invalid.id) == ("unknown_tool", "i")
    assert "read_file, shell" in str(invalid.faults[0])


def test_without_tools_nothing_is_gated() -> None:
    (call,) = extract({"tool_calls": NATIVE}).calls
    assert call.known_tool is None
    assert [call.name for call in extract(BARE).calls] == ["read_file"]


def test_bad_arguments_name_every_fault() -> None:
    tool = {
        "name": "search",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
        },
    }
    found = extract({"tool_calls": [{"name": "search", "arguments": {"limit": {"a": 1}}}]}, tools=[tool])
    (invalid,) = found.invalid
    assert invalid.kind == "bad_arguments"
    assert len(invalid.faults) == 2
    told = dragoman.extraction.explain_invalid(invalid, dragoman.Toolset([tool]))
    assert all(str(fault) in told for fault in invalid.faults)
    assert '"query"' in told


@pytest.mark.parametrize("name", wire.names())
def test_the_wire_of_a_whole_body_is_recognised(name: str) -> None:
    """A new wire is recognised by `find_wire`, or its bodies are those of another wire."""
    same_bodies = {"mistral": "openai_chat"}
    said = Reply(Message("assistant", [Text("So be it."), ToolCall("call00001", "weather", {"city": "Oslo"})]))
    assert find_wire(wire.get(name).encode_reply(said)) == same_bodies.get(name, name)
