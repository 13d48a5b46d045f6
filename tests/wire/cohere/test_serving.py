"""Replies written as Cohere writes them; the official client is the judge of what it is sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.cohere.samples import (
    CITATION,
    PARIS,
    PLAN,
    THOUGHT,
    USAGE,
    WIRE,
    begin_call,
    call,
    end,
    end_call,
    plan,
    read,
    reply,
    serve,
    served,
    start,
    text,
    thought,
)
from tests.wire.judges import cohere as judge
from tests.wire.judges.seen import Seen

from dragoman.events import CallEnded, CallStarted, Event, ReplyEnded, ReplyFailed, ReplyStarted, TextDelta
from dragoman.replies import fold, unfold
from dragoman.types import Failure, Fault, Image, InvalidCall, Reply, Text, Thinking, ToolCall, Usage
from dragoman.wire.framing import SseDecoder, SseEvent

HELLO = "Grüße, 世界 🌍"
NOTE = "[A call of ping could not be passed on: cut off]"
BROKEN = InvalidCall("c9", "ping", "{", (Fault("$", "cut off"),))
COUNTS = {"billed_units": {"input_tokens": 11, "output_tokens": 7}, "tokens": {"input_tokens": 11, "output_tokens": 7}}


def frames(pieces: list[bytes]) -> list[Any]:
    """What was written, frame by frame; each frame is named in the framing as well."""
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    found = []
    for event in events:
        assert isinstance(event, SseEvent)
        found.append(msgspec.json.decode(event.data))
        assert event.event == found[-1]["type"]
    return found


def test_the_sequence_of_the_vendor() -> None:
    rich = reply(
        Thinking("Hm.", THOUGHT),
        Thinking("Look.", PLAN),
        Text(HELLO),
        ToolCall("c1", "weather", PARIS),
        ToolCall("c2", "ping", {}),
        stop="tool_calls",
        usage=Usage(11, 7, 4),
        extra={"cohere": {"billed_units": {"input_tokens": 3, "output_tokens": 7}, "citations": [CITATION]}},
    )
    assert frames(serve(unfold(rich))) == [
        {
            "type": "message-start",
            "id": "r1",
            "delta": {
                "message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
            },
        },
        start("content-start", 0, content={"type": "thinking", "thinking": ""}),
        thought("Hm."),
        {"type": "content-end", "index": 0},
        plan("Look."),
        start("content-start", 1, content={"type": "text", "text": ""}),
        text(HELLO, 1),
        {"type": "content-end", "index": 1},
        start("citation-start", 0, citations=CITATION),
        {"type": "citation-end", "index": 0},
        begin_call(0, "c1", "weather"),
        start("tool-call-delta", 0, tool_calls={"function": {"arguments": '{"city":"Paris","days":2}'}}),
        end_call(0),
        begin_call(1, "c2", "ping"),
        start("tool-call-delta", 1, tool_calls={"function": {"arguments": "{}"}}),
        end_call(1),
        end("TOOL_CALL", usage=USAGE),
    ]
    assert WIRE.encode_reply(rich) == {
        "id": "r1",
        "message": {
            "role": "assistant",
            "tool_plan": "Look.",
            "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": HELLO}],
            "tool_calls": [call("c1", "weather", '{"city":"Paris","days":2}'), call("c2", "ping", "{}")],
            "citations": [CITATION],
        },
        "finish_reason": "TOOL_CALL",
        "usage": USAGE,
    }


REPLIES: list[tuple[str, Reply, Seen]] = [
    ("text", reply(Text("Hi.")), Seen(text="Hi.", stop="COMPLETE")),
    ("empty", reply(), Seen(stop="COMPLETE")),
    ("unicode", reply(Text(HELLO + "\u2028\x85\r\n")), Seen(text=HELLO + "\u2028\x85\r\n", stop="COMPLETE")),
    (
        "a call without arguments",
        reply(ToolCall("c1", "ping", {}), stop="tool_calls"),
        Seen(calls=(("c1", "ping", {}),), stop="TOOL_CALL"),
    ),
    (
        "parallel calls",
        reply(Text("So."), ToolCall("a", "x", PARIS), ToolCall("b", "y", {"n": [1, None]}), stop="tool_calls"),
        Seen(text="So.", calls=(("a", "x", PARIS), ("b", "y", {"n": [1, None]})), stop="TOOL_CALL"),
    ),
    ("a plan", reply(Thinking("Look.", PLAN)), Seen(stop="COMPLETE", extra={"tool_plan": "Look."})),
    ("foreign thoughts", reply(Thinking("Hm."), Text("Hi.")), Seen(text="Hi.", thinking="Hm.", stop="COMPLETE")),
    ("a limit", reply(Text("Once"), stop="length"), Seen(text="Once", stop="MAX_TOKENS")),
    ("a stop sequence", reply(Text("Once"), stop="stop_sequence"), Seen(text="Once", stop="STOP_SEQUENCE")),
    ("a refusal", reply(Text("No."), stop="refusal"), Seen(text="No.", stop="COMPLETE")),
    ("a broken call", reply(BROKEN, stop="end"), Seen(text=NOTE, stop="COMPLETE")),
    ("the reason of this wire", reply(extra={"cohere": {"reason": "STOP_SEQUENCE"}}), Seen(stop="STOP_SEQUENCE")),
]


@pytest.mark.parametrize(("given", "seen"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
def test_the_official_client_sees(given: Reply, seen: Seen) -> None:
    seen = msgspec.structs.replace(seen, usage=(11, 7), extra={"id": "r1", **seen.extra})
    streamed, whole = judge.read_stream(serve(unfold(given))), judge.read_whole(WIRE.encode_reply(given))
    assert streamed == seen
    assert whole == seen


def test_two_calls_of_one_id_get_two() -> None:
    twins = reply(ToolCall("a", "x", {}), ToolCall("a", "y", {}), stop="tool_calls")
    (first, *_), (second, *_) = judge.read_stream(serve(unfold(twins))).calls
    assert first == "a"
    assert second not in ("a", "", None)
    assert served(twins) == WIRE.decode_reply(WIRE.encode_reply(twins))


@pytest.mark.parametrize("given", [case[1] for case in REPLIES], ids=[case[0] for case in REPLIES])
def test_whole_and_streamed_are_the_same_reply(given: Reply) -> None:
    assert served(given) == WIRE.decode_reply(WIRE.encode_reply(given))


def test_usage_that_no_one_reported_is_not_made_up() -> None:
    events: list[Event] = [ReplyStarted("m", "r1"), TextDelta("Hi"), ReplyEnded("end")]
    assert frames(serve(events))[-1] == end("COMPLETE")
    assert frames(serve(unfold(reply(Text("Hi")))))[-1] == end("COMPLETE", usage=COUNTS)


def test_text_goes_out_at_once() -> None:
    stream = WIRE.event_stream(id="r1")
    stream.feed(ReplyStarted())
    assert [frame["type"] for frame in frames(stream.feed(TextDelta("Hi")))] == ["content-start", "content-delta"]
    assert frames(stream.feed(TextDelta(" there"))) == [text(" there")]


def test_the_id_is_that_of_the_reply_or_the_one_given_or_a_word() -> None:
    assert frames(serve([ReplyStarted("m", "own")]))[0]["id"] == "own"
    assert frames(serve([ReplyStarted()]))[0]["id"] == "r1"
    assert frames(WIRE.event_stream().feed(ReplyStarted()))[0]["id"] == "reply-0"


# ---- order: a whole message has one place for each thing -------------------------------------------------------------

ORDERS: list[tuple[str, list[Any], list[Any]]] = [
    ("text behind a call", [ToolCall("a", "x", {}), Text("Done.")], [Text("Done."), "a"]),
    (
        "a plan behind the answer is a thought",
        [Text("So."), Thinking("Look.", PLAN), ToolCall("a", "x", {})],
        [Text("So."), Thinking("Look.", THOUGHT), "a"],
    ),
    (
        "a thought right behind the plan goes with it",
        [Thinking("Look.", PLAN), Thinking("Hm.", THOUGHT), Text("So.")],
        [Thinking("Look.Hm.", PLAN), Text("So.")],
    ),
    ("two texts stay two", [Text("a"), Text("b")], [Text("a"), Text("b")]),
    ("a note and the text behind it", [BROKEN, Text(" So.")], [Text(NOTE + " So.")]),
    ("images have no place", [Text("See:"), Image("https://example.org/a.png")], [Text("See:")]),
]


@pytest.mark.parametrize(("parts", "found"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_the_order_of_parts(parts: list[Any], found: list[Any]) -> None:
    read_back = served(reply(*parts))
    assert [part.id if isinstance(part, ToolCall) else part for part in read_back.message.parts] == found
    assert read_back == WIRE.decode_reply(WIRE.encode_reply(reply(*parts)))


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "delta"),
    [
        (Failure("overloaded", "too busy"), {"error": "too busy", "finish_reason": "ERROR"}),
        (Failure("timed_out"), {"error": "timed out", "finish_reason": "TIMEOUT"}),
    ],
)
def test_an_error_in_the_middle_of_a_stream(failure: Failure, delta: dict[str, str]) -> None:
    failed = reply(Text("Half"), stop="error", failure=failure)
    pieces = serve(unfold(failed))
    assert frames(pieces)[-1] == {"type": "message-end", "delta": {**delta, "usage": COUNTS}}
    seen = judge.read_stream(pieces)
    assert (seen.text, seen.error) == ("Half", ("message-end", None, delta["error"]))
    again = fold(read(*pieces))
    assert again.failure is not None
    assert (again.failure.message, again.stop) == (delta["error"], "error")


def test_no_call_is_passed_on_behind_an_error() -> None:
    called = CallEnded(0, ToolCall("c1", "ping", {}))
    pieces = serve([ReplyStarted(), CallStarted(0, "ping", "c1"), called, ReplyFailed(Failure("server_error"))])
    assert not any(frame["type"].startswith("tool-call") for frame in frames(pieces))
    assert judge.read_stream(pieces).error is not None


def test_a_reply_that_never_ends_is_no_clean_end() -> None:
    events = unfold(reply(Text("Half"), ToolCall("c1", "ping", {}), stop="tool_calls"))
    for count in range(len(events)):
        again = fold(read(*serve(events[:count])))
        assert again.calls == []
        assert again.failure is not None, count
        assert again.failure.message == "the reply ended before it was complete"


def test_nothing_is_written_behind_the_end() -> None:
    stream = WIRE.event_stream()
    for event in unfold(reply(Text("Hi"))):
        stream.feed(event)
    assert stream.feed(TextDelta("more")) == []
    assert stream.close() == []


def test_error_answers() -> None:
    assert WIRE.encode_failure(Failure("rate_limited", "slow down")) == (429, {"message": "slow down"})
    assert WIRE.encode_failure(Failure("bad_request", status=422, code="bad")) == (422, {"message": "bad"})
    assert WIRE.encode_failure(Failure("not_found")) == (404, {"message": "not found"})
    assert WIRE.encode_reply(reply(failure=Failure("not_found", "gone"))) == {"message": "gone"}


# ---- the law ---------------------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
said = (
    words.map(Text)
    | words.map(Thinking)
    | words.map(lambda text: Thinking(text, PLAN))
    | words.map(lambda text: Thinking(text, THOUGHT))
    | words.map(lambda text: Thinking(text, {"anthropic": {"signature": "x"}}))
    | st.just(BROKEN)
    | st.builds(ToolCall, words, st.sampled_from(["x", "y"]), st.dictionaries(words, st.integers(-9, 9), max_size=2))
)
citations = st.lists(st.just(CITATION), max_size=2).map(lambda found: {"cohere": {"citations": found}} if found else {})


@given(
    st.lists(said, max_size=6),
    st.sampled_from(["end", "tool_calls", "length", "stop_sequence", "refusal", "pause", "error", "unknown"]),
    st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    citations,
)
def test_a_reply_is_the_same_whole_and_streamed(parts: list[Any], stop: Any, usage: Usage, extra: Any) -> None:
    given_reply = reply(*parts, stop=stop, usage=usage, extra=extra)
    pieces = serve(unfold(given_reply))
    streamed = fold(read(*pieces))
    assert streamed == WIRE.decode_reply(WIRE.encode_reply(given_reply))
    assert judge.read_stream(pieces).text == streamed.text


@given(
    st.lists(words.map(lambda text: Thinking(text, THOUGHT)), max_size=1), st.lists(words, max_size=2), st.booleans()
)
def test_what_the_wire_carries_comes_back_as_it_was(thoughts: list[Any], texts: list[str], planned: bool) -> None:
    parts = [*thoughts, *([Thinking("Look.", PLAN)] if planned else []), *map(Text, texts)]
    extra = {"cohere": {"reason": "COMPLETE", "citations": [CITATION]}}
    given_reply = reply(*parts, extra=extra)
    assert served(given_reply) == given_reply
    assert WIRE.decode_reply(WIRE.encode_reply(given_reply)) == given_reply
