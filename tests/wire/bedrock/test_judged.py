"""The AWS client reads what our server half writes, and our server half reads what the AWS client sends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.bedrock.talk import CLAUDE, call, judge
from tests.wire.bedrock.test_replies import BODY
from tests.wire.judges import answers
from tests.wire.judges.seen import Seen

from dragoman.events import Event, ReplyFailed, ReplyStarted, TextDelta
from dragoman.replies import fold, unfold
from dragoman.stage import collect
from dragoman.types import Failure, Image, Message, Part, Reply, Request, Text, Thinking, ToolCall, ToolResult, Usage
from dragoman.wire.bedrock import Bedrock

SIGNED = {"bedrock": {"field": "reasoningText", "signature": "EqQB"}}
HIDDEN = {"bedrock": {"redacted": "//4="}}
REPLIES: dict[str, tuple[list[Part], Seen]] = {
    "text": ([Text("Hello")], Seen(text="Hello", stop="end_turn")),
    "empty": ([], Seen(stop="end_turn")),
    "empty_text": ([Text("")], Seen(stop="end_turn")),
    "unicode": (
        [Text('Grüße, 世界 🌍 \u2028 "x" \\ \u0007')],
        Seen(text='Grüße, 世界 🌍 \u2028 "x" \\ \u0007', stop="end_turn"),
    ),
    "no_argument_call": ([call("t1", "ping")], Seen(calls=(("t1", "ping", {}),), stop="tool_use")),
    "parallel_calls": (
        [Text("Both."), call(city="Oslo"), call("t2", city="Ørsta")],
        Seen(
            text="Both.",
            calls=(("t1", "weather", {"city": "Oslo"}), ("t2", "weather", {"city": "Ørsta"})),
            stop="tool_use",
        ),
    ),
    "reasoning": (
        [Thinking("Hm.", SIGNED), Thinking("", HIDDEN), Text("Yes.")],
        Seen(text="Yes.", thinking="Hm.", stop="end_turn", extra={"signatures": ("EqQB",), "redacted": (b"\xff\xfe",)}),
    ),
    "foreign_reasoning": (
        [Thinking("Hm.", {"anthropic": {"signature": "x"}}), Text("Yes.")],
        Seen(text="Yes.", thinking="Hm.", stop="end_turn"),
    ),
}


@pytest.mark.parametrize("scene", REPLIES)
def test_the_client_sees_the_same_whole_and_streamed(scene: str) -> None:
    parts, seen = REPLIES[scene]
    stop: Any = "tool_calls" if seen.calls else "end"
    reply = Reply(Message("assistant", parts), Usage(20, 7, 8, 0, 2), stop)
    expected = Seen(
        text=seen.text,
        thinking=seen.thinking,
        calls=seen.calls,
        usage=(10, 7),
        stop=seen.stop,
        extra={**seen.extra, "cache_read": 8, "cache_write": 2},
    )
    assert judge.read_whole(Bedrock().encode_reply(reply)) == expected
    assert judge.read_stream(collect(Bedrock().event_stream(), unfold(reply))) == expected


def test_answers_of_the_vendor_pass_through_unchanged() -> None:
    body, seen = answers.WHOLE["bedrock"]
    chunks, _ = answers.STREAMS["bedrock"]
    reply = Bedrock().decode_reply(body)
    assert fold(collect(Bedrock().reply_stream(), chunks)) == reply
    assert judge.read_whole(Bedrock().encode_reply(reply)) == seen
    assert judge.read_stream(collect(Bedrock().event_stream(), unfold(reply))) == seen


def test_citations_images_and_server_tools_fit_the_shapes_of_the_service() -> None:
    reply = Bedrock().decode_reply(BODY)
    assert judge.read_whole(Bedrock().encode_reply(reply)).stop == "tool_use"
    assert judge.read_stream(collect(Bedrock().event_stream(), unfold(reply))).stop == "tool_use"


def test_the_client_raises_our_error_whole_and_streamed() -> None:
    failure = Failure("rate_limited", "slow down")
    status, body = Bedrock().encode_failure(failure)
    assert judge.read_whole(body, status=status).error == ("ThrottlingException", 429, "slow down")
    events: list[Event] = [ReplyStarted(), TextDelta("So"), ReplyFailed(failure)]
    seen = judge.read_stream(collect(Bedrock().event_stream(), events))
    assert seen.text == "So"
    assert seen.error == ("EventStreamError", None, "slow down")
    assert seen.extra["code"] == "throttlingException"


def test_a_failing_stream_of_the_vendor_is_understood() -> None:
    chunks, seen = answers.BROKEN["bedrock"]
    reply = fold(collect(Bedrock().reply_stream(), chunks))
    assert reply.text == seen.text and reply.calls == []
    assert reply.failure is not None and seen.error is not None
    assert (reply.failure.message, reply.failure.code) == (seen.error[2], seen.extra["code"])


# ---- what the client sends -------------------------------------------------------------------------------------------


def in_neutral_words(request: Request) -> dict[str, Any]:
    """What a request says, as the judge puts it."""
    parts = [part for message in request.messages for part in message.parts]
    told = [part for part in parts if isinstance(part, ToolResult)]
    inner = [entry for result in told if isinstance(result.content, list) for entry in result.content]
    options = request.options
    return {
        "model": request.model,
        "system": "".join(message.text for message in request.messages if message.role == "system"),
        "texts": [
            part.text
            for message in request.messages
            if message.role == "user"
            for part in message.parts
            if isinstance(part, Text)
        ],
        "tools": [tool.name for tool in request.tools],
        "tool_choice": options.get("tool_choice"),
        "calls": [(part.id, part.name, part.arguments) for part in parts if isinstance(part, ToolCall)],
        "results": [(result.call_id, words(result), result.is_error) for result in told],
        "images": sum(isinstance(part, Image) for part in [*parts, *inner]),
        "stream": options.get("stream", False),
        "max_tokens": options.get("max_tokens"),
        "parallel": options.get("parallel_tool_calls"),
        "reasoning": [
            (part.text, part.extra["bedrock"].get("signature") or part.extra["bedrock"]["redacted"])
            for part in parts
            if isinstance(part, Thinking)
        ],
    }


def words(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if isinstance(part, Text))


SENT = {label: (body, said) for label, body, said in judge.sent()}


@pytest.mark.parametrize("label", SENT)
def test_what_the_client_sends_is_understood(label: str) -> None:
    body, said = SENT[label]
    request = Bedrock().decode_request(body, model=CLAUDE, stream=said["stream"])
    assert in_neutral_words(request) == said
    judge.validate_request(Bedrock().encode_request(request))
