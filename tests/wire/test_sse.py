"""Server-sent events: the standard's rules, the same events however the bytes were cut, and an honest end."""

from __future__ import annotations

import random
import re
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.errors import ConfigError
from dragoman.stage import collect
from dragoman.wire.framing import SseBroken, SseDecoder, SseEvent, encode_sse

RECORDED = (
    "\ufeff: OPENROUTER PROCESSING\n\n"
    'event: message_start\r\ndata: {"type": "message_start"}\r\n\r\n'
    "id: 7\rretry: 3000\rdata: größe 🦜\r\r"
    "data: first\ndata\ndata:third\n\n"
    ": ping\n\n\n"
    "event:ping\n\n"
    "data: [DONE]\n\n"
).encode()


def read(stream: bytes) -> list[SseEvent | SseBroken]:
    return collect(SseDecoder(), [stream])


def cuts(stream: bytes) -> Iterator[list[bytes]]:
    """The stream whole, cut in two at every byte, byte by byte, and in random pieces with empty ones between."""
    yield [stream]
    for place in range(len(stream) + 1):
        yield [stream[:place], stream[place:]]
    yield [stream[place : place + 1] for place in range(len(stream))]
    dice = random.Random(7)
    for _ in range(50):
        places = sorted(dice.choices(range(len(stream) + 1), k=8))
        yield [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]


def expected(stream: bytes) -> list[SseEvent]:
    """The standard, word for word and slowly, over the whole text at once."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, rest = re.split("\r\n|\n|\r", text)
    events: list[SseEvent] = []
    fields: list[tuple[str, str]] = []
    for line in lines:
        if line:
            fields += [] if line.startswith(":") else [field_of(line)]
            continue
        if any(name == "data" for name, _ in fields):
            events.append(event_of(fields, complete=True))
        fields = []
    fields += [field_of(rest)] if rest and not rest.startswith(":") else []
    return [*events, event_of(fields, complete=False)] if fields else events


def field_of(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value[1:] if value.startswith(" ") else value


def event_of(fields: list[tuple[str, str]], complete: bool) -> SseEvent:
    kind = identity = retry = None
    for name, value in fields:
        if name == "event":
            kind = value or None
        elif name == "id" and "\0" not in value:
            identity = value
        elif name == "retry" and re.fullmatch("[0-9]{1,15}", value):
            retry = int(value)
    return SseEvent(kind, "\n".join(value for name, value in fields if name == "data"), identity, retry, complete)


def test_a_recorded_stream_gives_the_same_events_at_every_cut() -> None:
    events = [
        SseEvent("message_start", '{"type": "message_start"}'),
        SseEvent(None, "größe 🦜", "7", 3000),
        SseEvent(None, "first\n\nthird"),
        SseEvent(None, "[DONE]"),
    ]
    for pieces in cuts(RECORDED):
        assert collect(SseDecoder(), pieces) == events


@each_row(
    ("stream", "data"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\n\rdata: b\r\n\n", ["a", "b"]),
        (b"data: a\r\ndata: b\r\n\r\n", ["a\nb"]),
        (b"data: a\rdata: b\r\r\n", ["a\nb"]),
        (b"data:no blank\n\n", ["no blank"]),
        (b"data:  one blank is taken\n\n", [" one blank is taken"]),
        (b"data:\ta tab stays\n\n", ["\ta tab stays"]),
        (b"data: a: b\n\n", ["a: b"]),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b"data\ndata\n\n", ["\n"]),
        (b"data: a\ndata:\n\n", ["a\n"]),
        (b"data: a\n: between\ndata: b\n\n", ["a\nb"]),
        (b"\n\n\n", []),
        (b": only a comment\n\n", []),
        (b":\n", []),
        (b"event: ping\n\n", []),
        (b"Data: names are case-sensitive\n\n", []),
        (b" data: a blank in front makes another name\n\n", []),
        (b"unknown: x\ndata: y\n\n", ["y"]),
        (b"\xef\xbb\xbfdata: after the mark\n\n", ["after the mark"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: only one mark is taken\n\n", []),
        (b"data: \xef\xbb\xbfx\n\n", ["\ufeffx"]),
        (b"data: \xff\xc3\n\n", ["\ufffd\ufffd"]),
        (b"data: \xf0\x9f\x92\n\n", ["\ufffd"]),
        ("data: a\u2028b\x85c\x0bd\x0ce\x1cf\n\n".encode(), ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
        (b"data: \0\n\n", ["\0"]),
        (b"", []),
    ],
)
def test_odd_but_legal_streams(stream: bytes, data: list[str]) -> None:
    for pieces in cuts(stream):
        assert collect(SseDecoder(), pieces) == [SseEvent(None, text) for text in data]


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        (b"event: a\nevent: b\n", SseEvent("b", "x")),
        (b"event: a\nevent\n", SseEvent(None, "x")),
        (b"id: 1\n", SseEvent(None, "x", id="1")),
        (b"id\n", SseEvent(None, "x", id="")),
        (b"id: 1\nid: a\0b\n", SseEvent(None, "x", id="1")),
        (b"retry: 0250\n", SseEvent(None, "x", retry=250)),
        (b"retry: -1\n", SseEvent(None, "x")),
        (b"retry: 1.5\n", SseEvent(None, "x")),
        ("retry: ٣\n".encode(), SseEvent(None, "x")),
        (b"retry: " + b"9" * 5000 + b"\n", SseEvent(None, "x")),
    ],
)
def test_the_other_fields(fields: bytes, event: SseEvent) -> None:
    # The next event has none of them: they belong to the event in which they stood.
    assert read(fields + b"data: x\n\ndata: y\n\n") == [event, SseEvent(None, "y")]


@pytest.mark.parametrize(
    ("stream", "last_id"),
    [
        (b"data: x\n\n", ""),
        (b"id: 1\ndata: x\n\ndata: y\n\n", "1"),
        (b"id: 1\ndata: x\n\nid: 2\n\n", "2"),
        (b"id: 1\ndata: x\n\nid: 2\ndata: cut\n", "1"),
        (b"id: 1\ndata: x\n\nid\ndata: forgets it\n\n", ""),
    ],
)
def test_the_id_to_resume_from_is_that_of_the_last_complete_event(stream: bytes, last_id: str) -> None:
    decoder = SseDecoder()
    collect(decoder, [stream])
    assert decoder.last_id == last_id


@pytest.mark.parametrize(
    ("rest", "event"),
    [
        (b"data: [DONE]", SseEvent(None, "[DONE]", complete=False)),
        (b"data: [DONE]\n", SseEvent(None, "[DONE]", complete=False)),
        (b"data: [DONE]\r", SseEvent(None, "[DONE]", complete=False)),
        (b'data: {"a', SseEvent(None, '{"a', complete=False)),
        (b"event: message_stop\n", SseEvent("message_stop", "", complete=False)),
        (b"event: mess", SseEvent("mess", "", complete=False)),
        (b"da", SseEvent(None, "", complete=False)),
        (b"data: a\ndata: b", SseEvent(None, "a\nb", complete=False)),
        (b"data: \xf0\x9f", SseEvent(None, "\ufffd", complete=False)),
    ],
)
def test_an_event_without_its_blank_line_is_delivered_and_marked(rest: bytes, event: SseEvent) -> None:
    for pieces in cuts(b"data: whole\n\n" + rest):
        assert collect(SseDecoder(), pieces) == [SseEvent(None, "whole"), event]


@pytest.mark.parametrize("rest", [b"", b"\n", b"\r", b": ping", b": ping\n", b"\r\n: ping\r\n\r\n"])
def test_a_clean_end_gives_nothing_more(rest: bytes) -> None:
    assert read(b"data: whole\n\n" + rest) == [SseEvent(None, "whole")]


def test_a_stream_cut_at_any_byte_gives_whole_events_and_says_whether_one_was_cut() -> None:
    events = [b"event: a\ndata: 1\n\n", "data: é\ndata: 2\n\n".encode(), b"data: [DONE]\n\n"]
    stream = b"".join(events)
    ends = [sum(map(len, events[:count])) for count in range(len(events) + 1)]
    whole = read(stream)
    for place in range(len(stream) + 1):
        *seen, last = [None, *read(stream[:place])]
        finished = sum(end <= place for end in ends[1:])
        if place in ends:
            assert [*seen, last][1:] == whole[:finished]
        else:
            assert isinstance(last, SseEvent)
            assert not last.complete
            assert seen[1:] == whole[:finished]


def test_closing_twice_gives_the_last_event_once() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: x") == []
    assert len(decoder.close()) == 1
    assert decoder.close() == []


# ---- size ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "raw"),
    [
        (b"data: 123456789\n\n", "data: 1234"),
        (b"data: 1\ndata: 2\n\n", "1\nda"),
        (b": a very long comment\n\n", ": a very l"),
        (b"event: long enough\ndata: x\n\n", "event: lon"),
    ],
)
def test_an_event_over_the_limit_is_reported_once_and_reading_goes_on(event: bytes, raw: str) -> None:
    for pieces in cuts(b"data: a\n\n" + event + b"data: b\n\n"):
        found = collect(SseDecoder(limit=10), pieces)
        assert found == [SseEvent(None, "a"), SseBroken(raw, "event_too_long"), SseEvent(None, "b")]


def test_an_event_of_just_the_limit_is_read() -> None:
    for pieces in cuts(b"\xef\xbb\xbfdata: 1234\n\n"):
        assert collect(SseDecoder(limit=10), pieces) == [SseEvent(None, "1234")]


def test_a_stream_that_ends_inside_an_event_over_the_limit_is_reported_once() -> None:
    for pieces in cuts(b"data: 123456789"):
        assert collect(SseDecoder(limit=10), pieces) == [SseBroken("data: 1234")]


def test_comments_between_events_never_add_up() -> None:
    assert collect(SseDecoder(limit=100), [b": ping\n"] * 1000) == []


def test_what_is_shown_of_a_long_event_is_short() -> None:
    (broken,) = collect(SseDecoder(limit=100_000), [b"data: " + b"x" * 200_000 + b"\n\n"])
    assert broken == SseBroken("data: " + "x" * 994)


@pytest.mark.parametrize("bit", [b"x" * 1000, b"data: x\n" * 125])
def test_memory_stays_within_the_limit(bit: bytes) -> None:
    decoder = SseDecoder(limit=10_000)
    tracemalloc.start()
    found = [event for _ in range(1000) for event in decoder.feed(bit)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(event) for event in found] == [SseBroken]
    assert peak < 200_000


def test_a_million_single_bytes_are_no_burden() -> None:
    # A reader that copied what it holds at every piece would move half a terabyte here and not come to an end.
    decoder = SseDecoder()
    assert not any(map(decoder.feed, [b"x"] * 1_000_000))
    (event,) = decoder.feed(b"\ndata: y\n\n")
    assert event == SseEvent(None, "y")


# ---- laws ----------------------------------------------------------------------------------------------------------

BITS = [b"data", b"data:", b"data: ", b"event: e", b"event", b"id: 1", b"id:\0", b"retry: 5", b"retry: x", b":", b" "]
BITS += [b"\n", b"\n\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xef", b"\xbb", "é".encode(), b"\xf0\x9f", b"{}", b"\x0b"]
PIECES = st.lists(st.sampled_from(BITS) | st.binary(max_size=4), max_size=40)


@given(PIECES)
def test_any_pieces_of_anything_are_read_by_the_standard(pieces: list[bytes]) -> None:
    assert collect(SseDecoder(), pieces) == expected(b"".join(pieces))


FIELDS = st.sampled_from([b"data: a", b"data:", b"data", b"event: e", b"id: 1", b"retry: 5", b": comment", b"", b""])
LINES = st.lists(st.tuples(FIELDS, st.sampled_from([b"\n", b"\r", b"\r\n"])), min_size=1, max_size=12)


@given(LINES, st.lists(st.integers(0, 150), max_size=12))
def test_any_lines_with_any_ends_in_any_pieces_are_read_by_the_standard(
    lines: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    stream = b"".join(line + end for line, end in lines)
    edges = sorted({0, *places, len(stream)})
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert collect(SseDecoder(), pieces) == expected(stream)
    assert collect(SseDecoder(), [stream[place : place + 1] for place in range(len(stream))]) == expected(stream)


@given(PIECES, st.integers(1, 30))
def test_with_a_small_limit_the_pieces_still_do_not_matter(pieces: list[bytes], limit: int) -> None:
    assert collect(SseDecoder(limit), pieces) == collect(SseDecoder(limit), [b"".join(pieces)])


NAMES = st.none() | st.text(min_size=1).filter(lambda name: not re.search("[\r\n\ud800-\udfff]", name))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r: "))


@given(st.lists(st.tuples(NAMES, TEXTS)))
def test_what_is_written_is_read_back_with_its_line_ends_as_line_feeds(written: list[tuple[str | None, str]]) -> None:
    stream = b"".join(encode_sse(event, data) for event, data in written)
    assert read(stream) == [SseEvent(event, re.sub("\r\n?", "\n", data)) for event, data in written]


@pytest.mark.parametrize(
    ("event", "data", "written"),
    [
        (None, "[DONE]", b"data: [DONE]\n\n"),
        ("ping", b'{"type":"ping"}', b'event: ping\ndata: {"type":"ping"}\n\n'),
        (None, "", b"data: \n\n"),
        (None, "a\nb", b"data: a\ndata: b\n\n"),
        (None, "a\r", b"data: a\ndata: \n\n"),
        (None, "a\n\nevent: forged", b"data: a\ndata: \ndata: event: forged\n\n"),
        (None, "half \ud83d", "data: half \ufffd\n\n".encode()),
    ],
)
def test_writing(event: str | None, data: str | bytes, written: bytes) -> None:
    assert encode_sse(event, data) == written


@pytest.mark.parametrize("event", ["a\nb", "a\rdata: forged"])
def test_a_name_that_would_forge_a_field_is_refused(event: str) -> None:
    with pytest.raises(ConfigError, match="line break"):
        encode_sse(event, "x")
