"""Replies as Converse gives them, whole and streamed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.bedrock.talk import call, events_of, judge, said
from tests.wire.bedrock.test_replies import BODY, FRAMES

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
    UsageReported,
)
from dragoman.replies import fold, unfold
from dragoman.stage import collect
from dragoman.types import Failure, Fault, File, Image, InvalidCall, Message, Part, Reply, Text, Thinking, Usage
from dragoman.wire.bedrock import Bedrock
from dragoman.wire.eventstream import EventStreamDecoder, Frame

BROKEN = InvalidCall("t2", "weather", '{"ci', (Fault("$", "cut off"),))
SIGNED = {"bedrock": {"field": "reasoningText", "signature": "EqQB"}}


def frames_of(*events: Event) -> list[tuple[str, Any]]:
    """What a stream says, frame by frame."""
    frames = collect(EventStreamDecoder(), collect(Bedrock().event_stream(), events))
    assert all(isinstance(frame, Frame) for frame in frames)
    return [
        (
            str(frame.headers.get(":event-type") or frame.headers.get(":exception-type")),
            msgspec.json.decode(frame.payload),
        )
        for frame in frames
        if isinstance(frame, Frame)
    ]


def reply_of(*parts: Part, stop: Any = "end", **more: Any) -> Reply:
    return Reply(Message("assistant", list(parts)), Usage(20, 7, 8, 0, 2), stop, **more)


def through_stream(reply: Reply) -> Reply:
    return fold(collect(Bedrock().reply_stream(), collect(Bedrock().event_stream(), unfold(reply))))


def through_body(reply: Reply) -> Reply:
    return Bedrock().decode_reply(Bedrock().encode_reply(reply))


def test_a_stream_only_starts_blocks_that_are_calls() -> None:
    thought, text, made = Thinking("Hm.", SIGNED), Text("Yes."), call(city="Oslo")
    assert frames_of(*unfold(reply_of(thought, text, made, stop="tool_calls"))) == [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hm."}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "EqQB"}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Yes."}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "weather"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"city":"Oslo"}'}}}),
        ("contentBlockStop", {"contentBlockIndex": 2}),
        ("messageStop", {"stopReason": "tool_use"}),
        (
            "metadata",
            {
                "usage": {
                    "inputTokens": 10,
                    "outputTokens": 7,
                    "totalTokens": 27,
                    "cacheReadInputTokens": 8,
                    "cacheWriteInputTokens": 2,
                },
                "metrics": {"latencyMs": 0},
            },
        ),
    ]


def test_a_rich_reply_is_written_as_it_was_read() -> None:
    reply = Bedrock().decode_reply(BODY)
    assert Bedrock().encode_reply(reply) == BODY
    assert through_stream(reply) == through_body(reply) == reply == fold(events_of(*FRAMES))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Text("")],
        [Text(" ")],
        [Text("a"), Text("b")],
        [Text("a"), call(), Text("b"), call("t2", "ping")],
        [Thinking("Hm."), Text("a")],
        [Thinking("", SIGNED), Thinking(""), Thinking("b", SIGNED)],
        [BROKEN],
        [Text("a"), BROKEN, BROKEN, Text("b"), call()],
        [BROKEN, Thinking("Hm.", SIGNED), BROKEN, Image(data="AAAA", media_type="image/png"), BROKEN],
        [BROKEN, Text("", {"bedrock": {"block": {"toolResult": {"toolUseId": "s1", "content": [{"text": "x"}]}}}})],
        [File("a.txt", "AAAA"), Image(url="https://cats.example/a.png"), Image(url="s3://cats/a.png")],
        [call("odd id!"), call("odd id!"), call("")],
    ],
)
def test_streamed_and_whole_a_reply_is_the_same(parts: list[Part]) -> None:
    reply = reply_of(*parts, stop="tool_calls")
    assert through_stream(reply) == through_body(reply)
    assert through_stream(reply).usage == reply.usage


WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
EXTRA = st.sampled_from([{}, SIGNED, {"bedrock": {"redacted": "//4="}}, {"anthropic": {"signature": "x"}}])
PARTS = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Thinking, WORDS, EXTRA),
    st.builds(lambda id, value: call(id, "ping", value=value), WORDS, WORDS),
    st.just(BROKEN),
)


@given(
    st.lists(PARTS, max_size=6),
    # A reply that was cut short lets its last call be mistrusted, which is a matter of reading.
    st.sampled_from(["end", "tool_calls", "stop_sequence", "pause", "unknown"]),
)
def test_the_law_of_the_two_ways(parts: list[Part], stop: Any) -> None:
    reply = reply_of(*parts, stop=stop)
    assert through_stream(reply) == through_body(reply)


@pytest.mark.parametrize(
    ("stop", "parts", "reason"),
    [
        ("end", [Text("a")], "end_turn"),
        ("end", [call()], "tool_use"),
        ("tool_calls", [call()], "tool_use"),
        ("tool_calls", [BROKEN], "end_turn"),
        ("length", [Text("a")], "max_tokens"),
        ("stop_sequence", [Text("a")], "stop_sequence"),
        ("refusal", [Text("a")], "content_filtered"),
        ("pause", [Text("a")], "end_turn"),
        ("error", [Text("a")], "malformed_model_output"),
        ("unknown", [Text("a")], "end_turn"),
    ],
)
def test_stop_reasons(stop: Any, parts: list[Part], reason: str) -> None:
    reply = reply_of(*parts, stop=stop)
    assert Bedrock().encode_reply(reply)["stopReason"] == reason
    assert frames_of(*unfold(reply))[-2] == ("messageStop", {"stopReason": reason})


def test_the_words_of_this_wire_are_kept_and_those_of_others_are_not() -> None:
    own = reply_of(Text("a"), stop="refusal", extra={"bedrock": {"reason": "guardrail_intervened"}})
    other = reply_of(Text("a"), stop="refusal", extra={"openai_chat": {"reason": "content_filter"}})
    assert Bedrock().encode_reply(own)["stopReason"] == "guardrail_intervened"
    assert Bedrock().encode_reply(other)["stopReason"] == "content_filtered"


def test_calls_are_passed_on_whole_and_in_their_place() -> None:
    events: list[Event] = [
        ReplyStarted(),
        CallStarted(0, "weather", "t1"),
        ArgumentsDelta(0, '{"city": Oslo'),
        TextDelta("behind it"),
        CallEnded(0, call(city="Oslo")),
        ReplyEnded("tool_calls"),
    ]
    kinds = [(kind, fields.get("delta")) for kind, fields in frames_of(*events)]
    assert kinds[2] == ("contentBlockDelta", {"toolUse": {"input": '{"city":"Oslo"}'}})
    assert kinds[4] == ("contentBlockDelta", {"text": "behind it"})


def test_a_broken_call_is_told_in_words() -> None:
    broken = CallBroken('{"ci', "cut off", (0, 0), name="weather", index=0)
    events: list[Event] = [ReplyStarted(), CallStarted(0, "weather", "t1"), broken, ReplyEnded("tool_calls")]
    frames = frames_of(*events)
    assert frames[1][1]["delta"] == {"text": "[A call of weather could not be passed on: cut off]"}
    assert ("messageStop", {"stopReason": "end_turn"}) in frames


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("rate_limited", "throttlingException"),
        ("overloaded", "serviceUnavailableException"),
        ("bad_request", "validationException"),
        ("context_too_long", "validationException"),
        ("server_error", "internalServerException"),
        ("stream_cut", "modelStreamErrorException"),
        ("timed_out", "modelStreamErrorException"),
    ],
)
def test_a_failure_ends_the_stream_with_an_exception(kind: Any, name: str) -> None:
    events: list[Event] = [
        ReplyStarted(),
        TextDelta("So"),
        ReplyFailed(Failure(kind, "oops")),
        UsageReported(Usage()),
        ReplyEnded("error"),
    ]
    assert frames_of(*events)[-1] == (name, {"message": "oops"})


@pytest.mark.parametrize("events", [[], [ReplyStarted()], [TextDelta("So"), CallStarted(0, "ping", "t1")]])
def test_a_stream_that_never_ended_is_no_clean_end(events: list[Event]) -> None:
    reply = fold(collect(Bedrock().reply_stream(), collect(Bedrock().event_stream(), events)))
    assert reply.failure is not None and reply.calls == []
    assert frames_of(*events)[-1][0] == "modelStreamErrorException"


def test_what_is_too_long_for_a_frame_comes_in_several() -> None:
    text, words, blob = "é" * 9_000_000, "é" * 2_000_001, "AAAA" * 600_000
    reply = reply_of(
        Text(text),
        call(text=words),
        Thinking("", {"bedrock": {"redacted": blob}}),
        Image(data=blob, media_type="image/png"),
        stop="tool_calls",
    )
    back = through_stream(reply)
    assert back.text == text
    assert said(back) == [("t1", "weather", {"text": words})]
    assert back == through_body(reply)


def test_a_lone_surrogate_is_replaced_and_nothing_else() -> None:
    assert through_stream(reply_of(Text("a\ud800b"))).text == "a\N{REPLACEMENT CHARACTER}b"


def test_own_events_of_a_part_that_said_nothing_make_no_block() -> None:
    kinds = [
        kind
        for kind, _ in frames_of(
            PartEnded("text"), PartEnded("thinking", {"openai_responses": {"id": "rs"}}), ReplyEnded("end")
        )
    ]
    assert kinds == ["messageStart", "messageStop", "metadata"]


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "status", "name"),
    [
        (Failure("rate_limited", "slow down", 529), 429, "ThrottlingException"),
        (Failure("overloaded", "busy"), 503, "ServiceUnavailableException"),
        (Failure("overloaded", "soon", 429, "ModelNotReadyException"), 429, "ModelNotReadyException"),
        (Failure("unauthorized", "who are you"), 403, "AccessDeniedException"),
        (Failure("bad_request", "no"), 400, "ValidationException"),
        (Failure("context_too_long", "Input is too long"), 400, "ValidationException"),
        (Failure("refused", "no"), 400, "ValidationException"),
        (Failure("not_found", "no"), 404, "ResourceNotFoundException"),
        (Failure("timed_out", "no"), 408, "ModelTimeoutException"),
        (Failure("stream_cut", "no"), 424, "ModelErrorException"),
        (Failure("server_error", "no", code="oops"), 500, "InternalServerException"),
    ],
)
def test_errors_are_named_for_the_aws_client(failure: Failure, status: int, name: str) -> None:
    assert Bedrock().encode_failure(failure) == (status, {"message": failure.message, "__type": name})
    seen = judge.read_whole(Bedrock().encode_failure(failure)[1], status=status)
    assert seen.error == (name, status, failure.message)


def test_a_failed_reply_is_an_error_body() -> None:
    reply = Reply(Message("assistant"), failure=Failure("rate_limited", "slow down"))
    assert Bedrock().encode_reply(reply) == {"message": "slow down", "__type": "ThrottlingException"}
    assert through_body(reply).failure == Failure(
        "rate_limited", "slow down", None, "ThrottlingException", None, Bedrock().encode_reply(reply)
    )
