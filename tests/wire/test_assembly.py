"""Calls put together from what compatible servers really stream."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.tables import each_row

from dragoman.events import ArgumentsDelta, CallBroken, CallEnded, CallStarted
from dragoman.replies import fold
from dragoman.types import Message, Reply, Request, Text, Tool
from dragoman.wire import Quirks, framing, get


def piece(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    """One entry of `tool_calls` in a delta; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry: dict[str, Any] = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**entry, "function": function}


def chunk(*pieces: dict[str, Any], finish: str | None = None, **delta: Any) -> bytes:
    body = {**delta, **({"tool_calls": list(pieces)} if pieces else {})}
    return framing.encode_sse(None, json.dumps({"choices": [{"index": 0, "delta": body, "finish_reason": finish}]}))


DONE = framing.encode_sse(None, "[DONE]")


def read(*chunks: bytes, quirks: Quirks = Quirks(), sent: Any = None) -> Reply:  # noqa: B008
    stream = get("openai_chat", quirks).reply_stream(sent)
    return fold([event for piece in chunks for event in stream.feed(piece)] + stream.close())


def calls(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in reply.calls]


A, B = ("a", {"x": 1}), ("b", {"y": 2})
WAYS: dict[str, tuple[list[bytes], list[tuple[str, dict[str, Any]]]]] = {
    "as the standard says": (
        [
            chunk(piece(0, "i", "a", "")),
            chunk(piece(0, arguments='{"x"')),
            chunk(piece(0, arguments=": 1}")),
            chunk(piece(1, "j", "b", "")),
            chunk(piece(1, arguments='{"y": 2}')),
        ],
        [A, B],
    ),
    "both calls under index 0, told apart by id": (
        [chunk(piece(0, "i", "a", '{"x": 1}')), chunk(piece(0, "j", "b", '{"y": 2}'))],
        [A, B],
    ),
    "both calls under index 0, cut into pieces": (
        [
            chunk(piece(0, "i", "a", '{"x"')),
            chunk(piece(0, arguments=": 1}")),
            chunk(piece(0, "j", "b", '{"y"')),
            chunk(piece(0, arguments=": 2}")),
        ],
        [A, B],
    ),
    "both calls under index 0 and without ids": (
        [chunk(piece(0, None, "a", '{"x": 1}')), chunk(piece(0, None, "b", '{"y": 2}'))],
        [A, B],
    ),
    "the same tool twice under index 0 and without ids": (
        [chunk(piece(0, None, "a", '{"x": 1}')), chunk(piece(0, None, "a", '{"x": 2}'))],
        [A, ("a", {"x": 2})],
    ),
    "without indexes": (
        [
            chunk(piece(None, "i", "a", '{"x"')),
            chunk(piece(None, arguments=": 1}")),
            chunk(piece(None, "j", "b", '{"y"')),
            chunk(piece(None, arguments=": 2}")),
        ],
        [A, B],
    ),
    "without indexes and ids": (
        [chunk(piece(None, None, "a", '{"x": 1}')), chunk(piece(None, None, "b", '{"y": 2}'))],
        [A, B],
    ),
    "two in one delta without indexes": (
        [chunk(piece(None, "i", "a", '{"x": 1}'), piece(None, "j", "b", '{"y": 2}'))],
        [A, B],
    ),
    "pieces of two calls in turns": (
        [
            chunk(piece(0, "i", "a", '{"x"'), piece(1, "j", "b", '{"y"')),
            chunk(piece(1, arguments=": 2}")),
            chunk(piece(0, arguments=": 1}")),
        ],
        [A, B],
    ),
    "a huge index": ([chunk(piece(2**40, "i", "a", '{"x": 1}'))], [A]),
    "a negative index": ([chunk(piece(-1, "i", "a", '{"x": 1}'))], [A]),
    "an index that is no number": ([chunk(piece("first", "i", "a", '{"x": 1}'))], [A]),
    "arguments as an object": ([chunk(piece(0, "i", "a", {"x": 1}))], [A]),
    "arguments that are null": ([chunk(piece(0, "i", "a"))], [("a", {})]),
    "arguments that are empty": ([chunk(piece(0, "i", "a", ""))], [("a", {})]),
    "arguments that are blank": ([chunk(piece(0, "i", "a", " "))], [("a", {})]),
    "the name in every piece": (
        [chunk(piece(0, "i", "a", '{"x"')), chunk(piece(0, "i", "a", ": 1")), chunk(piece(0, "i", "a", "}"))],
        [A],
    ),
    "the name once more after the end": (
        [chunk(piece(0, "i", "a", '{"x": 1}')), chunk(piece(0, None, "a", ""))],
        [A],
    ),
    "the name in pieces": (
        [chunk(piece(0, "i", "sea", "")), chunk(piece(0, None, "rch", "")), chunk(piece(0, arguments='{"x": 1}'))],
        [("search", {"x": 1})],
    ),
    "a growing name": (
        [chunk(piece(0, "i", "sea", "")), chunk(piece(0, None, "search", "")), chunk(piece(0, arguments='{"x": 1}'))],
        [("search", {"x": 1})],
    ),
    "another id in every piece": (
        [chunk(piece(0, "i", "a", '{"x"')), chunk(piece(0, "k", None, ": 1}"))],
        [A],
    ),
    "name and arguments outside of function": (
        [chunk({"index": 0, "id": "i", "name": "a", "arguments": '{"x": 1}'})],
        [A],
    ),
    "an empty list of calls": ([chunk(content="hi", tool_calls=[])], []),
    "no list of calls": ([chunk(content="hi", tool_calls=None)], []),
    "the old function_call": (
        [chunk(function_call={"name": "a", "arguments": '{"x"'}), chunk(function_call={"arguments": ": 1}"})],
        [A],
    ),
    "quotes as Python writes them": ([chunk(piece(0, "i", "a", "{'x': 1}"))], [A]),
    "arguments encoded twice": ([chunk(piece(0, "i", "a", '"{\\"x\\": 1}"'))], [A]),
    "a closing bracket lost": ([chunk(piece(0, "i", "a", '{"x": {"z": "1"}'))], [("a", {"x": {"z": "1"}})]),
}


@each_row("finish", ["tool_calls", "stop", None])
@each_row("way", WAYS)
def test_calls_come_out_clean(way: str, finish: str | None) -> None:
    chunks, expected = WAYS[way]
    ends = [] if finish is None else [chunk(finish=finish)]
    reply = read(*chunks, *ends, DONE)
    assert calls(reply) == expected
    assert len({call.id for call in reply.calls}) == len(expected)
    assert all(call.id for call in reply.calls)
    assert reply.stop == ("tool_calls" if expected else "end")


@each_row("way", WAYS)
def test_events_come_in_order_and_indexes_count_from_zero(way: str) -> None:
    stream = get("openai_chat").reply_stream()
    events = [event for piece in [*WAYS[way][0], DONE] for event in stream.feed(piece)]
    started = [event.index for event in events if isinstance(event, CallStarted)]
    assert started == list(range(len(WAYS[way][1])))
    shown = [event.index for event in events if isinstance(event, CallStarted | ArgumentsDelta)]
    assert shown == sorted(shown), "the pieces of one call come before the next call starts"
    assert [event.index for event in events if isinstance(event, CallEnded)] == started


def test_repairs_are_named() -> None:
    (call,) = read(chunk(piece(0, "i", "a", "{'x': 1}")), DONE).calls
    assert call.repairs == ("single_quotes",)


def test_an_id_that_comes_twice_is_given_once() -> None:
    reply = read(chunk(piece(0, "i", "a", "{}"), piece(1, "i", "b", "{}")), DONE)
    assert [(call.id, call.wire_id) for call in reply.calls] == [("i", "i"), ("call_1", "i")]


def test_a_made_id_is_none_that_the_conversation_knows() -> None:
    codec = get("openai_chat")
    history = [
        Message("user", [Text("go")]),
        *codec.decode_request(
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "call_1", "function": {"name": "a"}}]}]}
        ).messages,
    ]
    sent = codec.prepare(Request("m", history))
    reply = read(chunk(piece(0, None, "a", "{}")), DONE, sent=sent)
    assert [(call.id, call.wire_id) for call in reply.calls] == [("call_2", None)]


CUTS: dict[str, tuple[list[bytes], str]] = {
    "inside a text": ([chunk(piece(0, "i", "a", '{"x": "rm -rf /tm')), chunk(finish="tool_calls"), DONE], "cut off"),
    "inside a number": ([chunk(piece(0, "i", "a", '{"x": 12')), chunk(finish="tool_calls"), DONE], "cut off"),
    "by the limit": ([chunk(piece(0, "i", "a", '{"x": 1}')), chunk(finish="length"), DONE], "length"),
    "by the limit before any argument": ([chunk(piece(0, "i", "a", "")), chunk(finish="length"), DONE], "length"),
    "by a filter": ([chunk(piece(0, "i", "a", '{"x": 1}')), chunk(finish="content_filter"), DONE], "refusal"),
    "by an error": (
        [chunk(piece(0, "i", "a", '{"x": 1}')), framing.encode_sse(None, '{"error": {"message": "boom"}}'), DONE],
        "boom",
    ),
    "by the end of the connection": ([chunk(piece(0, "i", "a", '{"x": 1}'))], "connection"),
    "a call without a name": ([chunk(piece(0, "i", None, '{"x": 1}')), DONE], "names no tool"),
    "a list for arguments": ([chunk(piece(0, "i", "a", "[1]")), DONE], "object"),
    "no JSON at all": ([chunk(piece(0, "i", "a", "not json")), DONE], "expected a value"),
}


@pytest.mark.parametrize("case", CUTS)
def test_a_call_that_is_not_whole_is_never_complete(case: str) -> None:
    chunks, why = CUTS[case]
    reply = read(*chunks)
    assert reply.calls == []
    (broken,) = reply.invalid
    assert why in broken.faults[0].why


def test_only_the_last_call_falls_to_the_limit() -> None:
    reply = read(
        chunk(piece(0, "i", "a", '{"x": 1}')), chunk(piece(1, "j", "b", '{"y": ')), chunk(finish="length"), DONE
    )
    assert calls(reply) == [A]
    assert [broken.name for broken in reply.invalid] == ["b"]


def test_a_limit_behind_another_finish_reason_is_seen_in_the_usage() -> None:
    """The server of an unknown vendor may be vLLM, so the exact limit counts everywhere."""
    usage = framing.encode_sse(None, '{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}')
    for quirks in (Quirks(), Quirks(masks_length=True)):
        for finish, limit, wanted in (
            ("tool_calls", 9, "length"),
            ("tool_calls", 8, "length" if quirks.masks_length else "tool_calls"),
            ("tool_calls", 10, "tool_calls"),
            ("tool_calls", None, "tool_calls"),
            ("stop", 9, "length" if quirks.masks_length else "tool_calls"),
        ):
            chunks = [chunk(piece(0, "i", "a", '{"x": 1}')), chunk(finish=finish), usage, DONE]
            request = Request("m", [Message("user", [Text("go")])], options={"max_tokens": limit} if limit else {})
            reply = read(*chunks, quirks=quirks, sent=get("openai_chat", quirks).prepare(request))
            assert reply.stop == wanted, (quirks, finish, limit)
            assert bool(reply.invalid) is (wanted == "length"), "a call that may be cut does not run"


def test_a_server_without_a_last_frame_is_a_quirk() -> None:
    chunks = [chunk(piece(0, "i", "a", '{"x": 1}')), chunk(finish="tool_calls")]
    for quirks, wanted in ((Quirks(), []), (Quirks(final_frame=False), [A])):
        stage = get("openai_chat", quirks).reply_stream()
        assert calls(fold([*stage.feed(b"".join(chunks)), *stage.cut()])) == wanted


def test_names_come_back_in_the_offered_spelling() -> None:
    codec = get("openai_chat")
    tools = [Tool("files.read"), Tool("get_weather", parameters={"properties": {"days": {"type": "integer"}}})]
    sent = codec.prepare(Request("m", [Message("user", [Text("go")])], tools))
    reply = read(
        chunk(piece(0, "i", "files_read", "{}")),
        chunk(piece(1, "j", "Get-Weather", '{"days": "3"}')),
        chunk(piece(2, "k", "unheard_of", "{}")),
        DONE,
        sent=sent,
    )
    assert calls(reply) == [("files.read", {}), ("get_weather", {"days": 3}), ("unheard_of", {})]
    assert [call.known_tool for call in reply.calls] == [True, True, False]
    assert [change.path for change in reply.calls[1].changes] == ["$.days"]


def test_a_broken_call_keeps_its_place_and_its_words() -> None:
    stream = get("openai_chat").reply_stream()
    events = stream.feed(chunk(piece(0, "i", "a", '{"x": "ha')) + DONE)
    (broken,) = [event for event in events if isinstance(event, CallBroken)]
    assert (broken.index, broken.name, broken.raw, broken.wire_id) == (0, "a", '{"x": "ha', "i")


def test_the_work_for_calls_without_an_index_grows_with_their_number() -> None:
    def count_lines(number: int) -> int:
        body = b"".join(chunk(piece(None, f"c{place}", "a", '{"x": 1}')) for place in range(number)) + DONE
        lines = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            reply = read(body)
        finally:
            sys.settrace(before)
        assert len(reply.calls) == number
        return lines

    assert count_lines(400) < 5 * count_lines(100)
