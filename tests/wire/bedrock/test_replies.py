"""Answers of Converse read: whole, streamed, cut, damaged, and as servers should not send them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.bedrock.talk import (
    END,
    START,
    WEATHER,
    ask,
    bedrock_block,
    call_block,
    damaged,
    events_of,
    prepare,
    said,
    stop,
    to_frame,
    to_frames,
    whole,
)

from dragoman.events import ArgumentsDelta, CallEnded, CallStarted, ReplyEnded, ReplyFailed, TextDelta
from dragoman.replies import fold
from dragoman.stage import collect
from dragoman.types import Image, Text, Thinking, Usage
from dragoman.wire.bedrock import Bedrock
from dragoman.wire.quirks import Quirks

CITATION = {"title": "Almanac", "location": {"web": {"url": "https://sky.example"}}}
RESULT = {"toolUseId": "s1", "status": "success", "type": "search_result"}
SERVER_CALL = {"toolUseId": "s1", "name": "search", "type": "server_tool_use"}

# Everything that an answer can hold, streamed and whole.
FRAMES: list[tuple[str, dict[str, Any]]] = [
    START,
    *bedrock_block(
        0,
        {"reasoningContent": {"text": "Two "}},
        {"reasoningContent": {"text": "cities."}},
        {"reasoningContent": {"signature": "EqQB"}},
    ),
    *bedrock_block(
        1, {"reasoningContent": {"redactedContent": "//4="}}, {"reasoningContent": {"redactedContent": "/w=="}}
    ),
    *bedrock_block(2, {"text": "Grüße, "}, {"text": "世界 🌍"}),
    *bedrock_block(3, {"text": "Rain."}, {"citation": CITATION}),
    *bedrock_block(4, {"toolUse": {"input": '{"q":'}}, {"toolUse": {"input": '"sky"}'}}, toolUse=SERVER_CALL),
    *bedrock_block(5, {"toolResult": [{"text": "blue"}]}, toolResult=RESULT),
    *bedrock_block(6, {"image": {"source": {"bytes": "AAAA"}}}, image={"format": "png"}),
    *call_block(7, "t1", "weather", '{"ci', 'ty": "Pa', 'ris"}'),
    *call_block(8, "t2", "ping"),
    stop("tool_use", additionalModelResponseFields={"x": 1}),
    END,
]
BODY = whole(
    {"reasoningContent": {"reasoningText": {"text": "Two cities.", "signature": "EqQB"}}},
    {"reasoningContent": {"redactedContent": "//7/"}},
    {"text": "Grüße, 世界 🌍"},
    {"citationsContent": {"content": [{"text": "Rain."}], "citations": [CITATION]}},
    {"toolUse": {**SERVER_CALL, "input": {"q": "sky"}}},
    {"toolResult": {**RESULT, "content": [{"text": "blue"}]}},
    {"image": {"format": "png", "source": {"bytes": "AAAA"}}},
    {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Paris"}}},
    {"toolUse": {"toolUseId": "t2", "name": "ping", "input": {}}},
    reason="tool_use",
    additionalModelResponseFields={"x": 1},
)
BYTES = b"".join(to_frames(*FRAMES))


def test_a_whole_answer_and_a_stream_are_the_same_reply() -> None:
    reply = fold(collect(Bedrock().reply_stream(), [BYTES]))
    assert reply == Bedrock().decode_reply(BODY)
    assert reply == Bedrock().decode_reply(msgspec.json.encode(BODY))
    assert reply.message.parts[:7] == [
        Thinking("Two cities.", {"bedrock": {"field": "reasoningText", "signature": "EqQB"}}),
        Thinking("", {"bedrock": {"redacted": "//7/"}}),
        Text("Grüße, 世界 🌍"),
        Text("Rain.", {"bedrock": {"citations": [CITATION]}}),
        # What the provider ran itself is kept to be sent back; it is no call of ours.
        Text("", {"bedrock": {"block": {"toolUse": {**SERVER_CALL, "input": {"q": "sky"}}}}}),
        Text("", {"bedrock": {"block": {"toolResult": {**RESULT, "content": [{"text": "blue"}]}}}}),
        Image(data="AAAA", media_type="image/png"),
    ]
    assert said(reply) == [("t1", "weather", {"city": "Paris"}), ("t2", "ping", {})]
    assert reply.stop == "tool_calls" and reply.failure is None
    assert reply.usage == Usage(11, 7)
    assert reply.extra["bedrock"]["additionalModelResponseFields"] == {"x": 1}


def test_every_split_of_the_bytes_gives_the_same_events() -> None:
    expected = collect(Bedrock().reply_stream(), [BYTES])
    for place in range(len(BYTES) + 1):
        assert collect(Bedrock().reply_stream(), [BYTES[:place], BYTES[place:]]) == expected
    assert collect(Bedrock().reply_stream(), [bytes([byte]) for byte in BYTES]) == expected


def test_a_stream_that_is_cut_before_its_last_frame_gives_no_call() -> None:
    complete = len(b"".join(to_frames(*FRAMES[:-1])))  # `messageStop` ends the message; only the counts come behind it
    for place in range(complete):
        reply = fold(collect(Bedrock().reply_stream(), [BYTES[:place]]))
        assert reply.calls == []
        assert reply.failure is not None and reply.failure.kind == "stream_cut"
    for place in range(complete, len(BYTES)):
        reply = fold(collect(Bedrock().reply_stream(), [BYTES[:place]]))
        assert len(reply.calls) == 2 and reply.failure is None


def test_calls_end_only_with_the_whole_reply() -> None:
    stream = Bedrock().reply_stream()
    events = [event for frame in to_frames(*FRAMES[:-1]) for event in stream.feed(frame)]
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["weather", "ping"]
    assert "".join(event.text for event in events if isinstance(event, ArgumentsDelta)) == '{"city": "Paris"}'
    assert not any(isinstance(event, CallEnded) for event in events)
    last = stream.feed(to_frame(*END))
    assert [event.call.name for event in last if isinstance(event, CallEnded)] == ["weather", "ping"]
    assert isinstance(last[-1], ReplyEnded)
    assert stream.close() == []


@pytest.mark.parametrize(
    ("reason", "neutral"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "stop_sequence"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "refusal"),
        ("content_filtered", "refusal"),
        ("malformed_tool_use", "error"),
        ("malformed_model_output", "error"),
        ("tool_use", "end"),  # no call came: presence decides
        ("a_new_word", "end"),
    ],
)
def test_stop_reasons(reason: str, neutral: str) -> None:
    reply = Bedrock().decode_reply(whole({"text": "x"}, reason=reason))
    assert reply == fold(events_of(START, *bedrock_block(0, {"text": "x"}), stop(reason), END))
    assert reply.stop == neutral
    assert reply.extra["bedrock"]["reason"] == reason


@pytest.mark.parametrize("reason", ["max_tokens", "malformed_tool_use", "content_filtered"])
def test_the_last_call_of_a_reply_that_was_cut_short_is_not_trusted(reason: str) -> None:
    frames = [START, *call_block(0, "t1", "ping", "{}"), *call_block(1, "t2", "ping", "{}"), stop(reason), END]
    assert [call.id for call in fold(events_of(*frames)).calls] == ["t1"]


def test_a_limit_that_the_stop_reason_hides_is_seen_in_the_usage() -> None:
    sent = prepare(ask(max_tokens=7))
    frames = to_frames(START, *call_block(0, "t1", "ping", "{}"), stop("tool_use"), END)
    reply = fold(collect(Bedrock(Quirks(masks_length=True)).reply_stream(sent), frames))
    assert reply.stop == "length" and reply.calls == []


def test_input_tokens_are_the_sum_of_what_was_read_written_and_neither() -> None:
    usage = {"inputTokens": 5, "outputTokens": 3, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 20}
    assert Bedrock().decode_reply(whole(usage=usage)).usage == Usage(125, 3, 100, 0, 20)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("throttlingException", "slow down", "rate_limited"),
        ("throttlingException", "Too many tokens, please wait before trying again.", "rate_limited"),
        ("serviceUnavailableException", "", "overloaded"),
        ("validationException", "bad", "bad_request"),
        ("validationException", "Input is too long for requested model.", "context_too_long"),
        ("internalServerException", "oops", "server_error"),
        ("modelStreamErrorException", "oops", "server_error"),
        ("modelTimeoutException", "oops", "timed_out"),
        ("somethingNewException", "oops", "server_error"),
    ],
)
def test_an_exception_in_the_stream_ends_it_and_no_call_survives(name: str, message: str, kind: str) -> None:
    frames = to_frames(START, *bedrock_block(0, {"text": "So"}), *call_block(1, "t1", "ping", "{}"))
    failed = to_frame(name, {"message": message}, "exception")
    events = collect(Bedrock().reply_stream(), [*frames, failed, *to_frames(stop("tool_use"), END)])
    reply = fold(events)
    assert reply.text == "So" and reply.calls == [] and reply.stop == "error"
    assert reply.failure is not None
    assert (reply.failure.kind, reply.failure.message, reply.failure.code) == (kind, message, name)
    assert sum(isinstance(event, ReplyEnded) for event in events) == 1


def test_an_error_that_has_no_shape_is_read_from_the_headers() -> None:
    from dragoman.wire import eventstream

    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "broken pipe"}
    reply = fold(collect(Bedrock().reply_stream(), [eventstream.encode(headers, b"")]))
    assert reply.failure is not None
    assert (reply.failure.code, reply.failure.message) == ("InternalFailure", "broken pipe")


def flip(frame: bytes) -> bytes:
    """The frame with one bit of its payload changed: its checksum is wrong then."""
    return frame[:-6] + bytes([frame[-6] ^ 1]) + frame[-5:]


def test_a_damaged_frame_fails_the_reply_unless_the_message_was_over() -> None:
    frames = to_frames(START, *call_block(0, "t1", "ping", "{}"), stop("tool_use"), END)
    for place in range(len(frames)):
        pieces = [*frames[:place], flip(frames[place]), *frames[place + 1 :]]
        reply = fold(collect(Bedrock().reply_stream(), pieces))
        over = place == len(frames) - 1
        assert (reply.failure is None, len(reply.calls)) == ((True, 1) if over else (False, 0))


def test_a_payload_that_is_no_json_fails_the_reply() -> None:
    from dragoman.wire import eventstream

    broken = eventstream.encode({":message-type": "event", ":event-type": "contentBlockDelta"}, b'{"delta":')
    events = collect(Bedrock().reply_stream(), [*to_frames(START), broken, *to_frames(stop(), END)])
    assert [event.failure.kind for event in events if isinstance(event, ReplyFailed)] == ["server_error"]


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "code"),
    [
        (
            429,
            {"message": "slow"},
            {"x-amzn-ErrorType": "ThrottlingException:http://a.b/"},
            "rate_limited",
            "ThrottlingException",
        ),
        (
            429,
            {"message": "soon"},
            {"x-amzn-errortype": "ModelNotReadyException"},
            "overloaded",
            "ModelNotReadyException",
        ),
        (400, {"message": "bad", "__type": "com.amazon#ValidationException"}, {}, "bad_request", "ValidationException"),
        (
            400,
            b'{"message": "Input is too long for requested model."}',
            {"x-amzn-errortype": "ValidationException"},
            "context_too_long",
            "ValidationException",
        ),
        (403, {"Message": "no"}, None, "unauthorized", ""),
        (404, {"Output": {"__type": "x#UnknownOperationException"}}, None, "not_found", "UnknownOperationException"),
        (408, {"message": "slow"}, None, "timed_out", ""),
        (424, {"message": "slow"}, None, "server_error", ""),
        (503, "<html>down</html>", None, "overloaded", ""),
        (500, None, None, "server_error", ""),
    ],
)
def test_error_answers(status: int, body: Any, headers: Any, kind: str, code: str) -> None:
    failure = Bedrock().decode_failure(status, body, headers)
    assert (failure.kind, failure.code, failure.status) == (kind, code, status)


def test_an_error_body_is_a_failed_reply() -> None:
    reply = Bedrock().decode_reply({"message": "no such model", "__type": "ResourceNotFoundException"})
    assert reply.failure is not None and reply.failure.kind == "not_found"


# ---- servers that do it their way ------------------------------------------------------------------------------------


def read(*frames: tuple[str, dict[str, Any]]) -> Any:
    return fold(events_of(START, *frames, stop("tool_use"), END))


def nameless(block: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (kind, {name: value for name, value in fields.items() if name != "contentBlockIndex"}) for kind, fields in block
    ]


OSLO = ("t1", "weather", {"city": "Oslo"})
ROME = ("t2", "weather", {"city": "Rome"})
TOLERATED: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "one index for two calls": [
        *call_block(0, "t1", "weather", '{"city": "Oslo"}'),
        *call_block(0, "t2", "weather", '{"city": "Rome"}'),
    ],
    "no index": [
        *nameless(call_block(0, "t1", "weather", '{"city":', ' "Oslo"}')),
        *nameless(call_block(0, "t2", "weather", '{"city": "Rome"}')),
    ],
    "a huge index": [
        *call_block(10**12, "t1", "weather", '{"city": "Oslo"}'),
        *call_block(10**13, "t2", "weather", '{"city": "Rome"}'),
    ],
    "no stop of a block": [
        *call_block(0, "t1", "weather", '{"city": "Oslo"}')[:-1],
        *call_block(1, "t2", "weather", '{"city": "Rome"}')[:-1],
    ],
    "arguments as an object": [
        *call_block(0, "t1", "weather", {"city": "Oslo"}),
        *call_block(1, "t2", "weather", {"city": "Rome"}),
    ],
    "the start said twice": [
        call_block(0, "t1", "weather")[0],
        *call_block(0, "t1", "weather", '{"city": "Oslo"}'),
        *call_block(1, "t2", "weather", '{"city": "Rome"}'),
    ],
    "pieces that alternate": [
        call_block(0, "t1", "weather")[0],
        call_block(1, "t2", "weather")[0],
        *bedrock_block(0, {"toolUse": {"input": '{"city": '}})[:1],
        *bedrock_block(1, {"toolUse": {"input": '{"city": '}})[:1],
        *bedrock_block(0, {"toolUse": {"input": '"Oslo"}'}}),
        *bedrock_block(1, {"toolUse": {"input": '"Rome"}'}}),
    ],
}


@pytest.mark.parametrize("how", TOLERATED)
def test_calls_come_out_clean(how: str) -> None:
    assert said(read(*TOLERATED[how])) == [OSLO, ROME]


def test_calls_without_ids_get_some() -> None:
    starts = [
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"name": name}}})
        for name in ("ping", "pong")
    ]
    stopped = ("contentBlockStop", {"contentBlockIndex": 0})
    reply = read(starts[0], stopped, starts[1], stopped)
    assert [(call.id, call.name, call.wire_id) for call in reply.calls] == [
        ("call_1", "ping", None),
        ("call_2", "pong", None),
    ]


def test_a_call_that_never_started_names_no_tool() -> None:
    reply = read(*bedrock_block(0, {"toolUse": {"input": "{}"}}))
    assert reply.calls == [] and len(reply.invalid) == 1


def test_arguments_that_were_cut_are_no_call() -> None:
    reply = read(*call_block(0, "t1", "weather", '{"city": "Os'))
    assert reply.calls == [] and reply.invalid[0].raw == '{"city": "Os'


def test_a_missing_stop_reason_is_told_by_what_came() -> None:
    frames = [START, *call_block(0, "t1", "ping"), ("messageStop", {}), END]
    assert fold(events_of(*frames)).stop == "tool_calls"


def test_counts_may_come_before_the_end_and_the_end_is_then_the_end() -> None:
    stream = Bedrock().reply_stream()
    events = [event for frame in to_frames(START, END, stop()) for event in stream.feed(frame)]
    assert isinstance(events[-1], ReplyEnded)
    assert fold(events).usage == Usage(11, 7)


def test_an_event_may_be_named_in_the_payload_alone() -> None:
    from dragoman.wire import eventstream

    pieces = [eventstream.encode({}, msgspec.json.encode({kind: fields})) for kind, fields in FRAMES]
    assert fold(collect(Bedrock().reply_stream(), pieces)) == Bedrock().decode_reply(BODY)


def test_unknown_events_and_empty_pieces_are_passed_over() -> None:
    events = events_of(START, ("newsFlash", {"text": "x"}), *bedrock_block(0, {"text": ""}), stop(), END)
    assert fold(events).message.parts == []


def test_calls_are_known_by_the_tools_that_were_offered() -> None:
    sent = prepare(ask(tools=[WEATHER]))
    body = whole(
        {"toolUse": {"toolUseId": "t1", "name": "Weather", "input": {"city": 3}}},
        {"toolUse": {"toolUseId": "t2", "name": "pong", "input": {}}},
    )
    first, second = Bedrock().decode_reply(body, sent).calls
    assert (first.name, first.known_tool, second.known_tool) == ("weather", True, False)


@pytest.mark.parametrize(
    "around",
    [
        lambda use: whole(use),
        lambda use: {"message": {"role": "assistant", "content": [use]}},
        lambda use: {"role": "assistant", "content": [{"text": "x"}, use]},
        lambda use: [use],
        lambda use: [use["toolUse"]],
        lambda use: use,
        lambda use: use["toolUse"],
        lambda use: msgspec.json.encode(whole(use)).decode(),
    ],
)
def test_calls_are_found_in_whatever_holds_them(around: Any) -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Oslo"}}}
    [call] = Bedrock().decode_tool_calls(around(use))
    assert (call.id, call.name, call.arguments) == OSLO


@pytest.mark.parametrize(
    "body", [{}, [], "", "nonsense", None, 3, {"text": "x"}, whole({"text": "x"}), {"message": "no"}]
)
def test_where_there_are_no_calls_none_are_found(body: Any) -> None:
    assert Bedrock().decode_tool_calls(body) == []


# ---- anything at all -------------------------------------------------------------------------------------------------


@given(damaged(BODY))
def test_no_body_makes_the_reader_raise(body: Any) -> None:
    reply = Bedrock().decode_reply(body)
    assert all(call.id and call.name for call in reply.calls)


@given(damaged([list(frame) for frame in FRAMES]), st.booleans())
def test_no_frames_make_the_reader_raise(frames: Any, exception: bool) -> None:
    pieces = [
        to_frame(str(frame[0])[:200] or "x", frame[-1], "exception" if exception and place == 9 else "event")
        for place, frame in enumerate(frames if isinstance(frames, list) else [])
        if isinstance(frame, list) and frame
    ]
    events = collect(Bedrock().reply_stream(), pieces)
    assert sum(isinstance(event, ReplyEnded) for event in events) == 1
    ids = [call.id for call in fold(events).calls]
    assert len(set(ids)) == len(ids)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_bytes_make_the_reader_raise(pieces: list[bytes]) -> None:
    assert fold(collect(Bedrock().reply_stream(), [*to_frames(START), *pieces])).calls == []


def test_text_comes_at_once() -> None:
    stream = Bedrock().reply_stream()
    stream.feed(to_frame(*START))
    assert stream.feed(to_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "x"}})) == [
        TextDelta("x")
    ]


@pytest.mark.parametrize("kind", [None, "tool_use", "client_tool_use", "server_tool_use"])
def test_only_calls_that_the_server_runs_are_not_ours(kind: str | None) -> None:
    use = {"toolUseId": "t1", "name": "weather", **({"type": kind} if kind else {})}
    body = {"output": {"message": {"content": [{"toolUse": {**use, "input": {"city": "Paris"}}}]}}}
    frames = [START, *bedrock_block(0, {"toolUse": {"input": '{"city": "Paris"}'}}, toolUse=use), stop("tool_use"), END]
    for reply in (Bedrock().decode_reply({**body, "stopReason": "tool_use"}), fold(events_of(*frames))):
        ours = [] if kind == "server_tool_use" else [("weather", {"city": "Paris"})]
        assert [(call.name, call.arguments) for call in reply.calls] == ours
        # A type that nobody knows can be seen in what is kept of the call.
        assert [call.extra for call in reply.calls if call.extra] == (
            [{"bedrock": {"type": kind}}] if kind == "client_tool_use" else []
        )
