"""The forms of a stream: server-sent events, JSON texts in a row or in a list that grows, and lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rows import Row, read_rows
from tests.tables import each_row

from dragoman.replies import fold
from dragoman.stage import collect
from dragoman.types import Reply
from dragoman.wire import get, names
from dragoman.wire.framing import Line, LineStreamDecoder, SseEvent, StreamDecoder


def read(*pieces: bytes) -> list[tuple[str, bool]]:
    """The data of each event, and whether it was complete."""
    events = collect(StreamDecoder(), pieces)
    return [(event.data, event.complete) for event in events if isinstance(event, SseEvent)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b" \r\n", []),
        (b"\xef\xbb\xbf", []),
        (b"[]", []),
        (b'[{"a": 1}\r\n,\r\n{"b": "]"}\n]\n', [('{"a": 1}', True), ('{"b": "]"}', True)]),
        (b'\xef\xbb\xbf \n[{"a":1}]', [('{"a":1}', True)]),
        (b'{"error": {}}', [('{"error": {}}', True)]),
        (b'[{"a":1},{"b":', [('{"a":1}', True), ('{"b":', False)]),
        (b'[{"a":1}] trailing', [('{"a":1}', True)]),
        (b'[{"a":1}, oops, {"b":2}]', [('{"a":1}', True), ("", True)]),
        (b'[{"\xe4\xb8\x96": "\xff"}]', [('{"世": "\ufffd"}', True)]),
        (b'data: {"a":1}\n\n', [('{"a":1}', True)]),
        (b'\n\ndata: {"a":1}', [('{"a":1}', False)]),
        (b": comment\n\ndata: [1]\n\n", [("[1]", True)]),
        (b'{"a":1}\n{"b":2}\n', [('{"a":1}', True), ('{"b":2}', True)]),
        (b'{\n "a": 1\n}\n', [('{\n "a": 1\n}', True)]),
        (b'{"a":1}\n\ndata: [DONE]\n\n', [('{"a":1}', True), ("[DONE]", True)]),
        (b'{"a":1}\n: comment\n\ndata: \xe4\xb8\x96\n\n', [('{"a":1}', True), ("世", True)]),
        (b'error: {"code":400}\n\n', [('{"code":400}', True)]),
        (b'\n \xef\xbb\xbf{"a":1}', [('{"a":1}', True)]),
        (b'\xef\xbb\xbf \xef\xbb\xbf\xef\xbb\xbfdata: {"a":1}\n\n', [('{"a":1}', True)]),
    ],
)
def test_what_a_stream_holds_however_it_is_split(stream: bytes, events: list[tuple[str, bool]]) -> None:
    assert read(stream) == events
    assert read(*(stream[place : place + 1] for place in range(len(stream)))) == events
    for place in range(len(stream)):
        assert read(stream[:place], stream[place:]) == events


@given(
    st.binary(max_size=40),
    st.sampled_from([b"[", b'[{"a":1},', b"{", b'{"a":1}\ndata: ', b'{"a":1}\nd', b"\xef\xbb\xbf", b""]),
    st.integers(0, 45),
)
def test_no_split_of_any_bytes_changes_what_comes_out(junk: bytes, head: bytes, place: int) -> None:
    stream = head + junk
    assert read(stream[:place], stream[place:]) == read(stream)


def test_a_member_that_is_too_large_ends_the_list() -> None:
    events = read(b'[{"a":"', *(b"x" * (1 << 20) for _ in range(17)), b'"},{"b":1}]')
    assert [(data[:8], complete) for data, complete in events] == [('{"a":"xx', True)]


def test_a_member_that_is_nested_too_deep_ends_the_list() -> None:
    [(data, complete)] = read(b"[{" + b'"a":[' * 500)
    assert complete
    assert data.startswith('{"a":[')


def test_many_members_in_one_piece() -> None:
    assert len(read(b"[" + b",\n".join([b'{"a":1}'] * 50_000) + b"]")) == 50_000


def read_lines(*pieces: bytes) -> list[tuple[str, bool]]:
    """The same of a wire whose usual form is one text per line."""
    frames = collect(LineStreamDecoder(), pieces)
    return [(frame.text if isinstance(frame, Line) else frame.data, frame.complete) for frame in frames]


@each_row(
    ("stream", "frames"),
    [
        (b'{"a":1}\n\n{"b":2}', [('{"a":1}', True), ('{"b":2}', False)]),
        (b'{\r\n "a": 1\r\n}', [('{\r\n "a": 1\r\n}', True)]),
        (b'data: {"a":1}\n\n', [('{"a":1}', True)]),
        (b": hello\n\nevent: x\ndata: 1\n\n", [("1", True)]),
        (b"<html>\n", [("<html>", True)]),
        (b"{", [("{", False)]),
        (b"", []),
    ],
)
def test_what_a_stream_of_lines_holds_however_it_is_split(stream: bytes, frames: list[tuple[str, bool]]) -> None:
    assert read_lines(stream) == frames
    assert read_lines(*(stream[place : place + 1] for place in range(len(stream)))) == frames


# ---- the same reply in every form ------------------------------------------------------------------------------------

CHUNKS = {
    "openai_chat": [
        {"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}]},
    ],
    "ollama": [
        {"message": {"content": "Hel"}, "done": False},
        {"message": {"content": "lo"}, "done": True, "done_reason": "stop"},
    ],
}


def said(wire: str, stream: bytes) -> tuple[str, str, bool]:
    decoder = get(wire).reply_stream()
    reply: Reply = fold([*decoder.feed(stream), *decoder.close()])
    return reply.text, reply.stop, reply.failure is None


@pytest.mark.parametrize("wire", CHUNKS)
def test_a_reply_is_the_same_in_every_form(wire: str) -> None:
    texts = [json.dumps(chunk).encode() for chunk in CHUNKS[wire]]
    expected = ("Hello", "end", True)
    assert said(wire, b"".join(b"data: %b\n\n" % text for text in texts)) == expected
    assert said(wire, b"\n".join(texts) + b"\n") == expected


# ---- the rows of our own data in other forms -----------------------------------------------------------------------

Seen = tuple[Any, ...]
HAND = ("odd", "request", "seen", "second", "third")
TEXTUAL = [wire for wire in names() if wire != "bedrock"]


def rows_of(wire: str, form: str) -> list[Row]:
    """The generated rows: those written by hand have forms of their own."""
    return [
        row for row in read_rows("wire") if row["wire"] == wire and form in row and row["id"].split("/")[1] not in HAND
    ]


def see(reply: Reply) -> Seen:
    calls = [(call.name, call.arguments, call.wire_id) for call in reply.calls]
    failure = reply.failure.kind if reply.failure else None
    return reply.text, calls, [call.name for call in reply.invalid], reply.stop, reply.usage, failure


def stream_of(wire: str, data: bytes) -> Seen:
    decoder = get(wire).reply_stream()
    return see(fold([*decoder.feed(data), *decoder.close()]))


@pytest.mark.parametrize("wire", TEXTUAL)
def test_a_whole_body_where_a_stream_was_asked_for_is_the_same_reply(wire: str) -> None:
    rows = [row for row in rows_of(wire, "body") if row["failure"] is None]
    assert rows
    for row in rows:
        expected = see(get(wire).decode_reply(row["body"]))
        assert stream_of(wire, json.dumps(row["body"]).encode()) == expected, row["id"]
        assert stream_of(wire, json.dumps(row["body"], indent=2).encode()) == expected, row["id"]
        assert stream_of(wire, b"data: %b\n\n" % json.dumps(row["body"]).encode()) == expected, row["id"]


@pytest.mark.parametrize("wire", TEXTUAL)
def test_a_stream_where_a_whole_body_was_asked_for_is_the_same_reply(wire: str) -> None:
    rows = [row for row in rows_of(wire, "stream") if row["failure"] is None]
    assert rows
    for row in rows:
        data = "".join(row["stream"]).encode()
        assert see(get(wire).decode_reply(data)) == stream_of(wire, data), row["id"]


@pytest.mark.parametrize("wire", [wire for wire in TEXTUAL if wire != "ollama"])
def test_the_line_ends_of_a_stream_mean_nothing(wire: str) -> None:
    for row in rows_of(wire, "stream"):
        data = "".join(row["stream"]).replace("\r\n", "\n").encode()
        expected = stream_of(wire, data)
        assert stream_of(wire, data.replace(b"\n", b"\r\n")) == expected, row["id"]
        assert stream_of(wire, data.replace(b"\n", b"\r")) == expected, row["id"]
        if row["failure"] is None:
            lines = [line for line in data.split(b"\n") if line.startswith(b"data: ")]
            assert stream_of(wire, b"\n".join(lines) + b"\n") == expected, row["id"]


@pytest.mark.parametrize("wire", ["openai_chat", "gemini"])
def test_events_without_the_empty_line_behind_them_are_read(wire: str) -> None:
    lines = b"".join(b"data: %b\n" % json.dumps(chunk).encode() for chunk in CHUNKS[wire])
    assert said(wire, lines + b"\n") == ("Hello", "end", True)
    assert said(wire, lines) == ("Hello", "end", True)
    assert said(wire, lines[:-20])[2] is False


@pytest.mark.parametrize("wire", CHUNKS)
def test_chunks_of_an_sdk_are_read_on_every_wire_of_text(wire: str) -> None:
    stream = get(wire).reply_stream()
    events = [event for chunk in CHUNKS[wire] for event in stream.feed_chunk(chunk)]
    assert fold([*events, *stream.close()]).text == "Hello"


@pytest.mark.parametrize("wire", CHUNKS)
def test_a_whole_body_that_is_a_stream_is_read_as_one(wire: str) -> None:
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in CHUNKS[wire])
    assert get(wire).decode_reply(body).text == "Hello"
    assert get(wire).decode_reply(body.decode()).text == "Hello"


def test_a_whole_body_that_is_an_error_in_a_stream_is_that_error() -> None:
    reply = get("openai_chat").decode_reply(b'data: {"error": {"message": "slow down", "code": 429}}\n\n')
    assert reply.failure is not None
    assert reply.failure.kind == "rate_limited"


@pytest.mark.parametrize("body", ["hello", "<html>502</html>", "", "data", "\x00\x01"])
def test_a_body_that_is_no_stream_is_refused_as_one_that_is_no_reply(body: str) -> None:
    reply = get("openai_chat").decode_reply(body)
    assert reply.failure is not None
    assert reply.failure.kind == "broken_protocol"
