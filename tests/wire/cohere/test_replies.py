"""Replies of Cohere's chat read: streams, whole bodies, and everything that servers get wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.cohere.fuzz import mutations
from tests.wire.cohere.samples import (
    BEGIN,
    CITATION,
    PARIS,
    PLAN,
    THOUGHT,
    USAGE,
    WIRE,
    append_arguments,
    begin_call,
    call,
    end,
    end_call,
    plan,
    read,
    read_frames,
    start,
    text,
    thought,
)
from tests.wire.judges.answers import STREAMS, WHOLE, to_sse

from dragoman.events import ArgumentsDelta, CallEnded, CallStarted
from dragoman.replies import fold
from dragoman.types import Message, Reply, Request, Text, Thinking, Usage
from dragoman.wire import framing
from dragoman.wire.cohere import Cohere
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import as_list

# A stream with everything in it, as the vendor sends it: named events, citations, all kinds of content.
FRAMES = [
    BEGIN,
    start("content-start", 0, content={"type": "thinking", "thinking": "H"}),
    thought("m."),
    {"type": "content-end", "index": 0},
    plan("I will "),
    plan("look."),
    start("content-start", 1, content={"type": "text", "text": ""}),
    text("Grüße, ", 1),
    text("世界 🌍", 1),
    {"type": "content-end", "index": 1},
    start("citation-start", 0, citations=CITATION),
    {"type": "citation-end", "index": 0},
    begin_call(0, "c1", "weather"),
    append_arguments(0, '{"city": "Pa'),
    append_arguments(0, 'ris", "days": 2}'),
    end_call(0),
    begin_call(1, "c2", "ping"),
    end_call(1),
    end("TOOL_CALL", usage=USAGE),
]
STREAM = b"".join(framing.encode_sse(piece["type"], to_sse(piece)[0].decode()[6:-2]) for piece in FRAMES)
BODY = {
    "id": "r1",
    "finish_reason": "TOOL_CALL",
    "message": {
        "role": "assistant",
        "tool_plan": "I will look.",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Grüße, 世界 🌍"}],
        "tool_calls": [call("c1", "weather", '{"city": "Paris", "days": 2}'), call("c2", "ping", "")],
        "citations": [CITATION],
    },
    "usage": USAGE,
}


def calls(reply: Reply) -> list[tuple[str, str, Any]]:
    return [(part.id, part.name, part.arguments) for part in reply.calls]


def check_rich(reply: Reply) -> None:
    assert reply.message.parts[:3] == [
        Thinking("Hm.", THOUGHT),
        Thinking("I will look.", PLAN),
        Text("Grüße, 世界 🌍"),
    ]
    assert calls(reply) == [("c1", "weather", PARIS), ("c2", "ping", {})]
    assert reply.usage == Usage(11, 7, 4)
    assert (reply.id, reply.stop, reply.failure) == ("r1", "tool_calls", None)
    assert reply.extra == {
        "cohere": {"reason": "TOOL_CALL", "billed_units": USAGE["billed_units"], "citations": [CITATION]}
    }


def test_a_stream() -> None:
    check_rich(fold(read(STREAM)))


def test_a_whole_body() -> None:
    check_rich(WIRE.decode_reply(BODY))


def test_whole_and_streamed_are_the_same_reply() -> None:
    assert fold(read(STREAM)) == WIRE.decode_reply(BODY)
    chunks, _ = STREAMS["cohere"]
    assert fold(read(*chunks)) == WIRE.decode_reply(WHOLE["cohere"][0])


def test_any_cut_gives_the_same_events() -> None:
    expected = read(STREAM)
    for place in range(len(STREAM)):
        assert read(STREAM[:place], STREAM[place:]) == expected, place
    assert read(*(STREAM[place : place + 1] for place in range(len(STREAM)))) == expected


def test_a_stream_that_breaks_off_gives_no_call() -> None:
    for place in range(len(STREAM)):
        if b'"message-end"' in STREAM[:place]:
            break
        reply = fold(read(STREAM[:place]))
        assert reply.calls == []
        assert reply.failure is not None
        assert (reply.failure.kind, reply.stop) == ("stream_cut", "error")
    # Inside the last frame too, as long as it is not all there.
    for place in range(STREAM.index(b'"message-end"'), STREAM.rindex(b"}")):
        assert fold(read(STREAM[:place])).calls == [], place
    check_rich(fold(read(STREAM[: STREAM.rindex(b"}") + 1])))


def test_calls_are_shown_as_they_come_and_end_together() -> None:
    events = read(STREAM)
    shown = [event for event in events if isinstance(event, CallStarted | ArgumentsDelta | CallEnded)]
    assert [type(event).__name__ for event in shown] == [
        "CallStarted",
        "ArgumentsDelta",
        "ArgumentsDelta",
        "CallStarted",
        "ArgumentsDelta",
        "CallEnded",
        "CallEnded",
    ]


def test_citations_of_a_stream_that_broke_off_are_kept() -> None:
    reply = read_frames(BEGIN, start("citation-start", 0, citations=CITATION))
    assert reply.failure is not None
    assert reply.extra == {"cohere": {"citations": [CITATION]}}


# ---- ends and usage -------------------------------------------------------------------------------------------------

STOPS = [
    ("COMPLETE", "end"),
    ("STOP_SEQUENCE", "stop_sequence"),
    ("MAX_TOKENS", "length"),
    # Without calls there is no turn of calls.
    ("TOOL_CALL", "end"),
    ("ERROR_TOXIC", "refusal"),
    ("SOMETHING_NEW", "end"),
]


@pytest.mark.parametrize(("reason", "stop"), STOPS)
def test_why_a_reply_stopped(reason: str, stop: str) -> None:
    body = {"id": "r1", "finish_reason": reason, "message": {"content": [{"type": "text", "text": "Hi"}]}}
    reply = WIRE.decode_reply(body)
    assert (reply.stop, reply.extra, reply.failure) == (stop, {"cohere": {"reason": reason}}, None)
    assert read_frames(BEGIN, text("Hi"), end(reason)) == reply


@pytest.mark.parametrize("reason", [None, "", 7])
def test_a_missing_reason(reason: Any) -> None:
    assert read_frames(BEGIN, text("Hi"), end(reason)).stop == "end"
    called = read_frames(BEGIN, begin_call(0, "c1", "ping"), end_call(0), end(reason))
    assert (called.stop, calls(called)) == ("tool_calls", [("c1", "ping", {})])


def test_a_limit_cuts_the_last_call() -> None:
    reply = read_frames(
        BEGIN,
        begin_call(0, "c1", "ping", "{}"),
        end_call(0),
        begin_call(1, "c2", "ping"),
        append_arguments(1, '{"a": 1}'),
        end("MAX_TOKENS"),
    )
    assert (reply.stop, calls(reply)) == ("length", [("c1", "ping", {})])
    assert [part.id for part in reply.invalid] == ["c2"]


def test_a_server_may_hide_the_limit() -> None:
    codec = Cohere(Quirks(masks_length=True))
    sent = codec.prepare(Request("m", [Message("user", [Text("Hi")])], options={"max_tokens": 7}))
    body = {"finish_reason": "COMPLETE", "message": {"content": "Hi"}, "usage": USAGE}
    assert codec.decode_reply(body, sent).stop == "length"


COUNTS: list[tuple[Any, Usage]] = [
    ({"tokens": {"input_tokens": 5.0, "output_tokens": 2.0}}, Usage(5, 2)),
    ({"billed_units": {"input_tokens": 5, "output_tokens": 2}}, Usage(5, 2)),
    ({"tokens": {"input_tokens": 5}, "cached_tokens": 3}, Usage(5, 0, 3)),
    ({"tokens": {"input_tokens": -1, "output_tokens": "two"}}, Usage()),
    ({"tokens": []}, Usage()),
    (7, Usage()),
    (None, Usage()),
]


@pytest.mark.parametrize(("counts", "usage"), COUNTS)
def test_usage(counts: Any, usage: Usage) -> None:
    assert read_frames(BEGIN, end(usage=counts)).usage == usage
    assert WIRE.decode_reply({"message": {"content": []}, "usage": counts}).usage == usage


# ---- content that is written in other ways --------------------------------------------------------------------------

CONTENTS: list[tuple[Any, list[Any]]] = [
    ("Hi", [Text("Hi")]),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [Text("a"), Text("b")]),
    ([{"text": "a"}, {"thinking": "b"}], [Text("a"), Thinking("b", THOUGHT)]),
    ({"type": "text", "text": "a"}, [Text("a")]),
    (["a"], [Text("a")]),
    ([{"type": "text", "text": ""}], []),
    ("", []),
    (None, []),
    ([7, {"type": "audio"}, {"type": "text", "text": 7}], []),
]


@pytest.mark.parametrize(("content", "parts"), CONTENTS)
def test_content(content: Any, parts: list[Any]) -> None:
    assert WIRE.decode_reply({"message": {"content": content}}).message.parts == parts


def test_parts_without_their_frames() -> None:
    """No start, no end, no plan frame: the pieces themselves tell what belongs together."""
    reply = read_frames(BEGIN, thought("H"), thought("m."), plan("Look."), text("a"), text("b"), end())
    assert reply.message.parts == [Thinking("Hm.", THOUGHT), Thinking("Look.", PLAN), Text("ab")]


def test_each_content_block_is_a_part() -> None:
    begin = start("content-start", 0, content={"type": "text", "text": ""})
    reply = read_frames(BEGIN, begin, text("a"), begin, text("b"), end())
    assert reply.message.parts == [Text("a"), Text("b")]


def test_a_content_that_is_a_text_or_a_list() -> None:
    reply = read_frames(
        BEGIN,
        start("content-delta", 0, content="a"),
        start("content-delta", 0, content="b"),
        start("content-delta", 0, content=[{"type": "text", "text": "c"}]),
        end(),
    )
    assert reply.text == "abc"


def test_the_type_may_stand_in_the_name_of_the_event_alone() -> None:
    frames = [BEGIN, text("Hi"), end()]
    pieces = [framing.encode_sse(frame.pop("type"), to_sse(frame)[0][6:-2]) for frame in map(dict, frames)]
    assert fold(read(*pieces)) == read_frames(*frames)


def test_a_message_that_starts_with_its_content() -> None:
    begin = {"type": "message-start", "id": "r1", "delta": {"message": {"content": [{"type": "text", "text": "Hi"}]}}}
    assert read_frames(begin, end()).text == "Hi"


def test_a_whole_reply_in_a_stream() -> None:
    assert read_frames(BODY) == WIRE.decode_reply(BODY)


def test_done_ends_a_stream_as_well() -> None:
    pieces = to_sse(BEGIN, begin_call(0, "c1", "ping"), end_call(0))
    assert calls(fold(read(*pieces, b"data: [DONE]\n\n"))) == [("c1", "ping", {})]
    assert calls(fold(read(*pieces, *to_sse(end()), b"data: [DONE]\n\n"))) == [("c1", "ping", {})]


def test_what_is_unknown_is_passed_over() -> None:
    noise: list[Any] = [{"type": "debug", "prompt": "x"}, {"type": "new", "message": "x"}, {}, {"message": {}}]
    quiet = read(*to_sse(BEGIN, text("Hi"), end()))
    assert read(*to_sse(BEGIN, *noise, text("Hi"), *noise, end())) == quiet
    assert read(b"data: [1]\n\ndata: 7\n\n", *to_sse(BEGIN, text("Hi"), end())) == quiet


def test_nothing_counts_behind_the_end() -> None:
    assert read_frames(BEGIN, text("Hi"), end(), text("more"), begin_call(0, "c", "ping"), end("ERROR")).text == "Hi"


# ---- errors ----------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[str, list[bytes], str, str]] = [
    ("the end says it", to_sse(end("ERROR", error="rate limit reached")), "rate_limited", "rate limit reached"),
    ("the end says only that", to_sse(end("ERROR")), "server_error", "the reply ended with ERROR"),
    ("the time is over", to_sse(end("TIMEOUT")), "timed_out", "the reply ended with TIMEOUT"),
    ("an error without a reason", to_sse(end(None, error="too many tokens")), "context_too_long", "too many tokens"),
    ("an error body", to_sse({"message": "service unavailable"}), "overloaded", "service unavailable"),
    ("an error object", to_sse({"error": {"message": "bad", "code": 429}}), "rate_limited", "bad"),
    ("an error frame", to_sse({"type": "error", "message": "invalid request"}), "bad_request", "invalid request"),
    ("an error event", [b'event: error\ndata: {"message":"timed out"}\n\n'], "timed_out", "timed out"),
    ("no JSON", [b"data: <html>\n\n"], "server_error", "a frame is not JSON: <html>"),
]


@pytest.mark.parametrize(("frames", "kind", "words"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS])
def test_an_error_in_a_stream(frames: list[bytes], kind: str, words: str) -> None:
    before = to_sse(BEGIN, text("So"), begin_call(0, "c1", "ping", "{}"), end_call(0))
    reply = fold(read(*before, *frames, *to_sse(end())))
    assert reply.failure is not None
    assert (reply.failure.kind, reply.failure.message) == (kind, words)
    assert (reply.text, reply.calls, reply.stop) == ("So", [], "error")


def test_a_frame_that_is_too_large() -> None:
    reader = WIRE.open_reader(None)
    reply = fold(reader.read(framing.SseBroken("x")))
    assert reply.failure is not None
    assert (reply.failure.kind, reply.failure.message) == ("too_large", "a frame of the stream was too large")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"message": "invalid api token"}, "unauthorized"),
        (429, {"message": "trial key limit"}, "rate_limited"),
        (400, {"message": "too many tokens: total number of tokens cannot exceed 4081"}, "context_too_long"),
        (400, {"id": "x", "message": "invalid request"}, "bad_request"),
        (500, "", "server_error"),
        (503, None, "overloaded"),
    ],
)
def test_error_answers(status: int, body: Any, kind: str) -> None:
    failure = WIRE.decode_failure(status, body, {"Retry-After": "3"})
    assert (failure.kind, failure.status, failure.retry_after) == (kind, status, 3.0)
    assert failure.message == (body["message"] if isinstance(body, dict) else "")


def test_an_error_body_is_a_reply_that_failed() -> None:
    reply = WIRE.decode_reply({"message": "invalid request"})
    assert reply.failure is not None
    assert reply.failure.message == "invalid request"


# ---- fuzz ------------------------------------------------------------------------------------------------------------


@given(mutations(FRAMES))
def test_no_mutation_of_a_stream_raises(frames: Any) -> None:
    pieces = [framing.encode_sse(None, msgspec.json.encode(frame)) for frame in as_list(frames)]
    assert isinstance(fold(read(*pieces)), Reply)


@given(mutations(BODY))
def test_no_mutation_of_a_whole_body_raises(body: Any) -> None:
    assert isinstance(WIRE.decode_reply(body), Reply)


@given(st.binary(max_size=60))
def test_no_bytes_raise(piece: bytes) -> None:
    reply = fold(read(piece))
    assert reply.calls == []
    assert reply.failure is not None or b"[DONE]" in piece
