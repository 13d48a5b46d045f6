"""What the server sends, read into events: whole, streamed, cut off, and by servers that bend the rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.replies import fold
from dragoman.stage import collect
from dragoman.types import Message, Reply, Request, Text, Thinking, ToolCall, Usage
from dragoman.wire.anthropic import Anthropic
from dragoman.wire.quirks import Quirks

from .samples import (
    RICH,
    RICH_BODY,
    TOOLS,
    block,
    call_block,
    ended,
    frame,
    started,
    text_block,
)

CODEC = Anthropic()
ALL_BUT_THE_END = RICH.removesuffix(frame("message_stop"))


def read(*pieces: bytes, codec: Anthropic = CODEC) -> Reply:
    return fold(collect(codec.reply_stream(), pieces))


def read_blocks(*blocks: bytes, reason: str | None = "tool_use") -> Reply:
    return read(started(), *blocks, ended(reason))


# ---- what there is to read -------------------------------------------------------------------------------------------


def test_a_rich_stream_gives_thinking_text_and_calls_in_order() -> None:
    reply = read(RICH)
    thought, hidden, text, weather, ping = reply.message.parts
    assert thought == Thinking("Both cities, at once.", {"anthropic": {"signature": "EqQBsigned"}})
    assert hidden == Thinking("", {"anthropic": {"data": "EmwKsecret"}})
    assert text == Text("Grüße, 世界 🌍.")
    assert isinstance(weather, ToolCall) and isinstance(ping, ToolCall)
    assert (weather.id, weather.wire_id, weather.name) == ("toolu_1", "toolu_1", "get_weather")
    assert weather.arguments == {"city": "Paris", "days": 2}
    assert (ping.id, ping.name, ping.arguments) == ("toolu_2", "ping", {})
    assert (reply.model, reply.id, reply.stop) == ("claude-opus-5-5", "msg_01", "tool_calls")
    assert reply.failure is None


def test_input_tokens_are_the_sum_with_the_cache() -> None:
    assert read(RICH).usage == Usage(115, 42, cached_tokens=100, cache_write_tokens=5)


def test_thinking_tokens_are_counted_as_reasoning() -> None:
    usage = {"input_tokens": 3, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}
    assert CODEC.decode_reply(RICH_BODY | {"usage": usage}).usage == Usage(3, 9, reasoning_tokens=7)


def test_a_whole_body_and_its_stream_are_the_same_reply() -> None:
    assert CODEC.decode_reply(RICH_BODY) == read(RICH)
    assert CODEC.decode_reply(json.dumps(RICH_BODY).encode()) == read(RICH)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("tool_use", "end"),  # without a call there is none
        ("tired", "end"),
        (None, "end"),
    ],
)
def test_reasons_to_stop(reason: str | None, stop: str) -> None:
    streamed = read_blocks(text_block(0, "Hi"), reason=reason)
    whole = CODEC.decode_reply({"content": [{"type": "text", "text": "Hi"}], "stop_reason": reason})
    assert (streamed.stop, whole.stop) == (stop, stop)
    assert streamed.extra == ({"anthropic": {"reason": reason}} if reason else {})


def test_what_only_this_wire_knows_of_the_end_is_kept() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    streamed = read(started(), ended("refusal", stop_details=details, container={"id": "c1"}))
    assert streamed.extra == {"anthropic": {"reason": "refusal", "stop_details": details, "container": {"id": "c1"}}}
    body = {"content": [], "stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert CODEC.decode_reply(body).extra == {"anthropic": {"reason": "stop_sequence", "stop_sequence": "END"}}


def test_empty_text_leaves_no_part() -> None:
    assert read_blocks(text_block(0), text_block(1, ""), reason="end_turn").message == Message("assistant", [])


def test_thinking_that_is_not_shown_keeps_its_signature() -> None:
    shy = block(0, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "S"})
    assert read_blocks(shy).message.parts == [Thinking("", {"anthropic": {"signature": "S"}})]


def test_thinking_without_a_signature_is_known_as_unsigned() -> None:
    open_minded = block(0, {"type": "thinking", "thinking": "", "signature": ""}, {"thinking": "Hm"})
    assert read_blocks(open_minded).message.parts == [Thinking("Hm", {"anthropic": {"signature": ""}})]


def test_citations_are_kept_with_their_text() -> None:
    citation = {"type": "char_location", "cited_text": "purr", "document_index": 0}
    cited = block(
        0,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "They purr."},
        {"type": "citations_delta", "citation": citation},
    )
    whole = {"content": [{"type": "text", "text": "They purr.", "citations": [citation]}], "stop_reason": "end_turn"}
    expected = [Text("They purr.", {"anthropic": {"citations": [citation]}})]
    assert read_blocks(cited).message.parts == expected
    assert CODEC.decode_reply(whole).message.parts == expected


def test_blocks_of_the_server_are_kept_as_they_are() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "Cats"}]}
    streamed = read_blocks(
        block(0, search, {"type": "input_json_delta", "partial_json": '{"query": "c'}, {"partial_json": 'at"}'}),
        block(1, found),
        text_block(2, "Found."),
    )
    asked = search | {"input": {"query": "cat"}}
    assert [part.extra for part in streamed.message.parts if isinstance(part, Text)] == [
        {"anthropic": {"block": asked}},
        {"anthropic": {"block": found}},
        {},
    ]
    assert streamed.calls == []
    assert (
        CODEC.decode_reply({"content": [asked, found, {"type": "text", "text": "Found."}]}).message == streamed.message
    )


# ---- names and arguments as they were offered ------------------------------------------------------------------------


def test_names_and_arguments_come_back_as_they_were_offered() -> None:
    offered = [TOOLS[0].__class__("files.read", "Read", {"type": "object", "properties": {"n": {"type": "integer"}}})]
    sent = CODEC.prepare(Request("m", [Message("user", [Text("Hi")])], offered))
    body = {"content": [{"type": "tool_use", "id": "t", "name": "files_read", "input": {"n": "3"}}]}
    (call,) = CODEC.decode_reply(body, sent).calls
    assert (call.name, call.arguments, call.known_tool) == ("files.read", {"n": 3}, True)


# ---- splits and cuts -------------------------------------------------------------------------------------------------


def test_any_split_in_two_gives_the_same_events() -> None:
    whole = collect(CODEC.reply_stream(), [RICH])
    for place in range(len(RICH) + 1):
        assert collect(CODEC.reply_stream(), [RICH[:place], RICH[place:]]) == whole, place


def test_byte_by_byte_gives_the_same_reply() -> None:
    assert read(*(RICH[place : place + 1] for place in range(len(RICH)))) == read(RICH)


def test_a_stream_that_is_cut_anywhere_gives_no_call() -> None:
    # The last event counts as soon as its JSON is complete, with or without the blank line behind it.
    for place in range(len(RICH) - len(b"\n\n")):
        reply = read(RICH[:place])
        assert reply.calls == [], place
        assert reply.failure is not None and reply.failure.kind == "stream_cut", place
        assert reply.stop == "error", place


def test_thinking_that_is_cut_off_loses_its_signature() -> None:
    cut = RICH[: RICH.index(b"event: content_block_stop")]
    assert read(cut).message.parts == [Thinking("Both cities, at once.")]


def test_without_the_final_frame_the_reason_counts_only_where_the_endpoint_is_known_for_it() -> None:
    assert read(ALL_BUT_THE_END).calls == []
    forgetful = Anthropic(Quirks(final_frame=False))
    assert [call.id for call in read(ALL_BUT_THE_END, codec=forgetful).calls] == ["toolu_1", "toolu_2"]


def test_done_ends_the_stream_as_well() -> None:
    assert len(read(ALL_BUT_THE_END, b"data: [DONE]\n\n").calls) == 2


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
def test_the_last_call_of_a_reply_that_hit_a_limit_is_not_trusted(reason: str) -> None:
    reply = read_blocks(call_block(0, "a", "ping"), call_block(1, "b", "ping", '{"x": 1}'), reason=reason)
    assert [call.id for call in reply.calls] == ["a"]
    assert [call.id for call in reply.invalid] == ["b"]


def test_arguments_that_are_cut_off_are_no_call() -> None:
    reply = read_blocks(call_block(0, "a", "get_weather", '{"city": "Par'))
    assert reply.calls == []
    assert reply.invalid[0].raw == '{"city": "Par'


# ---- servers that bend the rules -------------------------------------------------------------------------------------


def calls_of(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in reply.calls]


TWO = [("get_weather", {"city": "A"}), ("get_weather", {"city": "B"})]


@pytest.mark.parametrize(
    "indexes", [(0, 0), (None, None), (10**30, 10**30 + 1), (-1, 7)], ids=["same", "none", "huge", "odd"]
)
def test_indexes_do_not_have_to_make_sense(indexes: tuple[int | None, int | None]) -> None:
    first = call_block(indexes[0], "a", "get_weather", '{"city":', ' "A"}')
    second = call_block(indexes[1], "b", "get_weather", '{"city":', ' "B"}')
    assert calls_of(read_blocks(first, second)) == TWO


def test_an_index_of_a_wrong_type_is_no_index() -> None:
    pieces = [call_block(0, name, "get_weather", f'{{"city": "{name}"}}') for name in "AB"]
    odd = b"".join(pieces).replace(b'"index": 0', b'"index": ["x"]')
    assert calls_of(read_blocks(odd)) == TWO


def test_calls_without_ids_or_with_the_same_one_get_ids_of_their_own() -> None:
    nameless = read_blocks(call_block(0, None, "ping"), call_block(1, None, "ping"))
    assert [(call.id, call.wire_id) for call in nameless.calls] == [("call_1", None), ("call_2", None)]
    twins = read_blocks(call_block(0, "x", "ping"), call_block(1, "x", "ping"))
    assert len({call.id for call in twins.calls}) == 2


def test_blocks_whose_deltas_come_mixed() -> None:
    opened = [
        frame("content_block_start", index=place, content_block={"type": "tool_use", "id": name, "name": "get_weather"})
        for place, name in enumerate("AB")
    ]
    deltas = [
        frame("content_block_delta", index=place, delta={"type": "input_json_delta", "partial_json": piece})
        for piece_pair in (('{"city": ', '{"city": '), ('"A"}', '"B"}'))
        for place, piece in enumerate(piece_pair)
    ]
    closed = [frame("content_block_stop", index=place) for place in (0, 1)]
    assert calls_of(read_blocks(*opened, *deltas, *closed)) == TWO


@pytest.mark.parametrize("given", [{"city": "A"}, '{"city": "A"}'], ids=["object", "text"])
def test_the_whole_input_at_the_start_of_a_block(given: Any) -> None:
    at_once = block(0, {"type": "tool_use", "id": "a", "name": "get_weather", "input": given})
    assert calls_of(read_blocks(at_once)) == TWO[:1]
    body = {"content": [{"type": "tool_use", "id": "a", "name": "get_weather", "input": given}]}
    assert calls_of(CODEC.decode_reply(body)) == TWO[:1]


def test_stops_and_starts_that_never_come() -> None:
    text = frame("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"})
    named = {"type": "tool_use", "id": "a", "name": "get_weather"}
    call = frame("content_block_start", index=1, content_block=named) + frame(
        "content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"city": "A"}'}
    )
    reply = read_blocks(text, call)
    assert reply.text == "Hi"
    assert calls_of(reply) == TWO[:1]


def test_arguments_of_a_call_that_never_began_are_reported_and_not_run() -> None:
    lost = frame("content_block_delta", index=3, delta={"type": "input_json_delta", "partial_json": '{"x": 1}'})
    reply = read_blocks(lost)
    assert reply.calls == []
    assert reply.invalid[0].raw == '{"x": 1}'


def test_a_stream_without_names_of_events() -> None:
    bare = b"".join(line + b"\n" for line in RICH.split(b"\n") if not line.startswith(b"event:"))
    assert read(bare) == read(RICH)


def test_counts_that_are_left_out_or_zero_later_stand() -> None:
    end = frame("message_delta", delta={"stop_reason": "end_turn"}, usage={"input_tokens": 0, "output_tokens": 42})
    assert read(started(), end, frame("message_stop")).usage.input_tokens == 115


def test_an_unknown_event_is_passed_over() -> None:
    assert read(started(), frame("news", text="x"), text_block(0, "Hi"), ended("end_turn")).text == "Hi"


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        frame("error", error={"type": "overloaded_error", "message": "Overloaded"}),
        b'data: {"error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
    ],
    ids=["event", "object"],
)
def test_an_error_in_the_stream_ends_the_reply_and_its_calls(trouble: bytes) -> None:
    reply = read(started(), text_block(0, "So"), call_block(1, "a", "ping"), trouble, ended())
    assert reply.failure is not None
    assert (reply.failure.kind, reply.failure.message, reply.failure.code) == (
        "overloaded",
        "Overloaded",
        "overloaded_error",
    )
    assert (reply.text, reply.calls, reply.stop) == ("So", [], "error")


def test_an_error_body_gives_a_reply_that_failed() -> None:
    body = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "req_1"}
    failure = CODEC.decode_reply(body).failure
    assert failure is not None and (failure.kind, failure.message) == ("not_found", "model: x")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"content": 5}'])
def test_a_body_without_a_message_is_a_failure(body: bytes) -> None:
    failure = CODEC.decode_reply(body).failure
    assert failure is not None and failure.kind == "server_error"


def test_an_event_that_is_no_json_fails_the_reply() -> None:
    reply = read(started(), call_block(0, "a", "ping"), b"data: {oops\n\n", ended())
    assert reply.calls == []
    assert reply.failure is not None and reply.failure.kind == "server_error"


def test_an_event_that_is_too_long_fails_the_reply() -> None:
    reply = read(started(), b"data: " + b"x" * (17 << 20) + b"\n\n", ended())
    assert reply.failure is not None and "too large" in reply.failure.message


# ---- the verb --------------------------------------------------------------------------------------------------------

CALL = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "x"}}


@pytest.mark.parametrize(
    "body",
    [
        {"content": [{"type": "text", "text": "t"}, CALL]},
        {"role": "assistant", "content": [CALL]},
        [CALL],
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [CALL]}],
        CALL,
        {"id": "toolu_1", "name": "search", "input": {"q": "x"}},
        {"message": {"content": [CALL]}},
        json.dumps([CALL]),
        json.dumps({"content": [CALL]}).encode(),
    ],
)
def test_calls_are_found_in_bodies_messages_lists_and_alone(body: Any) -> None:
    (call,) = CODEC.decode_tool_calls(body)
    assert (call.id, call.name, call.arguments) == ("toolu_1", "search", {"q": "x"})


@pytest.mark.parametrize(
    "body", [{}, [], None, 3, "", "no json", {"content": "Hi"}, {"content": []}, {"type": "error", "error": {}}, [[]]]
)
def test_no_calls_are_an_empty_list(body: Any) -> None:
    assert CODEC.decode_tool_calls(body) == []


# ---- anything at all -------------------------------------------------------------------------------------------------

WORDS = [
    "type", "index", "delta", "content_block", "message", "content", "text", "thinking", "signature", "partial_json",
    "id", "name", "input", "usage", "stop_reason", "error", "citation", "citations", "data", "message_start",
    "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "tool_use",
    "server_tool_use", "redacted_thinking", "input_tokens", "output_tokens_details",
]  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
)
KINDS = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error"]
FRAMES = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=5),
)


@given(st.lists(FRAMES, max_size=8), st.booleans())
def test_no_frame_raises(frames: list[dict[str, Any]], is_ended: bool) -> None:
    pieces = [f"data: {json.dumps(entry)}\n\n".encode() for entry in frames]
    reply = read(*pieces, *([frame("message_stop")] if is_ended else []))
    assert is_ended or reply.calls == []


@given(ANYTHING)
def test_no_body_raises(body: Any) -> None:
    assert isinstance(CODEC.decode_tool_calls(body), list)
    assert isinstance(CODEC.decode_reply(body), Reply)


@given(st.lists(st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=5), max_size=4))
def test_no_content_raises(content: list[Any]) -> None:
    assert CODEC.decode_reply({"content": content}).failure is None


def test_deep_nesting_is_no_trouble() -> None:
    deep = b'{"content": [{"type": "tool_use", "name": "x", "input": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5000 + b"}]}"
    assert isinstance(CODEC.decode_reply(deep), Reply)
