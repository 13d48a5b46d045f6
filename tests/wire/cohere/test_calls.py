"""Calls of servers that go their own ways with ids, indexes and arguments, and calls found wherever they stand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from tests.wire.cohere.fuzz import junk
from tests.wire.cohere.samples import (
    BEGIN,
    PARIS,
    WIRE,
    append_arguments,
    begin_call,
    call,
    end,
    end_call,
    read_frames,
    start,
)

from dragoman.types import Message, Reply, Request, Text, Tool

ENTRIES = [call("c1", "weather", '{"city": "Paris", "days": 2}'), call("c2", "ping", "")]
MESSAGE = {"role": "assistant", "tool_plan": "Look.", "tool_calls": ENTRIES}
BODY = {"id": "r1", "finish_reason": "TOOL_CALL", "message": MESSAGE}


def calls(reply: Reply) -> list[tuple[str, str, Any]]:
    return [(part.id, part.name, part.arguments) for part in reply.calls]


CALLS: list[tuple[str, list[Any], list[tuple[str, str, Any]]]] = [
    (
        "two calls under one index",
        [
            begin_call(0, "a", "x"),
            append_arguments(0, "{}"),
            end_call(0),
            begin_call(0, "b", "y"),
            append_arguments(0, '{"n":1}'),
        ],
        [("a", "x", {}), ("b", "y", {"n": 1})],
    ),
    (
        "two calls of one name under one index, without ids",
        [
            begin_call(0, None, "x"),
            append_arguments(0, '{"n":1}'),
            begin_call(0, None, "x"),
            append_arguments(0, '{"n":2}'),
        ],
        [("call_1", "x", {"n": 1}), ("call_2", "x", {"n": 2})],
    ),
    (
        "no index",
        [
            begin_call(None, "a", "x"),
            append_arguments(None, '{"n"'),
            append_arguments(None, ":1}"),
            begin_call(None, "b", "y"),
        ],
        [("a", "x", {"n": 1}), ("b", "y", {})],
    ),
    (
        "an index in the start alone",
        [begin_call(0, "a", "x"), append_arguments(None, '{"n":1}'), end_call(None)],
        [("a", "x", {"n": 1})],
    ),
    (
        "an index in the pieces alone",
        [begin_call(None, "a", "x"), append_arguments(0, '{"n"'), append_arguments(0, ":1}"), end_call(0)],
        [("a", "x", {"n": 1})],
    ),
    ("no id", [begin_call(0, None, "x"), append_arguments(0, "{}")], [("call_1", "x", {})]),
    ("one id twice", [begin_call(0, "a", "x"), begin_call(1, "a", "x")], [("a", "x", {}), ("call_1", "x", {})]),
    (
        "the start said twice",
        [begin_call(0, "a", "x"), begin_call(0, "a", "x"), append_arguments(0, "{}")],
        [("a", "x", {})],
    ),
    ("arguments in the start", [begin_call(0, "a", "x", '{"n":1}'), end_call(0)], [("a", "x", {"n": 1})]),
    ("arguments as an object", [begin_call(0, "a", "x", {"n": 1}), end_call(0)], [("a", "x", {"n": 1})]),
    ("a piece that is an object", [begin_call(0, "a", "x"), append_arguments(0, {"n": 1})], [("a", "x", {"n": 1})]),
    ("null arguments", [begin_call(0, "a", "x", None), end_call(0)], [("a", "x", {})]),
    ("no end", [begin_call(0, "a", "x"), append_arguments(0, "{}")], [("a", "x", {})]),
    ("a huge index", [begin_call(10**30, "a", "x"), append_arguments(10**30, '{"n":1}')], [("a", "x", {"n": 1})]),
    (
        "an odd index",
        [begin_call([0], "a", "x"), append_arguments({}, '{"n":1}'), end_call(True)],
        [("a", "x", {"n": 1})],
    ),
    (
        "a list of calls in one frame",
        [start("tool-call-start", 0, tool_calls=[call("a", "x", "{}"), call("b", "y", "{}")])],
        [("a", "x", {}), ("b", "y", {})],
    ),
    (
        "no start",
        [start("tool-call-delta", 3, tool_calls=call("a", "x", '{"n"')), append_arguments(3, ":1}")],
        [("a", "x", {"n": 1})],
    ),
    (
        "pieces that take turns",
        [
            begin_call(0, "a", "x"),
            begin_call(1, "b", "y"),
            append_arguments(0, '{"n":1'),
            append_arguments(1, '{"n":2'),
            append_arguments(0, "}"),
            append_arguments(1, "}"),
        ],
        [("a", "x", {"n": 1}), ("b", "y", {"n": 2})],
    ),
]


@pytest.mark.parametrize(("frames", "found"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
def test_calls_are_put_together(frames: list[Any], found: list[tuple[str, str, Any]]) -> None:
    reply = read_frames(BEGIN, *frames, end("TOOL_CALL"))
    assert calls(reply) == found
    assert reply.invalid == []


def test_calls_without_a_name_or_with_half_of_their_arguments_do_not_run() -> None:
    reply = read_frames(BEGIN, begin_call(0, "a", ""), begin_call(1, "b", "x"), append_arguments(1, '{"n": "ha'), end())
    assert (reply.calls, [part.id for part in reply.invalid]) == ([], ["a", "b"])


def test_names_come_back_as_ours() -> None:
    sent = WIRE.prepare(Request("m", [Message("user", [Text("Hi")])], [Tool("files/read")]))
    reply = read_frames(BEGIN, begin_call(0, "a", "files_read"), end(), sent=sent)
    assert [(part.name, part.known_tool) for part in reply.calls] == [("files/read", True)]


def test_many_calls_without_an_index_are_read_in_linear_time() -> None:
    frames = [begin_call(None, f"c{number}", "x", "{}") for number in range(5000)]
    assert len(read_frames(BEGIN, *frames, end()).calls) == 5000


FORMS: list[tuple[str, Any]] = [
    ("a body", BODY),
    ("a message", MESSAGE),
    ("calls", ENTRIES),
    ("text of a body", msgspec.json.encode(BODY)),
    ("text of calls", msgspec.json.encode(ENTRIES).decode()),
]


@pytest.mark.parametrize("form", [form for _, form in FORMS], ids=[label for label, _ in FORMS])
def test_calls_are_found_in(form: Any) -> None:
    found = [(part.id, part.name, part.arguments) for part in WIRE.decode_tool_calls(form)]
    assert found == [("c1", "weather", PARIS), ("c2", "ping", {})]


@pytest.mark.parametrize(
    "form",
    [call("a", "x", "{}"), {"id": "a", "name": "x", "arguments": {}}, {"tool_calls": call("a", "x", "{}")}],
)
def test_a_single_call_is_found(form: Any) -> None:
    assert [(part.id, part.name) for part in WIRE.decode_tool_calls(form)] == [("a", "x")]


@pytest.mark.parametrize("form", [{}, [], "", "no", b"\xff", None, 7, {"message": "bad"}, {"content": "Hi"}, [7]])
def test_no_calls_are_found(form: Any) -> None:
    assert WIRE.decode_tool_calls(form) == []


@given(junk)
def test_no_form_of_calls_raises(form: Any) -> None:
    assert isinstance(WIRE.decode_tool_calls(form), list)
