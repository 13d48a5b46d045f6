"""What no JSON should hold and servers send: characters cut in two between frames, and NaN."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.events import ReplyEnded, ReplyStarted, TextDelta, ThinkingDelta
from dragoman.replies import fold
from dragoman.stage import collect
from dragoman.types import Message, Request, Thinking, Tool, Usage
from dragoman.wire import get
from dragoman.wire.builder import ReplyBuilder
from dragoman.wire.values import parse

WORDS = "hi 🌍🌎 é end"


def halves(text: str) -> list[str]:
    """UTF-16 units, each a piece of its own."""
    data = text.encode("utf-16-le")
    return [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]


def chat(delta: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


@given(st.text(max_size=20))
def test_characters_that_are_cut_in_two_are_whole_again(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    builder = ReplyBuilder("w")
    for piece in halves(text):
        builder.text(piece)
        builder.call_delta(0, "c", "a", piece)
    for piece in halves(text):
        builder.thinking(piece)
    builder.end()
    events = builder.take()
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == text


def test_a_chat_stream_with_halves() -> None:
    frames = [chat({"reasoning_content": piece}) for piece in halves(WORDS)]
    frames += [chat({"content": piece}) for piece in halves(WORDS)]
    head = {"index": 0, "id": "c", "function": {"name": "say", "arguments": ""}}
    frames.append(chat({"tool_calls": [head]}))
    pieces = halves(json.dumps({"text": WORDS}, ensure_ascii=False))
    frames += [chat({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces]
    reply = fold(collect(get("openai_chat").reply_stream(), [*frames, b"data: [DONE]\n\n"]))
    assert reply.failure is None and reply.text == WORDS
    assert [call.arguments for call in reply.calls] == [{"text": WORDS}]
    assert "".join(part.text for part in reply.message.parts if isinstance(part, Thinking)) == WORDS


@pytest.mark.parametrize(
    "wire", ["openai_chat", "anthropic", "gemini", "openai_responses", "cohere", "mistral", "ollama"]
)
def test_every_wire_joins_what_was_cut(wire: str) -> None:
    """A stream as our server half writes it, with the character cut in two between its frames."""
    codec = get(wire)
    stage = codec.event_stream(model="m", id="r")
    said = [TextDelta("one "), TextDelta("@@"), TextDelta("##"), TextDelta(" two")]
    sent = collect(stage, [ReplyStarted("m", "r"), *said, ReplyEnded("end")])
    data = b"".join(sent)
    assert b"@@" in data and b"##" in data
    # What repeats the whole text repeats the two halves.
    data = data.replace(b"@@", b"\\ud83c").replace(b"##", b"\\udf0d")
    for size in (1, 7, len(data)):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        reply = fold(collect(codec.reply_stream(), pieces))
        assert (reply.failure, reply.text) == (None, "one 🌍 two")


def test_a_half_that_stays_alone_is_replaced() -> None:
    frames = [chat({"content": "a\ud83c"}), chat({"content": "b\udf0d"}), chat({"content": "c\ud83c"})]
    reply = fold(collect(get("openai_chat").reply_stream(), [*frames, b"data: [DONE]\n\n"]))
    assert (reply.failure, reply.text) == (None, "a\ufffdb\ufffdc\ufffd")


def test_an_id_with_a_half_is_replaced() -> None:
    """The journal could not store the id, and the run of the agent ended with an error."""
    codec = get("openai_chat")
    sent = codec.prepare(Request("m", [Message.user("go")], [Tool("a")]))
    calls = [{"index": at, "id": "c\ud83c", "function": {"name": "a", "arguments": "{}"}} for at in range(2)]
    streamed = fold(collect(codec.reply_stream(sent), [chat({"tool_calls": calls}), b"data: [DONE]\n\n"]))
    choice = {"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}
    whole = codec.decode_reply(json.dumps({"choices": [choice]}), sent)
    for reply in (streamed, whole):
        assert [call.id for call in reply.calls] == ["call_1", "call_2"]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_nan_in_a_field_that_nobody_needs_harms_nothing(word: str) -> None:
    body = '{"choices": [{"message": {"content": "hi"}, "logprobs": {"a": %s}}], "usage": {"prompt_tokens": %s}}'
    reply = get("openai_chat").decode_reply(body % (word, word))
    assert (reply.failure, reply.text, reply.usage) == (None, "hi", Usage())
    called = '{"message": {"tool_calls": [{"function": {"name": "a", "arguments": {"x": %s}}}]}, "done": true}'
    assert get("ollama").decode_reply(called % word).calls == []


@pytest.mark.parametrize("text", ["{", '{"a": NaN', '["\\ud83c', "nan", '{"a": "\\udzzz"}'])
def test_what_is_no_json_stays_none(text: str) -> None:
    assert not isinstance(parse(text), dict)
    assert not isinstance(parse(text.encode()), dict)
