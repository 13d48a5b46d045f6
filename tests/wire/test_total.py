"""Nothing that comes over a wire raises: bodies and streams with anything anywhere are read as far as they can be."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.wire.conversations import WIRES
from tests.wire.judges import answers, samples
from tests.wire.rules.samples import valid

from dragoman.events import CallEnded
from dragoman.replies import fold, unfold
from dragoman.types import Message, Part, Reply, Request, Text, ToolCall
from dragoman.wire import eventstream, get

STREAMS = {wire: chunks for wire, chunks in samples.STREAMED.items()} | {
    wire: chunks for wire, (chunks, _) in answers.STREAMS.items()
}
WHOLE: dict[str, Any] = dict(samples.WHOLE) | {wire: body for wire, (body, _) in answers.WHOLE.items()}

junk: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**64),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.just("[DONE]"),
    st.just([]),
    st.just({}),
    st.just([None, "x", {}]),
    st.just({"type": "text", "text": None}),
    st.just({"a": {"b": [[[[1]]]]}}),
    st.just("\ud800"),
)


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every place in a JSON value."""
    if isinstance(value, dict):
        inner = [path for key, entry in value.items() for path in paths(entry, (*prefix, key))]
    elif isinstance(value, list):
        inner = [path for index, entry in enumerate(value) for path in paths(entry, (*prefix, index))]
    else:
        inner = []
    return [prefix, *inner]


@st.composite
def damaged(draw: st.DrawFn, body: Any) -> Any:
    """The same value with something else in one to three places, or with a member less."""
    body = json.loads(json.dumps(body, default=lambda data: data.decode("latin-1")))
    for _ in range(draw(st.integers(1, 3))):
        places = [path for path in paths(body) if path]
        if not places:
            break
        path = draw(st.sampled_from(places))
        target = body
        for step in path[:-1]:
            target = target[step]
        if isinstance(target, dict) and draw(st.booleans()):
            del target[path[-1]]
        else:
            target[path[-1]] = copy.deepcopy(draw(junk))
    return body


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(data=st.data())
def test_a_damaged_request_is_read_and_can_be_sent_on(wire: str, data: st.DataObject) -> None:
    body = data.draw(damaged(valid(wire)))
    request = get(wire).decode_request(body)
    assert isinstance(request, Request)
    for other in ("anthropic", "openai_chat", wire):
        assert isinstance(get(other).prepare(request).body, dict)


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(data=st.data())
def test_a_damaged_reply_is_read_and_can_be_passed_on(wire: str, data: st.DataObject) -> None:
    reply = get(wire).decode_reply(data.draw(damaged(WHOLE[wire])))
    assert isinstance(reply, Reply)
    ids = [call.id for call in reply.calls]
    assert len(set(ids)) == len(ids)
    for other in ("gemini", "openai_responses", wire):
        get(other).encode_reply(reply)
        stream = get(other).event_stream()
        assert all(isinstance(piece, bytes) for event in unfold(reply) for piece in stream.feed(event))


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(data=st.data())
def test_a_damaged_stream_is_read(wire: str, data: st.DataObject) -> None:
    chunks = list(STREAMS[wire])
    for place in data.draw(st.lists(st.integers(0, len(chunks) - 1), min_size=1, max_size=3, unique=True)):
        chunks[place] = data.draw(damaged_chunk(wire, chunks[place]))
    stream = get(wire).reply_stream()
    events = [event for chunk in chunks for event in stream.feed(chunk)] + stream.close()
    reply = fold(events)
    assert fold(unfold(reply)).calls == reply.calls
    ended = [event.index for event in events if isinstance(event, CallEnded)]
    assert ended == sorted(set(ended))


@st.composite
def damaged_chunk(draw: st.DrawFn, wire: str, chunk: bytes) -> bytes:
    """A frame that is missing, doubled, cut, or says something else."""
    way = draw(st.sampled_from(["missing", "doubled", "cut", "other"]))
    if way != "other":
        return {"missing": b"", "doubled": chunk * 2, "cut": chunk[: draw(st.integers(0, len(chunk)))]}[way]
    if wire == "bedrock":
        (frame,) = eventstream.EventStreamDecoder().feed(chunk)
        assert isinstance(frame, eventstream.Frame)
        body = draw(damaged(json.loads(frame.payload)))
        return eventstream.encode(frame.headers, json.dumps(body).encode())
    start = chunk.find(b"{")
    if start < 0:
        return b""
    end = chunk.rfind(b"}") + 1
    return chunk[:start] + json.dumps(draw(damaged(json.loads(chunk[start:end])))).encode() + chunk[end:]


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=60, deadline=None)
@given(
    value=st.recursive(
        junk, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    )
)
@example(value=b"\xff\xfe")
@example(value="{")
@example(value="[" * 10_000)
def test_anything_at_all_is_read(wire: str, value: Any) -> None:
    codec = get(wire)
    assert codec.decode_tool_calls(value) == []
    assert isinstance(codec.decode_request(value), Request)
    assert isinstance(codec.decode_reply(value), Reply)
    assert codec.decode_failure(None, value).kind
    assert codec.decode_failure(500, value, {"retry-after": "soon"}).status == 500


@pytest.mark.parametrize("wire", WIRES)
def test_a_very_deep_or_large_argument_is_carried_or_refused_but_never_raises(wire: str) -> None:
    deep: Any = "x"
    for _ in range(90):
        deep = {"a": [deep]}
    for arguments in ({"v": deep}, {"v": "y" * 500_000}, {"v": "\ud800 lone"}):
        call: Part = ToolCall("abc123XYZ", "t", arguments)
        message = Message("assistant", [call])
        codec = get(wire)
        codec.encode_request(Request("m", [Message("user", [Text("go")]), message]))
        stream = codec.event_stream()
        written = b"".join([piece for event in unfold(Reply(message)) for piece in stream.feed(event)] + stream.close())
        reader = codec.reply_stream()
        assert isinstance(fold(reader.feed(written) + reader.close()), Reply)
