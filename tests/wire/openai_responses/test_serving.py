"""Replies as a server gives them: the official sequence of frames, whole bodies, errors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.conversations import REPLIES
from tests.wire.judges import openai_responses as judge
from tests.wire.openai_responses.samples import (
    MESSAGE,
    OUTPUT,
    PARIS,
    PIXEL,
    REASONING,
    WHOLE,
    WIRE,
    read,
    response,
    serve,
    served_frames,
)
from tests.wire.rules.replies import reply_violations, stream_violations

from dragoman.events import CallEnded, CallStarted, Event, ReplyEnded, ReplyFailed, ReplyStarted, TextDelta
from dragoman.replies import fold
from dragoman.types import (
    Failure,
    Fault,
    File,
    Image,
    InvalidCall,
    Message,
    Reply,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
)
from dragoman.wire import get
from dragoman.wire.openai_chat.parts import TOO_LONG

OWN = get(WIRE).decode_reply(WHOLE)
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
PATCH = ToolCall("call_9", "apply_patch", {"input": "*** Begin"}, extra={WIRE: {"type": "custom_tool_call"}})
BROKEN = InvalidCall("call_8", "ping", '{"n": ', (Fault("$", "cut off"),))


def said(*parts: Any, stop: Any = "end", **fields: Any) -> Reply:
    return Reply(Message("assistant", list(parts)), stop=stop, model="m", id="resp_7", **fields)


CASES: dict[str, Reply] = {
    **REPLIES,
    "our own wire's reply": OWN,
    "encrypted reasoning": said(
        Thinking("", {WIRE: {"id": "rs_1", "summary": [], "encrypted_content": "x"}}), Text("Hi.")
    ),
    "reasoning in the clear": get(WIRE).decode_reply(
        response({**REASONING, "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}, MESSAGE)
    ),
    "two texts": said(Text("One."), Text("Two.")),
    "text behind a call": said(ToolCall("a", "ping", {}), Text("Done."), stop="tool_calls"),
    "a custom call": said(PATCH, stop="tool_calls"),
    "a broken call between texts": said(
        Text("One."), BROKEN, Text("Two."), ToolCall("b", "ping", {}), stop="tool_calls"
    ),
    "a refusal": said(Text("No."), stop="refusal"),
    "a long id": said(ToolCall("x" * 100, "ping", {}), stop="tool_calls"),
    "the same id twice": said(ToolCall("a", "ping", {}), ToolCall("a", "ping", {}), stop="tool_calls"),
    "a failure": said(Text("Half"), stop="error", failure=Failure("overloaded", "busy")),
}


def kinds(written: bytes) -> list[str]:
    return [data["type"].removeprefix("response.") for _, data in served_frames(written)]


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_the_official_sequence() -> None:
    reply = said(Thinking("Hm."), Text("Hi."), ToolCall("a", "ping", {"n": 1}), stop="tool_calls")
    written = serve(reply)
    assert kinds(written) == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    numbers = [data["sequence_number"] for _, data in served_frames(written)]
    assert numbers == list(range(len(numbers)))
    assert b"[DONE]" not in written


def test_the_last_frame_holds_the_whole_output() -> None:
    written = serve(said(Text("Hi."), ToolCall("a", "ping", {"n": 1}), stop="tool_calls"))
    last = served_frames(written)[-1][1]["response"]
    assert last["output"] == [
        {
            "id": "msg_7_0",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi.", "annotations": [], "logprobs": []}],
        },
        {
            "type": "function_call",
            "id": "fc_7_1",
            "call_id": "a",
            "name": "ping",
            "arguments": '{"n":1}',
            "status": "completed",
        },
    ]
    assert last["usage"]["total_tokens"] == 0


@pytest.mark.parametrize("case", CASES)
def test_whole_and_streamed_are_the_same_reply(case: str) -> None:
    assert fold(read(serve(CASES[case]))) == get(WIRE).decode_reply(get(WIRE).encode_reply(CASES[case]))


@pytest.mark.parametrize("case", CASES)
def test_what_is_served_breaks_no_rule(case: str) -> None:
    body = get(WIRE).encode_reply(CASES[case], created=3)
    assert reply_violations(WIRE, body) == []
    assert stream_violations(WIRE, served_frames(serve(CASES[case]))) == []


@pytest.mark.parametrize("case", [case for case in CASES if case != "a custom call"])
def test_the_official_client_reads_what_is_served(case: str) -> None:
    reply = CASES[case]
    whole = judge.read_whole(get(WIRE).encode_reply(reply, created=3))
    streamed = judge.read_stream([serve(reply)])
    assert (whole.text, whole.calls, whole.usage, whole.stop, whole.error) == (
        streamed.text,
        streamed.calls,
        streamed.usage,
        streamed.stop,
        streamed.error,
    )
    assert [(name, arguments) for _, name, arguments in streamed.calls] == [
        (call.name, call.arguments) for call in reply.calls
    ]


def test_our_own_reply_survives_whole_and_streamed() -> None:
    """But for the ids of messages, which a stream has to give before it knows them."""
    served = fold(read(serve(OWN)))
    thought, text, *calls = served.message.parts
    assert thought == OWN.message.parts[0], "the true id and form of encrypted reasoning"
    assert isinstance(text, Text)
    assert text.extra[WIRE] == {"id": "msg_1_1", "phase": "commentary", "status": "completed"}
    assert calls == OWN.message.parts[2:]
    assert (served.usage, served.stop, served.model, served.id) == (OWN.usage, OWN.stop, OWN.model, OWN.id)


def test_a_client_hands_encrypted_reasoning_back_with_its_true_id() -> None:
    """Streamed to a client, sent back by it as it saw it, and written for the provider it came from."""
    seen = served_frames(serve(OWN))[-1][1]["response"]["output"]
    assert seen[0]["id"] != REASONING["id"]
    asked = {"type": "message", "role": "user", "content": "x"}
    request = get(WIRE).decode_request({"model": "m", "input": [asked, *seen]})
    sent = get(WIRE).encode_request(request)["input"]
    assert sent[1] == REASONING
    assert sent[3] == PARIS


def test_reasoning_of_another_wire_is_shown() -> None:
    reply = said(Thinking("Hm.", {"anthropic": {"signature": "s"}}), Text("Hi."))
    body = get(WIRE).encode_reply(reply)
    assert body["output"][0] == {
        "type": "reasoning",
        "id": "rs_7_0",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    }
    silent = said(Thinking("", {"anthropic": {"data": "s"}}), Text("Hi."))
    assert [item["type"] for item in get(WIRE).encode_reply(silent)["output"]] == ["message"]


def test_items_that_only_this_wire_knows_are_passed_on() -> None:
    image = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL}
    reply = get(WIRE).decode_reply(response(SEARCH, image, *OUTPUT))
    body = get(WIRE).encode_reply(reply)
    assert body["output"][:3] == [SEARCH, image, REASONING]
    assert fold(read(serve(reply))) == get(WIRE).decode_reply(body)


def test_images_and_files_of_other_wires() -> None:
    parts = [Image(None, PIXEL, "image/webp"), Image("https://example.com/a.png"), File("a.txt", "AAAA")]
    output = get(WIRE).encode_reply(said(*parts))["output"]
    made = {"type": "image_generation_call", "id": "ig_7_0", "status": "completed", "result": PIXEL}
    assert output[0] == {**made, "output_format": "webp"}
    assert output[1]["content"][0]["text"] == "[image: https://example.com/a.png][file a.txt]"


def test_a_call_of_a_tool_in_a_namespace_is_given_back_with_it() -> None:
    codec: Any = get(WIRE)
    tools = [Tool("find", metadata={"namespace": "crm"}), Tool("ping")]
    reply = said(ToolCall("a", "find", {}), ToolCall("b", "ping", {}), stop="tool_calls")
    output = codec.encode_reply(reply, tools=tools)["output"]
    assert [item.get("namespace") for item in output] == ["crm", None]
    assert served_frames(serve(reply, tools=tools))[-1][1]["response"]["output"] == output


def test_a_broken_call_is_a_note_and_never_a_call() -> None:
    body = get(WIRE).encode_reply(said(BROKEN))
    assert body["output"][0]["content"][0]["text"] == "[A call of ping could not be passed on: cut off]"
    half = said(ToolCall("a", "ping", {}, complete=False))
    assert [item["type"] for item in get(WIRE).encode_reply(half)["output"]] == ["message"]


def test_ids_of_calls_are_short_and_different() -> None:
    ids = [
        item["call_id"]
        for case in ("a long id", "the same id twice")
        for item in get(WIRE).encode_reply(CASES[case])["output"]
    ]
    assert len(set(ids)) == 3
    assert all(len(identity) <= 64 for identity in ids)


@pytest.mark.parametrize("identity", ["resp_abc", "chatcmpl-1", "x" * 300, "ü / :", ""])
def test_ids_of_items_fit_whatever_the_reply_is_called(identity: str) -> None:
    reply = Reply(
        Message("assistant", [Thinking("a"), Text("b"), ToolCall("c", "d", {})]), stop="tool_calls", id=identity
    )
    body = get(WIRE).encode_reply(reply)
    assert body["id"] == (identity or "resp_0")
    for item, prefix in zip(body["output"], ("rs_", "msg_", "fc_"), strict=True):
        assert item["id"].startswith(prefix)
        assert len(item["id"]) <= 64


def test_events_without_a_beginning_take_model_and_id_of_the_stream() -> None:
    stream = get(WIRE).event_stream(model="m", id="resp_9", created=5)
    written = b"".join([*stream.feed(TextDelta("Hi.")), *stream.feed(ReplyEnded("end")), *stream.close()])
    reply = fold(read(written))
    assert (reply.text, reply.model, reply.id, reply.stop) == ("Hi.", "m", "resp_9", "end")


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stop, status, reason",
    [
        ("end", "completed", None),
        ("tool_calls", "completed", None),
        ("stop_sequence", "completed", None),
        ("pause", "completed", None),
        ("unknown", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("refusal", "incomplete", "content_filter"),
        ("error", "failed", None),
    ],
)
def test_why_it_stopped(stop: Any, status: str, reason: str | None) -> None:
    reply = said(Text("Hi."), stop=stop)
    body = get(WIRE).encode_reply(reply)
    assert (body["status"], (body["incomplete_details"] or {}).get("reason")) == (status, reason)
    assert kinds(serve(reply))[-1] == status


def test_the_own_reason_of_an_incomplete_response_is_kept() -> None:
    body = response(MESSAGE, status="incomplete", incomplete_details={"reason": "steered"})
    assert get(WIRE).encode_reply(get(WIRE).decode_reply(body))["incomplete_details"] == {"reason": "steered"}


def test_a_failure_ends_the_stream_as_failed() -> None:
    stream = get(WIRE).event_stream(model="m", id="resp_9")
    events: list[Event] = [
        ReplyStarted(),
        TextDelta("Ha"),
        CallStarted(0, "ping", "a"),
        ReplyFailed(Failure("rate_limited", "slow")),
    ]
    written = b"".join([piece for found in events for piece in stream.feed(found)] + stream.close())
    last = served_frames(written)[-1][1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow"}
    assert stream_violations(WIRE, served_frames(written)) == []
    reply = fold(read(written))
    assert reply.failure is not None
    assert (reply.failure.kind, reply.calls) == ("rate_limited", [])


@pytest.mark.parametrize(
    "events", [[], [TextDelta("Ha")], [CallStarted(0, "ping", "a")], [CallEnded(0, ToolCall("a", "ping", {}))]]
)
def test_a_stream_without_an_end_ends_as_a_failure(events: Any) -> None:
    stream = get(WIRE).event_stream()
    written = b"".join([piece for found in events for piece in stream.feed(found)] + stream.close())
    reply = fold(read(written))
    assert reply.calls == []
    assert reply.failure is not None
    assert kinds(written)[-1] == "failed"


@pytest.mark.parametrize(
    "kind",
    [
        "rate_limited",
        "overloaded",
        "unauthorized",
        "bad_request",
        "context_too_long",
        "refused",
        "not_found",
        "timed_out",
        "server_error",
    ],
)
def test_failures_keep_their_kind(kind: Any) -> None:
    status, body = get(WIRE).encode_failure(Failure(kind, "it went wrong"))
    assert reply_violations(WIRE, body) == []
    failure = get(WIRE).decode_failure(status, body)
    # The words by which clients recognise that a conversation is too long are added.
    shown = f"{TOO_LONG[0]}: it went wrong" if kind == "context_too_long" else "it went wrong"
    assert (failure.kind, failure.message, failure.status) == (kind, shown, status)
    reply = said(stop="error", failure=Failure(kind, "it went wrong"))
    for read_back in (get(WIRE).decode_reply(get(WIRE).encode_reply(reply)), fold(read(serve(reply)))):
        assert read_back.failure is not None
        assert (read_back.failure.kind, read_back.failure.message) == (kind, shown)


@pytest.mark.parametrize(
    "status, body, kind, message",
    [
        (429, b'{"error": {"message": "Slow.", "code": "rate_limit_exceeded"}}', "rate_limited", "Slow."),
        (400, {"error": {"message": "Bad.", "type": "invalid_request_error", "code": None}}, "bad_request", "Bad."),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, "context_too_long", "x"),
        (500, "plain words", "server_error", "plain words"),
        (502, b"<html>", "server_error", "<html>"),
        (404, {"error": "no such model"}, "not_found", "no such model"),
        (422, {"detail": "wrong"}, "bad_request", "wrong"),
        (500, [{"error": {"message": "in a list"}}], "server_error", "in a list"),
        (500, None, "server_error", ""),
    ],
)
def test_errors_of_servers(status: int, body: Any, kind: str, message: str) -> None:
    failure = get(WIRE).decode_failure(status, body, {"Retry-After": "2"})
    assert (failure.kind, failure.message, failure.retry_after) == (kind, message, 2.0)


def test_codes_of_other_providers_become_those_that_clients_of_this_wire_know() -> None:
    _, body = get(WIRE).encode_failure(Failure("rate_limited", "slow", code="overloaded_error"))
    assert body["error"]["code"] == "rate_limit_exceeded"
    _, body = get(WIRE).encode_failure(Failure("rate_limited", "no money", code="insufficient_quota"))
    assert body["error"]["code"] == "insufficient_quota"


def test_a_request_with_a_reply_of_any_wire_can_be_sent_on() -> None:
    for reply in CASES.values():
        message = get(WIRE).decode_reply(get(WIRE).encode_reply(reply)).message
        body = get(WIRE).encode_request(
            Request("m", [Message("user", [Text("x")]), message, Message("user", [Text("y")])])
        )
        assert body["input"][0]["content"] == "x"
