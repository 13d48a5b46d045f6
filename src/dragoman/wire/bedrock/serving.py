"""Replies written as Converse gives them: whole, and as a stream of frames."""

from __future__ import annotations

from msgspec.structs import replace

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
from dragoman.types import Failure, File, Image, InvalidCall, JsonObject, Part, Reply, Text, Thinking, ToolCall, Usage
from dragoman.wire import eventstream
from dragoman.wire.aliases import Identifier
from dragoman.wire.bedrock.blocks import describe, write_call, write_thinking
from dragoman.wire.bedrock.failures import write_exception
from dragoman.wire.bedrock.media import write_image
from dragoman.wire.bedrock.requests import RULES
from dragoman.wire.bedrock.words import own, reason_of, write_usage
from dragoman.wire.ordering import InOrder, describe_invalid
from dragoman.wire.values import as_dict, as_list, as_text, write

_NO_END = Failure("stream_cut", "the reply ended before it was complete")
_AT_STOP = ("additionalModelResponseFields",)
_AT_END = ("trace", "performanceConfig", "serviceTier")
_LONGEST_PIECE = 1_000_000
"""The most characters in one frame, which then stays below its greatest length. Base64 can be cut there too."""


# ---- whole ---------------------------------------------------------------------------------------------------------


def write_reply(reply: Reply) -> JsonObject:
    """A whole reply as the body of an answer."""
    content = write_parts(reply.message.parts)
    has_calls = any(isinstance(part, ToolCall) for part in reply.message.parts)
    opaque = own(reply.extra)
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reason_of(reply.stop, reply.extra, has_calls=has_calls),
        "usage": write_usage(reply.usage),
        "metrics": write_metrics(opaque),
        **{name: opaque[name] for name in (*_AT_STOP, *_AT_END) if name in opaque},
    }


def write_metrics(opaque: JsonObject) -> JsonObject:
    metrics = as_dict(opaque.get("metrics"))
    return metrics if isinstance(metrics.get("latencyMs"), int) else {"latencyMs": 0}


def write_parts(parts: list[Part]) -> list[JsonObject]:
    """The parts of a reply as blocks. The note about a broken call goes with the text behind it, as in a stream."""
    identifier = Identifier(RULES.ids)
    blocks: list[JsonObject] = []
    note = ""
    for part in parts:
        if isinstance(part, InvalidCall):
            note += describe_invalid(part)
            continue
        if isinstance(part, Text):
            blocks += _write_text(note + part.text, own(part.extra))
            note = ""
        elif written := _write_part(part, identifier):
            blocks += [{"text": note}, *written] if note else written
            note = ""
    return blocks + ([{"text": note}] if note else [])


def _write_part(part: Part, identifier: Identifier) -> list[JsonObject]:
    if isinstance(part, ToolCall):
        return [write_call(replace(part, id=identifier.identify(part.id)))]
    if isinstance(part, Thinking):
        # Hidden reasoning has no words here. If it has some all the same, they are shown beside it.
        shown = [Thinking(part.text), part] if part.text and "redacted" in own(part.extra) else [part]
        return [block for entry in shown if (block := write_thinking(entry)) is not None]
    return [write_media(part)] if isinstance(part, Image | File) else []


def _write_text(text: str, opaque: JsonObject) -> list[JsonObject]:
    citations, block = as_list(opaque.get("citations")), as_dict(opaque.get("block"))
    cited = {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    return ([cited if citations else {"text": text}] if text else []) + ([block] if block else [])


def write_media(part: Image | File) -> JsonObject:
    """An image as it is. A reply has no place for a file: it is named."""
    image = write_image(part) if isinstance(part, Image) else None
    return image or {"text": describe(part)}


# ---- streamed --------------------------------------------------------------------------------------------------------


def _frame(kind: str, payload: JsonObject, family: str = "event") -> bytes:
    headers = {f":{family}-type": kind, ":content-type": "application/json", ":message-type": family}
    return eventstream.encode(headers, write(payload).encode())


def _cut(text: str) -> list[str]:
    if len(text) <= _LONGEST_PIECE:
        return [text]
    return [text[start : start + _LONGEST_PIECE] for start in range(0, len(text), _LONGEST_PIECE)]


class FrameWriter:
    """A Stage from events to the frames of a stream: one block at a time, and only calls and images have a start."""

    def __init__(self) -> None:
        self._order = InOrder()
        self._identifier = Identifier(RULES.ids)
        self._index = 0
        self._open = ""  # the kind of the open block
        self._usage = Usage()
        self._has_calls = False
        self._started = False
        self._closed = False

    def feed(self, event: Event, /) -> list[bytes]:
        return [piece for ready in self._order.feed(event) for piece in self._write(ready)]

    def close(self) -> list[bytes]:
        pieces = [piece for ready in self._order.close() for piece in self._write(ready)]
        return pieces if self._closed else pieces + self._begin() + self._fail(_NO_END)

    def _write(self, event: Event) -> list[bytes]:
        if self._closed:
            return []
        if isinstance(event, ReplyStarted):
            return self._begin()
        if isinstance(event, UsageReported):
            self._usage = event.usage
            return []
        if isinstance(event, ReplyFailed):
            return self._begin() + self._fail(event.failure)
        if isinstance(event, ReplyEnded):
            return self._begin() + self._finish(event)
        return self._begin() + self._write_content(event)

    def _begin(self) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        return [_frame("messageStart", {"role": "assistant"})]

    def _write_content(self, event: Event) -> list[bytes]:
        if isinstance(event, TextDelta):
            return self._grow("text", [{"text": piece} for piece in _cut(event.text)]) if event.text else []
        if isinstance(event, ThinkingDelta):
            return self._think([{"text": piece} for piece in _cut(event.text)]) if event.text else []
        if isinstance(event, PartEnded):
            return self._end_text(event) if event.kind == "text" else self._end_thinking(event)
        if isinstance(event, CallEnded):
            self._has_calls = True
            call = replace(event.call, id=self._identifier.identify(event.call.id))
            return self._write_block(write_call(call))
        return self._write_block(write_media(event.part)) if isinstance(event, PartReceived) else []

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _grow(self, kind: str, deltas: list[JsonObject]) -> list[bytes]:
        pieces = [] if self._open in ("", kind) else self._stop_block()
        self._open = kind
        return pieces + [self._delta(delta) for delta in deltas]

    def _think(self, deltas: list[JsonObject]) -> list[bytes]:
        return self._grow("thinking", [{"reasoningContent": delta} for delta in deltas])

    def _delta(self, delta: JsonObject) -> bytes:
        return _frame("contentBlockDelta", {"contentBlockIndex": self._index, "delta": delta})

    def _stop_block(self) -> list[bytes]:
        if not self._open:
            return []
        self._open = ""
        self._index += 1
        return [_frame("contentBlockStop", {"contentBlockIndex": self._index - 1})]

    def _end_text(self, event: PartEnded) -> list[bytes]:
        opaque = own(event.extra)
        pieces: list[bytes] = []
        if self._open == "text":
            cited = [{"citation": entry} for entry in as_list(opaque.get("citations"))]
            pieces = self._grow("text", cited) + self._stop_block()
        return pieces + self._write_block(as_dict(opaque.get("block")))

    def _end_thinking(self, event: PartEnded) -> list[bytes]:
        opaque = own(event.extra)
        redacted, signature = as_text(opaque.get("redacted")), as_text(opaque.get("signature"))
        if redacted:
            hidden = self._stop_block() + self._think([{"redactedContent": piece} for piece in _cut(redacted)])
            return hidden + self._stop_block()
        signed = self._think([{"signature": piece} for piece in _cut(signature)]) if signature else []
        return signed + (self._stop_block() if self._open == "thinking" else [])

    def _write_block(self, block: JsonObject) -> list[bytes]:
        """A block that comes whole: a call, an image, or what a provider's own tool did."""
        start, deltas = _split(block)
        if not start and not deltas:
            return []
        pieces = self._stop_block()
        if start:
            pieces.append(_frame("contentBlockStart", {"contentBlockIndex": self._index, "start": start}))
        pieces += self._grow("whole", deltas)
        return pieces + self._stop_block()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _finish(self, event: ReplyEnded) -> list[bytes]:
        self._closed = True
        opaque = own(event.extra)
        stop = {
            "stopReason": reason_of(event.stop, event.extra, has_calls=self._has_calls),
            **{name: opaque[name] for name in _AT_STOP if name in opaque},
        }
        counts = {
            "usage": write_usage(self._usage),
            "metrics": write_metrics(opaque),
            **{name: opaque[name] for name in _AT_END if name in opaque},
        }
        return [*self._stop_block(), _frame("messageStop", stop), _frame("metadata", counts)]

    def _fail(self, failure: Failure) -> list[bytes]:
        self._closed = True
        kind, payload = write_exception(failure)
        return [_frame(kind, payload, "exception")]


def _split(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """The start and the deltas of a whole block. What a stream has no form for is left out."""
    use, answer, image = as_dict(block.get("toolUse")), as_dict(block.get("toolResult")), as_dict(block.get("image"))
    if use:
        start = {name: value for name, value in use.items() if name != "input"}
        return {"toolUse": start}, [{"toolUse": {"input": piece}} for piece in _cut(write(use.get("input", {})))]
    if answer:
        start = {name: value for name, value in answer.items() if name != "content"}
        return {"toolResult": start}, [{"toolResult": as_list(answer.get("content"))}]
    if image:
        source = as_dict(image.get("source"))
        pieces = [{"bytes": piece} for piece in _cut(as_text(source.get("bytes")))] if "bytes" in source else [source]
        return {"image": {"format": image.get("format")}}, [{"image": {"source": piece}} for piece in pieces]
    return {}, [block] if "text" in block else []
