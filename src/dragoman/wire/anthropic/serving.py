"""Replies written as messages: whole, and as a stream of events."""

from __future__ import annotations

from typing import Any

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import (
    Failure,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Part,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from dragoman.wire import sse
from dragoman.wire.aliases import Identifier
from dragoman.wire.anthropic.blocks import write_thinking
from dragoman.wire.anthropic.failures import write_error
from dragoman.wire.anthropic.words import RULES, own, without, word_for, write_usage
from dragoman.wire.ordering import InOrder, describe_broken, describe_invalid
from dragoman.wire.values import as_dict, as_list, as_text, write

_NO_END = Failure("stream_cut", "the reply ended before it was complete")


def _note_media(part: Image | File) -> str:
    """A model cannot give images or files on this wire: the words that stand for one."""
    kind = "image" if isinstance(part, Image) else "file"
    return f"[{kind}: {part.url}]" if part.url else f"[{kind}: it cannot be shown here]"


def _start_call(call: ToolCall, identifier: Identifier) -> JsonObject:
    identity = identifier.identify(call.id)
    return {"type": "tool_use", "id": identity, "name": call.name, "input": {}, **own(call.extra)}


# ---- whole -----------------------------------------------------------------------------------------------------------


def write_message(reply: Reply) -> JsonObject:
    """A whole reply as a message."""
    blocks = _ContentWriter().write(reply.message.parts)
    has_calls = any(block.get("type") == "tool_use" for block in blocks)
    return {
        "id": reply.id or "msg_0",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": blocks,
        **_write_end(reply.stop, reply.extra, has_calls),
        "usage": _write_usage(reply.usage, reply.extra),
    }


def _write_end(stop: StopReason, extra: dict[str, Any], has_calls: bool) -> JsonObject:
    rest = without(own(extra), "reason", "usage")
    return {"stop_reason": word_for(stop, extra, has_calls), "stop_sequence": None, **rest}


def _write_usage(usage: Usage, extra: dict[str, Any]) -> JsonObject:
    return {**as_dict(own(extra).get("usage")), **write_usage(usage)}


class _ContentWriter:
    """Writes the blocks of a whole message, in the same places where the stream has them."""

    def __init__(self) -> None:
        self._blocks: list[JsonObject] = []
        self._identifier = Identifier(RULES.ids)
        self._note = ""  # words for broken calls: they run on into the text behind them

    def write(self, parts: list[Part]) -> list[JsonObject]:
        for part in parts:
            if isinstance(part, InvalidCall):
                self._note += describe_invalid(part)
            elif isinstance(part, ToolCall) and not part.complete:
                self._note += describe_broken(part.name, "it is not complete")
            else:
                self._write(part)
        self._flush()
        return self._blocks

    def _flush(self, text: str = "", citations: list[Any] | None = None) -> None:
        if self._note or text:
            cited = {"citations": citations} if citations else {}
            self._blocks.append({"type": "text", "text": self._note + text, **cited})
        self._note = ""

    def _write(self, part: Part) -> None:
        if isinstance(part, Text):
            extra = own(part.extra)
            self._flush(part.text, as_list(extra.get("citations")))
            self._add(as_dict(extra.get("block")))
            return
        self._flush()
        if isinstance(part, Thinking):
            self._add(write_thinking(part))
        elif isinstance(part, ToolCall):
            self._add({**_start_call(part, self._identifier), "input": part.arguments})
        elif isinstance(part, Image | File):
            self._flush(_note_media(part))

    def _add(self, block: JsonObject | None) -> None:
        if block:
            self._blocks.append(block)


# ---- streamed --------------------------------------------------------------------------------------------------------


class EventWriter:
    """A Stage from events to the bytes of a stream: blocks counted from 0, one open at a time, arguments whole."""

    def __init__(self, model: str, id: str) -> None:
        self._order = InOrder()
        self._identifier = Identifier(RULES.ids)
        self._model = model
        self._id = id
        self._usage = Usage()
        self._started = False
        self._closed = False
        self._has_calls = False
        self._index = -1
        self._open = ""  # the kind of the block that is open

    def feed(self, event: Event, /) -> list[bytes]:
        return [piece for ready in self._order.feed(event) for piece in self._write(ready)]

    def close(self) -> list[bytes]:
        pieces = [piece for ready in self._order.close() for piece in self._write(ready)]
        return pieces if self._closed else pieces + self._begin() + self._fail(_NO_END)

    def _write(self, event: Event) -> list[bytes]:
        if self._closed:
            return []
        if isinstance(event, ReplyStarted):
            self._model = event.model or self._model
            self._id = event.id or self._id
            return self._begin()
        if isinstance(event, UsageReported):
            self._usage = event.usage
            return []
        if isinstance(event, ReplyFailed):
            return self._begin() + self._fail(event.failure)
        if isinstance(event, ReplyEnded):
            return self._begin() + self._end(event)
        return self._begin() + self._write_part(event)

    def _write_part(self, event: Event) -> list[bytes]:
        if isinstance(event, TextDelta):
            return self._grow("text", event.text)
        if isinstance(event, ThinkingDelta):
            return self._grow("thinking", event.text)
        if isinstance(event, PartEnded):
            extra = own(event.extra)
            return self._end_text(extra) if event.kind == "text" else self._end_thinking(extra)
        if isinstance(event, CallEnded):
            return self._write_call(event.call)
        if isinstance(event, PartReceived):
            return [*self._stop(), *self._grow("text", _note_media(event.part)), *self._stop()]
        return []

    # ---- frames -----------------------------------------------------------------------------------------------------

    def _frame(self, kind: str, **fields: Any) -> bytes:
        return sse.encode(kind, write({"type": kind, **fields}))

    def _begin(self) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        message: JsonObject = {
            "id": self._id or "msg_0",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_usage(self._usage),
        }
        return [self._frame("message_start", message=message)]

    def _end(self, event: ReplyEnded) -> list[bytes]:
        pieces = self._stop()
        self._closed = True
        delta = _write_end(event.stop, event.extra, self._has_calls)
        usage = _write_usage(self._usage, event.extra)
        return [*pieces, self._frame("message_delta", delta=delta, usage=usage), self._frame("message_stop")]

    def _fail(self, failure: Failure) -> list[bytes]:
        pieces = self._stop()
        self._closed = True
        return [*pieces, self._frame("error", error=write_error(failure)["error"])]

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _start(self, block: JsonObject) -> list[bytes]:
        pieces = self._stop()
        self._index += 1
        self._open = as_text(block.get("type")) or "unknown"
        return [*pieces, self._frame("content_block_start", index=self._index, content_block=block)]

    def _delta(self, kind: str, **fields: Any) -> bytes:
        return self._frame("content_block_delta", index=self._index, delta={"type": kind, **fields})

    def _stop(self) -> list[bytes]:
        if not self._open:
            return []
        self._open = ""
        return [self._frame("content_block_stop", index=self._index)]

    def _grow(self, kind: str, text: str) -> list[bytes]:
        if not text:
            return []
        pieces = [] if self._open == kind else self._start(_EMPTY[kind])
        pieces.append(self._delta(f"{kind}_delta", **{kind: text}))
        return pieces

    def _end_text(self, extra: JsonObject) -> list[bytes]:
        pieces: list[bytes] = []
        if self._open == "text":
            pieces += [self._delta("citations_delta", citation=entry) for entry in as_list(extra.get("citations"))]
        pieces += self._stop()
        block = as_dict(extra.get("block"))
        return pieces + self._write_block(block) if block else pieces

    def _end_thinking(self, extra: JsonObject) -> list[bytes]:
        if self._open != "thinking":
            block = write_thinking(Thinking("", {RULES.wire: extra}))
            if block is None:
                return self._stop()
            if block["type"] == "redacted_thinking":
                return [*self._start(block), *self._stop()]
        pieces = [] if self._open == "thinking" else self._start(_EMPTY["thinking"])
        signature = as_text(extra.get("signature"))
        return [*pieces, *([self._delta("signature_delta", signature=signature)] if signature else []), *self._stop()]

    def _write_call(self, call: ToolCall) -> list[bytes]:
        if not call.complete:
            return self._grow("text", describe_broken(call.name, "it is not complete"))
        self._has_calls = True
        return self._write_block({**_start_call(call, self._identifier), "input": call.arguments})

    def _write_block(self, block: JsonObject) -> list[bytes]:
        """A whole block. Clients take an input from its pieces alone, and not from the start of the block."""
        given = block.get("input")
        if not isinstance(given, dict):
            return [*self._start(block), *self._stop()]
        pieces = self._start({**block, "input": {}})
        return [*pieces, self._delta("input_json_delta", partial_json=write(given)), *self._stop()]


_EMPTY: dict[str, JsonObject] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
