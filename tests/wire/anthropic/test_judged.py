"""The official client as the judge: it reads what our server half writes, and we read what it sends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import each_row
from tests.wire.judges import anthropic as judge
from tests.wire.judges import scenes
from tests.wire.rules import violations

from dragoman.events import Event, ReplyFailed, TextDelta
from dragoman.replies import unfold
from dragoman.stage import collect
from dragoman.types import (
    Failure,
    Image,
    Message,
    Reply,
    Request,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire.anthropic import Anthropic

from .samples import RICH_REQUEST

CODEC = Anthropic()


def say(*parts: Any, stop: StopReason = "end") -> Reply:
    return Reply(
        Message("assistant", list(parts)), Usage(115, 42, 100, 0, 5), stop, model="claude-opus-5-5", id="msg_1"
    )


REPLIES = {
    "text": say(Text("Hello.")),
    "empty text": say(Text("")),
    "unicode": say(Text(scenes.UNICODE)),
    "a call without arguments": say(ToolCall("toolu_1", "ping", {}), stop="tool_calls"),
    "parallel calls": say(
        Text("Both."),
        ToolCall("toolu_1", "get_weather", scenes.PARIS),
        ToolCall("toolu_2", "get_weather", scenes.OSLO),
        stop="tool_calls",
    ),
    "reasoning": say(
        Thinking(scenes.THOUGHT, {"anthropic": {"signature": "EqQBsigned"}}),
        Thinking("", {"anthropic": {"data": "EmwKsecret"}}),
        Text("So."),
    ),
    "reasoning of others": say(Thinking(scenes.THOUGHT), ToolCall("toolu_1", "ping", {}), stop="tool_calls"),
    "the limit": say(Text("To be cont"), stop="length"),
}
WORDS = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("way", ["whole", "streamed"])
def test_the_client_sees_the_reply(name: str, way: str) -> None:
    reply = REPLIES[name]
    if way == "whole":
        seen = judge.read_whole(CODEC.encode_reply(reply))
    else:
        seen = judge.read_stream(collect(CODEC.event_stream(), unfold(reply)))
    thoughts = [part for part in reply.message.parts if isinstance(part, Thinking)]
    assert seen.error is None
    assert seen.text == reply.text
    assert seen.thinking == "".join(part.text for part in thoughts)
    assert seen.calls == tuple((call.id, call.name, call.arguments) for call in reply.calls)
    assert seen.usage == (10, 42)
    assert (seen.extra["cache_read_tokens"], seen.extra["cache_write_tokens"]) == (100, 5)
    assert (seen.stop, seen.model) == (WORDS[reply.stop], "claude-opus-5-5")
    if name == "reasoning":
        assert (seen.extra["signatures"], seen.extra["redacted"]) == (("EqQBsigned",), ("EmwKsecret",))


@pytest.mark.parametrize(
    ("failure", "kind", "status"),
    [
        (Failure("overloaded", "Too busy"), "OverloadedError", 529),
        (Failure("rate_limited", "Slow down"), "RateLimitError", 429),
        (Failure("bad_request", "No"), "BadRequestError", 400),
        (Failure("unauthorized", "Who?"), "AuthenticationError", 401),
        (Failure("not_found", "Where?"), "NotFoundError", 404),
        (Failure("server_error", "Oops"), "InternalServerError", 500),
    ],
)
def test_the_client_sees_the_error(failure: Failure, kind: str, status: int) -> None:
    answered, body = CODEC.encode_failure(failure)
    seen = judge.read_whole(body, status=answered)
    assert seen.error == (kind, status, failure.message)


def test_the_client_sees_the_error_in_a_stream() -> None:
    events: list[Event] = [TextDelta("So"), ReplyFailed(Failure("overloaded", "Too busy"))]
    seen = judge.read_stream(collect(CODEC.event_stream(model="m"), events))
    assert seen.error is not None and "Too busy" in seen.error[2]


# ---- what the client sends -------------------------------------------------------------------------------------------


def tell(request: Request) -> dict[str, Any]:
    """What a request says, in the neutral words of the judge."""
    parts = [part for message in request.messages for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResult)]
    contents = [part for result in results if isinstance(result.content, list) for part in result.content]
    thoughts = [part for part in parts if isinstance(part, Thinking)]
    return scenes.said(
        request.model,
        system="".join(message.text for message in request.messages if message.role == "system"),
        texts=[message.text for message in request.messages if message.role == "user" and message.text],
        tools=[tool.name for tool in request.tools],
        tool_choice=request.options.get("tool_choice"),
        calls=[(part.id, part.name, part.arguments) for part in parts if isinstance(part, ToolCall)],
        results=[(result.call_id, _words(result), result.is_error) for result in results],
        images=sum(isinstance(part, Image) for part in [*parts, *contents]),
        stream=request.options.get("stream", False),
        max_tokens=request.options.get("max_tokens"),
        parallel=request.options.get("parallel_tool_calls"),
        reasoning=[
            (part.text, part.extra["anthropic"].get("signature") or part.extra["anthropic"]["data"])
            for part in thoughts
        ],
    )


def _words(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if isinstance(part, Text))


SENT = judge.sent()


@each_row(("label", "body", "words"), SENT, ids=[label for label, _, _ in SENT])
def test_what_the_client_sends_is_understood_and_can_be_sent_on(
    label: str, body: dict[str, Any], words: dict[str, Any]
) -> None:
    request = CODEC.decode_request(body)
    assert tell(request) == words
    again = CODEC.encode_request(request)
    judge.validate_request(again)
    assert violations("anthropic", again, model="claude-sonnet-4-5") == []
    if label != "empty_text":
        assert again == body


def test_a_rich_request_obeys_the_rules() -> None:
    # The vendor's own types do not name what only betas have, nor sampling.
    beta = {"context_management", "temperature"}
    assert violations("anthropic", RICH_REQUEST, model="claude-sonnet-4-5", extra=beta) == []
    judge.validate_request({name: value for name, value in RICH_REQUEST.items() if name not in beta})
