"""The judges of four wires judge well: good answers are read for what they say, and bad ones are refused."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from tests.tables import each_row
from tests.wire.judges import anthropic, mistral, openai_chat, openai_responses
from tests.wire.judges.samples import (
    BLOCKS,
    CALLS,
    CHAT_STREAM,
    ITEMS,
    MESSAGE,
    MESSAGE_END,
    MESSAGE_EVENTS,
    MISTRAL_STREAM,
    PARIS,
    RESPONSE_EVENTS,
    STREAMED,
    TEXT_PART,
    WHOLE,
    Body,
    block_events,
    call,
    call_item,
    chunk,
    completion,
    expected,
    first_piece,
    json_delta,
    message,
    numbered,
    piece,
    response,
    sse,
)
from tests.wire.judges.seen import Seen

WIRES = {"openai_chat": openai_chat, "openai_responses": openai_responses, "anthropic": anthropic, "mistral": mistral}


@pytest.mark.parametrize("wire", WIRES)
def test_a_whole_answer_is_read(wire: str) -> None:
    assert WIRES[wire].read_whole(WHOLE[wire]) == expected(wire)


@pytest.mark.parametrize("wire", WIRES)
def test_a_streamed_answer_is_read_like_the_whole_one(wire: str) -> None:
    assert WIRES[wire].read_stream(STREAMED[wire]) == expected(wire)


@pytest.mark.parametrize("wire", WIRES)
def test_the_pieces_of_a_stream_may_be_cut_anywhere(wire: str) -> None:
    stream = b"".join(STREAMED[wire])
    assert WIRES[wire].read_stream([stream[place : place + 11] for place in range(0, len(stream), 11)]) == expected(
        wire
    )


EMPTY = {
    "openai_chat": (completion({"content": "", "refusal": None}, "stop"), "stop"),
    "openai_responses": (response(MESSAGE | {"content": [TEXT_PART | {"text": ""}]}), "completed"),
    "anthropic": (message(stop="end_turn"), "end_turn"),
    "mistral": (completion({"content": ""}, "stop"), "stop"),
}


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_answer_is_read(wire: str) -> None:
    body, stop = EMPTY[wire]
    seen = WIRES[wire].read_whole(body)
    assert (seen.text, seen.thinking, seen.calls, seen.stop) == ("", "", (), stop)


def test_why_a_response_is_incomplete_is_part_of_its_stop() -> None:
    cut = response(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    events = [*RESPONSE_EVENTS[:-1], {"type": "response.incomplete", "response": cut | {"output": ITEMS}}]
    assert openai_responses.read_whole(cut).stop == "incomplete/max_output_tokens"
    assert openai_responses.read_stream(numbered(events)).stop == "incomplete/max_output_tokens"


# ---- errors ---------------------------------------------------------------------------------------------------------

OPENAI_ERROR = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
ANTHROPIC_ERROR = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}, "request_id": "r"}
MISTRAL_ERROR = {"object": "error", "message": "slow down", "type": "rate_limited", "param": None, "code": "1300"}
ERRORS: dict[str, tuple[Body, str, Body]] = {
    "openai_chat": (OPENAI_ERROR, "RateLimitError", {"type": "requests", "code": "rate_limit_exceeded"}),
    "openai_responses": (OPENAI_ERROR, "RateLimitError", {"type": "requests", "code": "rate_limit_exceeded"}),
    "anthropic": (ANTHROPIC_ERROR, "RateLimitError", {"type": "rate_limit_error"}),
    "mistral": (MISTRAL_ERROR, "SDKError", {"type": "rate_limited", "code": "1300"}),
}


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_of_the_server_is_seen_once(wire: str) -> None:
    body, kind, extra = ERRORS[wire]
    seen = WIRES[wire].read_whole(body, status=429, headers={"retry-after": "7"})
    assert seen == Seen(error=(kind, 429, "slow down"), extra=extra | {"retry_after": "7"})


RESPONSE_ERROR = {"type": "error", "code": "server_error", "message": "slow down", "param": None}
STREAM_ERRORS = {
    "openai_chat": (sse(CHAT_STREAM[0], OPENAI_ERROR), ("APIError", None, "slow down")),
    "openai_responses": (
        numbered([RESPONSE_EVENTS[0], RESPONSE_ERROR]),
        ("ResponseErrorEvent", None, "slow down"),
    ),
    "anthropic": (
        sse(MESSAGE_EVENTS[0], ANTHROPIC_ERROR, named=True),
        ("APIStatusError", 200, "slow down"),
    ),
    "mistral": (sse(MISTRAL_STREAM[0], MISTRAL_ERROR), ("ResponseValidationError", 200, "slow down")),
}


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_inside_a_stream_is_seen(wire: str) -> None:
    chunks, error = STREAM_ERRORS[wire]
    assert WIRES[wire].read_stream(chunks).error == error


def test_a_failed_response_is_an_error() -> None:
    failed = response(status="failed", error={"code": "server_error", "message": "slow down"}, usage=None)
    events = numbered([RESPONSE_EVENTS[0], {"type": "response.failed", "response": failed}])
    seen = openai_responses.read_whole(failed)
    assert (seen.stop, seen.error) == ("failed", ("ResponseError", None, "slow down"))
    assert openai_responses.read_stream(events) == seen


def test_a_response_that_never_ends_is_an_error() -> None:
    seen = openai_responses.read_stream(numbered(RESPONSE_EVENTS[:-1]))
    assert seen.calls == ()
    assert seen.error == ("RuntimeError", None, "Didn't receive a `response.completed` event.")


# ---- answers that a client takes, or half takes, and that are wrong all the same -------------------------------------


def without(body: Body, *path: str | int) -> Body:
    """A copy of a body that lacks the place at `path`."""
    copy = json.loads(json.dumps(body))
    place = copy
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    assert isinstance(copy, dict)
    return copy


WRONG_BODIES: dict[str, tuple[ModuleType, Body, str]] = {
    "chat: a call without its id": (
        openai_chat,
        completion({"tool_calls": [without(CALLS[0], "id")]}, "tool_calls"),
        r"tool_calls\.0.*\.id: Field required",
    ),
    "chat: unknown stop": (openai_chat, completion({"content": "x"}, "done"), "finish_reason"),
    "chat: arguments as an object": (
        openai_chat,
        completion({"tool_calls": [call("a", "ping", {})]}, "tool_calls"),
        r"function\.arguments: Input should be a valid string",
    ),
    "chat: empty arguments": (
        openai_chat,
        completion({"tool_calls": [call("a", "ping", "")]}, "tool_calls"),
        "arguments of ping",
    ),
    "responses: no call_id": (
        openai_responses,
        response(without(ITEMS[2], "call_id")),
        "ResponseFunctionToolCall.call_id: Field required",
    ),
    "responses: broken arguments": (openai_responses, response(call_item("a", "ping", "{")), "arguments of ping"),
    "responses: usage without details": (
        openai_responses,
        response(usage={"input_tokens": 1, "output_tokens": 2}),
        "input_tokens_details: Field required",
    ),
    "anthropic: no signature": (anthropic, message(without(BLOCKS[0], "signature")), "ThinkingBlock.signature"),
    "anthropic: input as text": (anthropic, message(BLOCKS[2] | {"input": PARIS}), "ToolUseBlock.input"),
    "anthropic: no usage": (anthropic, without(message(), "usage"), "usage: Field required"),
    "mistral: arguments that are a list": (
        mistral,
        completion({"tool_calls": [call("a", "ping", "[]")]}, "tool_calls"),
        "arguments of ping",
    ),
    "mistral: unknown chunk": (mistral, completion({"content": [{"type": "smell"}]}, "stop"), "a chunk of type"),
    "mistral: no usage": (mistral, without(WHOLE["mistral"], "usage"), "usage: Field required"),
}


@pytest.mark.parametrize("label", WRONG_BODIES)
def test_a_wrong_whole_answer_is_refused_with_the_place(label: str) -> None:
    judge, body, place = WRONG_BODIES[label]
    with pytest.raises(AssertionError, match=place):
        judge.read_whole(body)


def one_item_too_many() -> list[Body]:
    return [*RESPONSE_EVENTS[:-1], {"type": "response.completed", "response": response(*ITEMS, MESSAGE)}]


def second_block_too_early() -> list[Body]:
    """The start of the second block comes before the end of the first."""
    stop = next(place for place, event in enumerate(MESSAGE_EVENTS) if event["type"] == "content_block_stop")
    return [*MESSAGE_EVENTS[:stop], MESSAGE_EVENTS[stop + 1], MESSAGE_EVENTS[stop], *MESSAGE_EVENTS[stop + 2 :]]


WRONG_STREAMS: dict[str, tuple[ModuleType, list[bytes], str]] = {
    "chat: indexes with a hole": (
        openai_chat,
        sse(CHAT_STREAM[0], chunk(first_piece(2, "a", "ping")), done=True),
        "the indexes do not count from 0",
    ),
    "chat: the id in every piece": (
        openai_chat,
        sse(CHAT_STREAM[0], chunk(first_piece(0, "a", "ping")), chunk(piece(0, "{}", id="a")), done=True),
        "id 'a' twice",
    ),
    "responses: a text that no delta told": (
        openai_responses,
        numbered([event for event in RESPONSE_EVENTS if event["type"] != "response.output_text.delta"]),
        "the deltas and response.output_item.done",
    ),
    "responses: an item that was never done": (
        openai_responses,
        numbered(one_item_too_many()),
        "response.output_item.done and the final response",
    ),
    "responses: numbers that stand still": (
        openai_responses,
        sse(*({**event, "sequence_number": 0} for event in RESPONSE_EVENTS), named=True),
        "sequence number 0 after 0",
    ),
    "responses: an event without its place": (
        openai_responses,
        numbered([RESPONSE_EVENTS[0], without(RESPONSE_EVENTS[1], "output_index")]),
        "ResponseOutputItemAddedEvent.output_index: Field required",
    ),
    "anthropic: two blocks open": (anthropic, sse(*second_block_too_early(), named=True), "still open: True"),
    "anthropic: broken input": (
        anthropic,
        sse(MESSAGE_EVENTS[0], *block_events(0, BLOCKS[3], json_delta('{"a": ')), *MESSAGE_END, named=True),
        "input of ping",
    ),
    "anthropic: no output tokens": (
        anthropic,
        sse(MESSAGE_EVENTS[0], without(MESSAGE_END[0], "usage"), named=True),
        "RawMessageDeltaEvent.usage: Field required",
    ),
    "anthropic: events without their names": (anthropic, sse(*MESSAGE_EVENTS), "the stream holds no message"),
    "mistral: two calls at one index": (
        mistral,
        sse(MISTRAL_STREAM[0], chunk({"tool_calls": [call("a", "ping", {}), call("b", "ping", {})]}), done=True),
        "two calls at index 0",
    ),
    "mistral: a chunk without its model": (
        mistral,
        sse(without(MISTRAL_STREAM[0], "model"), done=True),
        "model: Field required",
    ),
}


@pytest.mark.parametrize("label", WRONG_STREAMS)
def test_a_wrong_stream_is_refused_with_the_place(label: str) -> None:
    judge, chunks, place = WRONG_STREAMS[label]
    with pytest.raises(AssertionError, match=place):
        judge.read_stream(chunks)


# ---- requests -------------------------------------------------------------------------------------------------------

LABELS = {"plain", "stream", "system", "unicode", "empty_text", "image", "reasoning", "tools"}
LABELS |= {"tool_choice_auto", "tool_choice_none", "tool_choice_required", "tool_choice_named", "no_parallel"}
LABELS |= {"parallel_calls", "replayed_reasoning", "no_argument_call", "error_result"}


@pytest.mark.parametrize("wire", WIRES)
def test_the_clients_send_every_scene_and_their_own_types_accept_it(wire: str) -> None:
    sent = WIRES[wire].sent()
    assert {label for label, _, _ in sent} >= LABELS
    assert len({label for label, _, _ in sent}) == len(sent)
    for label, body, said in sent:
        assert body["model"] == said["model"]
        assert bool(body.get("stream")) is said["stream"]
        assert len(body.get("tools", [])) == len(said["tools"])
        for text in [said["system"], *said["texts"], *(text for _, text, _ in said["results"])]:
            assert json.dumps(text)[1:-1] in json.dumps(body), label
        # The official types of this wire have no place for reasoning; compatible servers made one.
        if (wire, label) != ("openai_chat", "replayed_reasoning"):
            WIRES[wire].validate_request(body)


USER = {"role": "user", "content": "Hello"}
ASSISTANT = {"role": "assistant", "content": None}
CHAT_TOOL = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}


def chat(*messages: Body, **more: Any) -> Body:
    return {"model": "m", "messages": list(messages) or [USER]} | more


def messages(*content: Any, **more: Any) -> Body:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "assistant", "content": list(content)}]} | more


def items(*items: Body, **more: Any) -> Body:
    return {"model": "m", "input": list(items)} | more


WRONG_REQUESTS: dict[str, tuple[ModuleType, Body, str]] = {
    "chat: no model": (openai_chat, without(chat(), "model"), "model"),
    "chat: unknown key": (openai_chat, chat(think=True), "think"),
    "chat: unknown key in a message": (openai_chat, chat(USER | {"mood": 1}), "messages.0.*mood"),
    "chat: unknown role": (openai_chat, chat({"role": "robot", "content": "x"}), "messages.0"),
    "chat: a number as text": (openai_chat, chat({"role": "user", "content": 5}), "messages.0.*content"),
    "chat: an image in a result": (
        openai_chat,
        chat({"role": "tool", "tool_call_id": "a", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}),
        "messages.0.*content",
    ),
    "chat: arguments as an object": (
        openai_chat,
        chat(ASSISTANT | {"tool_calls": [call("a", "ping", {})]}),
        "tool_calls.0.*arguments",
    ),
    "chat: a tool of Responses": (openai_chat, chat(tools=[{"type": "function", "name": "ping"}]), "tools.0"),
    "chat: any": (openai_chat, chat(tool_choice="any"), "tool_choice"),
    "chat: a text for a number": (openai_chat, chat(max_completion_tokens="9"), "max_completion_tokens"),
    "responses: arguments as an object": (
        openai_responses,
        items({"type": "function_call", "call_id": "a", "name": "ping", "arguments": {}}),
        "input.0.*arguments",
    ),
    "responses: a result without its output": (
        openai_responses,
        items({"type": "function_call_output", "call_id": "a"}),
        "input.0.*FunctionCallOutput.output: Field required",
    ),
    "responses: a chat image": (
        openai_responses,
        items(USER | {"content": [{"type": "image_url", "image_url": {"url": "u"}}]}),
        "input.0",
    ),
    "responses: a tool of Chat": (openai_responses, items(USER, tools=[CHAT_TOOL]), "tools.0"),
    "responses: max_tokens": (openai_responses, items(USER, max_tokens=9), "max_tokens"),
    "anthropic: no max_tokens": (anthropic, without(messages(), "max_tokens"), "max_tokens"),
    "anthropic: input as text": (anthropic, messages(BLOCKS[2] | {"input": PARIS}), r"content\.0.*input"),
    "anthropic: thinking unsigned": (anthropic, messages(without(BLOCKS[0], "signature")), r"content\.0.*signature"),
    "anthropic: a stray index": (anthropic, messages(BLOCKS[1] | {"index": 0}), r"content\.0.*index"),
    "anthropic: a choice as text": (anthropic, messages(tool_choice="auto"), "tool_choice"),
    "anthropic: temperature": (anthropic, messages(temperature=0.5), "temperature"),
    "anthropic: a tool without a schema": (anthropic, messages(tools=[{"name": "ping"}]), "tools.0.*input_schema"),
    "mistral: max_completion_tokens": (mistral, chat(max_completion_tokens=9), "max_completion_tokens"),
    "mistral: unknown key in a message": (mistral, chat(USER | {"mood": 1}), "messages.0.*mood"),
    "mistral: unknown choice": (mistral, chat(tool_choice="perhaps"), "tool_choice"),
    "mistral: unknown chunk": (mistral, chat(USER | {"content": [{"type": "smell"}]}), "messages.0.*content"),
    "mistral: a number as text": (
        mistral,
        chat(USER | {"content": [{"type": "text", "text": 5}]}),
        r"content\.0\.TextChunk\.text",
    ),
    "mistral: arguments as a list": (
        mistral,
        chat(ASSISTANT | {"tool_calls": [call("a", "ping", [])]}),
        "tool_calls.0.*arguments",
    ),
    "mistral: a tool without parameters": (
        mistral,
        chat(tools=[{"type": "function", "function": {"name": "ping"}}]),
        "tools.0.*parameters",
    ),
}


@each_row("label", WRONG_REQUESTS)
def test_a_wrong_request_is_refused_with_the_place(label: str) -> None:
    judge, body, place = WRONG_REQUESTS[label]
    with pytest.raises(AssertionError, match=place):
        judge.validate_request(body)


@pytest.mark.parametrize(
    ("judge", "body"),
    [
        (openai_chat, chat(USER, ASSISTANT | {"tool_calls": CALLS}, tools=[CHAT_TOOL], tool_choice="required")),
        (openai_responses, items(USER, *ITEMS, stream=True)),
        (anthropic, messages(*BLOCKS, tool_choice={"type": "any"}, stream=True)),
        (
            mistral,
            chat(USER, ASSISTANT | {"tool_calls": [call("a", "ping", {})]}, tools=[CHAT_TOOL], tool_choice="any"),
        ),
    ],
    ids=WIRES,
)
def test_a_good_request_is_accepted(judge: ModuleType, body: Body) -> None:
    judge.validate_request(body)
