"""Replies as a server of this wire gives them, whole and streamed, and read back by our own client half."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallStarted,
    Event,
    PartEnded,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.replies import fold, unfold
from dragoman.stage import collect
from dragoman.types import (
    Failure,
    Fault,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Provenance,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from dragoman.wire.anthropic import Anthropic

from .samples import RICH, RICH_BODY

CODEC = Anthropic()
NATIVE = Provenance("native", "anthropic")
ZEROS = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}


def stream(events: list[Event], model: str = "", id: str = "") -> list[JsonObject]:
    """The data of every event that is sent for these events."""
    pieces = collect(CODEC.event_stream(model=model, id=id), events)
    sent = b"".join(pieces)
    frames = []
    for piece in sent.decode().split("\n\n")[:-1]:
        name, data = piece.split("\n")
        frame = json.loads(data.removeprefix("data: "))
        assert name == f"event: {frame['type']}"
        frames.append(frame)
    return frames


def say(*parts: Part, stop: StopReason = "end", **more: Any) -> Reply:
    return Reply(Message("assistant", list(parts)), stop=stop, id="msg_1", model="m", **more)


def call(id: str, name: str = "ping", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments, provenance=NATIVE, wire_id=id)


# ---- the frames ------------------------------------------------------------------------------------------------------


def test_the_frames_of_a_reply_with_text_and_a_call() -> None:
    weather = call("toolu_1", "get_weather", city="Oslo")
    events: list[Event] = [
        ReplyStarted("m", "msg_1"),
        TextDelta("Let me "),
        TextDelta("see."),
        CallStarted(0, "get_weather", "toolu_1"),
        ArgumentsDelta(0, '{"city": "Os'),
        ArgumentsDelta(0, 'lo"}'),
        CallEnded(0, weather),
        UsageReported(Usage(115, 42, 100, 7, 5)),
        ReplyEnded("tool_calls"),
    ]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 100,
        "output_tokens": 42,
        "output_tokens_details": {"thinking_tokens": 7},
    }
    named = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
    assert stream(events) == [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": ZEROS}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "see."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": named},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"city":"Oslo"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def test_calls_that_end_together_are_sent_one_after_the_other_in_their_places() -> None:
    events: list[Event] = [
        ReplyStarted("m", "msg_1"),
        CallStarted(0, "ping", "a"),
        TextDelta("between"),
        CallStarted(1, "ping", "b"),
        CallEnded(1, call("b")),
        CallEnded(0, call("a")),
        ReplyEnded("tool_calls"),
    ]
    starts = [frame["content_block"] for frame in stream(events) if frame["type"] == "content_block_start"]
    assert [block.get("id") or block["type"] for block in starts] == ["a", "text", "b"]


def test_a_broken_call_is_told_and_not_passed_on() -> None:
    events: list[Event] = [
        CallStarted(0, "ping", "a"),
        CallBroken('{"x', "it was cut off", (0, 0), "anthropic", "ping", 0),
        ReplyEnded("end"),
    ]
    frames = stream(events)
    assert not [frame for frame in frames if frame.get("content_block", {}).get("type") == "tool_use"]
    assert "could not be passed on" in frames[2]["delta"]["text"]


def test_the_model_and_the_id_count_where_the_events_name_none() -> None:
    (start, *_) = stream([ReplyStarted(), ReplyEnded("end")], model="ours", id="msg_9")
    assert (start["message"]["model"], start["message"]["id"]) == ("ours", "msg_9")
    (start, *_) = stream([ReplyStarted("theirs", "msg_1"), ReplyEnded("end")], model="ours", id="msg_9")
    assert (start["message"]["model"], start["message"]["id"]) == ("theirs", "msg_1")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [ReplyStarted("m", "msg_1")],
        [TextDelta("So")],
        [CallStarted(0, "ping", "a"), ArgumentsDelta(0, "{")],
        [CallStarted(0, "ping", "a"), CallEnded(0, call("a"))],
    ],
)
def test_a_reply_without_an_end_ends_as_an_error(events: list[Event]) -> None:
    frames = stream(events)
    assert frames[0]["type"] == "message_start"
    assert frames[-1]["type"] == "error"
    assert "message_stop" not in [frame["type"] for frame in frames]
    reply = fold(collect(CODEC.reply_stream(), collect(CODEC.event_stream(), events)))
    assert reply.calls == []
    assert reply.failure is not None


def test_a_failure_is_the_last_event() -> None:
    failure = Failure("overloaded", "Too busy", 529)
    frames = stream([TextDelta("So"), ReplyFailed(failure), UsageReported(Usage(1, 1)), ReplyEnded("error")])
    assert [frame["type"] for frame in frames[-2:]] == ["content_block_stop", "error"]
    assert frames[-1]["error"] == {"type": "overloaded_error", "message": "Too busy"}


@pytest.mark.parametrize(
    ("stop", "extra", "word"),
    [
        ("end", {}, "end_turn"),
        ("length", {}, "max_tokens"),
        ("length", {"anthropic": {"reason": "model_context_window_exceeded"}}, "model_context_window_exceeded"),
        ("length", {"anthropic": {"reason": "end_turn"}}, "max_tokens"),
        ("stop_sequence", {}, "stop_sequence"),
        ("refusal", {"openai_chat": {"reason": "content_filter"}}, "refusal"),
        ("pause", {}, "pause_turn"),
        ("tool_calls", {}, "end_turn"),
        ("unknown", {}, "end_turn"),
        ("error", {}, "end_turn"),
    ],
)
def test_reasons_to_stop(stop: StopReason, extra: dict[str, Any], word: str) -> None:
    reply = say(Text("Hi"), stop=stop, extra=extra)
    assert CODEC.encode_reply(reply)["stop_reason"] == word
    assert stream(unfold(reply))[-2]["delta"]["stop_reason"] == word


@pytest.mark.parametrize("stop", ["end", "unknown", "tool_calls"])
def test_calls_decide_about_the_reason(stop: StopReason) -> None:
    reply = say(call("a"), stop=stop)
    assert CODEC.encode_reply(reply)["stop_reason"] == "tool_use"
    assert stream(unfold(reply))[-2]["delta"]["stop_reason"] == "tool_use"


# ---- whole bodies ----------------------------------------------------------------------------------------------------


def test_a_rich_reply_is_written_back_as_it_was() -> None:
    reply = CODEC.decode_reply(RICH_BODY)
    assert CODEC.encode_reply(reply) == RICH_BODY
    assert fold(collect(CODEC.reply_stream(), collect(CODEC.event_stream(), unfold(reply)))) == reply
    events = collect(CODEC.reply_stream(), [RICH])
    assert fold(collect(CODEC.reply_stream(), collect(CODEC.event_stream(), events))) == reply


def test_thinking_of_others_is_shown_without_a_signature() -> None:
    reply = say(Thinking("Hm", {"gemini": {"signature": "G"}}), Text("So"))
    assert CODEC.encode_reply(reply)["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": ""}
    kinds = [frame["delta"]["type"] for frame in stream(unfold(reply)) if frame["type"] == "content_block_delta"]
    assert kinds == ["thinking_delta", "text_delta"]


def test_ids_that_this_wire_refuses_are_replaced() -> None:
    reply = say(call("functions.ping:0"), call("functions.ping:0"))
    ids = [block["id"] for block in CODEC.encode_reply(reply)["content"]]
    assert len(set(ids)) == 2
    assert all(word.isalnum() for word in ids)
    streamed = [frame["content_block"]["id"] for frame in stream(unfold(reply)) if "content_block" in frame]
    assert streamed == ids


def test_images_and_files_of_a_model_are_told() -> None:
    reply = say(Image("https://example.org/a.png"), File("a", "AAAA"))
    texts = [block["text"] for block in CODEC.encode_reply(reply)["content"]]
    assert texts == ["[image: https://example.org/a.png]", "[file: it cannot be shown here]"]


def test_a_call_that_is_not_complete_is_told_and_not_passed_on() -> None:
    half = ToolCall("a", "ping", {}, complete=False)
    (block,) = CODEC.encode_reply(say(half))["content"]
    assert block["type"] == "text"
    assert not [
        frame for frame in stream(unfold(say(half))) if frame.get("content_block", {}).get("type") == "tool_use"
    ]


def test_a_reply_that_failed_is_an_error_body() -> None:
    reply = say(Text("So"), failure=Failure("server_error", "Oops"))
    assert CODEC.encode_reply(reply) == {"type": "error", "error": {"type": "api_error", "message": "Oops"}}


def test_nothing_to_say_is_an_empty_message() -> None:
    body = CODEC.encode_reply(say(Text("")))
    assert body["content"] == []
    assert body["usage"] == ZEROS


# ---- laws ------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ARGUMENTS = st.dictionaries(TEXTS, TEXTS | st.integers(-9, 9) | st.none() | st.booleans() | st.lists(TEXTS), max_size=3)
IDS = st.text("abcXYZ019_-.:", min_size=1, max_size=5)
BLOCK = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cat"}}
PARTS = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Text, TEXTS, st.just({"anthropic": {"citations": [{"type": "char_location"}]}})),
    st.just(Text("", {"anthropic": {"block": BLOCK}})),
    st.builds(Thinking, TEXTS),
    st.builds(Thinking, TEXTS, st.just({"anthropic": {"signature": "S"}})),
    st.just(Thinking("", {"anthropic": {"data": "D"}})),
    st.builds(ToolCall, IDS, st.sampled_from(["ping", "get_weather"]), ARGUMENTS),
    st.builds(InvalidCall, IDS, st.just("ping"), TEXTS, st.just((Fault("$", "cut off"),))),
    st.builds(Image, st.just("https://example.org/a.png")),
)
STOPS = st.sampled_from(["end", "tool_calls", "stop_sequence", "pause"])
REPLIES = st.builds(
    lambda parts, stop, usage: Reply(Message("assistant", parts), usage, stop, model="m", id="msg_1"),
    st.lists(PARTS, max_size=6),
    STOPS,
    st.builds(
        Usage, st.integers(50, 99), st.integers(10, 99), st.integers(0, 20), st.integers(0, 9), st.integers(0, 20)
    ),
)


@given(REPLIES)
def test_streamed_and_whole_are_the_same_reply(reply: Reply) -> None:
    whole = CODEC.decode_reply(CODEC.encode_reply(reply))
    streamed = fold(collect(CODEC.reply_stream(), collect(CODEC.event_stream(), unfold(reply))))
    assert streamed == whole
    assert whole.usage == reply.usage
    assert [(part.name, part.arguments) for part in whole.calls] == [
        (part.name, part.arguments) for part in reply.calls
    ]


@given(REPLIES)
def test_what_was_read_once_comes_back_unchanged(reply: Reply) -> None:
    once = CODEC.decode_reply(CODEC.encode_reply(reply))
    assert CODEC.decode_reply(CODEC.encode_reply(once)) == once


EVENTS = st.one_of(
    st.builds(ReplyStarted, TEXTS, TEXTS),
    st.builds(TextDelta, TEXTS),
    st.builds(ThinkingDelta, TEXTS),
    st.builds(
        PartEnded, st.sampled_from(["text", "thinking"]), st.just({"anthropic": {"signature": "S", "block": BLOCK}})
    ),
    st.builds(CallStarted, st.integers(0, 2), st.just("ping"), IDS),
    st.builds(ArgumentsDelta, st.integers(0, 2), TEXTS),
    st.builds(CallEnded, st.integers(0, 2), st.builds(ToolCall, IDS, st.just("ping"), ARGUMENTS)),
    st.builds(CallBroken, TEXTS, TEXTS, st.just((0, 0)), index=st.none() | st.integers(0, 2)),
    st.builds(ReplyFailed, st.just(Failure("server_error", "x"))),
    st.builds(UsageReported, st.just(Usage(1, 1))),
    st.builds(ReplyEnded, STOPS),
)


@given(st.lists(EVENTS, max_size=12))
def test_in_whatever_order_events_come_one_block_is_open_at_a_time(events: list[Event]) -> None:
    frames = stream(events)
    assert [frame["type"] for frame in frames].count("message_start") == 1
    assert frames[0]["type"] == "message_start"
    assert frames[-1]["type"] in ("message_stop", "error")
    count, is_open = 0, False
    for frame in frames:
        if frame["type"] == "content_block_start":
            assert not is_open and frame["index"] == count
            is_open = True
        elif frame["type"] == "content_block_delta":
            assert is_open and frame["index"] == count
        elif frame["type"] == "content_block_stop":
            assert is_open and frame["index"] == count
            is_open, count = False, count + 1
        elif frame["type"] in ("message_delta", "error"):
            assert not is_open
