"""Replies written as Ollama writes them: one JSON line per event, or one body."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman.events import (
    CallEnded,
    Event,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import Failure, InvalidCall, JsonObject, Reply, StopReason, Text, ToolCall, Usage
from dragoman.wire import ndjson
from dragoman.wire.failures import status_of
from dragoman.wire.ollama.requests import write_call
from dragoman.wire.ollama.words import finish_of
from dragoman.wire.ordering import InOrder, describe_invalid
from dragoman.wire.texts import join_texts, join_thinking

_NO_END = Failure("stream_cut", "the reply ended before it was complete")


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    return status_of(failure), {"error": failure.message or failure.kind.replace("_", " ")}


def write_time(created: int) -> str:
    return datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_end(stop: StopReason, usage: Usage) -> JsonObject:
    """The fields that only the last line has."""
    return {
        "done": True,
        "done_reason": finish_of(stop),
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": usage.input_tokens,
        "prompt_eval_duration": 0,
        "eval_count": usage.output_tokens,
        "eval_duration": 0,
    }


def _number(call: ToolCall, index: int) -> JsonObject:
    written = write_call(call)
    return {**written, "function": {"index": index, **written["function"]}}


def write_reply(reply: Reply, created: int) -> JsonObject:
    parts = [Text(describe_invalid(part)) if isinstance(part, InvalidCall) else part for part in reply.message.parts]
    message: JsonObject = {"role": "assistant", "content": join_texts(parts)}
    thinking = join_thinking(parts)
    message.update({"thinking": thinking} if thinking else {})
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = [_number(call, index) for index, call in enumerate(calls)]
    head = {"model": reply.model, "created_at": write_time(created), "message": message}
    return {**head, **write_end(reply.stop, reply.usage)}


class LineWriter:
    """A Stage from events to the lines of a streamed reply."""

    def __init__(self, model: str, created: int) -> None:
        self._order = InOrder()
        self._head: JsonObject = {"model": model, "created_at": write_time(created)}
        self._usage = Usage()
        self._calls = 0
        self._closed = False

    def feed(self, event: Event, /) -> list[bytes]:
        return [piece for ready in self._order.feed(event) for piece in self._write(ready)]

    def close(self) -> list[bytes]:
        pieces = [piece for ready in self._order.close() for piece in self._write(ready)]
        return pieces if self._closed else [*pieces, self._fail(_NO_END)]

    def _write(self, event: Event) -> list[bytes]:
        if self._closed:
            return []
        if isinstance(event, ReplyStarted):
            self._head["model"] = event.model or self._head["model"]
        elif isinstance(event, TextDelta) and event.text:
            return [self._line({"content": event.text})]
        elif isinstance(event, ThinkingDelta) and event.text:
            return [self._line({"content": "", "thinking": event.text})]
        elif isinstance(event, CallEnded):
            self._calls += 1
            return [self._line({"content": "", "tool_calls": [_number(event.call, self._calls - 1)]})]
        elif isinstance(event, UsageReported):
            self._usage = event.usage
        elif isinstance(event, ReplyFailed):
            return [self._fail(event.failure)]
        elif isinstance(event, ReplyEnded):
            self._closed = True
            return [self._line({"content": ""}, write_end(event.stop, self._usage))]
        return []

    def _line(self, message: JsonObject, end: JsonObject | None = None) -> bytes:
        return ndjson.encode({**self._head, "message": {"role": "assistant", **message}, **(end or {"done": False})})

    def _fail(self, failure: Failure) -> bytes:
        self._closed = True
        return ndjson.encode(write_failure(failure)[1])
