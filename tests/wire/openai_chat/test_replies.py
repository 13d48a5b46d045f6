"""Chat completions read: the fields that only some endpoints have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.replies import fold
from dragoman.types import Failure, Reply, Text, Thinking, Usage
from dragoman.wire import framing, get


def stream(*deltas: dict[str, Any], finish: str = "stop") -> Reply:
    reader = get("openai_chat").reply_stream()
    frames = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    written = b"".join(framing.encode_sse(None, json.dumps(frame)) for frame in frames) + framing.encode_sse(
        None, "[DONE]"
    )
    return fold(reader.feed(written) + reader.close())


def whole(message: dict[str, Any], finish: str = "stop") -> Reply:
    return get("openai_chat").decode_reply({"choices": [{"message": message, "finish_reason": finish}]})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking_under_either_name(field: str) -> None:
    expected = [Thinking("Hm. Yes.", {"openai_chat": {"field": field}}), Text("So.")]
    assert stream({field: "Hm. "}, {field: "Yes."}, {"content": "So."}).message.parts == expected
    assert whole({field: "Hm. Yes.", "content": "So."}).message.parts == expected


def test_reasoning_details_are_put_together_and_kept() -> None:
    pieces = [
        {"reasoning": "Hm. ", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm. "}]},
        {"reasoning": "Yes.", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Yes."}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}]},
        {"content": "So."},
    ]
    details = [{"type": "reasoning.text", "index": 0, "text": "Hm. Yes.", "signature": "s"}]
    expected = [Thinking("Hm. Yes.", {"openai_chat": {"field": "reasoning", "details": details}}), Text("So.")]
    assert stream(*pieces).message.parts == expected
    assert whole({"reasoning": "Hm. Yes.", "reasoning_details": details, "content": "So."}).message.parts == expected


def test_a_refusal_is_text_that_says_so() -> None:
    expected = [Text("I will not.", {"openai_chat": {"refusal": True}})]
    assert stream({"refusal": "I will "}, {"refusal": "not."}).message.parts == expected
    assert whole({"content": None, "refusal": "I will not."}).message.parts == expected


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "end"), ("length", "length"), ("content_filter", "refusal"), ("eos", "end"), ("tool_calls", "end")],
)
def test_finish_reasons(reason: str, stop: str) -> None:
    """`tool_calls` without a call is an ordinary end; a word that nobody knows is one too, after a whole reply."""
    assert stream({"content": "x"}, finish=reason).stop == stop
    assert whole({"content": "x"}, reason).stop == stop


def test_usage_counts_what_is_contained_in_the_totals() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    reply = get("openai_chat").decode_reply({"choices": [{"message": {"content": "x"}}], "usage": usage})
    assert reply.usage == Usage(100, 50, 80, 30, 5)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, "rate_limited", "slow down"),
        (400, {"error": {"message": "m", "code": "context_length_exceeded"}}, "context_too_long", "m"),
        (401, {"error": {"message": "bad key"}}, "unauthorized", "bad key"),
        (404, {"error": "model not found"}, "not_found", "model not found"),
        (500, "boom", "server_error", "boom"),
        (422, {"detail": "unknown field"}, "bad_request", "unknown field"),
        (None, {"error": {"code": 429, "message": "upstream", "metadata": {"raw": "x"}}}, "rate_limited", "upstream"),
        (400, [{"error": {"message": "in a list", "code": 400}}], "bad_request", "in a list"),
        (503, None, "overloaded", ""),
    ],
)
def test_errors_in_all_their_shapes(status: int | None, body: Any, kind: str, message: str) -> None:
    failure = get("openai_chat").decode_failure(status, body)
    assert (failure.kind, failure.message) == (kind, message)


def test_the_time_to_wait_is_kept() -> None:
    failure = get("openai_chat").decode_failure(429, {}, {"Retry-After": "2.5"})
    assert failure.retry_after == 2.5


def test_an_error_body_gives_a_reply_that_failed() -> None:
    reply = get("openai_chat").decode_reply({"error": {"message": "no", "code": "x"}})
    assert reply.failure == Failure("server_error", "no", None, "x", None, {"error": {"message": "no", "code": "x"}})
    assert reply.stop == "error"


def test_comments_and_noise_between_frames_do_not_matter() -> None:
    reader = get("openai_chat").reply_stream()
    noise = b": OPENROUTER PROCESSING\n\n"
    frames = [
        b'data: {"choices": [], "prompt_filter_results": []}\n\n',
        b'data: {"choices": [{"delta": {"content": "Hi"}}], "obfuscation": "xx"}\n\n',
        b"data: [DONE]\n\n",
    ]
    reply = fold(reader.feed(noise + noise.join(frames)) + reader.close())
    assert (reply.text, reply.stop, reply.failure) == ("Hi", "end", None)
