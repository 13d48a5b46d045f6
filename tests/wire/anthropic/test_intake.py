"""Requests as clients send them, read into ours, and written back as they were."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.types import (
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire.anthropic import Anthropic

from .samples import PIXEL, RICH_REQUEST

CODEC = Anthropic()


def decode(*messages: JsonObject, **fields: Any) -> Request:
    return CODEC.decode_request({"model": "m", "max_tokens": 5, "messages": list(messages), **fields})


def user(*blocks: Any) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def use(id: str | None, name: str = "ping", given: Any = None) -> JsonObject:
    named = {"type": "tool_use", "name": name, "input": {} if given is None else given}
    return named if id is None else named | {"id": id}


def result(id: str | None, content: Any = "ok") -> JsonObject:
    block = {"type": "tool_result", "content": content}
    return block if id is None else block | {"tool_use_id": id}


# ---- a rich body -----------------------------------------------------------------------------------------------------


def test_a_rich_request_is_written_back_as_it_was() -> None:
    before = copy.deepcopy(RICH_REQUEST)
    request = CODEC.decode_request(RICH_REQUEST)
    sent = CODEC.prepare(request)
    assert sent.body == RICH_REQUEST
    assert sent.losses == ()
    assert before == RICH_REQUEST
    assert CODEC.decode_request(sent.body) == request


def test_a_request_is_read_from_bytes_and_text_too() -> None:
    written = json.dumps(RICH_REQUEST)
    assert CODEC.decode_request(written) == CODEC.decode_request(written.encode()) == CODEC.decode_request(RICH_REQUEST)


def test_a_rich_request_in_our_words() -> None:
    request = CODEC.decode_request(RICH_REQUEST)
    system, asked, answer, results, words = request.messages
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool", "user"]
    assert system.parts == [
        Text("You help with code."),
        Text("Be brief.", {"anthropic": {"cache_control": {"type": "ephemeral"}}}),
    ]
    assert asked.parts[1:4] == [
        Image(data=PIXEL, media_type="image/png"),
        Image("https://example.org/cat.png"),
        Image(extra={"anthropic": {"source": {"type": "file", "file_id": "file_1"}}}),
    ]
    report, notes = asked.parts[4:6]
    assert isinstance(report, File) and isinstance(notes, File)
    assert (report.name, report.data, report.media_type) == ("report.pdf", "JVBERi0=", "application/pdf")
    assert (notes.name, notes.media_type) == ("notes", "text/plain")
    assert isinstance(asked.parts[6], Text) and asked.parts[6].text == "Cats\nkb://1\nCats purr."
    assert answer.parts[:3] == [
        Thinking("Look first.", {"anthropic": {"signature": "EqQBsigned"}}),
        Thinking("", {"anthropic": {"data": "EmwKsecret"}}),
        Text("I shall look."),
    ]
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("toolu_1", "get_weather", {"city": "Ørsta"}),
        ("toolu_2", "ping", {}),
    ]
    first, second = results.parts
    assert first == ToolResult("toolu_1", "get_weather", "no route", is_error=True)
    assert isinstance(second, ToolResult) and second.name == "ping"
    assert second.content == [Text("a map"), Image(data=PIXEL, media_type="image/png")]
    assert words == Message("user", [Text("And now?")])


def test_the_options_of_a_rich_request() -> None:
    request = CODEC.decode_request(RICH_REQUEST)
    assert [tool.name for tool in request.tools] == ["get_weather", "ping"]
    assert request.tools[0].metadata == {"anthropic": {"eager_input_streaming": True}}
    assert request.options == {
        "max_tokens": 32000,
        "stream": True,
        "temperature": 1,
        "stop": ["END"],
        "user": "user_8f",
        "reasoning": {"effort": "high"},
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "anthropic": {
            "context_management": RICH_REQUEST["context_management"],
            "service_tier": "auto",
            "thinking": {"display": "omitted"},
            "tools": [{"type": "web_search_20260318", "name": "web_search", "max_uses": 8}],
        },
    }


# ---- conversation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief."}], ["Be brief."]])
def test_system_as_text_or_blocks(system: Any) -> None:
    assert decode(system=system).messages == [Message("system", [Text("Be brief.")])]


def test_system_messages_stay_where_they_stood() -> None:
    request = decode(user("Hi"), {"role": "system", "content": "Now in German."}, user("Hallo"), system="Be brief.")
    assert [(message.role, message.text) for message in request.messages] == [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("system", "Now in German."),
        ("user", "Hallo"),
    ]


def test_results_in_several_messages_become_one() -> None:
    request = decode(assistant(use("a"), use("b")), user(result("a")), user(result("b"), "And?"))
    assert [message.role for message in request.messages] == ["assistant", "tool", "user"]
    assert [part.call_id for part in request.messages[1].parts if isinstance(part, ToolResult)] == ["a", "b"]


def test_missing_ids_are_made_and_never_one_that_occurs() -> None:
    request = decode(assistant(use(None), use("call_1"), use(None)), user(result(None), result("call_1"), result(None)))
    calls, results = request.messages
    assert [part.id for part in calls.parts if isinstance(part, ToolCall)] == ["call_2", "call_1", "call_3"]
    assert [part.call_id for part in results.parts if isinstance(part, ToolResult)] == ["call_2", "call_1", "call_3"]


def test_a_result_without_any_call_keeps_an_empty_id() -> None:
    assert decode(user(result(None))).messages == [Message("tool", [ToolResult("", "", "ok")])]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("ok", "ok"),
        (None, ""),
        ([], ""),
        (7, [Text("7")]),
        ([{"type": "text", "text": "a"}], [Text("a")]),
        (["a"], [Text("a")]),
        (
            [{"type": "tool_reference", "tool_name": "ping"}],
            [Text("", {"anthropic": {"block": {"type": "tool_reference", "tool_name": "ping"}}})],
        ),
    ],
)
def test_contents_of_results(content: Any, expected: Any) -> None:
    request = decode(assistant(use("a")), user(result("a", content)))
    assert request.messages[1].parts == [ToolResult("a", "ping", expected)]


def test_arguments_as_text_are_read_and_unreadable_ones_are_told() -> None:
    request = decode(assistant(use("a", "ping", '{"x": 1}'), use("b", "ping", [1]), use("c", "")))
    first, second, third = request.messages[0].parts
    assert isinstance(first, ToolCall) and first.arguments == {"x": 1}
    assert isinstance(second, InvalidCall) and second.faults
    assert isinstance(third, InvalidCall) and third.faults[0].why == "the call names no tool"


def test_unsigned_thinking_is_known_as_such() -> None:
    request = decode(assistant({"type": "thinking", "thinking": "Hm"}, {"type": "thinking", "thinking": ""}))
    assert request.messages[0].parts == [Thinking("Hm", {"anthropic": {"signature": ""}})]


# ---- options ---------------------------------------------------------------------------------------------------------


@each_row(
    ("fields", "options"),
    [
        ({"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        ({"tool_choice": {"type": "tool", "name": "ping"}}, {"tool_choice": {"name": "ping"}}),
        (
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
        ({"tool_choice": {"type": "fancy"}}, {}),
        ({"stream": False}, {"stream": False}),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, {"reasoning": {"budget": 2048}}),
        ({"thinking": {"type": "disabled"}}, {"reasoning": {"enabled": False}}),
        ({"thinking": {"type": "adaptive"}}, {"reasoning": {"enabled": True}}),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            {"reasoning": {"enabled": True, "summary": "auto"}},
        ),
        ({"thinking": {"type": "between_tools"}}, {"anthropic": {"thinking": {"type": "between_tools"}}}),
        (
            {"output_config": {"effort": "max"}},
            {"reasoning": {"effort": "max"}, "anthropic": {"thinking": None}},
        ),
        (
            {"output_config": {"effort": "low"}, "thinking": {"type": "disabled"}},
            {"reasoning": {"effort": "low", "enabled": False}},
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {"response_format": {"type": "json_schema", "schema": {"type": "object"}}},
        ),
        ({"output_config": {"task_budget": 3}}, {"anthropic": {"output_config": {"task_budget": 3}}}),
        ({"metadata": {"user_id": "u", "x": 1}}, {"user": "u", "anthropic": {"metadata": {"x": 1}}}),
        ({"speed": "fast"}, {"anthropic": {"speed": "fast"}}),
        ({"temperature": "warm", "stop_sequences": 5, "thinking": 5, "tool_choice": []}, {}),
        ({"stop_sequences": "END"}, {"stop": ["END"]}),
    ],
)
def test_options(fields: JsonObject, options: dict[str, Any]) -> None:
    assert decode(**fields).options == {"max_tokens": 5, **options}


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "low"}},
        {"output_config": {"effort": "max"}},
        {"metadata": {"user_id": "u", "x": 1}},
        {"stream": False},
    ],
)
def test_options_are_written_back_as_they_were(fields: JsonObject) -> None:
    body = {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}], **fields}
    sent = CODEC.prepare(CODEC.decode_request(body))
    assert sent.body == body
    assert sent.losses == ()


def test_the_model_and_streaming_may_be_said_elsewhere() -> None:
    request = CODEC.decode_request({"messages": []}, model="from-the-path", stream=True)
    assert (request.model, request.options) == ("from-the-path", {"stream": True})


def test_tools_of_the_caller_and_of_the_provider_are_told_apart() -> None:
    bash = {"type": "bash_20250124", "name": "bash"}
    request = decode(tools=[{"name": "a", "type": "custom"}, bash, {"name": ""}, 5, {"name": "b", "input_schema": 1}])
    assert request.tools == [Tool("a", metadata={"anthropic": {"type": "custom"}}), Tool("b")]
    assert request.options["anthropic"]["tools"] == [bash, {"name": ""}, "b"]


# ---- anything at all -------------------------------------------------------------------------------------------------

WORDS = [
    "role", "content", "type", "text", "user", "assistant", "system", "tool_use", "tool_result", "thinking", "image",
    "source", "base64", "url", "data", "document", "id", "name", "input", "tool_use_id", "is_error", "signature",
    "messages", "tools", "input_schema", "tool_choice", "max_tokens", "thinking", "output_config", "format", "schema",
    "json_schema", "effort", "enabled", "budget_tokens", "metadata", "user_id", "cache_control", "title", "file",
]  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)
BLOCKS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(["text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "odd"]),
    st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=6),
)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant", "system", "tool"]),
    st.lists(BLOCKS, max_size=4) | ANYTHING,
)


@given(ANYTHING)
def test_no_body_raises(body: Any) -> None:
    assert isinstance(CODEC.decode_request(body), Request)


@given(st.lists(MESSAGES, max_size=5), st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=6))
def test_no_conversation_raises_and_what_is_read_can_be_sent(messages: list[Any], fields: JsonObject) -> None:
    request = CODEC.decode_request({**fields, "messages": messages})
    written = CODEC.encode_request(request)
    assert written["messages"]


@pytest.mark.parametrize("wrong", [None, True, -1, 1.5, "x", [], [None], {}, {"type": "text"}], ids=repr)
def test_one_wrong_value_anywhere_in_a_rich_request_raises_nothing(wrong: Any) -> None:
    for path in _paths(RICH_REQUEST):
        body = copy.deepcopy(RICH_REQUEST)
        target: Any = body
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = wrong
        assert CODEC.encode_request(CODEC.decode_request(body))["messages"]


def _paths(value: Any) -> list[list[Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[key, *rest] for key, inner in entries for rest in ([], *_paths(inner))]


def test_lone_surrogates_and_deep_nesting() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    request = decode(assistant(use("a", "ping", deep), {"type": "text", "text": "\ud800"}), user("\udfff"))
    assert CODEC.encode_request(request)["messages"]
