"""What the seed systems say of wires: their JSON blocks, their table, and the facts recorded from their own tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import args
from dragoman.errors import UnknownProvider
from dragoman.replies import fold
from dragoman.types import InvalidCall, Message, Request, Text, ToolCall
from dragoman.wire import Quirks, framing, get
from dragoman.wire.conversion import get_style

PING = {"name": "ping", "description": "Ping", "parameters": {"type": "object"}}
SHELL = {
    "name": "shell",
    "description": "Execute a shell command",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
DATE = ("shell", {"command": "date"})


def found(body: Any, provider: str) -> list[tuple[str, dict[str, Any], str]]:
    return [(call.name, call.arguments, call.id) for call in dragoman.decode_tool_calls(body, provider)]


# ---- seed 000: two shapes of native calls --------------------------------------------------------------------------

CHAT_MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_abc", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "/tmp/foo"}'}}
    ],
}
CLAUDE_MESSAGE = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_abc", "name": "read_file", "input": {"path": "/tmp/foo"}}],
}


def test_both_native_shapes_give_the_same_call() -> None:
    assert found(CHAT_MESSAGE, "openai") == [("read_file", {"path": "/tmp/foo"}, "call_abc")]
    assert found(CLAUDE_MESSAGE, "anthropic") == [("read_file", {"path": "/tmp/foo"}, "toolu_abc")]


@pytest.mark.parametrize(("message", "wire"), [(CHAT_MESSAGE, "openai_chat"), (CLAUDE_MESSAGE, "anthropic")])
def test_a_message_with_calls_and_no_text_is_written_as_the_seed_shows_it(message: Any, wire: str) -> None:
    request = get(wire).decode_request({"messages": [{"role": "user", "content": "go"}, message]})
    written = get(wire).encode_request(request)["messages"][1]
    expected = json.loads(json.dumps(message))
    for call in expected.get("tool_calls", ()):
        call["function"]["arguments"] = call["function"]["arguments"].replace(" ", "")
    assert written == expected


@pytest.mark.parametrize(("style", "expected"), [("null", {"content": None}), ("", {"content": ""}), ("omit", {})])
def test_content_without_text_is_null_unless_the_endpoint_wants_otherwise(style: Any, expected: Any) -> None:
    request = Request("m", [Message("user", [Text("go")]), Message("assistant", [ToolCall("i", "t", {})])])
    written = get("openai_chat", Quirks(empty_content=style)).encode_request(request)["messages"][1]
    assert {key: value for key, value in written.items() if key == "content"} == expected


# ---- seed 003: three verbs, and a table of what differs ------------------------------------------------------------


def test_the_ping_example() -> None:
    (encoded,) = dragoman.encode_definitions([PING], "openai")
    assert encoded["type"] == "function"
    assert encoded["function"]["name"] == "ping"


@pytest.mark.parametrize(
    ("provider", "definition"),
    [
        ("openai", {"type": "function", "function": PING}),
        ("ollama", {"type": "function", "function": PING}),
        ("anthropic", {"name": "ping", "description": "Ping", "input_schema": {"type": "object"}}),
    ],
)
def test_definitions_are_wrapped_as_the_table_says(provider: str, definition: Any) -> None:
    assert dragoman.encode_definitions([PING], provider) == [definition]


def test_gemini_groups_its_declarations_with_upper_case_types() -> None:
    nested = {
        "name": "shell",
        "description": "Execute",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "env": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "integer"}}}},
            },
        },
    }
    assert dragoman.encode_definitions([nested, PING], "gemini") == [
        {
            "functionDeclarations": [
                {
                    "name": "shell",
                    "description": "Execute",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {
                            "command": {"type": "STRING"},
                            "env": {
                                "type": "ARRAY",
                                "items": {"type": "OBJECT", "properties": {"k": {"type": "INTEGER"}}},
                            },
                        },
                    },
                },
                {"name": "ping", "description": "Ping"},
            ]
        }
    ]


RESULT = {"tool_call_id": "id1", "name": "ping", "content": "pong"}


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("openai", {"role": "tool", "tool_call_id": "id1", "content": "pong"}),
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "id1", "content": "pong"}]}),
        ("ollama", {"role": "tool", "content": "pong"}),
    ],
)
def test_results_have_the_role_and_the_reference_of_the_table(provider: str, message: Any) -> None:
    assert dragoman.encode_result(RESULT, provider) == message


def test_an_error_is_flagged_only_when_it_is_one() -> None:
    failed = dragoman.encode_result({**RESULT, "is_error": True}, "anthropic")
    assert failed["content"][0]["is_error"] is True


def test_gemini_answers_with_a_function_response() -> None:
    encoded = dragoman.encode_result(RESULT, "gemini")
    assert encoded["role"] == "user"
    assert encoded["parts"][0]["functionResponse"]["name"] == "ping"
    assert encoded["parts"][0]["functionResponse"]["response"] == {"output": "pong"}


@pytest.mark.parametrize("provider", [*dragoman.wire.names(), "groq", "deepseek"])
def test_a_reply_without_calls_gives_an_empty_list(provider: str) -> None:
    for body in ({}, [], None, "", {"choices": []}, {"content": []}, {"message": {}}, {"candidates": []}):
        assert dragoman.decode_tool_calls(body, provider) == []


def test_an_unknown_provider_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownProvider) as caught:
        dragoman.encode_definitions([PING], "anthropics")
    assert caught.value.nearest == "anthropic"
    assert "openai" in caught.value.explain()


def test_ollama_calls_have_no_id_on_the_wire_and_one_of_ours() -> None:
    body = {"message": {"tool_calls": [{"function": {"name": "search", "arguments": {"q": "x"}}}]}}
    (call,) = dragoman.decode_tool_calls(body, "ollama")
    assert (call.name, call.arguments, call.wire_id, call.id) == ("search", {"q": "x"}, None, "call_1")


def test_ollama_requests_name_the_tool_that_a_result_is_of() -> None:
    request = Request(
        "m",
        [
            Message("user", [Text("go")]),
            Message("assistant", [ToolCall("i", "ping", {})]),
            Message("tool", [dragoman.ToolResult("i", content="pong")]),
        ],
    )
    assert get("ollama").encode_request(request)["messages"][2]["tool_name"] == "ping"


# ---- seed 004: bodies ----------------------------------------------------------------------------------------------


def test_requests_carry_the_shell_tool_as_the_seed_shows_it() -> None:
    request = Request("gpt-4", [Message("user", [Text("What day is it?")])], list(dragoman.Toolset([SHELL])))
    assert get("openai_chat").encode_request(request)["tools"] == [{"type": "function", "function": SHELL}]
    claude = {"name": "shell", "description": "Execute a shell command", "input_schema": SHELL["parameters"]}
    assert get("anthropic").encode_request(request)["tools"] == [claude]
    declared = {
        "name": "shell",
        "description": "Execute a shell command",
        "parameters": {"type": "OBJECT", "properties": {"command": {"type": "STRING"}}},
    }
    assert get("gemini").encode_request(request)["tools"] == [{"functionDeclarations": [declared]}]


BODIES = {
    "openai_chat": {
        "choices": [
            {
                "message": {
                    "content": "Let me check the date.",
                    "tool_calls": [
                        {
                            "id": "call_abc123",
                            "type": "function",
                            "function": {"name": "shell", "arguments": '{"command": "date"}'},
                        }
                    ],
                }
            }
        ]
    },
    "anthropic": {
        "content": [
            {"type": "text", "text": "Let me check the date."},
            {"type": "tool_use", "id": "toolu_123", "name": "shell", "input": {"command": "date"}},
        ]
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "Let me check the date."},
                        {"functionCall": {"name": "shell", "args": {"command": "date"}}},
                    ]
                }
            }
        ]
    },
}


@pytest.mark.parametrize("wire", BODIES)
def test_text_beside_calls_is_kept(wire: str) -> None:
    reply = get(wire).decode_reply(BODIES[wire])
    assert reply.text == "Let me check the date."
    assert [(call.name, call.arguments) for call in reply.calls] == [DATE]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tool_call", {"name": "shell", "arguments": {"command": "date"}}),
        ("tool.call", {"name": "shell", "arguments": {"command": "date"}}),
        ("tool_call><json", {"name": "shell", "arguments": {"command": "date"}}),
        ("tool.shell", {"command": "date"}),
    ],
)
def test_ollama_calls_wrapped_in_another_name_are_unwrapped_and_say_so(name: str, arguments: Any) -> None:
    body = {"message": {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}}
    (call,) = dragoman.decode_tool_calls(body, "ollama")
    assert (call.name, call.arguments) == DATE
    assert call.repairs[0].startswith("unwrapped")


def test_a_tool_that_is_really_called_tool_call_is_left_alone() -> None:
    codec = get("ollama")
    offered = list(dragoman.Toolset([{"name": "tool_call"}, {"name": "tool.shell"}]))
    sent = codec.prepare(Request("m", [Message("user", [Text("go")])], offered))
    calls = [{"function": {"name": name, "arguments": {"name": "shell"}}} for name in ("tool_call", "tool.shell")]
    assert [call.name for call in codec.decode_reply({"message": {"tool_calls": calls}}, sent).calls] == [
        "tool_call",
        "tool.shell",
    ]


@pytest.mark.parametrize(
    ("content", "on", "off"), [(None, "deep thought", ""), ("", "deep thought", ""), (" ", " ", " ")]
)
def test_reasoning_is_taken_for_the_answer_only_by_a_flag(content: str | None, on: str, off: str) -> None:
    body = {"choices": [{"message": {"content": content, "reasoning_content": "deep thought"}}]}
    assert get("openai_chat").decode_reply(body).text == off
    assert get("openai_chat", Quirks(reasoning_as_content=True)).decode_reply(body).text == on


STORED = [
    {
        "role": "assistant",
        "content": '{"content":"Let me check that for you.","tool_calls":'
        '[{"id":"call_abc123","name":"shell","arguments":"{\\"command\\":\\"date\\"}"}]}',
    },
    {"role": "tool", "content": '{"tool_call_id":"call_abc123","content":"Fri Jan 10 14:30:00 UTC 2025"}'},
]


def test_the_style_content_json_reads_and_writes_calls_inside_content() -> None:
    style = get_style("content_json")
    messages = style.read(STORED)
    assert [(part.name, part.arguments) for part in messages[0].parts if isinstance(part, ToolCall)] == [DATE]
    assert messages[0].text == "Let me check that for you."
    assert style.write(messages) == STORED


def test_without_the_style_an_answer_that_looks_like_calls_stays_an_answer() -> None:
    request = get("openai_chat").decode_request({"messages": STORED[:1]})
    assert request.messages == [Message("assistant", [Text(STORED[0]["content"])])]


# ---- recorded facts ------------------------------------------------------------------------------------------------

Row = dict[str, Any]
KINDS = ("native", "encode_definition", "encode_result")


@pytest.fixture(scope="module")
def rows(shared_data: Callable[[str], Path]) -> dict[str, Row]:
    with gzip.open(shared_data("seed_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        recorded = [json.loads(line) for line in lines]
    return {row["id"]: row for row in recorded if row["kind"] in KINDS}


def decode(given: Any) -> list[ToolCall]:
    """The calls of a row's input, which is a body, a list of calls or one call."""
    entries = given if isinstance(given, list) else [given]
    claude = any(isinstance(entry, dict) and entry.get("type") == "tool_use" for entry in entries)
    provider = given.get("provider", "openai") if isinstance(given, dict) else "anthropic" if claude else "openai"
    body = given.get("body", given) if isinstance(given, dict) else given
    return dragoman.decode_tool_calls(body, provider)


def compare(calls: list[ToolCall], expected: list[Row]) -> None:
    assert [(call.name, call.arguments) for call in calls] == [(row["name"], row["arguments"]) for row in expected]
    for call, row in zip(calls, expected, strict=True):
        if row.get("id"):
            assert call.id == row["id"]


def test_native_rows_to_keep(rows: dict[str, Row]) -> None:
    checked = 0
    for row in rows.values():
        if (row["kind"], row["verdict"]) != ("native", "keep"):
            continue
        given, expected = row["input"], row["expected"]
        if "calls" in expected:
            compare(decode(given), expected["calls"])
        elif "arguments_json" in expected:
            assert replay(given["sanitize_arguments"])["arguments"] == expected["arguments_json"]
        else:
            assert args.load(given["validate"], given["tool"]).ok is expected["valid"]
        checked += 1
    assert checked == 14


def replay(arguments: str) -> Row:
    """A call with these arguments, read from a reply and sent back in the history."""
    body = {"choices": [{"message": {"tool_calls": [{"id": "i", "function": {"name": "t", "arguments": arguments}}]}}]}
    reply = get("openai_chat").decode_reply(body)
    request = Request("m", [Message("user", [Text("go")]), reply.message])
    function: Row = get("openai_chat").encode_request(request)["messages"][1]["tool_calls"][0]["function"]
    return function


def test_native_rows_that_we_read_otherwise(rows: dict[str, Row]) -> None:
    """By our rules arguments are never guessed: nested texts stay texts, and what is no object is an invalid call."""
    texts = {
        "zeroclaw-native-001": {"service": "gmail", "params": '{"maxResults":3}'},
        "zeroclaw-native-003": {"items": "[1,2,3]"},
    }
    for name, arguments in texts.items():
        (call,) = decode(rows[name]["input"])
        assert call.arguments == arguments
    for name in ("zeroclaw-native-021", "zeroclaw-native-022"):
        assert invalid([{"function": {"name": "t", "arguments": rows[name]["input"]["sanitize_arguments"]}}]) == ["t"]
    assert invalid(rows["exathena-native-005"]["input"]) == ["t"]
    assert invalid([rows["exathena-native-009"]["input"][0]["stream_chunk"]]) == [""]
    assert invalid(rows["llmcore-native-002"]["input"]["body"]) == ["search"]
    (nameless,) = decode(rows["llmcore-native-004"]["input"])
    assert (nameless.name, nameless.arguments, nameless.id, nameless.wire_id) == ("x", {}, "call_1", None)
    (ollama,) = decode(rows["llmcore-native-006"]["input"])
    assert (ollama.name, ollama.arguments, ollama.wire_id) == ("search", {"q": "x"}, None)
    overruled = {name for name, row in rows.items() if (row["kind"], row["verdict"]) == ("native", "overruled")}
    assert overruled == {
        *texts,
        "zeroclaw-native-021",
        "zeroclaw-native-022",
        "exathena-native-005",
        "exathena-native-009",
        "llmcore-native-002",
        "llmcore-native-004",
        "llmcore-native-006",
    }


def invalid(body: Any) -> list[str]:
    codec = get("openai_chat")
    reply = codec.decode_reply(codec.find_calls(body))
    assert reply.calls == []
    return [part.name for part in reply.message.parts if isinstance(part, InvalidCall)]


def test_the_hole_that_lost_arguments(rows: dict[str, Row]) -> None:
    """Deltas without an index belong to the call before them."""
    stream = get("openai_chat").reply_stream()
    deltas = rows["zeroclaw-native-024"]["input"]["stream_deltas"]
    chunks = [framing.encode_sse(None, json.dumps({"choices": [{"delta": delta}]})) for delta in deltas]
    reply = fold([event for chunk in [*chunks, framing.encode_sse(None, "[DONE]")] for event in stream.feed(chunk)])
    assert [(call.name, call.arguments, call.id) for call in reply.calls] == [("f", {"a": 1}, "c1")]


def test_definition_rows(rows: dict[str, Row]) -> None:
    for name in ("llmcore-encode_definition-002", "llmcore-encode_definition-003"):
        given = rows[name]["input"]
        assert dragoman.encode_definitions([given["tool"]], given["provider"]) == [rows[name]["expected"]["json"]]
    expected = rows["zeroclaw-encode_definition-001"]["expected"]
    offered = list(dragoman.Toolset([{"name": "a"}, {"name": "b"}]))
    asked = [Message("user", [Text("go")])]
    body = get("anthropic").encode_request(Request("m", asked, offered, {"cache": True}))
    assert body["tools"][-1]["cache_control"] == expected["last_tool_has"]["cache_control"]
    assert all(expected["schema_key"] in tool for tool in body["tools"])
    assert "tools" not in get("anthropic").encode_request(Request("m", asked))
    assert {name for name, row in rows.items() if row["kind"] == "encode_definition"} == {
        "llmcore-encode_definition-002",
        "llmcore-encode_definition-003",
        "zeroclaw-encode_definition-001",
    }


def test_result_rows_to_keep(rows: dict[str, Row]) -> None:
    kept = [row for row in rows.values() if (row["kind"], row["verdict"]) == ("encode_result", "keep")]
    assert len(kept) == 3
    for row in kept:
        assert dragoman.encode_result(row["input"]["result"], row["input"]["provider"]) == row["expected"]["json"]


def test_result_rows_that_hold_in_the_style_content_json(rows: dict[str, Row]) -> None:
    style = get_style("content_json")
    result = rows["zeroclaw-encode_result-002"]
    (given,) = result["input"]["results"]
    stored = style.write([Message("tool", [dragoman.ToolResult(given["tool_call_id"], content=given["output"])])])
    assert stored[0]["role"] == result["expected"]["role"]
    assert json.loads(stored[0]["content"]) == result["expected"]["content_json"]

    turn = rows["zeroclaw-encode_result-004"]
    said = turn["input"]["assistant"]
    calls = [ToolCall(call["id"], call["name"], call["arguments"]) for call in said["calls"]]
    message = Message("assistant", [dragoman.Thinking(said["reasoning"]), Text(said["text"]), *calls])
    assert json.loads(style.write([message])[0]["content"]) == turn["expected"]["json"]


def test_result_rows_that_we_write_by_the_rules_of_the_wire(rows: dict[str, Row]) -> None:
    """The seed gives "" for content that is not there; this wire's own form is null, and the flag gives the seed's."""
    row = rows["llmcore-encode_result-004"]
    given = row["input"]["assistant"]["tool_calls"][0]
    turn = Message("assistant", [ToolCall(given["id"], given["name"], given["arguments"])])
    request = Request("m", [Message("user", [Text("go")]), turn])
    assert (
        get("openai_chat", Quirks(empty_content="")).encode_request(request)["messages"][1] == row["expected"]["json"]
    )
    assert get("openai_chat").encode_request(request)["messages"][1]["content"] is None
    overruled = {name for name, row in rows.items() if (row["kind"], row["verdict"]) == ("encode_result", "overruled")}
    # The last one is a transcript for a command line program, a verb that we do not have.
    assert overruled == {
        "zeroclaw-encode_result-002",
        "zeroclaw-encode_result-004",
        "llmcore-encode_result-004",
        "llmcore-encode_result-005",
    }
