"""The response parser: every split of the bytes gives the same answer, and invalid HTTP is rejected."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.client.http.parser import END, Head, Limits, ResponseParser
from dragoman.client.transport import TransportFault

LIMITS = Limits(body_bytes=10_000, head_bytes=2_000, headers=20)
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
    b'5;name="a b"\r\nhello\r\n6 \r\n world\r\n0\r\nX-Sum: 1\r\n\r\n'
)
ANSWERS = {
    "length": (PLAIN, 200, b"hello", True),
    "chunks": (CHUNKS, 200, b"hello world", True),
    "early_hints": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100\r\n\r\n" + PLAIN, 200, b"hello", True),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"", True),
    "closing": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "until_close": (b"HTTP/1.1 200 OK\r\n\r\nall of it", 200, b"all of it", False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "old_kept": (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True),
    "no_reason": (b"HTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno", 404, b"no", True),
    "same_length_twice": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True),
}


def feed(parser: ResponseParser, data: bytes) -> list[object]:
    """Feed the parser, and raise a fault also if other events come before it."""
    events = parser.feed(data)
    if parser.fault is not None:
        raise parser.fault
    return events


def read(pieces: list[bytes], method: str = "POST") -> tuple[Head, bytes, bool]:
    parser = ResponseParser(LIMITS, method)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.close() if not parser.done else []
    heads = [event for event in events if isinstance(event, Head)]
    assert len(heads) == 1
    assert events[0] is heads[0]
    assert events[-1] is END
    assert parser.done
    return heads[0], b"".join(event for event in events if isinstance(event, bytes)), parser.keeps


@pytest.mark.parametrize("name", ANSWERS)
def test_a_whole_answer_is_read(name: str) -> None:
    data, status, body, keeps = ANSWERS[name]
    head, found, kept = read([data])
    assert (head.status, found, kept) == (status, body, keeps)


@pytest.mark.parametrize("name", ANSWERS)
def test_every_split_in_two_and_single_bytes_give_the_same(name: str) -> None:
    data, status, body, _ = ANSWERS[name]
    splits = [[data[:place], data[place:]] for place in range(len(data) + 1)]
    for pieces in [*splits, [data[i : i + 1] for i in range(len(data))]]:
        head, found, _ = read(pieces)
        assert (head.status, found) == (status, body)


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(0, 400), max_size=12))
def test_any_split_gives_the_same(name: str, places: list[int]) -> None:
    data, _, body, _ = ANSWERS[name]
    cuts = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    pieces = [data[start:end] for start, end in pairwise(cuts)]
    assert read(pieces)[:2] == read([data])[:2]
    assert read(pieces)[1] == body


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.integers(1, 50))
def test_any_body_survives_chunks_of_any_size(pieces: list[bytes], step: int) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    assert read([data[start : start + step] for start in range(0, len(data), step)])[1] == b"".join(pieces)


def test_headers_are_lowered_trimmed_and_joined() -> None:
    head, _, _ = read([b"HTTP/1.1 200 OK\r\nX-A:  one \t\r\nx-a: two\r\nEmpty:\r\nContent-Length: 0\r\n\r\n"])
    assert head.headers == {"x-a": "one, two", "empty": "", "content-length": "0"}


def test_the_answer_to_a_tunnel_has_no_body() -> None:
    head, body, _ = read([b"HTTP/1.1 200 Connection established\r\n\r\n"], "CONNECT")
    assert (head.status, body) == (200, b"")


BROKEN = {
    "no_http": (b"SSH-2.0-OpenSSH\r\n", "not an HTTP/1 answer"),
    "http_2": (b"HTTP/2 200\r\n\r\n", "not an HTTP/1 answer|status line"),
    "two_digits": (b"HTTP/1.1 20 OK\r\n\r\n", "status line"),
    "no_status": (b"HTTP/1.1 OK\r\n\r\n", "status line"),
    "bare_line_feeds": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok\r\n\r\n", "status line"),
    "blank_before_colon": (b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", "invalid header"),
    "folded": (b"HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length: 0\r\n\r\n", "invalid header"),
    "no_colon": (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", "invalid header"),
    "null_in_value": (b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", "invalid header"),
    "two_lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", "content length"),
    "list_of_lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\n", "content length"),
    "negative_length": (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "content length"),
    "signed_length": (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "content length"),
    "other_digits": ("HTTP/1.1 200 OK\r\nContent-Length: ²\r\n\r\n".encode("latin-1"), "content length"),
    "endless_length": (b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % (b"9" * 40), "content length"),
    "unknown_coding": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer encoding"),
    "chunks_of_1.0": (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer encoding"),
    "chunk_without_size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "invalid chunk line"),
    "signed_chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n", "invalid chunk line"),
    "chunk_0x": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n", "invalid chunk line"),
    "endless_chunk_size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b\r\n" % (b"1" * 30),
        "invalid chunk line",
    ),
    "chunk_longer_than_said": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
        "invalid chunk end",
    ),
    "bad_trailer": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno trailer\r\n\r\n",
        "invalid trailers",
    ),
    "switching": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "switched"),
}


@each_row("name", BROKEN)
def test_what_is_no_http_is_refused_in_any_split(name: str) -> None:
    data, words = BROKEN[name]
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        parser = ResponseParser(LIMITS)
        with pytest.raises(TransportFault, match=words) as caught:
            for piece in pieces:
                feed(parser, piece)
        assert caught.value.kind == "broken_protocol"
        assert not parser.keeps
        with pytest.raises(TransportFault):
            feed(parser, PLAIN)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
BROKEN_CHUNKS = [b"zz\r\nx\r\n", b"3\r\nabcde\r\n", b"\r\n", b"0\r\nbad trailer\r\n\r\n", b"2\nok\r\n"]


def test_what_arrives_before_a_fault_is_not_lost_in_any_split() -> None:
    for broken in BROKEN_CHUNKS:
        data = CHUNKED + broken
        expected = b"helloabc" if b"abc" in broken else b"hello"
        for place in range(len(data)):
            parser, events = ResponseParser(LIMITS), []
            with pytest.raises(TransportFault):
                for piece in (data[:place], data[place:]):
                    events += parser.feed(piece)
                parser.feed(b"")
            assert b"".join(event for event in events if isinstance(event, bytes)) == expected, (broken, place)


LENGTHS = ("Content-Length: 0", "content-length: 5", "CONTENT-LENGTH:5")
CODINGS = (
    "Transfer-Encoding: chunked",
    "transfer-encoding:chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding:",
)


@each_row("method", ["GET", "POST", "HEAD", "CONNECT"])
@each_row("status", [100, 103, 200, 204, 206, 304, 302, 404, 500])
def test_a_length_and_a_transfer_encoding_together_are_refused(method: str, status: int) -> None:
    for length in LENGTHS:
        for coding in CODINGS:
            for lines in ((length, coding), (coding, "X: y", length)):
                head = f"HTTP/1.1 {status} OK\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
                for body in (b"hello", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"):
                    parser = ResponseParser(LIMITS, method)
                    with pytest.raises(TransportFault, match="together"):
                        feed(parser, head.encode() + body)
                    assert not parser.keeps


@each_row(
    "head",
    [
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: 1\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5_0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\t5\r\n\r\n",
        "HTTP/1.1 200 OK\r\n Content-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length\t: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\nX: a\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\ra\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\n\r\n",
    ],
)
def test_a_head_that_two_programs_could_read_differently_is_refused(head: str) -> None:
    for pieces in ([head], list(head)):
        parser = ResponseParser(LIMITS, "GET")
        with pytest.raises(TransportFault) as caught:
            for piece in pieces:
                parser.feed(piece.encode("latin-1"))
            parser.feed(b"hello")
        assert caught.value.kind == "broken_protocol" and not parser.keeps


HEAD = b"HTTP/1.1 200 OK\r\n"
LARGE = {
    "one_header": HEAD + b"X: " + b"a" * 3_000 + b"\r\n\r\n",
    "endless_head": HEAD + b"X: " + b"a" * 3_000,
    "many_headers": HEAD + b"".join(b"X-%d: 1\r\n" % i for i in range(21)) + b"\r\n",
    "endless_hints": b"HTTP/1.1 103 Hints\r\nX: aaaaaaaaaaaaaaaaaaaaa\r\n\r\n" * 100 + PLAIN,
    "body": HEAD + b"Content-Length: 10001\r\n\r\n",
    "trailers": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"".join(b"X-%d: 1\r\n" % i for i in range(21))
    + b"\r\n",
    "trailer_bytes": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: "
    + b"a" * 1_990
    + b"\r\nY: "
    + b"a" * 100
    + b"\r\n\r\n",
    "extensions": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1;" + b"a" * 900 + b"\r\nx\r\n") * 3,
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused_in_any_split(name: str) -> None:
    data = LARGE[name]
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        parser = ResponseParser(LIMITS)
        with pytest.raises(TransportFault) as caught:
            for piece in pieces:
                feed(parser, piece)
        assert caught.value.kind == "too_large"


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "until_close"])
def test_an_end_at_every_byte_is_a_cut(name: str) -> None:
    data, _, _, _ = ANSWERS[name]
    for place in range(len(data)):
        parser = ResponseParser(LIMITS)
        parser.feed(data[:place])
        with pytest.raises(TransportFault) as caught:
            parser.close()
        assert caught.value.kind == "stream_cut"
        assert not parser.keeps


def test_bytes_after_the_end_are_detected_and_never_read() -> None:
    parser = ResponseParser(LIMITS)
    events = parser.feed(PLAIN + b"HTTP/1.1 200 OK\r\n\r\nsomebody else's")
    assert [event for event in events if isinstance(event, bytes)] == [b"hello"]
    assert parser.stray
    assert not parser.keeps


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_a_fault(data: bytes) -> None:
    parser = ResponseParser(LIMITS)
    try:
        parser.feed(data)
        parser.close()
    except TransportFault as fault:
        assert fault.kind in ("broken_protocol", "too_large", "stream_cut")
    else:
        assert re.match(rb"HTTP/1\.[01] \d{3}", data)
