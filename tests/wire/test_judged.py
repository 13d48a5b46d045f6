"""The official clients are the judges: they read what we serve, and what they send is understood."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace
from tests.tables import each_row
from tests.wire.conversations import REPLIES, REQUESTS, WIRES, describe
from tests.wire.rules import violations

from dragoman.events import ReplyFailed, ReplyStarted, TextDelta
from dragoman.replies import unfold
from dragoman.types import Failure, Reply, Text, Thinking, ToolCall
from dragoman.wire import Quirks, get

# What each wire calls the three ends, in the words of its own client.
STOPS = {
    "openai_chat": {"end": "stop", "tool_calls": "tool_calls", "length": "length"},
    "openai_responses": {"end": "completed", "tool_calls": "completed", "length": "incomplete/max_output_tokens"},
    "anthropic": {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
    "gemini": {"end": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"},
    "ollama": {"end": "stop", "tool_calls": "stop", "length": "length"},
    "bedrock": {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
    "mistral": {"end": "stop", "tool_calls": "tool_calls", "length": "length"},
    "cohere": {"end": "COMPLETE", "tool_calls": "TOOL_CALL", "length": "MAX_TOKENS"},
}
# The client's own types drop the ids of calls, or the name of the model.
WITHOUT_IDS = {"ollama"}
WITHOUT_MODEL = {"bedrock", "cohere"}


def judge(wire: str) -> Any:
    return import_module(f"tests.wire.judges.{wire}")


def expect(seen: Any, reply: Reply, wire: str) -> None:
    """The client saw what the reply says, as far as its types carry it."""
    parts = reply.message.parts
    assert seen.error is None
    assert seen.text == "".join(part.text for part in parts if isinstance(part, Text))
    assert seen.thinking == "".join(part.text for part in parts if isinstance(part, Thinking))
    calls = [part for part in parts if isinstance(part, ToolCall)]
    ids = [None if wire in WITHOUT_IDS else call.id for call in calls]
    assert seen.calls == tuple((id, call.name, call.arguments) for id, call in zip(ids, calls, strict=True))
    assert seen.usage == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert seen.stop == STOPS[wire][reply.stop]
    assert seen.model == ("" if wire in WITHOUT_MODEL else reply.model)


@each_row("case", REPLIES)
@each_row("wire", WIRES)
def test_the_official_client_reads_a_whole_reply(wire: str, case: str) -> None:
    expect(judge(wire).read_whole(get(wire).encode_reply(REPLIES[case], created=1)), REPLIES[case], wire)


@each_row("case", REPLIES)
@each_row("wire", WIRES)
def test_the_official_client_reads_a_streamed_reply(wire: str, case: str) -> None:
    stream = get(wire).event_stream(model="model-1", id="reply-1", created=1)
    chunks = [chunk for event in unfold(REPLIES[case]) for chunk in stream.feed(event)] + stream.close()
    expect(judge(wire).read_stream(chunks), REPLIES[case], wire)


@each_row("kind", ["rate_limited", "overloaded", "unauthorized", "bad_request", "not_found", "server_error"])
@each_row("wire", WIRES)
def test_the_official_client_reads_an_error(wire: str, kind: Any) -> None:
    status, body = get(wire).encode_failure(Failure(kind, "it went wrong"))
    seen = judge(wire).read_whole(body, status=status)
    assert seen.error is not None
    assert seen.error[1] == status
    assert "it went wrong" in seen.error[2]


@pytest.mark.parametrize("wire", WIRES)
def test_the_official_client_sees_an_error_in_the_middle_of_a_stream(wire: str) -> None:
    stream = get(wire).event_stream(model="model-1", id="reply-1")
    events = [ReplyStarted("model-1", "reply-1"), TextDelta("Half a"), ReplyFailed(Failure("overloaded", "too busy"))]
    chunks = [chunk for event in events for chunk in stream.feed(event)] + stream.close()
    seen = judge(wire).read_stream(chunks)
    assert seen.error is not None
    assert "too busy" in seen.error[2]


@each_row("streamed", [False, True])
@each_row("case", REQUESTS)
@each_row("wire", WIRES)
def test_requests_fit_the_types_of_the_official_client(wire: str, case: str, streamed: bool) -> None:
    request = REQUESTS[case]
    if streamed:
        request = replace(request, options={**request.options, "stream": True})
    # The current types of Anthropic have no sampling; older models take it, so it is sent unless a profile says no.
    quirks = Quirks(sends_sampling=wire != "anthropic")
    body = get(wire, quirks).encode_request(request)
    judge(wire).validate_request(body)
    assert violations(wire, body) == []


@pytest.mark.parametrize("wire", WIRES)
def test_what_the_official_client_sends_is_understood(wire: str) -> None:
    for label, body, said in judge(wire).sent():
        request = get(wire).decode_request(body, model=said["model"], stream=said["stream"])
        found = describe(request)
        wanted = {name: value for name, value in said.items() if name in found}
        # Where the client sent no id, the one that we made is not compared.
        found["results"] = [
            result if other[0] else (None, *result[1:])
            for result, other in zip(found["results"], wanted["results"], strict=True)
        ]
        assert (label, found) == (label, wanted)


def test_a_strict_endpoint_is_asked_for_strict_tools() -> None:
    for wire in ("openai_chat", "openai_responses", "anthropic"):
        body = get(wire, Quirks(strict_tools=True)).encode_request(REQUESTS["tools"])
        judge(wire).validate_request(body)
        assert violations(wire, body) == []
