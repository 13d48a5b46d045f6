"""This wire before its judges: the official client, and the rules of the API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.tables import each_row
from tests.wire.judges import gemini as judge
from tests.wire.rules import violations
from tests.wire.rules.replies import Frame, reply_violations, stream_violations

from dragoman.events import Event
from dragoman.replies import unfold
from dragoman.stage import collect
from dragoman.types import (
    Failure,
    Image,
    Message,
    Part,
    Reply,
    Request,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import registry
from dragoman.wire.framing import SseDecoder, SseEvent
from dragoman.wire.quirks import Quirks

GEMINI = registry.get("gemini")
SENT = judge.sent()
SIGNATURE = "c2lnbmF0dXJl"
PLACEHOLDER = "skip_thought_signature_validator"


# ---- what the official client reads --------------------------------------------------------------------------------


def answer(*parts: Part, stop: StopReason = "end", **fields: Any) -> Reply:
    return Reply(Message("assistant", list(parts)), Usage(10, 12, 4, 7), stop, model="gemini-3-pro", id="r1", **fields)


CALLS = (
    ToolCall("c1", "get_weather", {"city": "Ørsta", "deep": [{"a": None}]}),
    ToolCall("c2", "ping", {}),
)
REPLIES = {
    "text": answer(Text("Hello")),
    "empty text": answer(Text("")),
    "unicode": answer(Text('Grüße, 世界 🌍 \u2028 "q" \\ \u0007')),
    "no-argument call": answer(CALLS[1], stop="tool_calls"),
    "parallel calls": answer(Text("Both."), *CALLS, stop="tool_calls"),
    "reasoning": answer(
        Thinking("Hm.", {"gemini": {"thought": True}}),
        ToolCall("c1", "ping", {}, extra={"gemini": {"thought_signature": SIGNATURE}}),
        Text("", {"gemini": {"thought_signature": SIGNATURE}}),
        stop="tool_calls",
    ),
    "length": answer(Text("Hel"), stop="length"),
    "refusal": answer(stop="refusal"),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", REPLIES)
def test_the_client_sees_the_reply(name: str, streamed: bool) -> None:
    reply = REPLIES[name]
    if streamed:
        seen = judge.read_stream(collect(GEMINI.event_stream(), unfold(reply)))
    else:
        seen = judge.read_whole(GEMINI.encode_reply(reply))
    thinking = "".join(part.text for part in reply.message.parts if isinstance(part, Thinking))
    assert (seen.text, seen.thinking, seen.model) == (reply.text, thinking, "gemini-3-pro")
    assert seen.calls == tuple((call.id, call.name, call.arguments) for call in reply.calls)
    assert seen.usage == (10, 5)
    assert (seen.extra["thought_tokens"], seen.extra["cached_tokens"]) == (7, 4)
    assert seen.stop == {"length": "MAX_TOKENS", "refusal": "SAFETY"}.get(reply.stop, "STOP")
    if name == "reasoning":
        assert seen.extra["signed"] == ("call", "text")
        assert seen.extra["signatures"] == (SIGNATURE, SIGNATURE)


def test_the_client_sees_a_blocked_prompt() -> None:
    reply = GEMINI.decode_reply({"promptFeedback": {"blockReason": "SAFETY"}})
    assert judge.read_whole(GEMINI.encode_reply(reply)).extra["blocked"] == "SAFETY"
    assert judge.read_stream(collect(GEMINI.event_stream(), unfold(reply))).extra["blocked"] == "SAFETY"


def test_the_client_raises_our_errors() -> None:
    status, body = GEMINI.encode_failure(Failure("rate_limited", "slow down", retry_after=3))
    assert judge.read_whole(body, status=status).error == ("ClientError", 429, "slow down")
    status, body = GEMINI.encode_failure(Failure("overloaded", "busy"))
    assert judge.read_whole(body, status=status).error == ("ServerError", 503, "busy")


def test_the_client_raises_an_error_inside_a_stream() -> None:
    reply = answer(Text("Hel"), failure=Failure("overloaded", "busy"), stop="error")
    seen = judge.read_stream(collect(GEMINI.event_stream(), unfold(reply)))
    assert seen.text == "Hel"
    assert seen.error == ("ServerError", 503, "busy")


def test_the_client_raises_for_a_stream_that_nobody_ended() -> None:
    seen = judge.read_stream(collect(GEMINI.event_stream(), unfold(answer(Text("Hel")))[:-1]))
    assert seen.text == "Hel"
    assert seen.error is not None


@pytest.mark.parametrize("name", REPLIES)
def test_the_reply_breaks_no_rule(name: str) -> None:
    reply = REPLIES[name]
    assert reply_violations("gemini", GEMINI.encode_reply(reply)) == []
    assert stream_violations("gemini", _frames(unfold(reply))) == []


@pytest.mark.parametrize(
    "reply",
    [
        GEMINI.decode_reply({"promptFeedback": {"blockReason": "SAFETY"}}),
        answer(Text("Hel"), failure=Failure("rate_limited", "slow down", retry_after=3), stop="error"),
    ],
)
def test_the_end_without_an_answer_breaks_no_rule(reply: Reply) -> None:
    assert reply_violations("gemini", GEMINI.encode_reply(reply)) == []
    assert stream_violations("gemini", _frames(unfold(reply))) == []


def _frames(events: list[Event]) -> list[Frame]:
    stream: list[bytes] = collect(GEMINI.event_stream(), events)
    read = collect(SseDecoder(), stream)
    return [(frame.event, msgspec.json.decode(frame.data)) for frame in read if isinstance(frame, SseEvent)]


# ---- what the official client sends --------------------------------------------------------------------------------


def _say(request: Request) -> dict[str, Any]:
    """What a request of ours says, in the words of the judge."""
    parts = [(message.role, part) for message in request.messages for part in message.parts]
    calls = [part for _, part in parts if isinstance(part, ToolCall)]
    results = [part for _, part in parts if isinstance(part, ToolResult)]
    inside = [part for result in results if not isinstance(result.content, str) for part in result.content]
    named = {call.id: call.wire_id for call in calls}
    reasoning = [
        (part.text if isinstance(part, Thinking) else "", part.extra["gemini"].get("thought_signature"))
        for _, part in parts
        if "gemini" in part.extra and isinstance(part, Thinking | ToolCall)
    ]
    return {
        "model": request.model,
        "system": "".join(message.text for message in request.messages if message.role == "system"),
        "texts": [part.text for role, part in parts if role == "user" and isinstance(part, Text)],
        "tools": [tool.name for tool in request.tools],
        "tool_choice": request.options.get("tool_choice"),
        "calls": [(call.wire_id, call.name, call.arguments) for call in calls],
        "results": [(named[result.call_id], _words(result), result.is_error) for result in results],
        "images": sum(isinstance(part, Image) for part in [*inside, *(part for _, part in parts)]),
        "stream": request.options.get("stream", False),
        "max_tokens": request.options.get("max_tokens"),
        "parallel": request.options.get("parallel_tool_calls"),
        "reasoning": reasoning,
    }


def _words(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if isinstance(part, Text))


@each_row(("label", "body", "said"), SENT, ids=[label for label, _, _ in SENT])
def test_the_server_understands_the_client(label: str, body: dict[str, Any], said: dict[str, Any]) -> None:
    request = GEMINI.decode_request(body, model=said["model"], stream=said["stream"])
    assert _say(request) == said


@each_row(("label", "body", "said"), SENT, ids=[label for label, _, _ in SENT])
def test_what_the_client_sent_is_sent_on(label: str, body: dict[str, Any], said: dict[str, Any]) -> None:
    """Through us, the request of an official client is still one, and says the same."""
    codec = registry.get("gemini", Quirks(json_schema=True, result_images=True, call_signatures=True))
    request = codec.decode_request(body, model=said["model"], stream=said["stream"])
    sent = codec.prepare(request).body
    judge.validate_request(sent)
    assert violations("gemini", sent, model=said["model"]) == []
    again = _say(codec.decode_request(sent, model=said["model"], stream=said["stream"]))
    # Calls of the current turn that came without a signature now have the placeholder for one.
    again["reasoning"] = [entry for entry in again["reasoning"] if entry[1] != PLACEHOLDER]
    assert again == said
