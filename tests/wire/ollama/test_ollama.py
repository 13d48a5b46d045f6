"""What is particular about Ollama: lines, objects, no tool choice, images as data."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.rules import violations

from dragoman.replies import fold, unfold
from dragoman.types import File, Image, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult, Usage
from dragoman.wire import Quirks, get

HELLO = Message("user", [Text("Hello")])
TOOLS = [Tool("search", "Search"), Tool("ping", "Ping")]
PIXEL = "iVBORw0KGgo="


def prepare(
    *messages: Message, options: dict[str, Any] | None = None, **quirks: Any
) -> tuple[dict[str, Any], list[str]]:
    prepared = get("ollama", Quirks(**quirks)).prepare(Request("m", list(messages), TOOLS, options or {}))
    assert violations("ollama", prepared.body) == []
    return prepared.body, [str(loss) for loss in prepared.losses]


def test_streaming_is_said_because_the_server_streams_unless_told_otherwise() -> None:
    assert prepare(HELLO)[0]["stream"] is False
    assert prepare(HELLO, options={"stream": True})[0]["stream"] is True
    assert get("ollama").decode_request({"messages": []}).options == {"stream": True}
    assert get("ollama").decode_request({"messages": [], "stream": False}).options == {}


def test_options_go_inside_options() -> None:
    given = {
        "max_tokens": 5,
        "temperature": 0.1,
        "stop": ["x"],
        "top_k": 2,
        "ollama": {"keep_alive": "5m", "options": {"mirostat": 1}},
    }
    body, report = prepare(HELLO, options=given, context_window=8192)
    assert body["options"] == {
        "num_predict": 5,
        "temperature": 0.1,
        "stop": ["x"],
        "top_k": 2,
        "num_ctx": 8192,
        "mirostat": 1,
    }
    assert body["keep_alive"] == "5m"
    assert report == []
    decoded = get("ollama").decode_request(body).options
    assert decoded == {
        "max_tokens": 5,
        "temperature": 0.1,
        "stop": ["x"],
        "top_k": 2,
        "ollama": {"keep_alive": "5m", "options": {"num_ctx": 8192, "mirostat": 1}},
    }


@pytest.mark.parametrize(
    ("reasoning", "think"),
    [({"effort": "high"}, "high"), ({"enabled": False}, False), ({"budget": 5}, True), ({"effort": "none"}, False)],
)
def test_thinking_is_a_switch_or_an_effort(reasoning: Any, think: Any) -> None:
    assert prepare(HELLO, options={"reasoning": reasoning})[0]["think"] == think


@pytest.mark.parametrize(
    ("choice", "names", "words"),
    [
        ("auto", ["search", "ping"], None),
        ("none", None, "no tools are offered"),
        ("required", ["search", "ping"], "not honoured"),
        ({"name": "ping"}, ["ping"], "only the tools that it allows"),
    ],
)
def test_without_a_tool_choice_fewer_tools_are_offered(choice: Any, names: Any, words: str | None) -> None:
    body, report = prepare(HELLO, options={"tool_choice": choice})
    assert (None if "tools" not in body else [tool["function"]["name"] for tool in body["tools"]]) == names
    assert ([] if words is None else [words]) == [words for line in report if words and words in line]


def test_arguments_are_objects_and_results_name_their_tool() -> None:
    calling = Message("assistant", [Text("Wait."), ToolCall("i", "ping", {"a": [1]})])
    body, _ = prepare(HELLO, calling, Message("tool", [ToolResult("i", "", "pong")]))
    assert body["messages"][1] == {
        "role": "assistant",
        "content": "Wait.",
        "tool_calls": [{"id": "i", "function": {"name": "ping", "arguments": {"a": [1]}}}],
    }
    assert body["messages"][2] == {"role": "tool", "content": "pong", "tool_name": "ping", "tool_call_id": "i"}


def test_images_are_data_and_nothing_else() -> None:
    body, report = prepare(
        Message("user", [Text("See"), Image(None, PIXEL, "image/png"), Image("https://x/y.png"), File("a.zip", "AAAA")])
    )
    words = "See\n[image: not available]\n[file a.zip: not available]"
    assert body["messages"][0] == {"role": "user", "content": words, "images": [PIXEL]}
    assert len(report) == 2
    assert get("ollama").decode_request(body).messages[0].parts == [Text(words), Image(None, PIXEL, "image/png")]


def test_images_of_a_reply_are_read_and_written() -> None:
    made = get("ollama").decode_reply(
        {"message": {"role": "assistant", "content": "See", "images": [PIXEL]}, "done": True, "done_reason": "stop"}
    )
    assert made.message.parts == [Text("See"), Image(None, PIXEL, "image/png")]
    assert get("ollama").encode_reply(made)["message"]["images"] == [PIXEL]
    writer, reader = get("ollama").event_stream(model="m"), get("ollama").reply_stream()
    lines = [line for event in unfold(made) for line in writer.feed(event)] + writer.close()
    assert fold([event for line in lines for event in reader.feed(line)] + reader.close()).message == made.message


def test_results_without_ids_find_their_calls() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"function": {"name": name, "arguments": {}}}

    body = {
        "messages": [
            {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "content": "from b", "tool_name": "b"},
            {"role": "tool", "content": "from a", "tool_name": "a"},
            {"role": "assistant", "content": "", "tool_calls": [call("a")]},
            {"role": "tool", "content": "again"},
        ]
    }
    messages = get("ollama").decode_request(body).messages
    ids = [[part.id for part in message.parts if isinstance(part, ToolCall)] for message in messages]
    assert ids == [["call_1", "call_2"], [], ["call_3"], []]
    assert messages[1].parts == [ToolResult("call_2", "b", "from b"), ToolResult("call_1", "a", "from a")]
    assert messages[3].parts == [ToolResult("call_3", "a", "again")]


def test_thinking_comes_and_goes_in_its_own_field() -> None:
    body = {"message": {"content": "Yes.", "thinking": "Hm."}, "done": True, "done_reason": "stop"}
    reply = get("ollama").decode_reply(body)
    assert reply.message.parts == [Thinking("Hm.", {"ollama": {"field": "thinking"}}), Text("Yes.")]
    assert prepare(HELLO, reply.message, HELLO)[0]["messages"][1] == {
        "role": "assistant",
        "content": "Yes.",
        "thinking": "Hm.",
    }


def test_the_end_counts_tokens() -> None:
    body = {"message": {"content": "x"}, "done": True, "done_reason": "length", "prompt_eval_count": 3, "eval_count": 4}
    reply = get("ollama").decode_reply(body)
    assert (reply.usage, reply.stop) == (Usage(3, 4), "length")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": "registry.ollama.ai/library/x does not support tools"}, "bad_request"),
        ({"error": "model 'x' not found"}, "not_found"),
    ],
)
def test_errors_are_plain_texts(body: Any, kind: str) -> None:
    failure = get("ollama").decode_failure(400 if kind == "bad_request" else 404, body)
    assert (failure.kind, failure.message) == (kind, body["error"])


def test_an_error_in_the_middle_ends_the_reply() -> None:
    stream = get("ollama").reply_stream()
    reply = fold(
        stream.feed(b'{"message":{"content":"Ha"},"done":false}\n{"error":"runner stopped"}\n') + stream.close()
    )
    assert reply.text == "Ha"
    assert reply.failure is not None
    assert reply.failure.message == "runner stopped"
