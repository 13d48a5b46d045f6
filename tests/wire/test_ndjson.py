"""Newline-delimited JSON: one line, one text, however the bytes were cut, and an honest end."""

from __future__ import annotations

import math
import random
import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.stage import collect
from dragoman.wire.framing import Line, LineBroken, LineDecoder, encode_ndjson


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


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"{}\n[]\n", ["{}", "[]"]),
        (b"{}\r\n[]\r\n", ["{}", "[]"]),
        (b"{}\r[]\r", ["{}", "[]"]),
        (b"\n\r\n{}\n \t\n\n[]\n\n", ["{}", "[]"]),
        (b" {} \n", [" {} "]),
        (b"\xef\xbb\xbf{}\n", ["{}"]),
        (b"\xef\xbb\xbf", []),
        ('"größe 🦜"\n'.encode(), ['"größe 🦜"']),
        ('"a\u2028b\x85c"\n'.encode(), ['"a\u2028b\x85c"']),
        (b'"\xff"\n', ['"\ufffd"']),
        (b"\xf0\x9f\n\x92\n", ["\ufffd", "\ufffd"]),
        (b"not JSON\n", ["not JSON"]),
        (b"", []),
    ],
)
def test_lines_are_the_same_at_every_cut(stream: bytes, lines: list[str]) -> None:
    for pieces in cuts(stream):
        assert collect(LineDecoder(), pieces) == [Line(line) for line in lines]


@pytest.mark.parametrize(
    ("rest", "last"),
    [
        (b'{"done":true}', [Line('{"done":true}', complete=False)]),
        (b'{"do', [Line('{"do', complete=False)]),
        (b'"\xf0\x9f', [Line('"\ufffd', complete=False)]),
        (b" ", []),
        (b"\r", []),
    ],
)
def test_a_last_line_without_its_newline_is_delivered_and_marked(rest: bytes, last: list[Line]) -> None:
    for pieces in cuts(b"{}\n" + rest):
        assert collect(LineDecoder(), pieces) == [Line("{}"), *last]


def test_closing_twice_gives_the_last_line_once() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"{}") == []
    assert decoder.close() == [Line("{}", complete=False)]
    assert decoder.close() == []


# ---- size ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_line_over_the_limit_is_reported_once_and_reading_goes_on(end: bytes) -> None:
    for pieces in cuts(end.join([b"12345", b"123456", b"x", b"123456789"])):
        found = collect(LineDecoder(limit=5), pieces)
        assert found == [Line("12345"), LineBroken("12345", "line_too_long"), Line("x"), LineBroken("12345")]


def test_memory_stays_within_the_limit() -> None:
    decoder = LineDecoder(limit=10_000)
    tracemalloc.start()
    found = [line for _ in range(1000) for line in decoder.feed(b"x" * 1000)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [LineBroken("x" * 1000)]
    assert peak < 100_000


def test_a_million_single_bytes_are_no_burden() -> None:
    # A reader that copied what it holds at every piece would move half a terabyte here and not come to an end.
    decoder = LineDecoder()
    assert not any(map(decoder.feed, [b"x"] * 1_000_000))
    assert decoder.feed(b"\n") == [Line("x" * 1_000_000)]


# ---- laws ----------------------------------------------------------------------------------------------------------

BITS = [b"\n", b"\r", b"\r\n", b"{}", b" ", b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xf0\x9f", "é".encode(), b"\x0b"]
PIECES = st.lists(st.sampled_from(BITS) | st.binary(max_size=4), max_size=40)


@given(PIECES)
def test_any_pieces_of_anything_are_cut_at_line_ends_alone(pieces: list[bytes]) -> None:
    stream = b"".join(pieces)
    *lines, rest = re.split(b"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    expected = [Line(line.decode("utf-8", "replace")) for line in lines if line.strip()]
    if rest.strip():
        expected.append(Line(rest.decode("utf-8", "replace"), complete=False))
    assert collect(LineDecoder(), pieces) == expected


@given(PIECES, st.integers(1, 12))
def test_with_a_small_limit_the_pieces_still_do_not_matter(pieces: list[bytes], limit: int) -> None:
    assert collect(LineDecoder(limit), pieces) == collect(LineDecoder(limit), [b"".join(pieces)])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(SCALARS | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


@given(st.lists(VALUES, max_size=5))
def test_what_is_written_is_read_back(values: list[Any]) -> None:
    lines = collect(LineDecoder(), [b"".join(map(encode_ndjson, values))])
    assert all(isinstance(line, Line) and line.complete for line in lines)
    assert [msgspec.json.decode(line.text) for line in lines if isinstance(line, Line)] == [
        msgspec.json.decode(msgspec.json.encode(value)) for value in values
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": [1, None, True]}, b'{"a":[1,null,true]}\n'),
        ("two\nlines", b'"two\\nlines"\n'),
        ({"half \ud83d": ["\udc00", ("x", math.nan)]}, '{"half \ufffd":["\ufffd",["x",null]]}\n'.encode()),
    ],
)
def test_writing(value: Any, written: bytes) -> None:
    assert encode_ndjson(value) == written
