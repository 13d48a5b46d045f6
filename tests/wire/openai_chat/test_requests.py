"""Chat completions written: options, tool choice, reasoning, content; and the quirks of endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.types import File, Image, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire import Quirks, get

HELLO = Message("user", [Text("Hello")])
TOOLS = [Tool("search", "Search"), Tool("ping", "Ping")]


def encode(options: dict[str, Any] | None = None, tools: list[Tool] | None = None, **quirks: Any) -> dict[str, Any]:
    return get("openai_chat", Quirks(**quirks)).encode_request(Request("m", [HELLO], tools or [], options or {}))


def losses(options: dict[str, Any], tools: list[Tool] | None = None, **quirks: Any) -> list[str]:
    prepared = get("openai_chat", Quirks(**quirks)).prepare(Request("m", [HELLO], tools or [], options))
    return [str(loss) for loss in prepared.losses]


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"max_tokens": 5}, {"max_completion_tokens": 5}),
        ({"temperature": 0.5, "top_p": 0.9, "seed": 1}, {"temperature": 0.5, "top_p": 0.9, "seed": 1}),
        ({"stop": ["a"]}, {"stop": ["a"]}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}),
        ({"reasoning": {"enabled": False}}, {"reasoning_effort": "none"}),
        ({"response_format": {"type": "json"}}, {"response_format": {"type": "json_object"}}),
        (
            {"response_format": {"type": "json_schema", "schema": {"type": "object"}, "name": "n", "strict": True}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
                }
            },
        ),
        ({"user": "u", "metadata": {"a": "b"}}, {"user": "u", "metadata": {"a": "b"}}),
        ({"openai_chat": {"logprobs": True}}, {"logprobs": True}),
    ],
)
def test_options_have_their_place(options: dict[str, Any], fields: dict[str, Any]) -> None:
    assert encode(options) == {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}
    assert losses(options) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top_k": 3}, "options: top_k has no place on openai_chat"),
        ({"anthropic": {"service_tier": "auto"}}, "options: service_tier, which only anthropic knows"),
        ({"reasoning": {"budget": 5}}, "options: reasoning: this wire knows only an effort"),
    ],
)
def test_options_without_a_place_are_reported(options: dict[str, Any], words: str) -> None:
    assert losses(options) == [words]


@pytest.mark.parametrize(
    ("quirks", "options", "fields"),
    [
        ({"max_tokens_field": "max_tokens"}, {"max_tokens": 5}, {"max_tokens": 5}),
        ({"stream_usage": False}, {"stream": True}, {"stream": True}),
        ({"sends_sampling": False}, {"temperature": 0.5}, {}),
    ],
)
def test_endpoints_differ(quirks: dict[str, Any], options: dict[str, Any], fields: dict[str, Any]) -> None:
    assert {
        key: value for key, value in encode(options, **quirks).items() if key not in ("model", "messages")
    } == fields


def test_sampling_that_is_not_sent_is_reported() -> None:
    assert losses({"temperature": 0.5}, sends_sampling=False) == ["options: temperature has no place on openai_chat"]


CHOICES: list[tuple[Any, dict[str, Any], dict[str, Any], list[str]]] = [
    ("auto", {}, {"tool_choice": "auto"}, ["search", "ping"]),
    ("none", {}, {"tool_choice": "none"}, ["search", "ping"]),
    ("required", {}, {"tool_choice": "required"}, ["search", "ping"]),
    ({"name": "ping"}, {}, {"tool_choice": {"type": "function", "function": {"name": "ping"}}}, ["search", "ping"]),
    ({"name": "gone"}, {}, {"tool_choice": "auto"}, ["search", "ping"]),
    ({"mode": "required", "names": ["search", "ping"]}, {}, {"tool_choice": "required"}, ["search", "ping"]),
    ({"mode": "auto", "names": ["ping"]}, {}, {"tool_choice": "auto"}, ["ping"]),
    ({"name": "ping"}, {"tool_choice": ("auto", "required")}, {"tool_choice": "required"}, ["ping"]),
    ("required", {"tool_choice": ("auto",)}, {}, ["search", "ping"]),
    ({"name": "ping"}, {"tool_choice": ("auto",)}, {}, ["ping"]),
]


@pytest.mark.parametrize(("choice", "quirks", "fields", "names"), CHOICES)
def test_a_tool_choice_is_kept_or_approximated(choice: Any, quirks: Any, fields: Any, names: list[str]) -> None:
    body = encode({"tool_choice": choice}, TOOLS, **quirks)
    assert {key: value for key, value in body.items() if key == "tool_choice"} == fields
    assert [tool["function"]["name"] for tool in body["tools"]] == names


def test_an_approximated_choice_is_reported() -> None:
    assert losses({"tool_choice": "required"}, TOOLS, tool_choice=("auto",)) == [
        "options: tool_choice 'required' is not honoured here; it is left out"
    ]
    assert losses({"tool_choice": {"name": "gone"}}, TOOLS) == [
        "options: tool_choice names no tool that is offered; it became auto"
    ]


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in encode({"tool_choice": "required", "parallel_tool_calls": False})


def test_the_switch_against_parallel_calls_is_sent_where_there_is_one() -> None:
    assert encode({"parallel_tool_calls": False}, TOOLS)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in encode({"parallel_tool_calls": False}, TOOLS, parallel_flag=False)
    assert losses({"parallel_tool_calls": False}, TOOLS, parallel_flag=False) != []


def test_tools_need_an_effort_on_some_models() -> None:
    assert encode({}, TOOLS, effort_with_tools="none")["reasoning_effort"] == "none"
    assert "reasoning_effort" not in encode({}, effort_with_tools="none")
    assert losses({"reasoning": {"effort": "high"}}, TOOLS, effort_with_tools="none") == [
        "options: reasoning effort 'high' became 'none': this model takes no tools with it on this wire"
    ]


def test_a_tool_that_cannot_be_expressed_is_left_out_and_the_others_stay() -> None:
    impossible = Tool("bad", "", {"type": "string"})
    prepared = get("openai_chat").prepare(Request("m", [HELLO], [impossible, *TOOLS, Tool("ping", "again")]))
    names = [tool["function"]["name"] for tool in prepared.body["tools"]]
    assert names[-2:] == ["search", "ping"]
    assert any("bad" in str(loss) for loss in prepared.losses)
    assert "tool ping: a second tool of the same name was left out" in map(str, prepared.losses)


def replay(*parts: Any, **quirks: Any) -> dict[str, Any]:
    request = Request("m", [HELLO, Message("assistant", list(parts)), HELLO])
    message: dict[str, Any] = get("openai_chat", Quirks(**quirks)).encode_request(request)["messages"][1]
    return message


OWN = Thinking("Hm.", {"openai_chat": {"field": "reasoning_content"}})
CALL = ToolCall("i", "ping", {})
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "s"}]


@pytest.mark.parametrize(
    ("parts", "quirks", "expected"),
    [
        ([OWN, CALL], {}, {}),
        (
            [OWN, CALL],
            {"reasoning_field": "reasoning_content", "replay_reasoning": "calls"},
            {"reasoning_content": "Hm."},
        ),
        ([OWN, Text("x")], {"reasoning_field": "reasoning_content", "replay_reasoning": "calls"}, {}),
        ([OWN, Text("x")], {"reasoning_field": "reasoning", "replay_reasoning": "always"}, {"reasoning": "Hm."}),
        # A turn of another model: the field must be there, with nothing in it.
        ([CALL], {"reasoning_field": "reasoning_content", "replay_reasoning": "calls"}, {"reasoning_content": ""}),
        (
            [Thinking("Hm.", {"openai_chat": {"field": "reasoning", "details": DETAILS}}), CALL],
            {"reasoning_field": "reasoning_details", "replay_reasoning": "always"},
            {"reasoning_details": DETAILS},
        ),
        (
            [OWN, Thinking("Hm.", {"openai_chat": {"field": "reasoning_text", "opaque": "s"}}), CALL],
            {"reasoning_field": "reasoning_text", "replay_reasoning": "always"},
            {"reasoning_text": "Hm.", "reasoning_opaque": "s"},
        ),
        ([OWN, CALL], {"reasoning_field": "reasoning_text", "replay_reasoning": "always"}, {}),
        (
            [OWN, Text("x")],
            {"reasoning_field": "think_tags", "replay_reasoning": "always"},
            {"content": "<think>Hm.</think>x"},
        ),
    ],
)
def test_reasoning_goes_back_where_the_endpoint_wants_it(parts: Any, quirks: Any, expected: dict[str, Any]) -> None:
    message = replay(*parts, **quirks)
    named = {key: value for key, value in message.items() if key.startswith("reasoning") or key in expected}
    assert named == expected


def test_the_opaque_reasoning_of_copilot_goes_back_as_it_came() -> None:
    copilot = get("openai_chat", Quirks(reasoning_field="reasoning_text", replay_reasoning="always"))
    said = {"role": "assistant", "content": "So.", "reasoning_text": "Hm.", "reasoning_opaque": "s"}
    reply = copilot.decode_reply({"choices": [{"message": said, "finish_reason": "stop"}]})
    assert copilot.encode_request(Request("m", [HELLO, reply.message, HELLO]))["messages"][1] == said
    question = {"role": "user", "content": "Hi"}
    again = copilot.decode_request({"model": "m", "messages": [question, said, question]})
    assert copilot.encode_request(again)["messages"][1] == said


def test_the_signature_of_a_compatible_endpoint_goes_back_with_its_call() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    body = {"choices": [{"message": {"tool_calls": [{"id": "i", "function": {"name": "ping"}, **signed}]}}]}
    reply = get("openai_chat").decode_reply(body)
    written = get("openai_chat").encode_request(Request("m", [HELLO, reply.message]))["messages"][1]["tool_calls"][0]
    assert written["extra_content"] == signed["extra_content"]


def test_custom_calls_stay_custom() -> None:
    entry = {"id": "i", "type": "custom", "custom": {"name": "patch", "input": "*** begin"}}
    reply = get("openai_chat").decode_reply({"choices": [{"message": {"tool_calls": [entry]}}]})
    assert [(call.name, call.arguments) for call in reply.calls] == [("patch", {"input": "*** begin"})]
    assert get("openai_chat").encode_request(Request("m", [HELLO, reply.message]))["messages"][1]["tool_calls"] == [
        entry
    ]


def test_images_and_files_are_blocks() -> None:
    parts = [
        Text("See"),
        Image("https://x/y.png"),
        Image(None, "AAAA", "image/png"),
        File("a.pdf", "BBBB", None, "application/pdf"),
    ]
    body = get("openai_chat").encode_request(Request("m", [Message("user", list(parts))]))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}},
    ]
    assert get("openai_chat").decode_request(body).messages[0].parts == parts


def test_images_in_results_where_the_endpoint_takes_them() -> None:
    result = ToolResult("i", "ping", [Text("see"), Image(None, "AAAA", "image/png")])
    request = Request("m", [HELLO, Message("assistant", [CALL]), Message("tool", [result])])
    body = get("openai_chat", Quirks(result_images=True)).encode_request(request)
    assert [block["type"] for block in body["messages"][2]["content"]] == ["text", "image_url"]
    assert len(body["messages"]) == 3


@pytest.mark.parametrize(
    ("quirks", "roles"),
    [
        ({}, ["system", "user", "system", "user"]),
        ({"developer_role": True}, ["developer", "user", "developer", "user"]),
        ({"system_first": True}, ["system", "user", "user", "user"]),
        ({"system_first": True, "alternates": True}, ["system", "user"]),
    ],
)
def test_system_messages_stand_where_the_endpoint_takes_them(quirks: dict[str, Any], roles: list[str]) -> None:
    brief = Message("system", [Text("Be brief.")])
    body = get("openai_chat", Quirks(**quirks)).encode_request(Request("m", [brief, HELLO, brief, HELLO]))
    assert [message["role"] for message in body["messages"]] == roles


def test_a_template_that_needs_a_user_gets_one() -> None:
    brief = Message("system", [Text("Be brief.")])
    body = get("openai_chat", Quirks(needs_user=True)).encode_request(Request("m", [brief]))
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
