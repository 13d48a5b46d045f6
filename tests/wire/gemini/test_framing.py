"""The two forms of a stream: server-sent events, and a JSON list that grows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.stage import collect
from dragoman.wire.framing import SseEvent
from dragoman.wire.gemini.client import ChunkDecoder


def read(*pieces: bytes) -> list[tuple[str, bool]]:
    """The data of each event, and whether it was complete."""
    events = collect(ChunkDecoder(), pieces)
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
    ],
)
def test_what_a_stream_holds_however_it_is_split(stream: bytes, events: list[tuple[str, bool]]) -> None:
    assert read(stream) == events
    assert read(*(stream[place : place + 1] for place in range(len(stream)))) == events
    for place in range(len(stream)):
        assert read(stream[:place], stream[place:]) == events


@given(st.binary(max_size=40), st.sampled_from([b"[", b'[{"a":1},', b"{", b"\xef\xbb\xbf", b""]), st.integers(0, 45))
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
