"""Replies read: the official stream, everything that servers leave out of it, and every way in which it may break."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.wire.openai_responses.samples import (
    COMPLETED,
    CREATED,
    EVENTS,
    MESSAGE,
    OUTPUT,
    PARIS,
    PING,
    PINGED,
    PIXEL,
    REASONING,
    STREAM,
    USAGE,
    WEATHER,
    WHOLE,
    WIRE,
    event,
    folded,
    frames,
    read,
    response,
    said_call,
    said_message,
    said_reasoning,
)

from dragoman.events import ArgumentsDelta, TextDelta, ThinkingDelta
from dragoman.replies import fold
from dragoman.types import Image, InvalidCall, Message, Reply, Request, Text, Thinking, ToolCall, Usage
from dragoman.wire import get
from dragoman.wire.codec import Prepared


def whole(body: dict[str, Any], sent: Prepared | None = None) -> Reply:
    return get(WIRE).decode_reply(body, sent)


def calls(reply: Reply) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, call.arguments) for call in reply.calls]


BOTH = [("call_1", "get_weather", {"city": "Paris"}), ("call_2", "ping", {})]


# ---- what a response says --------------------------------------------------------------------------------------------


def test_a_whole_response() -> None:
    reply = whole(WHOLE)
    thought, text, paris, pinged = reply.message.parts
    assert thought == Thinking(
        "I look.\n\nThen I speak.",
        {WIRE: {"id": "rs_1", "summary": REASONING["summary"], "encrypted_content": "gAAAAB"}},
    )
    assert text == Text("Let me see. 🌍", {WIRE: {"id": "msg_1", "phase": "commentary", "status": "completed"}})
    assert calls(reply) == BOTH
    assert isinstance(paris, ToolCall)
    assert paris.extra == {WIRE: {"id": "fc_1", "status": "completed"}}
    assert isinstance(pinged, ToolCall)
    assert reply.usage == Usage(20, 9, 4, 5, 2)
    assert (reply.stop, reply.extra, reply.model, reply.id) == (
        "tool_calls",
        {WIRE: {"reason": "completed"}},
        "gpt-5.6",
        "resp_1",
    )


def test_the_official_stream_says_the_same() -> None:
    assert fold(read(STREAM)) == whole(WHOLE)


def test_pieces_are_passed_on_as_they_come() -> None:
    events = read(STREAM)
    assert [found.text for found in events if isinstance(found, TextDelta)] == ["Let m", "e see. 🌍"]
    assert "".join(found.text for found in events if isinstance(found, ThinkingDelta)) == "I look.\n\nThen I speak."
    pieces = [(found.index, found.text) for found in events if isinstance(found, ArgumentsDelta)]
    assert pieces == [(0, '{"ci'), (0, 'ty":"Paris"}'), (1, "{}")]


@pytest.mark.parametrize(
    "body, stop, word",
    [
        (response(MESSAGE), "end", "completed"),
        (response(PARIS), "tool_calls", "completed"),
        (response(MESSAGE, status="incomplete"), "length", "incomplete"),
        (
            response(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "length",
            "max_output_tokens",
        ),
        (response(MESSAGE, status="incomplete", incomplete_details={"reason": "steered"}), "length", "steered"),
        (
            response(MESSAGE, status="incomplete", incomplete_details={"reason": "content_filter"}),
            "refusal",
            "content_filter",
        ),
        (response({**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]}), "refusal", "completed"),
        (response(status="queued"), "pause", "queued"),
    ],
)
def test_why_it_stopped(body: Any, stop: str, word: str) -> None:
    reply = whole(body)
    assert (reply.stop, reply.extra) == (stop, {WIRE: {"reason": word}})
    assert reply.failure is None
    kind = body["status"] if body["status"] == "incomplete" else "completed"
    assert folded(CREATED, event(kind, response=body)) == reply


def test_a_call_at_the_end_of_an_incomplete_response_is_not_run() -> None:
    reply = whole(response(PARIS, PINGED, status="incomplete"))
    assert calls(reply) == BOTH[:1]
    assert [call.name for call in reply.invalid] == ["ping"]


@pytest.mark.parametrize(
    "body, kind, code, message",
    [
        (
            {"error": {"message": "Slow.", "code": "rate_limit_exceeded"}},
            "rate_limited",
            "rate_limit_exceeded",
            "Slow.",
        ),
        (
            response(status="failed", error={"code": "server_error", "message": "Oh."}),
            "server_error",
            "server_error",
            "Oh.",
        ),
        (response(status="failed"), "server_error", "", "the response failed"),
        (response(status="cancelled"), "server_error", "cancelled", "the response was cancelled"),
        ({}, "server_error", "", "the body is not a response"),
    ],
)
def test_bodies_that_are_errors(body: Any, kind: str, code: str, message: str) -> None:
    failure = whole(body).failure
    assert failure is not None
    assert (failure.kind, failure.code, failure.message) == (kind, code, message)
    assert whole(body).stop == "error"


@pytest.mark.parametrize(
    "last, kind, message",
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow.", "param": None}, "rate_limited", "Slow."),
        ({"type": "error", "error": {"type": "server_error", "message": "Oh."}}, "server_error", "Oh."),
        (
            event("failed", response=response(error={"code": "context_length_exceeded", "message": "Long."})),
            "context_too_long",
            "Long.",
        ),
        ({"type": "", "error": {"message": "Busy.", "code": 503}}, "overloaded", "Busy."),
    ],
)
def test_errors_in_a_stream(last: Any, kind: str, message: str) -> None:
    reply = folded(*EVENTS, last)
    assert reply.failure is not None
    assert (reply.failure.kind, reply.failure.message) == (kind, message)
    assert reply.calls == []
    assert [call.name for call in reply.invalid] == ["get_weather", "ping"]


def test_a_custom_call_has_one_argument_called_input() -> None:
    item = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_9",
        "name": "apply_patch",
        "input": '*** "Begin"',
    }
    place = {"item_id": "ctc_1", "output_index": 0}
    reply = folded(
        CREATED,
        event("output_item.added", output_index=0, item={**item, "input": ""}),
        event("custom_tool_call_input.delta", **place, delta='*** "'),
        event("custom_tool_call_input.delta", **place, delta='Begin"'),
        event("custom_tool_call_input.done", **place, input=item["input"]),
        event("output_item.done", output_index=0, item=item),
        event("completed", response=response(item)),
    )
    assert calls(reply) == [("call_9", "apply_patch", {"input": '*** "Begin"'})]
    assert reply.calls[0].extra == {WIRE: {"type": "custom_tool_call", "id": "ctc_1"}}
    assert reply == whole(response(item))


def test_refusals_are_told_from_text() -> None:
    refused = {**MESSAGE, "content": [*MESSAGE["content"], {"type": "refusal", "refusal": "No more."}]}
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 1}
    reply = folded(
        CREATED,
        *said_message()[:-1],
        event("content_part.added", **place, part={"type": "refusal", "refusal": ""}),
        event("refusal.delta", **place, delta="No "),
        event("refusal.delta", **place, delta="more."),
        event("refusal.done", **place, refusal="No more."),
        event("content_part.done", **place, part=refused["content"][1]),
        event("output_item.done", output_index=1, item=refused),
        event("completed", response=response(refused)),
    )
    own = {"id": "msg_1", "phase": "commentary"}
    assert reply.message.parts == [
        Text("Let me see. 🌍", {WIRE: own}),
        Text("No more.", {WIRE: {**own, "refusal": True, "status": "completed"}}),
    ]
    assert reply.stop == "refusal"
    assert reply == whole(response(refused))


def test_reasoning_in_the_clear() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_2",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm, hm."}],
    }
    place = {"item_id": "rs_2", "output_index": 0, "content_index": 0}
    reply = folded(
        CREATED,
        event("output_item.added", output_index=0, item={**item, "content": []}),
        event("reasoning_text.delta", **place, delta="Hm, "),
        event("reasoning_text.delta", **place, delta="hm."),
        event("reasoning_text.done", **place, text="Hm, hm."),
        event("output_item.done", output_index=0, item=item),
        event("completed", response=response(item)),
    )
    assert reply == whole(response(item))
    assert reply.message.parts == [
        Thinking("Hm, hm.", {WIRE: {name: item[name] for name in ("id", "summary", "content")}})
    ]


def test_encrypted_reasoning_counts_only_as_it_is_at_the_end_of_its_item() -> None:
    early = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "half"}
    late = {**early, "encrypted_content": "whole"}
    reply = folded(
        CREATED,
        event("output_item.added", output_index=0, item=early),
        event("output_item.done", output_index=0, item=late),
        event("completed", response=response(late)),
    )
    assert reply.message.parts == [Thinking("", {WIRE: {"id": "rs_1", "summary": [], "encrypted_content": "whole"}})]


def test_images_and_items_of_other_kinds_are_kept() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    image = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": PIXEL,
        "output_format": "webp",
    }
    reply = whole(response(search, image, MESSAGE))
    assert reply.message.parts[:2] == [
        Thinking("", {WIRE: {"item": search}}),
        Image(None, PIXEL, "image/webp", {WIRE: {"item": image}}),
    ]
    request = Request("m", [Message("user", [Text("x")]), reply.message, Message("user", [Text("y")])])
    assert get(WIRE).encode_request(request)["input"][1:4] == [search, image, MESSAGE]


def test_an_answer_is_sent_back_as_it_came() -> None:
    request = Request("m", [Message("user", [Text("x")]), whole(WHOLE).message])
    assert get(WIRE).encode_request(request)["input"][1:5] == list(OUTPUT)


def test_names_and_optional_arguments_come_back_as_ours() -> None:
    sent = get(WIRE).prepare(Request("m", [Message("user", [Text("x")])], [WEATHER, PING]))
    item = {**PARIS, "name": "Get-Weather"}
    (call,) = whole(response(item), sent).calls
    assert (call.name, call.known_tool) == ("get_weather", True)


# ---- what servers leave out ------------------------------------------------------------------------------------------


def only(*kinds: str) -> list[dict[str, Any]]:
    return [found for found in EVENTS if found["type"].removeprefix("response.") in kinds]


def without(*endings: str) -> list[dict[str, Any]]:
    return [found for found in EVENTS if not found["type"].endswith(endings)]


EMPTY = event("completed", response=response())


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([*EVENTS, EMPTY], id="a last frame without the output"),
        pytest.param([*without(".delta"), COMPLETED], id="no deltas"),
        pytest.param([*without(".delta"), EMPTY], id="no deltas and no output at the end"),
        pytest.param([*without(".delta", ".added"), EMPTY], id="nothing but the ends"),
        pytest.param([*only("created", "output_item.done"), COMPLETED], id="only the ends of items"),
        pytest.param([*only("output_item.done"), EMPTY], id="only the ends of items, no beginning, no output"),
        pytest.param([*only("output_item.added", "output_item.done"), EMPTY], id="beginnings and ends of items"),
        pytest.param([CREATED, COMPLETED], id="the last frame alone"),
        pytest.param([COMPLETED], id="the last frame and nothing before it"),
        pytest.param([*only("created", "output_item.added"), COMPLETED], id="beginnings, and the last frame"),
    ],
)
def test_whatever_is_left_out_the_reply_is_the_same(events: Any) -> None:
    assert folded(*events) == whole(WHOLE)


def test_without_the_ends_of_items_text_and_calls_are_the_same() -> None:
    reply = folded(*without("output_item.done"), COMPLETED)
    assert (reply.text, calls(reply)) == (whole(WHOLE).text, BOTH)


@pytest.mark.parametrize("gone", ["item_id", "output_index"])
def test_items_are_found_by_what_is_left(gone: str) -> None:
    events = [{name: value for name, value in found.items() if name != gone} for found in EVENTS]
    assert folded(*events, COMPLETED) == whole(WHOLE)


def test_items_are_found_when_all_have_the_same_index() -> None:
    events = [{**found, "output_index": 0} if "output_index" in found else found for found in EVENTS]
    assert folded(*events, COMPLETED) == whole(WHOLE)


def test_items_are_found_when_their_ids_change_with_every_frame() -> None:
    events = [
        {**found, **({"item_id": f"x{number}"} if "item_id" in found else {})} for number, found in enumerate(EVENTS)
    ]
    for number, found in enumerate(events):
        if "item" in found and found["type"].endswith("added"):
            events[number] = {**found, "item": {**found["item"], "id": f"y{number}"}}
    assert folded(*events, COMPLETED) == whole(WHOLE)


@pytest.mark.parametrize("index", [2**70, -1, "zero", None, [], 1.5])
def test_an_odd_index_does_no_harm(index: Any) -> None:
    events = [
        {**found, "output_index": index} if found.get("output_index") == 2 else found for found in [*EVENTS, COMPLETED]
    ]
    assert calls(folded(*events)) == BOTH


def test_the_closing_word_of_chat_streams_changes_nothing_and_ends_a_stream_without_a_last_frame() -> None:
    assert fold(read(STREAM + b"data: [DONE]\n\n")) == whole(WHOLE)
    reply = fold(read(frames(*EVENTS) + b"data: [DONE]\n\n"))
    assert calls(reply) == BOTH
    assert (reply.stop, reply.failure) == ("tool_calls", None)


def test_an_endpoint_known_to_send_no_last_frame_is_believed_when_all_items_are_complete() -> None:
    assert calls(folded(*EVENTS, final_frame=False)) == BOTH
    assert folded(*EVENTS[:-1], final_frame=False).failure is not None


def test_arguments_that_come_as_an_object() -> None:
    item = {**PARIS, "arguments": {"city": "Paris"}}
    assert calls(folded(CREATED, event("output_item.done", output_index=0, item=item), EMPTY)) == BOTH[:1]


def test_pieces_of_arguments_may_come_before_the_name() -> None:
    late = [found for found in said_call(PARIS, 0) if not found["type"].endswith((".added", ".done"))]
    end = event("output_item.done", output_index=0, item={**PARIS, "arguments": ""})
    assert calls(folded(CREATED, *late, end, EMPTY)) == BOTH[:1]
    done = event("function_call_arguments.done", output_index=0, item_id="fc_1", name="get_weather", arguments="")
    assert calls(folded(CREATED, *late, done, EMPTY)) == [("fc_1", "get_weather", {"city": "Paris"})]


def test_a_call_that_never_got_a_name_is_no_call_and_not_forgotten() -> None:
    late = [found for found in said_call(PARIS, 0) if found["type"].endswith(".delta")]
    reply = folded(CREATED, *late, EMPTY)
    assert reply.calls == []
    assert [call.raw for call in reply.invalid] == ['{"city":"Paris"}']


def test_calls_without_an_id_get_one() -> None:
    items = [{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in (PARIS, PINGED)]
    reply = whole(response(*items))
    assert [(call.id, call.wire_id) for call in reply.calls] == [("call_1", None), ("call_2", None)]


def test_an_item_that_only_the_last_frame_holds_is_added() -> None:
    reply = folded(CREATED, *said_call(PARIS, 0), event("completed", response=response(PINGED, PARIS)))
    assert sorted(calls(reply)) == BOTH


def test_two_messages_stay_two_parts() -> None:
    second = {**MESSAGE, "id": "msg_2"}
    events = [found for found in said_message() if found["type"].endswith(("added", ".delta"))]
    again = [
        {**found, "output_index": 2, **({"item_id": "msg_2"} if "item_id" in found else {"item": second})}
        for found in events
    ]
    reply = folded(CREATED, *events, *again, EMPTY)
    assert [part.text for part in reply.message.parts if isinstance(part, Text)] == ["Let me see. 🌍"] * 2


def test_usage_of_the_wrong_kind_counts_as_none() -> None:
    assert whole(
        {**response(MESSAGE), "usage": {**USAGE, "input_tokens": "many", "output_tokens_details": 3}}
    ).usage == Usage(0, 9, 4, 0, 2)


# ---- the verb --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        WHOLE,
        msgspec.json.encode(WHOLE),
        {"response": WHOLE},
        [PARIS, PINGED],
        [MESSAGE, PARIS, REASONING, PINGED],
    ],
)
def test_calls_are_found_in_bodies_and_lists(body: Any) -> None:
    found = get(WIRE).decode_tool_calls(body)
    assert [(call.id, call.name, call.arguments) for call in found] == BOTH


@pytest.mark.parametrize("body", [PARIS, {"item": PARIS}, [PARIS]])
def test_one_call_is_found(body: Any) -> None:
    assert [call.name for call in get(WIRE).decode_tool_calls(body)] == ["get_weather"]


@pytest.mark.parametrize(
    "body", [MESSAGE, {}, [], None, "no JSON", b"\xff", 7, {"error": {"message": "x"}}, response()]
)
def test_no_calls_are_an_empty_list(body: Any) -> None:
    assert get(WIRE).decode_tool_calls(body) == []


def test_reasoning_whose_item_ends_late_keeps_its_state() -> None:
    thought = said_reasoning()
    reply = folded(CREATED, *thought[:-1], *said_call(PARIS, 2), thought[-1], EMPTY)
    states = [part.extra[WIRE] for part in reply.message.parts if isinstance(part, Thinking) and part.extra]
    assert [state["encrypted_content"] for state in states] == ["gAAAAB"]
    assert not any(isinstance(part, InvalidCall) for part in reply.message.parts)


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("ends", [True, False])
def test_text_is_told_once_wherever_the_numbers_of_its_parts_begin(first: int, ends: bool) -> None:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": text, "annotations": []} for text in ("Hello ", "there")]
    at = {"item_id": "msg_1", "output_index": 0}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", **at, "item": {**message, "content": []}}]
    for number, part in enumerate(content, first):
        text = {**at, "content_index": number}
        events += [{"type": "response.output_text.delta", **text, "delta": part["text"]}]
        events += [{"type": "response.content_part.done", **text, "part": part}] if ends else []
    item = {**message, "content": content}
    events.append({"type": "response.output_item.done", **at, "item": item})
    reply = folded(*events, {"type": "response.completed", "response": {"status": "completed", "output": [item]}})
    assert reply.text == "Hello there"


@pytest.mark.parametrize("streamed", [True, False])
def test_two_items_under_one_id_are_two(streamed: bool) -> None:
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}
        for text in ("one", "two")
    ]
    body = {"status": "completed", "output": items}
    if streamed:
        done = [{"type": "response.output_item.done", "output_index": 0, "item": item} for item in (*items, items[1])]
        reply = folded(*done, {"type": "response.completed", "response": body})
    else:
        reply = whole(body)
    assert [part.text for part in reply.message.parts if isinstance(part, Thinking)] == ["one", "two"]


@pytest.mark.parametrize("name", ["x_keyword_search", "x_semantic_search", "x_anything_new", "ours"])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_search_that_the_server_ran_is_no_call_of_ours(name: str, streamed: bool) -> None:
    identity = "call_1" if name == "ours" else "xs_call_1"
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": identity, "name": name, "input": "{}"}
    body = {"status": "completed", "output": [{**item, "status": "completed"}]}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "input": ""}},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ctc_1", "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": body["output"][0]},
        {"type": "response.completed", "response": body},
    ]
    reply = folded(*events) if streamed else whole(body)
    assert [call.name for call in reply.calls] == (["ours"] if name == "ours" else [])
    # It is kept, and goes back as it came.
    kept = [part.extra["openai_responses"].get("item") for part in reply.message.parts]
    assert kept == ([None] if name == "ours" else body["output"])
