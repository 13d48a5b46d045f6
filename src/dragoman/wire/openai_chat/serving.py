"""Replies written as chat completions: whole, and as a stream of chunks."""

from __future__ import annotations

from typing import Any

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import Failure, InvalidCall, JsonObject, Part, Reply, StopReason, Text, Thinking, ToolCall, Usage
from dragoman.wire import sse
from dragoman.wire.aliases import Identifier, IdRule
from dragoman.wire.openai_chat.failures import write_failure
from dragoman.wire.openai_chat.parts import write_call
from dragoman.wire.openai_chat.words import FINISHES, write_usage
from dragoman.wire.ordering import InOrder, describe_invalid
from dragoman.wire.texts import join_texts, join_thinking
from dragoman.wire.values import as_dict, as_list, as_text, write

_NO_END = Failure("stream_cut", "the reply ended before it was complete")


def renamed(call: ToolCall, identifier: Identifier) -> ToolCall:
    """The call under an id that this wire takes."""
    identity = identifier.identify(call.id)
    if identity == call.id:
        return call
    return ToolCall(identity, call.name, call.arguments, extra=call.extra)


def finish_of(stop: StopReason, extra: dict[str, Any], wire: str) -> str:
    """The finish reason: the word that this wire itself gave, or ours for it."""
    own = as_text(as_dict(extra.get(wire)).get("reason"))
    return own or FINISHES[stop]


def write_message(parts: list[Part], wire: str, ids: IdRule) -> JsonObject:
    """The message of a whole completion."""
    identifier = Identifier(ids)
    calls = [write_call(renamed(part, identifier), wire) for part in parts if isinstance(part, ToolCall)]
    texts = [Text(describe_invalid(part)) if isinstance(part, InvalidCall) else part for part in parts]
    refusals = [part for part in texts if isinstance(part, Text) and "refusal" in as_dict(part.extra.get(wire))]
    content = join_texts(part for part in texts if part not in refusals)
    message: JsonObject = {"role": "assistant", "content": content or (None if calls or refusals else "")}
    message["refusal"] = join_texts(refusals) or None
    message.update(write_thinking(parts, wire))
    if calls:
        message["tool_calls"] = calls
    return message


def write_thinking(parts: list[Part], wire: str) -> JsonObject:
    thinking = [part for part in parts if isinstance(part, Thinking)]
    text = join_thinking(thinking)
    own = [as_dict(part.extra.get(wire)) for part in thinking]
    details = [entry for extra in own for entry in as_list(extra.get("details"))]
    field = next((as_text(extra.get("field")) for extra in own if extra.get("field")), "reasoning_content")
    fields: JsonObject = {} if field == "reasoning_details" or not text else {field: text}
    return {**fields, "reasoning_details": details} if details else fields


def write_completion(reply: Reply, wire: str, ids: IdRule, created: int) -> JsonObject:
    """A whole reply as a chat completion."""
    choice = {
        "index": 0,
        "message": write_message(reply.message.parts, wire, ids),
        "logprobs": None,
        "finish_reason": finish_of(reply.stop, reply.extra, wire),
    }
    return {
        "id": reply.id or "chatcmpl-0",
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [choice],
        "usage": write_usage(reply.usage),
    }


class ChunkWriter:
    """A Stage from events to the bytes of a stream of chunks."""

    def __init__(self, wire: str, ids: IdRule, model: str, id: str, created: int, *, include_usage: bool) -> None:
        self._wire = wire
        self._identifier = Identifier(ids)
        self._order = InOrder()
        self._head: JsonObject = {"id": id or "chatcmpl-0", "object": "chat.completion.chunk", "created": created}
        self._model = model
        self._include_usage = include_usage
        self._usage = Usage()
        self._started = False
        self._calls = 0
        self._closed = False

    def feed(self, event: Event, /) -> list[bytes]:
        return [piece for ready in self._order.feed(event) for piece in self._write(ready)]

    def close(self) -> list[bytes]:
        pieces = [piece for ready in self._order.close() for piece in self._write(ready)]
        return pieces if self._closed else pieces + self._fail(_NO_END)

    def _write(self, event: Event) -> list[bytes]:
        if self._closed:
            return []
        if isinstance(event, ReplyStarted):
            self._head["id"] = event.id or self._head["id"]
            self._model = event.model or self._model
            return self._begin()
        if isinstance(event, UsageReported):
            self._usage = event.usage
            return []
        if isinstance(event, ReplyFailed):
            return self._begin() + self._fail(event.failure)
        return self._begin() + self._write_delta(event)

    def _write_delta(self, event: Event) -> list[bytes]:
        if isinstance(event, TextDelta):
            return [self._chunk({"content": event.text})] if event.text else []
        if isinstance(event, ThinkingDelta):
            return [self._chunk(self._write_thinking(event.text))] if event.text else []
        if isinstance(event, PartEnded):
            return self._end_part(event)
        if isinstance(event, CallEnded):
            entry = write_call(renamed(event.call, self._identifier), self._wire)
            self._calls += 1
            return [self._chunk({"tool_calls": [{"index": self._calls - 1, **entry}]})]
        if isinstance(event, ReplyEnded):
            return self._finish(finish_of(event.stop, event.extra, self._wire))
        return []

    def _write_thinking(self, text: str) -> JsonObject:
        return {"reasoning_content": text}

    def _end_part(self, event: PartEnded) -> list[bytes]:
        details = as_list(as_dict(event.extra.get(self._wire)).get("details"))
        return [self._chunk({"reasoning_details": details})] if details else []

    def _begin(self) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        self._head["model"] = self._model
        return [self._chunk({"role": "assistant", "content": ""})]

    def _chunk(self, delta: JsonObject, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse.encode(None, write({**self._head, "choices": [choice]}))

    def _finish(self, reason: str) -> list[bytes]:
        self._closed = True
        pieces = [self._chunk({}, reason)]
        if self._include_usage:
            pieces.append(sse.encode(None, write({**self._head, "choices": [], "usage": write_usage(self._usage)})))
        return [*pieces, sse.encode(None, "[DONE]")]

    def _fail(self, failure: Failure) -> list[bytes]:
        self._closed = True
        return [sse.encode(None, write(write_failure(failure)[1]))]
