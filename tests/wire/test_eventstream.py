"""Binary frames: only a frame whose checksums are right is delivered, and damage is told apart from a cut."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.stage import collect
from dragoman.wire.eventstream import EventStreamDecoder, Frame, FrameBroken, HeaderValue, Timestamp, Uuid, encode

SIXTEEN = bytes(range(16))
DELTA = Frame({":event-type": "contentBlockDelta", ":message-type": "event"}, '{"text":"größe"}'.encode())
STOP = Frame({":event-type": "messageStop"}, b"{}")


def prelude(total: int, headers: int) -> bytes:
    lengths = struct.pack(">II", total, headers)
    return lengths + struct.pack(">I", crc32(lengths))


def build(headers: bytes, payload: bytes = b"", headers_length: int | None = None) -> bytes:
    """A frame with right checksums, written from the layout and not by the encoder under test."""
    length = len(headers) if headers_length is None else headers_length
    message = prelude(16 + len(headers) + len(payload), length) + headers + payload
    return message + struct.pack(">I", crc32(message))


def header(kind: int, value: bytes, name: bytes = b"h") -> bytes:
    return bytes([len(name)]) + name + bytes([kind]) + value


def written(frame: Frame) -> bytes:
    return encode(frame.headers, frame.payload)


def read(stream: bytes) -> list[Frame | FrameBroken]:
    return collect(EventStreamDecoder(), [stream])


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


def test_the_smallest_frame() -> None:
    stream = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff")
    assert read(stream) == [Frame({}, b"")]
    assert encode({}, b"") == stream


def test_a_stream_gives_the_same_frames_at_every_cut() -> None:
    for pieces in cuts(written(DELTA) + written(DELTA) + written(STOP)):
        assert collect(EventStreamDecoder(), pieces) == [DELTA, DELTA, STOP]


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (0, b"", True),
        (1, b"", False),
        (2, b"\xff", -1),
        (3, b"\x80\x00", -32768),
        (4, b"\x00\x00\x01\x00", 256),
        (5, b"\xff" * 7 + b"\xfe", -2),
        (6, b"\x00\x03\x00\xff\x01", b"\x00\xff\x01"),
        (6, b"\x00\x00", b""),
        (7, b"\x00\x02\xc3\xa9", "é"),
        (7, b"\x00\x01\xff", "\ufffd"),
        (7, b"\xff\xff" + b"x" * 65535, "x" * 65535),
        (8, b"\x00\x00\x01\x8b\xcf\xe5\x68\x00", Timestamp(1_700_000_000_000)),
        (9, SIXTEEN, Uuid(SIXTEEN)),
    ],
)
def test_the_ten_types_of_a_header(kind: int, raw: bytes, value: HeaderValue) -> None:
    stream = build(header(kind, raw) + header(7, b"\x00\x01y", b"next"), b"payload")
    (frame,) = read(stream)
    assert frame == Frame({"h": value, "next": "y"}, b"payload")
    assert isinstance(frame, Frame)
    assert type(frame.headers["h"]) is type(value)


@pytest.mark.parametrize(
    "headers",
    [
        header(10, b""),
        header(255, b""),
        header(2, b""),
        header(5, b"1234567"),
        header(9, SIXTEEN[:15]),
        header(7, b""),
        header(7, b"\x00"),
        header(7, b"\x00\x02x"),
        header(0, b"", name=b""),
        b"\x05name",
        b"\x01h",
        b"\xff",
        header(0, b"") + b"\x01",
        header(0, b"") + header(1, b""),
    ],
)
def test_headers_that_are_none_break_their_frame_alone(headers: bytes) -> None:
    frame = build(headers, b"payload")
    for pieces in cuts(frame + written(STOP)):
        assert collect(EventStreamDecoder(), pieces) == [FrameBroken("bad_headers", len(frame)), STOP]


def test_a_reader_may_change_the_headers_of_its_frame() -> None:
    first, second = read(written(STOP) * 2)
    assert isinstance(first, Frame)
    first.headers.clear()
    assert second == STOP


# ---- damage --------------------------------------------------------------------------------------------------------


def test_every_changed_byte_is_noticed() -> None:
    good = written(DELTA)
    for place in range(len(good)):
        for change in (0x01, 0x80, 0xFF):
            bad = bytearray(good)
            bad[place] ^= change
            if place < 12:
                assert read(bytes(bad) + written(STOP)) == [FrameBroken("prelude_checksum", 12)]
            else:
                assert read(bytes(bad) + written(STOP)) == [FrameBroken("message_checksum", len(good)), STOP]


def test_a_stream_cut_at_any_byte_never_gives_the_frame() -> None:
    stream = written(DELTA)
    for place in range(1, len(stream)):
        for pieces in ([stream[:place]], [stream[:1], stream[1:place]]):
            assert collect(EventStreamDecoder(), pieces) == [FrameBroken("cut", place)]
        assert read(written(STOP) + stream[:place]) == [STOP, FrameBroken("cut", place)]


def test_closing_twice_reports_the_cut_once() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(b"\x00") == []
    assert decoder.close() == [FrameBroken("cut", 1)]
    assert decoder.close() == []


@pytest.mark.parametrize("total", [0, 1, 12, 15])
def test_a_length_that_no_frame_has_ends_the_reading(total: int) -> None:
    for pieces in cuts(written(STOP) + prelude(total, 0) + b"1234" + written(STOP)):
        assert collect(EventStreamDecoder(), pieces) == [STOP, FrameBroken("impossible_length", 12)]


@pytest.mark.parametrize("headers_length", [8, 9, 2**32 - 1])
def test_headers_longer_than_their_frame_break_it_alone(headers_length: int) -> None:
    frame = build(header(0, b""), b"1234", headers_length)
    for pieces in cuts(frame + written(STOP)):
        assert collect(EventStreamDecoder(), pieces) == [FrameBroken("impossible_length", len(frame)), STOP]


def test_a_frame_over_the_limit_is_passed_over() -> None:
    long, just = encode({}, b"x" * 85), encode({}, b"x" * 84)
    for pieces in cuts(just + long + written(STOP)):
        found = collect(EventStreamDecoder(limit=100), pieces)
        assert found == [Frame({}, b"x" * 84), FrameBroken("too_long", 101), STOP]


def test_an_answer_in_plain_text_is_no_stream_of_frames() -> None:
    for pieces in cuts(b'{"message":"The security token is invalid"}'):
        assert collect(EventStreamDecoder(), pieces) == [FrameBroken("prelude_checksum", 12)]


@pytest.mark.parametrize("start", [prelude(2**32 - 1, 0), prelude(16, 0)[::-1]])
def test_memory_stays_within_the_limit(start: bytes) -> None:
    decoder = EventStreamDecoder()
    tracemalloc.start()
    found = [frame for piece in [start, *[b"x" * 1000] * 1000] for frame in decoder.feed(piece)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(frame) for frame in found] == [FrameBroken]
    assert peak < 100_000


def test_a_million_single_bytes_are_no_burden() -> None:
    # A reader that copied what it holds at every piece would move half a terabyte here and not come to an end.
    decoder = EventStreamDecoder()
    stream = encode({}, b"x" * 1_000_000)
    assert not any(decoder.feed(stream[place : place + 1]) for place in range(len(stream) - 1))
    assert decoder.feed(stream[-1:]) == [Frame({}, b"x" * 1_000_000)]


# ---- laws ----------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
LONG = st.integers(-(2**63), 2**63 - 1)
UUIDS = st.builds(Uuid, st.binary(min_size=16, max_size=16))
VALUES = st.booleans() | LONG | st.binary(max_size=50) | TEXTS | st.builds(Timestamp, LONG) | UUIDS
FRAMES = st.builds(Frame, st.dictionaries(TEXTS.filter(bool), VALUES, max_size=5), st.binary())


@given(st.lists(FRAMES, max_size=4), st.data())
def test_what_is_written_is_read_back_in_any_pieces(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(written, frames))
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]
    assert collect(EventStreamDecoder(), pieces) == frames


BITS = [
    prelude(16, 0),
    prelude(20, 2),
    prelude(30, 100),
    prelude(3, 0),
    prelude(200, 0),
    encode({}, b""),
    written(STOP),
]


@given(st.lists(st.sampled_from(BITS) | st.binary(max_size=20), max_size=12))
def test_garbage_never_raises_and_the_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert collect(EventStreamDecoder(100), pieces) == collect(EventStreamDecoder(100), [b"".join(pieces)])


@given(st.binary(max_size=60), st.binary(max_size=10))
def test_any_bytes_as_headers_are_read_or_reported(headers: bytes, payload: bytes) -> None:
    frame = build(headers, payload)
    (found,) = read(frame)
    if isinstance(found, Frame):
        assert found.payload == payload
    else:
        assert found == FrameBroken("bad_headers", len(frame))


# ---- writing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "raw"),
    [
        (True, 0, b""),
        (False, 1, b""),
        (1, 4, b"\x00\x00\x00\x01"),
        (2**31, 5, b"\x00\x00\x00\x00\x80\x00\x00\x00"),
        (b"\xff", 6, b"\x00\x01\xff"),
        ("half \ud83d", 7, b"\x00\x08half \xef\xbf\xbd"),
        (Timestamp(-1), 8, b"\xff" * 8),
        (Uuid(SIXTEEN), 9, SIXTEEN),
    ],
)
def test_a_value_is_written_by_its_type(value: HeaderValue, kind: int, raw: bytes) -> None:
    assert encode({"h": value}, b"p") == build(header(kind, raw), b"p")


@pytest.mark.parametrize(
    ("headers", "payload", "why"),
    [
        ({"": True}, b"", "1 to 255 bytes"),
        ({"é" * 128: True}, b"", "1 to 255 bytes"),
        ({"h": "x" * 32768}, b"", "at most 32767"),
        ({"h": 2**63}, b"", "64 bits"),
        ({"h": -(10**5000)}, b"", "64 bits"),
        ({"h": Timestamp(2**63)}, b"", "64 bits"),
        ({"h": Uuid(b"short")}, b"", "16 bytes, not 5"),
        ({f"h{number}": b"x" * 32767 for number in range(5)}, b"", "at most 131072"),
        ({}, bytes(16 * 1024 * 1024), "at most 16777216"),
    ],
)
def test_what_has_no_place_in_a_frame_is_refused(headers: dict[str, HeaderValue], payload: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        encode(headers, payload)
