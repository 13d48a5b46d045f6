"""The conversation of a request as it is sent: order, pairing, ids and names, thinking, images and files."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.wire.rules import violations

from dragoman.types import (
    Fault,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire.quirks import Quirks

from .asking import CODEC, HELLO, MODEL, body_of, prepare, reports, used
from .samples import PIXEL, TOOLS

# ---- conversation ----------------------------------------------------------------------------------------------------


def test_the_smallest_request_names_the_most_tokens() -> None:
    assert prepare().body == {"model": MODEL, "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]}


def test_system_messages_stand_apart_and_later_ones_become_labelled_user_text() -> None:
    sent = prepare([Message("system", [Text("Be brief.")]), HELLO, Message("system", [Text("Now in German.")])])
    assert sent.body["system"] == "Be brief."
    assert sent.body["messages"][0]["content"][1]["text"] == "<system>\nNow in German.\n</system>"
    assert reports(sent) == ["moved"]


def test_results_and_the_words_behind_them_are_one_user_message_with_the_results_first() -> None:
    body = body_of(
        HELLO,
        Message(
            "assistant", [Text("Both."), ToolCall("a", "ping", {}), ToolCall("b", "get_weather", {"city": "Oslo"})]
        ),
        Message("tool", [ToolResult("b", content="rain")]),
        Message("tool", [ToolResult("a", content="pong", is_error=True)]),
        Message("user", [Text("And?")]),
        tools=TOOLS,
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Both."},
                {"type": "tool_use", "id": "a", "name": "ping", "input": {}},
                {"type": "tool_use", "id": "b", "name": "get_weather", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "pong", "is_error": True},
                {"type": "tool_result", "tool_use_id": "b", "content": "rain"},
                {"type": "text", "text": "And?"},
            ],
        },
    ]


def test_text_behind_a_call_stays_there() -> None:
    body = body_of(*used(ToolCall("a", "ping", {}), Text("One moment.")), tools=TOOLS)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use", "text"]


def test_a_call_without_a_result_is_answered_and_a_result_without_a_call_is_told() -> None:
    messages = [
        HELLO,
        Message("assistant", [ToolCall("a", "ping", {})]),
        Message("tool", [ToolResult("z", content="?")]),
    ]
    sent = prepare(messages, TOOLS)
    result, orphan = sent.body["messages"][2]["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("a", True)
    assert "whose call is not in this conversation" in orphan["text"]
    assert sorted(reports(sent)) == ["inserted", "moved"]


def test_an_unreadable_call_goes_out_without_arguments_and_its_text_in_the_result() -> None:
    broken = InvalidCall("a", "ping", '{"x": ', (Fault("$", "cut off"),))
    body = body_of(HELLO, Message("assistant", [broken]), tools=TOOLS)
    assert body["messages"][1]["content"] == [{"type": "tool_use", "id": "a", "name": "ping", "input": {}}]
    (result,) = body["messages"][2]["content"]
    assert result["is_error"] is True
    assert '{"x": ' in result["content"]


def test_ids_and_names_are_those_of_the_wire_and_come_back() -> None:
    tool = Tool("fs.read/" + "x" * 130, "Read", {"type": "object"})
    sent = prepare(used(ToolCall("functions.read:0", tool.name, {})), [tool])
    (call,) = sent.body["messages"][1]["content"]
    assert sent.body["messages"][2]["content"][0]["tool_use_id"] == call["id"]
    assert sent.aliases.name(call["name"]) == tool.name
    assert sent.aliases.ids[call["id"]] == "functions.read:0"
    assert reports(sent) == ["renamed"]


@pytest.mark.parametrize("text", [" ", "\n\t"])
def test_blank_text_is_left_out_and_reported(text: str) -> None:
    sent = prepare([Message("user", [Text(text), Text("Hi")]), Message("assistant", [Text(text)]), HELLO])
    assert sent.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}] * 2}]
    assert reports(sent) == ["dropped", "dropped", "dropped"]


def test_empty_text_and_empty_messages_leave_nothing() -> None:
    sent = prepare([Message("user", [Text("")]), HELLO, Message("assistant", []), Message("user", [])])
    assert sent.body["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("messages", [[], [Message("system", [Text("Be brief.")])], [Message("user", [Text("")])]])
def test_a_conversation_in_which_nobody_speaks_gets_a_first_message(messages: list[Message]) -> None:
    sent = CODEC.prepare(Request(MODEL, messages))
    assert violations("anthropic", sent.body) == []
    assert reports(sent)[-1:] == ["inserted"]


def test_the_assistant_does_not_begin() -> None:
    sent = prepare([Message("assistant", [Text("Welcome.")]), HELLO])
    assert sent.body["messages"][0]["role"] == "user"
    assert reports(sent) == ["inserted"]


def test_white_space_at_the_end_of_the_last_answer_is_stripped_and_reported() -> None:
    sent = prepare([HELLO, Message("assistant", [Text("The answer is \n")])])
    assert sent.body["messages"][-1] == {"role": "assistant", "content": "The answer is"}
    assert reports(sent) == ["stripped"]


def test_white_space_elsewhere_stays() -> None:
    assert body_of(HELLO, Message("assistant", [Text("So ")]), HELLO)["messages"][1]["content"] == "So "


def test_nothing_that_was_given_is_changed() -> None:
    block = {"type": "container_upload", "file_id": "f"}
    request = Request(
        MODEL,
        [
            Message(
                "user", [Text("", {"anthropic": {"block": block}}), Text("x", {"anthropic": {"cache_control": None}})]
            )
        ],
        TOOLS,
        {"cache": True, "anthropic": {"tools": [{"type": "web_search_20260318", "name": "web_search"}]}},
    )
    before = copy.deepcopy(request)
    first = CODEC.encode_request(request)
    assert request == before
    assert CODEC.encode_request(request) == first


# ---- images and files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (Image(data=PIXEL, media_type="image/png"), {"type": "base64", "media_type": "image/png", "data": PIXEL}),
        (Image(data=PIXEL), {"type": "base64", "media_type": "image/png", "data": PIXEL}),
        (
            Image(data="/9j/AAAA", media_type="image/jpg"),
            {"type": "base64", "media_type": "image/jpeg", "data": "/9j/AAAA"},
        ),
        (Image(f"data:image/png;base64,{PIXEL}"), {"type": "base64", "media_type": "image/png", "data": PIXEL}),
        (Image("https://example.org/a.png"), {"type": "url", "url": "https://example.org/a.png"}),
        (Image(extra={"anthropic": {"source": {"type": "file", "file_id": "f"}}}), {"type": "file", "file_id": "f"}),
        (File("cat", PIXEL, media_type="image/png"), {"type": "base64", "media_type": "image/png", "data": PIXEL}),
    ],
)
def test_images(part: Part, source: JsonObject) -> None:
    assert body_of(Message("user", [part]))["messages"][0]["content"] == [{"type": "image", "source": source}]


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (File("a", "JVBERi0="), {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}),
        (File("a", "5paH", media_type="text/markdown"), {"type": "text", "media_type": "text/plain", "data": "文"}),
        (File("a", url="https://example.org/a.pdf"), {"type": "url", "url": "https://example.org/a.pdf"}),
    ],
)
def test_files_are_documents(part: Part, source: JsonObject) -> None:
    expected = [{"type": "document", "source": source, "title": "a"}]
    assert body_of(Message("user", [part]))["messages"][0]["content"] == expected


@pytest.mark.parametrize(
    "part",
    [
        Image(data="AAAA", media_type="image/tiff"),
        Image("gs://bucket/a.png"),
        Image(),
        File("a.zip", "UEsDBA==", media_type="application/zip"),
        File("a.txt", "/w==", media_type="text/plain"),
        File("nothing"),
    ],
)
def test_what_cannot_be_sent_is_told_in_its_place(part: Part) -> None:
    sent = prepare([Message("user", [part])])
    assert sent.body["messages"][0]["content"].endswith(": not available]")
    assert reports(sent) == ["dropped"]


def test_an_image_of_the_assistant_is_told_in_its_place() -> None:
    sent = prepare(used(Text("Look:"), Image(data=PIXEL, media_type="image/png")))
    assert sent.body["messages"][1]["content"][1]["text"] == "[image: it could not be sent]"
    assert reports(sent) == ["dropped"]


def test_results_hold_images_and_files() -> None:
    content: list[Any] = [Text("a map"), Image(data=PIXEL, media_type="image/png"), File("a", "JVBERi0="), Text("")]
    messages = [
        HELLO,
        Message("assistant", [ToolCall("a", "ping", {})]),
        Message("tool", [ToolResult("a", content=content)]),
    ]
    (result,) = body_of(*messages, tools=TOOLS)["messages"][2]["content"]
    assert [block["type"] for block in result["content"]] == ["text", "image", "document"]


def test_a_result_without_words_is_an_empty_text() -> None:
    blank: list[Any] = [Text(" "), Text("")]
    messages = [
        HELLO,
        Message("assistant", [ToolCall("a", "ping", {})]),
        Message("tool", [ToolResult("a", content=blank)]),
    ]
    sent = prepare(messages, TOOLS)
    assert sent.body["messages"][2]["content"][0]["content"] == ""
    assert reports(sent) == ["dropped"]


# ---- thinking in the history -----------------------------------------------------------------------------------------

SIGNED = Thinking("Hm", {"anthropic": {"signature": "S"}})
UNSIGNED = Thinking("Hm", {"anthropic": {"signature": ""}})
FOREIGN = Thinking("Hm", {"openai_chat": {"field": "reasoning_content"}})


def test_signed_and_hidden_thinking_goes_back_as_it_came() -> None:
    hidden = Thinking("", {"anthropic": {"data": "D"}})
    shy = Thinking("", {"anthropic": {"signature": "S"}})
    body = body_of(*used(SIGNED, hidden, shy, ToolCall("a", "ping", {})), tools=TOOLS)
    assert body["messages"][1]["content"][:3] == [
        {"type": "thinking", "thinking": "Hm", "signature": "S"},
        {"type": "redacted_thinking", "data": "D"},
        {"type": "thinking", "thinking": "", "signature": "S"},
    ]


@pytest.mark.parametrize("thought", [UNSIGNED, FOREIGN, Thinking("Hm")])
def test_thinking_without_a_signature_of_this_wire_is_dropped_and_reported(thought: Thinking) -> None:
    sent = prepare(used(thought, Text("So")))
    assert sent.body["messages"][1]["content"] == "So"
    assert reports(sent) == ["dropped"]


def test_unsigned_thinking_goes_back_to_endpoints_that_want_it() -> None:
    body = body_of(*used(UNSIGNED, Text("So")), quirks=Quirks(unsigned_thinking=True))
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": ""}


def test_unsigned_thinking_may_be_kept_as_text() -> None:
    sent = prepare(used(UNSIGNED, Text("So")), quirks=Quirks(foreign_reasoning="text"))
    assert sent.body["messages"][1]["content"][0]["text"] == "<previous_reasoning>\nHm\n</previous_reasoning>"
    assert reports(sent) == ["moved"]


def test_thinking_behind_a_call_is_put_before_it() -> None:
    sent = prepare(used(Text("So"), ToolCall("a", "ping", {}), SIGNED), TOOLS)
    assert [block["type"] for block in sent.body["messages"][1]["content"]] == ["text", "thinking", "tool_use"]
    assert reports(sent) == ["moved"]


# ---- one result ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "block"),
    [
        ({"tool_call_id": "id1", "name": "ping", "content": "pong"}, {"content": "pong"}),
        ({"call_id": "id1", "content": "no", "is_error": True}, {"content": "no", "is_error": True}),
        ({"tool_use_id": "id1", "output": {"n": 1}, "success": True}, {"content": '{"n": 1}'}),
        (ToolResult("id1", content=[Text("a")]), {"content": [{"type": "text", "text": "a"}]}),
    ],
)
def test_one_result_is_one_user_message_with_one_block(result: Any, block: JsonObject) -> None:
    expected = {"type": "tool_result", "tool_use_id": "id1", **block}
    assert CODEC.encode_result(result) == {"role": "user", "content": [expected]}
