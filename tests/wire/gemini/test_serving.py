"""Replies that a server of this wire gives: whole, streamed, and read back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.events import ArgumentsDelta, CallStarted, Event, PartEnded, ReplyStarted, TextDelta
from dragoman.replies import fold, unfold
from dragoman.stage import collect
from dragoman.types import (
    Failure,
    Fault,
    Image,
    InvalidCall,
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
from dragoman.wire import registry

GEMINI = registry.get("gemini")
SIGNED = {"gemini": {"thought_signature": "c2lnbmF0dXJl"}}
THOUGHT = {"gemini": {"thought": True}}
NATIVE = Provenance("native", "gemini")


def reply(*parts: Part, stop: StopReason = "end", **fields: Any) -> Reply:
    whole = {"usage": Usage(10, 12, 4, 7), "model": "gemini-3-pro", "id": "r1", **fields}
    return Reply(Message("assistant", list(parts)), stop=stop, **whole)


def serve(events: list[Event]) -> bytes:
    pieces: list[bytes] = collect(GEMINI.event_stream(), events)
    return b"".join(pieces)


def frames(stream: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]


def reread(stream: bytes) -> Reply:
    return fold(collect(GEMINI.reply_stream(), [stream]))


FULL = reply(
    Thinking("Let me think.", {"gemini": {"thought": True}}),
    Text("Grüße"),
    Text(" 世界", SIGNED),
    ToolCall("x1", "search", {"q": "ça"}, provenance=NATIVE, extra=SIGNED, wire_id="x1"),
    ToolCall("call_1", "ping", {}, provenance=NATIVE),
    Image(None, "iVBORw0KGgo=", "image/png"),
    Text("", SIGNED),
    stop="tool_calls",
    extra={"gemini": {"reason": "STOP", "candidate": {"groundingMetadata": {"a": 1}}}},
)


def test_a_whole_reply() -> None:
    assert GEMINI.encode_reply(FULL) == {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "Let me think.", "thought": True},
                        {"text": "Grüße"},
                        {"text": " 世界", "thoughtSignature": "c2lnbmF0dXJl"},
                        {
                            "functionCall": {"id": "x1", "name": "search", "args": {"q": "ça"}},
                            "thoughtSignature": "c2lnbmF0dXJl",
                        },
                        {"functionCall": {"name": "ping", "args": {}}},
                        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                        {"text": "", "thoughtSignature": "c2lnbmF0dXJl"},
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "groundingMetadata": {"a": 1},
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 7,
            "cachedContentTokenCount": 4,
            "totalTokenCount": 22,
        },
        "modelVersion": "gemini-3-pro",
        "responseId": "r1",
    }


def test_a_full_reply_survives_whole_and_streamed() -> None:
    assert GEMINI.decode_reply(GEMINI.encode_reply(FULL)) == FULL
    assert reread(serve(unfold(FULL))) == FULL


def test_a_stream_is_one_chunk_for_each_part_and_one_for_the_end() -> None:
    *chunks, last = frames(serve(unfold(reply(Text("Hi"), ToolCall("c", "ping", {}), stop="tool_calls"))))
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in chunks] == [
        [{"text": "Hi"}],
        [{"functionCall": {"id": "c", "name": "ping", "args": {}}}],
    ]
    assert all("finishReason" not in chunk["candidates"][0] for chunk in chunks)
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"]["totalTokenCount"] == 22
    assert (last["modelVersion"], last["responseId"]) == ("gemini-3-pro", "r1")


def test_text_waits_for_one_event_and_no_longer() -> None:
    stream = GEMINI.event_stream(model="m")
    assert stream.feed(ReplyStarted()) == []
    assert stream.feed(TextDelta("a")) == []
    assert [frame["candidates"][0]["content"]["parts"] for frame in frames(b"".join(stream.feed(TextDelta("b"))))] == [
        [{"text": "a"}]
    ]
    # The arguments of a call may take long: the words before it do not wait for them.
    [frame] = frames(b"".join(stream.feed(CallStarted(0, "ping", "c"))))
    assert frame["candidates"][0]["content"]["parts"] == [{"text": "b"}]
    assert stream.feed(ArgumentsDelta(0, "{}")) == []


def test_a_signature_goes_out_with_the_words_before_it() -> None:
    stream = GEMINI.event_stream()
    stream.feed(TextDelta("a"))
    [frame] = frames(b"".join(stream.feed(PartEnded("text", SIGNED))))
    assert frame["candidates"][0]["content"]["parts"] == [{"text": "a", "thoughtSignature": "c2lnbmF0dXJl"}]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end", "STOP"),
        ("tool_calls", "STOP"),
        ("stop_sequence", "STOP"),
        ("length", "MAX_TOKENS"),
        ("refusal", "SAFETY"),
        ("pause", "CONTINUATION"),
        ("error", "OTHER"),
        ("unknown", "STOP"),
    ],
)
def test_finish_reasons(stop: StopReason, reason: str) -> None:
    answer = reply(Text("Hi"), stop=stop)
    assert GEMINI.encode_reply(answer)["candidates"][0]["finishReason"] == reason
    assert frames(serve(unfold(answer)))[-1]["candidates"][0]["finishReason"] == reason


def test_the_own_word_and_its_message_come_back() -> None:
    extra = {"gemini": {"reason": "MALFORMED_FUNCTION_CALL", "message": "print(ping("}}
    answer = reply(stop="error", extra=extra)
    assert GEMINI.decode_reply(GEMINI.encode_reply(answer)) == answer
    assert reread(serve(unfold(answer))) == answer


def test_a_blocked_prompt_has_no_candidate() -> None:
    answer = GEMINI.decode_reply({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []}})
    body = GEMINI.encode_reply(answer)
    assert body["promptFeedback"] == {"blockReason": "SAFETY", "safetyRatings": []}
    assert "candidates" not in body
    assert reread(serve(unfold(answer))) == GEMINI.decode_reply(body) == answer


def test_thoughts_of_another_wire_are_shown() -> None:
    answer = reply(Thinking("Hm.", {"anthropic": {"signature": "xyz"}}), Text("Yes."))
    expected = reply(Thinking("Hm.", THOUGHT), Text("Yes."), extra={"gemini": {"reason": "STOP"}})
    assert GEMINI.decode_reply(GEMINI.encode_reply(answer)) == expected
    assert reread(serve(unfold(answer))) == expected


def test_calls_of_another_wire_keep_their_ids_and_doubles_are_told_apart() -> None:
    foreign = Provenance("native", "ollama")
    answer = reply(
        ToolCall("call_1", "a", {}, provenance=foreign),
        ToolCall("call_1", "b", {}, provenance=foreign),
        stop="tool_calls",
    )
    for read in (GEMINI.decode_reply(GEMINI.encode_reply(answer)), reread(serve(unfold(answer)))):
        assert [made.name for made in read.calls] == ["a", "b"]
        assert read.calls[0].id == "call_1"
        assert read.calls[1].id != "call_1"


def test_a_call_that_could_not_be_read_is_told_in_words() -> None:
    answer = reply(InvalidCall("c", "ping", "{oo", (Fault("$", "the arguments were cut off"),)), stop="length")
    for read in (GEMINI.decode_reply(GEMINI.encode_reply(answer)), reread(serve(unfold(answer)))):
        assert read.calls == []
        assert read.text == "[A call of ping could not be passed on: the arguments were cut off]"


def test_an_empty_reply_has_a_part_all_the_same() -> None:
    body = GEMINI.encode_reply(reply())
    assert body["candidates"][0]["content"]["parts"] == [{"text": ""}]
    assert GEMINI.decode_reply(body).message.parts == []
    assert GEMINI.encode_reply(reply(Text(""))) == body


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "status", "word"),
    [
        (Failure("rate_limited", "slow", retry_after=30), 429, "RESOURCE_EXHAUSTED"),
        (Failure("overloaded", "busy", status=529), 503, "UNAVAILABLE"),
        (Failure("unauthorized"), 401, "UNAUTHENTICATED"),
        (Failure("unauthorized", status=403), 403, "PERMISSION_DENIED"),
        (Failure("bad_request", "no"), 400, "INVALID_ARGUMENT"),
        (Failure("not_found"), 404, "NOT_FOUND"),
        (Failure("timed_out"), 504, "DEADLINE_EXCEEDED"),
        (Failure("server_error"), 500, "INTERNAL"),
    ],
)
def test_errors(failure: Failure, status: int, word: str) -> None:
    given, body = GEMINI.encode_failure(failure)
    assert (given, body["error"]["code"], body["error"]["status"]) == (status, status, word)
    assert body["error"]["message"]
    again = GEMINI.decode_failure(given, body)
    assert (again.kind, again.retry_after) == (failure.kind, failure.retry_after)
    assert GEMINI.encode_reply(reply(failure=failure)) == body


def test_an_error_in_a_stream_ends_it() -> None:
    answer = reply(Text("Hi"), failure=Failure("overloaded", "busy"), stop="error")
    *_, last = frames(serve(unfold(answer)))
    assert last == {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    read = reread(serve(unfold(answer)))
    assert read.text == "Hi"
    assert read.failure is not None and read.failure.kind == "overloaded"


def test_a_stream_that_nobody_ended_is_no_clean_end() -> None:
    events = unfold(reply(Text("Hi"), ToolCall("c", "ping", {}), stop="tool_calls"))
    for count in range(len(events)):
        read = reread(serve(events[:count]))
        assert read.calls == []
        assert read.stop == "error"
        assert read.failure is not None


def test_nothing_follows_the_end() -> None:
    stream = GEMINI.event_stream()
    for event in unfold(FULL):
        stream.feed(event)
    assert stream.feed(TextDelta("late")) == []
    assert stream.close() == []


# ---- laws ----------------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=6)
OWN = st.sampled_from([{}, SIGNED])
PARTS = (
    st.builds(Text, TEXTS, OWN)
    | st.builds(
        Thinking, TEXTS, st.sampled_from([{}, THOUGHT, {"gemini": {"thought": True, "thought_signature": "c2ln"}}])
    )
    | st.builds(
        lambda id, name, arguments, extra: ToolCall(id, name, arguments, provenance=NATIVE, extra=extra, wire_id=id),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["ping", "search"]),
        st.dictionaries(TEXTS, st.integers() | TEXTS | st.none() | st.lists(TEXTS, max_size=2), max_size=2),
        OWN,
    )
)


@given(st.lists(PARTS, max_size=5))
@example([Text("a"), Thinking(""), Text("b")])
def test_streamed_and_whole_say_the_same(parts: list[Part]) -> None:
    stop: StopReason = "tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "end"
    answer = reply(*parts, stop=stop)
    whole = GEMINI.decode_reply(GEMINI.encode_reply(answer))
    assert reread(serve(unfold(answer))) == whole
    # And what was once read stays as it is.
    assert GEMINI.decode_reply(GEMINI.encode_reply(whole)) == whole
    assert reread(serve(unfold(whole))) == whole
    assert [(made.name, made.arguments) for made in whole.calls] == [
        (made.name, made.arguments) for made in answer.calls
    ]
    assert (whole.text, whole.usage, whole.stop) == (answer.text, answer.usage, answer.stop)
