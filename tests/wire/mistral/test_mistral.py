"""What Mistral demands beyond chat completions."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from mistralai.client import models
from tests.wire.rules import violations
from tests.wire.rules.samples import valid

from dragoman.types import File, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire import Quirks, get

HELLO = Message("user", [Text("Hello")])


def encode(*messages: Message, options: dict[str, Any] | None = None, **quirks: Any) -> dict[str, Any]:
    body = get("mistral", Quirks(**quirks)).encode_request(
        Request("m", list(messages), [Tool("ping", "Ping")], options or {})
    )
    assert violations("mistral", body) == []
    return body


@pytest.mark.parametrize(
    "identity", ["call_1", "toolu_01A09q90qw90lq917835lq9", "", "functions.x:0", "ü" * 9, "abc123XYZ"]
)
def test_ids_are_nine_letters_and_digits_and_the_same_in_call_and_result(identity: str) -> None:
    calling = Message("assistant", [ToolCall(identity, "ping", {})])
    body = encode(HELLO, calling, Message("tool", [ToolResult(identity, "ping", "pong")]))
    written = body["messages"][1]["tool_calls"][0]["id"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", written)
    assert body["messages"][2]["tool_call_id"] == written
    assert (written == identity) == (identity == "abc123XYZ")


def test_an_assistant_stands_between_results_and_the_user() -> None:
    calling = Message("assistant", [ToolCall("abc123XYZ", "ping", {})])
    body = encode(HELLO, calling, Message("tool", [ToolResult("abc123XYZ", "", "pong")]), HELLO)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert body["messages"][2]["name"] == "ping"
    assert body["messages"][1]["content"] == ""


def test_an_assistant_at_the_end_is_a_beginning() -> None:
    assert encode(HELLO, Message("assistant", [Text("Once")]))["messages"][1]["prefix"] is True


def test_its_own_names_of_options() -> None:
    body = encode(HELLO, options={"max_tokens": 5, "seed": 1, "tool_choice": "required", "stream": True, "top_k": 3})
    wanted = {"max_tokens": 5, "random_seed": 1, "tool_choice": "any", "stream": True, "top_k": 3}
    assert {key: value for key, value in body.items() if key not in ("model", "messages", "tools")} == wanted
    decoded = get("mistral").decode_request(body).options
    assert decoded == {"max_tokens": 5, "seed": 1, "tool_choice": "required", "stream": True, "top_k": 3}


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "signature": "s"}


def test_reasoning_is_a_block_of_the_content_and_goes_back_to_models_that_reason() -> None:
    body = {"choices": [{"message": {"content": [THINKING, {"type": "text", "text": "Yes."}]}}]}
    reply = get("mistral").decode_reply(body)
    assert reply.message.parts == [Thinking("Hm.", {"mistral": {"field": "thinking", "signature": "s"}}), Text("Yes.")]
    again = encode(HELLO, reply.message, HELLO, replay_reasoning="always")
    assert again["messages"][1]["content"] == [THINKING, {"type": "text", "text": "Yes."}]
    assert encode(HELLO, reply.message, HELLO)["messages"][1]["content"] == "Yes."


def test_arguments_may_come_as_an_object() -> None:
    body = {
        "choices": [
            {"message": {"tool_calls": [{"id": "abc123XYZ", "function": {"name": "p", "arguments": {"a": 1}}}]}}
        ]
    }
    assert get("mistral").decode_reply(body).calls[0].arguments == {"a": 1}


def test_files_are_documents() -> None:
    file = File("a.pdf", "AAAA", None, "application/pdf")
    body = encode(Message("user", [Text("Read"), file]))
    assert body["messages"][0]["content"][1]["type"] == "document_url"
    assert get("mistral").decode_request(body).messages[0].parts[1] == file


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (
            400,
            {"object": "error", "message": "Unexpected role", "type": "invalid_request_error", "code": "3230"},
            "bad_request",
            "Unexpected role",
        ),
        (
            422,
            {"detail": [{"msg": "Extra inputs are not permitted", "loc": ["body", "x"]}]},
            "bad_request",
            "Extra inputs are not permitted",
        ),
        (429, {"message": "slow down"}, "rate_limited", "slow down"),
    ],
)
def test_errors(status: int, body: Any, kind: str, message: str) -> None:
    failure = get("mistral").decode_failure(status, body)
    assert (failure.kind, failure.message) == (kind, message)


def test_the_documented_fields_are_those_of_the_official_client() -> None:
    fields = {name: 1 for name in models.ChatCompletionRequest.model_fields if name not in ("messages", "tools")}
    union = get_args(get_args(models.ContentChunk)[0])
    blocks = [dict.fromkeys(kind.model_fields, "x") for kind in union if kind.model_config.get("frozen") is not True]
    message = Message("user", [Text("", {"mistral": {"block": block}}) for block in blocks])
    codec = get("mistral", Quirks(standard_fields_only=True))
    prepared = codec.prepare(Request("m", [message], [], {"mistral": fields}))
    assert fields.keys() <= prepared.body.keys()
    assert prepared.body["messages"][0]["content"] == blocks
    assert len(blocks) > 8
    assert not prepared.losses


def test_the_official_sample_comes_back_as_it_was() -> None:
    codec = get("mistral", Quirks(replay_reasoning="always"))
    body = valid("mistral")
    written = codec.encode_request(codec.decode_request(body))
    assert violations("mistral", written) == []
    assert [message["role"] for message in written["messages"]] == [message["role"] for message in body["messages"]]
