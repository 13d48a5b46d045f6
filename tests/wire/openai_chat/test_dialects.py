"""Replies of real servers that say things twice, in other places, or without an end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.replies import fold
from dragoman.types import Reply, Usage
from dragoman.wire import get

CALL = {"name": "weather", "arguments": '{"city": "Paris"}'}
ONE = [("weather", {"city": "Paris"})]
TOLD = {"id": "c1", "type": "function", "function": CALL}


def whole(message: dict[str, Any], **choice: Any) -> Reply:
    return get("openai_chat").decode_reply({"choices": [{"message": message, "finish_reason": "stop", **choice}]})


def frames(*chunks: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % (c if isinstance(c, bytes) else json.dumps(c).encode()) for c in chunks)


def read(*chunks: Any, cut: bool = False) -> Reply:
    stage = get("openai_chat").reply_stream()
    return fold([*stage.feed(frames(*chunks)), *(stage.cut() if cut else stage.close())])


def streamed(message: dict[str, Any], **choice: Any) -> Reply:
    indexed = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls", []))]
    delta = {**message, "tool_calls": indexed} if indexed else message
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    return read({"choices": [{"delta": delta, **choice}]}, end, b"[DONE]")


def calls(reply: Reply) -> list[tuple[str, Any]]:
    assert reply.invalid == []
    return [(call.name, call.arguments) for call in reply.calls]


# ---- the same thing in two places -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [whole, streamed])
@pytest.mark.parametrize("spelling", ['{"city": "Paris"}', '{"city":"Paris"}'])
def test_a_call_that_is_told_in_both_forms_is_one_call(reader: Any, spelling: str) -> None:
    reply = reader({"tool_calls": [TOLD], "function_call": {**CALL, "arguments": spelling}})
    assert calls(reply) == ONE


@pytest.mark.parametrize("reader", [whole, streamed])
def test_two_calls_in_the_two_forms_stay_two(reader: Any) -> None:
    other = {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert calls(reader({"tool_calls": [TOLD], "function_call": other})) == [*ONE, ("weather", {"city": "Rome"})]
    assert calls(reader({"function_call": CALL})) == ONE


def test_pieces_that_are_told_in_both_forms_are_one_call() -> None:
    def both(**fields: str) -> dict[str, Any]:
        return {"choices": [{"delta": {"function_call": fields, "tool_calls": [{"index": 0, "function": fields}]}}]}

    pieces = [
        both(name="weather", arguments=""),
        both(name="weather", arguments='{"city": '),
        both(arguments='"Paris"}'),
    ]
    assert calls(read(*pieces, b"[DONE]")) == ONE


@pytest.mark.parametrize("reader", [whole, streamed])
@pytest.mark.parametrize("empty", [{}, {"name": "", "input": ""}, {"name": None}, None])
def test_an_empty_form_of_a_call_hides_none_that_says_something(reader: Any, empty: Any) -> None:
    assert calls(reader({"tool_calls": [{**TOLD, "custom": empty}]})) == ONE
    custom = {"id": "c1", "type": "custom", "custom": {"name": "note", "input": "x"}, "function": empty}
    assert calls(reader({"tool_calls": [custom]})) == [("note", {"input": "x"})]


@pytest.mark.parametrize("delta", [{}, {"role": "assistant", "content": ""}, None])
def test_a_whole_reply_is_its_message_whatever_the_delta_says(delta: Any) -> None:
    assert whole({"content": "hello"}, delta=delta).text == "hello"
    assert whole({}, delta={"content": "hello"}).text == "hello"


def test_a_stream_whose_chunks_hold_everything_so_far_is_its_deltas() -> None:
    def both(delta: dict[str, Any], so_far: str, **more: Any) -> dict[str, Any]:
        return {"choices": [{"delta": delta, "message": {"content": so_far}, **more}]}

    last = both({}, "hello", finish_reason="stop")
    assert read(both({"content": "hel"}, "hel"), both({"content": "lo"}, "hello"), last).text == "hello"


def test_pieces_of_a_call_behind_an_empty_message_are_one_call() -> None:
    def delta(*pieces: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"choices": [{"delta": {"tool_calls": list(pieces)}, **more}]}

    first = {"choices": [{"delta": {}, "message": {"role": "assistant", "content": ""}}]}
    begun = delta({"index": 0, "id": "c1", "function": {"name": "weather", "arguments": '{"city": '}})
    ended = delta({"index": 0, "function": {"arguments": '"Paris"}'}}, finish_reason="tool_calls")
    assert calls(read(first, begun, ended, b"[DONE]")) == ONE


def test_usage_in_the_field_of_groq() -> None:
    counts = {"prompt_tokens": 3, "completion_tokens": 5}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"id": "r", "usage": counts}}
    assert read({"choices": [{"delta": {"content": "hi"}}], "x_groq": {"id": "r"}}, end, b"[DONE]").usage == Usage(3, 5)


# ---- the end ---------------------------------------------------------------------------------------------------------

WORDS = {"choices": [{"delta": {"content": "hi"}}]}
MADE = {"choices": [{"delta": {"tool_calls": [{"index": 0, **TOLD}]}}]}
STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
CALLED = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
HALF = b'{"choices": [], "usa'


@pytest.mark.parametrize(
    ("chunks", "cut", "ends"),
    [
        ([WORDS, STOP], False, True),
        ([WORDS, STOP, b"[DONE]"], True, True),
        ([MADE, CALLED], False, True),
        ([WORDS, STOP], True, False),
        ([MADE, CALLED], True, False),
        ([WORDS], False, False),
        ([MADE], False, False),
    ],
)
def test_a_reason_and_a_clean_end_of_the_body_are_an_end(chunks: list[Any], cut: bool, ends: bool) -> None:
    reply = read(*chunks, cut=cut)
    assert (reply.failure is None) is ends
    assert calls(reply) == ONE if ends and MADE in chunks else reply.calls == []


def test_half_a_frame_behind_the_reason_is_a_cut() -> None:
    stage = get("openai_chat").reply_stream()
    reply = fold([*stage.feed(frames(WORDS, STOP) + b"data: " + HALF), *stage.close()])
    assert reply.failure is not None and reply.failure.kind == "stream_cut"
