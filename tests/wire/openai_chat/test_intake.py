"""Bodies of chat completions, as clients send them, read and written back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.rules.samples import valid

from dragoman.types import InvalidCall, Message, Text, Thinking, ToolCall, ToolResult
from dragoman.wire import Quirks, get

RICH: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
            ],
            "name": "ada",
        },
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "search", "arguments": '{"q":"x"}'}},
                {"id": "call_b", "type": "function", "function": {"name": "ping", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "found"},
        {"role": "tool", "tool_call_id": "call_b", "content": "pong"},
        {"role": "assistant", "content": None, "refusal": "I will not."},
        {"role": "user", "content": "Thanks."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            },
        },
        {"type": "custom", "custom": {"name": "patch"}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "search"}},
    "parallel_tool_calls": False,
    "max_completion_tokens": 10,
    "temperature": 0.2,
    "stop": ["END"],
    "reasoning_effort": "low",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    },
    "stream": True,
    "stream_options": {"include_usage": True},
    "logit_bias": {"5": 1},
    "prompt_cache_key": "k",
}


def test_a_rich_body_comes_back_as_it_was() -> None:
    codec = get("openai_chat", Quirks(developer_role=True))
    assert codec.encode_request(codec.decode_request(RICH)) == RICH


def test_the_official_sample_comes_back_as_it_was() -> None:
    body = valid("openai_chat")
    request = get("openai_chat").decode_request(body)
    written = get("openai_chat").encode_request(request)
    assert written["tools"] == body["tools"]
    # Blanks between arguments and the order of results are not kept, so what the messages say is compared.
    again = get("openai_chat").decode_request(written)
    for old, new in zip(request.messages, again.messages, strict=True):
        assert sorted(map(repr, new.parts)) == sorted(map(repr, old.parts))


def read(*messages: dict[str, Any]) -> list[Message]:
    return get("openai_chat").decode_request({"messages": list(messages)}).messages


def test_results_of_one_turn_are_one_message_and_know_their_tool() -> None:
    messages = read(*RICH["messages"][3:6])
    assert [message.role for message in messages] == ["assistant", "tool"]
    assert messages[1].parts == [ToolResult("call_a", "search", "found"), ToolResult("call_b", "ping", "pong")]


def test_old_functions_are_understood() -> None:
    messages = read(
        {"role": "assistant", "function_call": {"name": "ping", "arguments": "{}"}},
        {"role": "function", "name": "ping", "content": "pong"},
    )
    (call,) = messages[0].parts
    assert isinstance(call, ToolCall)
    assert messages[1].parts == [ToolResult(call.id, "ping", "pong")]
    tools = get("openai_chat").decode_request({"functions": [{"name": "ping"}], "function_call": {"name": "ping"}})
    assert [tool.name for tool in tools.tools] == ["ping"]
    assert tools.options["tool_choice"] == {"name": "ping"}


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("auto", "auto"),
        ("any", "required"),
        ("sometimes", None),
        ({"type": "function", "function": {"name": "f"}}, {"name": "f"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
            {"mode": "auto", "names": ["f"]},
        ),
        ({"type": "nonsense"}, None),
    ],
)
def test_tool_choices(given: Any, choice: Any) -> None:
    assert get("openai_chat").decode_request({"tool_choice": given}).options.get("tool_choice") == choice


def test_reasoning_of_a_history_is_kept_with_its_field() -> None:
    (message,) = read({"role": "assistant", "reasoning_content": "Hm.", "content": "Yes."})
    assert message.parts == [Thinking("Hm.", {"openai_chat": {"field": "reasoning_content"}}), Text("Yes.")]


def test_a_call_that_cannot_be_read_is_kept_and_never_runs() -> None:
    (message,) = read({"role": "assistant", "tool_calls": [{"id": "i", "function": {"name": "f", "arguments": "[1"}}]})
    (call,) = message.parts
    assert isinstance(call, InvalidCall)
    assert (call.id, call.name, call.raw) == ("i", "f", "[1")


def test_a_whole_completion_may_hold_choices_that_do_not_count() -> None:
    body = {"choices": [{"index": 1, "message": {"content": "second"}}, {"index": 0, "message": {"content": "first"}}]}
    assert get("openai_chat").decode_reply(body).text == "first"


def test_the_model_may_be_named_beside_the_body() -> None:
    assert get("openai_chat").decode_request({"messages": []}, model="deployment").model == "deployment"
