"""Replies written as GenerateContentResponse: whole, and as a stream of chunks."""

from __future__ import annotations

from typing import Any

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
from dragoman.types import (
    Failure,
    InvalidCall,
    JsonObject,
    Part,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import sse
from dragoman.wire.aliases import FREE_IDS, Identifier
from dragoman.wire.gemini.failures import write_failure
from dragoman.wire.gemini.parts import WIRE, own_of, write_call, write_media, write_own, write_part
from dragoman.wire.gemini.words import FINISHES, write_usage
from dragoman.wire.ordering import InOrder, describe_invalid
from dragoman.wire.values import as_dict, as_text, write

_NO_END = Failure("stream_cut", "the reply ended before it was complete")
_EMPTY: JsonObject = {"text": ""}


def _renamed(call: ToolCall, identifier: Identifier) -> ToolCall:
    """The call under an id that no other call of the reply has."""
    identity = identifier.identify(call.id)
    return call if identity == call.id else replace(call, id=identity)


def _write_end(stop: StopReason, extra: dict[str, Any], parts: list[JsonObject]) -> JsonObject:
    """The fields that end a reply: a candidate with its reason, or the news that the prompt was blocked."""
    own = as_dict(extra.get(WIRE))
    feedback = as_dict(own.get("prompt_feedback"))
    if feedback and stop == "refusal" and parts == [_EMPTY]:
        return {"promptFeedback": feedback}
    candidate: JsonObject = {
        **as_dict(own.get("candidate")),
        "content": {"parts": parts, "role": "model"},
        # The word for a blocked prompt is none for a candidate.
        "finishReason": FINISHES[stop] if feedback else as_text(own.get("reason")) or FINISHES[stop],
        "index": 0,
    }
    if as_text(own.get("message")):
        candidate["finishMessage"] = own["message"]
    return {"candidates": [candidate]}


def write_response(reply: Reply) -> JsonObject:
    """A whole reply."""
    identifier = Identifier(FREE_IDS)
    parts = [written for part in reply.message.parts if (written := _write_part(part, identifier)) is not None]
    return {
        **_write_end(reply.stop, reply.extra, parts or [_EMPTY]),
        "usageMetadata": write_usage(reply.usage),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def _write_part(part: Part, identifier: Identifier) -> JsonObject | None:
    if isinstance(part, ToolCall):
        return write_call(_renamed(part, identifier))
    if isinstance(part, InvalidCall):
        return {"text": describe_invalid(part)}
    if isinstance(part, ToolResult):
        return None
    if isinstance(part, Text | Thinking) and not part.text and not own_of(part).keys() - {"thought"}:
        return None
    return write_part(part)


class ChunkWriter:
    """A Stage from events to the bytes of a stream of chunks.

    A piece of text waits for the event behind it: if that one brings a signature, both go out in one part.
    """

    def __init__(self, model: str, id: str) -> None:
        self._identifier = Identifier(FREE_IDS)
        self._order = InOrder()
        self._model = model
        self._id = id
        self._usage = Usage()
        self._held: tuple[str, str] | None = None  # kind and text of the piece that waits
        self._closed = False

    def feed(self, event: Event, /) -> list[bytes]:
        ready = self._order.feed(event)
        pieces = [piece for entry in ready for piece in self._write(entry)]
        # An event that is kept back for now brings no signature for what came before it.
        return pieces if ready else pieces + self._release()

    def close(self) -> list[bytes]:
        pieces = [piece for entry in self._order.close() for piece in self._write(entry)]
        return pieces if self._closed else pieces + self._fail(_NO_END)

    def _write(self, event: Event) -> list[bytes]:
        if self._closed:
            return []
        if isinstance(event, TextDelta | ThinkingDelta):
            return self._hold("text" if isinstance(event, TextDelta) else "thinking", event.text)
        if isinstance(event, PartEnded):
            return self._end_part(event.kind, as_dict(event.extra.get(WIRE)))
        if isinstance(event, ReplyFailed):
            return self._fail(event.failure)
        return self._release() + self._write_whole(event)

    def _write_whole(self, event: Event) -> list[bytes]:
        if isinstance(event, CallEnded):
            return [self._chunk(write_call(_renamed(event.call, self._identifier)))]
        if isinstance(event, PartReceived):
            media = write_media(event.part)
            return [self._chunk(media)] if media is not None else []
        if isinstance(event, ReplyStarted):
            self._model, self._id = event.model or self._model, event.id or self._id
        elif isinstance(event, UsageReported):
            self._usage = event.usage
        elif isinstance(event, ReplyEnded):
            self._closed = True
            end = _write_end(event.stop, event.extra, [_EMPTY])
            return [self._frame({**end, "usageMetadata": write_usage(self._usage)})]
        return []

    # ---- text that waits ---------------------------------------------------------------------------------------

    def _hold(self, kind: str, text: str) -> list[bytes]:
        pieces = self._release()
        self._held = (kind, text) if text else None
        return pieces

    def _release(self) -> list[bytes]:
        held, self._held = self._held, None
        return [self._chunk(_write_text(*held, {}))] if held is not None else []

    def _end_part(self, kind: str, own: JsonObject) -> list[bytes]:
        if "part" in own:
            return [*self._release(), self._chunk(as_dict(own["part"]))]
        if not own.keys() - {"thought"}:
            return self._release()
        text = ""
        pieces: list[bytes] = []
        if self._held is not None and self._held[0] == kind:
            text, self._held = self._held[1], None
        else:
            pieces = self._release()
        return [*pieces, self._chunk(_write_text(kind, text, own))]

    # ---- bytes -------------------------------------------------------------------------------------------------

    def _chunk(self, part: JsonObject) -> bytes:
        return self._frame({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]})

    def _frame(self, fields: JsonObject) -> bytes:
        return sse.encode(None, write({**fields, "modelVersion": self._model, "responseId": self._id}))

    def _fail(self, failure: Failure) -> list[bytes]:
        pieces = self._release()
        self._closed = True
        return [*pieces, sse.encode(None, write(write_failure(failure)[1]))]


def _write_text(kind: str, text: str, own: JsonObject) -> JsonObject:
    fields = write_own(own)
    if kind == "thinking":
        fields = {"thought": True, **fields}
    return {"text": text, **fields}
