"""Frames that two programs read differently: a call in such a reply does not run, and its result says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.wire.conversations import WIRES

from dragoman.replies import fold, unfold
from dragoman.types import Message, Reply, Text, ToolCall
from dragoman.wire import eventstream, get

NAME, VALUE = "pay_invoice", "account-7731"
REPLY = Reply(Message("assistant", [Text("Paid."), ToolCall("call_1", NAME, {"to": VALUE, "n": 3})]), stop="tool_calls")


def writings(value: Any, other: Any) -> Iterator[tuple[str, str]]:
    """The texts of a JSON value with one of its keys twice: the path of the key, and the text."""
    if isinstance(value, dict):
        texts = {key: json.dumps(each) for key, each in value.items()}
        for key, each in value.items():
            extra = f"{json.dumps(key)}: {json.dumps(other)}, "
            if each != other:
                rest = "".join(f", {json.dumps(name)}: {text}" for name, text in texts.items() if name != key)
                yield key, f"{{{extra}{json.dumps(key)}: {texts[key]}{rest}}}"
            for path, inner in writings(each, other):
                rest = "".join(f", {json.dumps(name)}: {text}" for name, text in texts.items() if name != key)
                yield f"{key}.{path}", f"{{{json.dumps(key)}: {inner}{rest}}}"
    elif isinstance(value, list):
        for place, each in enumerate(value):
            before, after = value[:place], value[place + 1 :]
            for path, inner in writings(each, other):
                parts = [*map(json.dumps, before), inner, *map(json.dumps, after)]
                yield f"{place}.{path}", f"[{', '.join(parts)}]"


def frames_of(wire: str) -> list[tuple[Any, str]]:
    """The frames of a streamed reply: what is around its JSON, and the JSON."""
    stage = get(wire).event_stream(model="m", id="r")
    data = b"".join(piece for event in unfold(REPLY) for piece in stage.feed(event)) + b"".join(stage.close())
    if wire == "bedrock":
        return [(frame.headers, frame.payload.decode()) for frame in eventstream.EventStreamDecoder().feed(data)]
    if wire == "ollama":
        return [("%s\n", line) for line in data.decode().splitlines()]
    found = []
    for block in data.decode().split("\n\n"):
        head, mark, text = block.partition("data: ")
        found.append((f"{head}{mark}%s\n\n", text))
    return found


def read_stream(wire: str, frames: list[tuple[Any, str]]) -> Reply:
    stream = get(wire).reply_stream()
    events: list[Any] = []
    for around, text in frames:
        is_text = isinstance(around, str)
        events += stream.feed((around % text).encode() if is_text else eventstream.encode(around, text.encode()))
    return fold(events + stream.close())


@pytest.mark.parametrize("wire", WIRES)
def test_a_whole_reply_with_a_key_twice_runs_no_call(wire: str) -> None:
    codec = get(wire)
    body = codec.encode_reply(REPLY)
    assert [call.name for call in codec.decode_reply(json.dumps(body)).calls] == [NAME]
    tried = 0
    for other in ("delete_all", None, {"to": "thief"}, [{"name": "delete_all"}]):
        for path, text in writings(body, other):
            for given in (text, text.encode(), text.replace('"name"', '"n\\u0061me"')):
                reply = codec.decode_reply(given)
                assert not reply.calls, (path, text)
                assert all("twice" in str(call) for call in reply.invalid), (path, reply.invalid)
            assert not codec.decode_tool_calls(text), path
            tried += 1
    assert tried > 20


@pytest.mark.parametrize("wire", WIRES)
def test_a_streamed_frame_of_a_call_with_a_key_twice_runs_no_call(wire: str) -> None:
    frames = frames_of(wire)
    assert [call.name for call in read_stream(wire, frames).calls] == [NAME]
    tried = 0
    for place, (around, text) in enumerate(frames):
        if NAME not in text and VALUE not in text:
            continue
        for other in ("delete_all", None, 5, {"to": "thief"}):
            for path, twice in writings(json.loads(text), other):
                reply = read_stream(wire, [*frames[:place], (around, twice), *frames[place + 1 :]])
                assert not reply.calls, (path, twice)
                tried += 1
    assert tried > 5


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_twice_with_the_same_value_is_no_reason_to_refuse(wire: str) -> None:
    body = json.dumps(get(wire).encode_reply(REPLY))
    twice = body.replace(f'"name": "{NAME}"', f'"name": "{NAME}", "name": "{NAME}"')
    assert twice != body
    assert [call.name for call in get(wire).decode_reply(twice).calls] == [NAME]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("digits", ["1.00000000000000000001", "9007199254740993.0"])
def test_a_number_that_lost_digits_runs_no_call(wire: str, digits: str) -> None:
    body = json.dumps(get(wire).encode_reply(REPLY))
    for before in ('"n": 3', '"n":3', '\\"n\\": 3', '\\"n\\":3'):
        body = body.replace(before, before.replace("3", digits))
    assert digits in body
    reply = get(wire).decode_reply(body)
    assert not reply.calls and "more digits" in str(reply.invalid)


@pytest.mark.parametrize("wire", WIRES)
def test_words_with_a_key_twice_are_still_read(wire: str) -> None:
    said = Reply(Message("assistant", [Text("Nothing to do.")]), stop="end")
    body = get(wire).encode_reply(said)
    for path, text in writings(body, "model-x"):
        if path in ("model", "id", "created"):
            assert get(wire).decode_reply(text).text == "Nothing to do."
    assert get(wire).decode_reply(json.dumps(body)).text == "Nothing to do."
