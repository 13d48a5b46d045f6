"""Streams that break off, and frames and bodies that hold nonsense."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.openai_responses.samples import COMPLETED, EVENTS, STREAM, WHOLE, WIRE, frames, read
from tests.wire.openai_responses.test_intake import junk, paths, replaced

from dragoman.events import CallEnded
from dragoman.replies import fold
from dragoman.types import Reply
from dragoman.wire import get


def test_any_cut_into_two_pieces_gives_the_same_events() -> None:
    expected = read(STREAM)
    for place in range(len(STREAM)):
        assert read(STREAM[:place], STREAM[place:]) == expected, place
    assert read(*(STREAM[place : place + 1] for place in range(len(STREAM)))) == expected


def test_a_stream_that_breaks_off_never_gives_a_complete_call() -> None:
    last = STREAM.index(b"event: response.completed")
    # The last frame is read as soon as its JSON is complete, whether or not the blank line came.
    for place in range(len(STREAM) - 2):
        events = read(STREAM[:place])
        reply = fold(events)
        assert reply.calls == [], place
        assert not any(isinstance(found, CallEnded) for found in events)
        assert reply.failure is not None
        assert reply.failure.kind == "stream_cut"
        if place > last:
            assert [call.name for call in reply.invalid] == ["get_weather", "ping"]
    assert [call.name for call in fold(read(STREAM[:-2])).calls] == ["get_weather", "ping"]


def test_a_frame_that_is_no_json_ends_the_reply_as_a_failure() -> None:
    reply = fold(read(frames(*EVENTS) + b"data: {nonsense}\n\n" + frames(COMPLETED)))
    assert reply.calls == []
    assert reply.failure is not None
    assert reply.failure.kind == "server_error"


def test_nothing_counts_behind_the_end() -> None:
    assert fold(read(STREAM + STREAM)) == fold(read(STREAM))


ALL = [*EVENTS, COMPLETED]


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(number=st.integers(0, len(ALL) - 1), data=st.data(), new=junk)
def test_no_frame_makes_reading_it_fail(number: int, data: st.DataObject, new: Any) -> None:
    path = data.draw(st.sampled_from(paths(ALL[number])))
    changed = replaced(ALL[number], path, new)
    events = [*ALL[:number], changed, *ALL[number + 1 :]]
    stream = get(WIRE).reply_stream()
    for found in events:
        stream.feed(b"data: %s\n\n" % msgspec.json.encode(found))
    assert stream.feed(b"data: [DONE]\n\n") + stream.close() is not None


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(path=st.sampled_from(paths(WHOLE)), new=junk)
def test_no_body_makes_reading_it_fail(path: tuple[Any, ...], new: Any) -> None:
    body = replaced(WHOLE, path, new)
    assert isinstance(get(WIRE).decode_reply(body), Reply)
    assert isinstance(get(WIRE).decode_tool_calls(body), list)
