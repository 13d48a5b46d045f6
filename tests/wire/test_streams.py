"""The laws of streams, on every wire: pieces do not matter, a reply is the fold of its events, a cut is no end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import each_row
from tests.wire.conversations import REPLIES, WIRES
from tests.wire.judges import answers, samples

from dragoman.events import (
    ArgumentsDelta,
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.replies import fold, unfold
from dragoman.types import Fault, Image, InvalidCall, Message, Reply, Text, Thinking, ToolCall, Usage
from dragoman.wire import get, writer
from dragoman.wire.event_order import EventOrder, unfold_in_order

RECORDED: dict[str, bytes] = {wire: b"".join(chunks) for wire, chunks in samples.STREAMED.items()} | {
    wire: b"".join(chunks) for wire, (chunks, _) in answers.STREAMS.items()
}
WHOLE: dict[str, Any] = dict(samples.WHOLE) | {wire: body for wire, (body, _) in answers.WHOLE.items()}
SEEN = {wire: samples.expected(wire) for wire in samples.WHOLE} | {
    wire: seen for wire, (_, seen) in answers.WHOLE.items()
}
# What stands in the last frame of a reply: a stream in which that frame is not whole was cut.
LAST: dict[str, bytes] = {
    "openai_chat": b"data: [DONE]",
    "openai_responses": b"event: response.completed",
    "anthropic": b"event: message_stop",
    "gemini": b'"finishReason"',
    "ollama": b'"done":true',
    "bedrock": b"messageStop",
    "mistral": b"data: [DONE]",
    "cohere": b'"message-end"',
}


def end_of_last_frame(wire: str) -> int:
    """How many bytes of a recorded stream there are when its last frame has said everything."""
    recorded = RECORDED[wire]
    if wire == "bedrock":
        start = 0
        while True:
            length = int.from_bytes(recorded[start : start + 4], "big")
            if LAST[wire] in recorded[start : start + length]:
                return start + length
            start += length
    return recorded.index(b"\n" if wire == "ollama" else b"\n\n", recorded.index(LAST[wire]))


def read(wire: str, *pieces: bytes) -> list[Event]:
    stream = get(wire).reply_stream()
    return [event for piece in pieces for event in stream.feed(piece)] + stream.close()


def serve(wire: str, reply: Reply) -> bytes:
    stream = get(wire).event_stream()
    return b"".join([piece for event in unfold(reply) for piece in stream.feed(event)] + stream.close())


def meaning(reply: Reply) -> tuple[Any, ...]:
    """What a reply says, apart from how its text is divided into parts."""
    parts = reply.message.parts
    return (
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Thinking)),
        [(part.name, part.arguments) for part in parts if isinstance(part, ToolCall)],
        reply.usage,
        reply.stop,
        reply.failure,
    )


# ---- recorded streams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_a_recorded_stream_says_what_its_official_client_sees(wire: str) -> None:
    reply = fold(read(wire, RECORDED[wire]))
    seen = SEEN[wire]
    text, thinking, calls, *_ = meaning(reply)
    assert (text, calls) == (seen.text, [(name, arguments) for _, name, arguments in seen.calls])
    assert thinking.startswith(seen.thinking)
    assert reply.stop == "tool_calls"
    assert reply.failure is None


@pytest.mark.parametrize("wire", WIRES)
def test_whole_and_streamed_are_the_same_reply(wire: str) -> None:
    assert fold(read(wire, RECORDED[wire])) == get(wire).decode_reply(WHOLE[wire])


@pytest.mark.parametrize("wire", WIRES)
def test_any_cut_into_two_pieces_gives_the_same_events(wire: str) -> None:
    recorded = RECORDED[wire]
    expected = read(wire, recorded)
    for place in range(len(recorded)):
        assert read(wire, recorded[:place], recorded[place:]) == expected, place


@pytest.mark.parametrize("wire", WIRES)
def test_byte_by_byte_gives_the_same_events(wire: str) -> None:
    recorded = RECORDED[wire]
    assert read(wire, *(recorded[place : place + 1] for place in range(len(recorded)))) == read(wire, recorded)


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_off_never_gives_a_complete_call(wire: str) -> None:
    recorded = RECORDED[wire]
    for place in range(end_of_last_frame(wire)):
        stage = get(wire).reply_stream()
        events = [*stage.feed(recorded[:place]), *stage.cut()]
        reply = fold(events)
        assert not any(isinstance(event, CallEnded) for event in events), place
        assert reply.calls == []
        assert reply.failure is not None, place
        assert (reply.failure.kind, reply.stop) == ("stream_cut", "error")


@pytest.mark.parametrize("wire", WIRES)
def test_the_pieces_of_arguments_are_their_json(wire: str) -> None:
    events = read(wire, RECORDED[wire])
    for ended in (event for event in events if isinstance(event, CallEnded)):
        pieces = [event.text for event in events if isinstance(event, ArgumentsDelta) and event.index == ended.index]
        assert msgspec.json.decode("".join(pieces)) == ended.call.arguments
        assert ended.call.repairs == ()


@pytest.mark.parametrize("wire", WIRES)
def test_what_stands_behind_the_last_frame_changes_nothing(wire: str) -> None:
    recorded = RECORDED[wire]
    assert fold(read(wire, recorded, recorded)).calls == fold(read(wire, recorded)).calls


# ---- replies of ours -------------------------------------------------------------------------------------------------


@each_row("case", REPLIES)
@each_row("wire", WIRES)
def test_a_served_reply_is_the_same_whole_and_streamed(wire: str, case: str) -> None:
    reply = REPLIES[case]
    streamed = fold(read(wire, serve(wire, reply)))
    assert streamed == get(wire).decode_reply(get(wire).encode_reply(reply))
    assert meaning(streamed) == meaning(reply)


@pytest.mark.parametrize("wire", WIRES)
def test_a_served_stream_that_breaks_off_gives_no_call(wire: str) -> None:
    stream = get(wire).event_stream()
    events = unfold(REPLIES["parallel calls"])[:-2]
    written = b"".join([piece for event in events for piece in stream.feed(event)] + stream.close())
    reply = fold(read(wire, written))
    assert reply.calls == []
    assert reply.failure is not None


@pytest.mark.parametrize("wire", WIRES)
def test_deltas_in_succession_are_written_like_single_ones(wire: str) -> None:
    """A writer may keep the bytes of a frame around its text. The frames stay the same, whatever the text is."""
    texts = ["a", "b", "", 'quotes " \\ and \n lines', "\u2028\x85", "half \ud83d", writer._MARK, "\U0001f600", "z"]
    parted: list[Event] = [
        PartEnded("text", {}),
        PartReceived(Image(data="aGk=", media_type="image/png")),
        UsageReported(Usage(1, 2)),
    ]
    for model in ("m", f"m{writer._MARK}"):
        for between in (None, *parted):
            events: list[Event] = [ReplyStarted(model, "r1")]
            for kind in (TextDelta, ThinkingDelta, TextDelta):
                for text in texts:
                    events += [kind(text), *([between] if between is not None else [])]
            events += [*unfold(REPLIES["parallel calls"])[1:]]
            kept, anew = get(wire).event_stream(), get(wire).event_stream()
            anew.repeats_frames = False
            for event in events:
                assert kept.feed(event) == anew.feed(event), (wire, model, between, event)
            assert kept.close() == anew.close()


letters = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | letters,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(letters, inner, max_size=3),
    max_leaves=8,
)
words = letters.filter(bool)
identities = st.text("abcXYZ0189", min_size=9, max_size=9)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    thoughts = draw(st.lists(words.map(Thinking), max_size=1))
    texts = draw(st.lists(words.map(Text), max_size=1))
    names = draw(st.lists(st.sampled_from(["search", "ping", "read_file"]), max_size=3))
    ids = draw(st.lists(identities, min_size=len(names), max_size=len(names), unique=True))
    objects = [draw(st.dictionaries(letters, values, max_size=3)) for _ in names]
    calls = [ToolCall(*call) for call in zip(ids, names, objects, strict=True)]
    stop = draw(st.sampled_from(["end", "length"])) if not calls else "tool_calls"
    usage = Usage(draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6)))
    return Reply(Message("assistant", [*thoughts, *texts, *calls]), usage, stop, model="m", id="r")  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=60, deadline=None)
@given(reply=replies(), data=st.data())
def test_every_reply_survives_the_wire(wire: str, reply: Reply, data: st.DataObject) -> None:
    written = serve(wire, reply)
    place = data.draw(st.integers(0, len(written)))
    streamed = fold(read(wire, written[:place], written[place:]))
    assert streamed == get(wire).decode_reply(get(wire).encode_reply(reply))
    assert meaning(streamed) == meaning(reply)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(reply=replies())
def test_a_reply_is_the_fold_of_its_own_events(reply: Reply) -> None:
    assert fold(unfold(reply)) == reply


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(reply=replies(), broken=st.lists(st.tuples(st.integers(0, 5), words), max_size=2))
def test_a_whole_reply_is_put_in_order_as_its_events_are(reply: Reply, broken: list[tuple[int, str]]) -> None:
    for place, why in broken:
        faults = (Fault("$", why),)
        reply.message.parts.insert(place, InvalidCall("c0", "search", "{", faults))
    order = EventOrder()
    ordered = [each for event in unfold(reply) for each in order.feed(event)] + order.close()
    spoken = [event for event in unfold_in_order(reply) if not isinstance(event, TextDelta) or event.text]
    assert [comparable(event) for event in spoken] == [comparable(event) for event in ordered]


def comparable(event: Event) -> Event | ToolCall:
    """Calls without their index, which has no meaning once they are in order."""
    return event.call if isinstance(event, CallEnded) else event
