"""A streamed reply gives exactly what the whole one gives, for every format and every chunking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.strategies import cuts, samples, texts

import dragoman
from dragoman import Message, Reply, Text, ToolCall, extract, extractor, formats

NAMES = [name for name in formats.names() if formats.get(name).name == name]


def stream(pieces: list[Any], **options: Any) -> dragoman.Extraction:
    stage = extractor(**options)
    for piece in pieces:
        stage.feed(piece)
    stage.close()
    return stage.extraction


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_pieces_do_not_matter(name: str, data: st.DataObject) -> None:
    text = data.draw(texts(name))
    options = {"trust": data.draw(st.sampled_from(["strict", "default", "compat"]))}
    whole = extract(text, **options)
    assert stream(data.draw(cuts(text)), **options) == whole
    assert stream(list(text), **options) == whole


@pytest.mark.parametrize("wire", dragoman.wire.names())
def test_the_events_of_a_wire_do(wire: str) -> None:
    for sample in samples("hermes")[:3]:
        codec = dragoman.wire.get(wire)
        for reply in (
            Reply(Message("assistant", [Text(sample)]), stop="end"),
            Reply(Message("assistant", [Text("Hi"), ToolCall("abc123XYZ", "t", {"a": 1})]), stop="tool_calls"),
        ):
            server = codec.event_stream()
            written = b"".join(
                [piece for event in dragoman.unfold(reply) for piece in server.feed(event)] + server.close()
            )
            client = codec.reply_stream()
            events = client.feed(written) + client.close()
            assert stream(list(events)) == extract(codec.decode_reply(codec.encode_reply(reply)))


def test_a_reply_that_was_cut_gives_no_call_that_may_be_half() -> None:
    text = '<tool_call>\n{"name": "t", "arguments": {"a": 1}}'
    assert [call.repairs for call in extract(text).calls] == [("closed_wrapper",)]
    cut = extract(Reply(Message("assistant", [Text(text)]), stop="length"))
    assert cut.calls == []
    assert [invalid.kind for invalid in cut.invalid] == ["truncated"]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    for trust in ("strict", "default", "compat"):
        assert isinstance(extract(text, trust=trust).calls, list)
