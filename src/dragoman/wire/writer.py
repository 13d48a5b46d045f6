"""The base class of the stream writers of all wires: events to frames, and frames to bytes.

A subclass writes the frames of one protocol. If a whole reply is as complex as its stream (Cohere, Responses), its
body is assembled from the frames. Other wires write it directly, with the same functions for each field, because
assembly from frames took 2 to 5 times as long. A property test compares both forms on every wire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from dragoman.events import (
    Event,
    RefusalDelta,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import Failure, Reply, StopReason, Usage
from dragoman.wire import framing
from dragoman.wire.aliases import Identifier, IdRule
from dragoman.wire.event_order import EventOrder, unfold_in_order
from dragoman.wire.values import write

NO_END = Failure("stream_cut", "the reply ended before it was complete")

FrameT = TypeVar("FrameT")

_DELTAS = (TextDelta, ThinkingDelta)


def stop_of_refusal(stop: StopReason) -> StopReason:
    """The stop reason of a reply that refuses, on a wire that has no other word for it."""
    return "refusal" if stop in ("end", "unknown") else stop


_MARK = "\ue000text\ue000"
"""Stands for the text in the pattern of a frame."""


class StreamWriter(ABC, Generic[FrameT]):
    """A stage from events to the bytes of a streamed reply."""

    has_refusals: ClassVar[bool] = False
    """Whether a refusal has a place of its own; elsewhere only the stop reason tells it from an answer."""
    repeats_frames: ClassVar[bool] = False
    """Whether the frames of two deltas in succession, of the same kind, differ in their text only."""

    def __init__(self, ids: IdRule, *, model: str = "", id: str = "") -> None:
        self._order = EventOrder()
        self._identifier = Identifier(ids)
        self._model = model
        self._id = id
        self._usage = Usage()
        self._started = False
        self._closed = False
        self._refuses = False
        self._grown: type[Event] | None = None
        """The kind of the last event, if it was a delta and `_pattern` may be used for the next one."""
        self._pattern: tuple[bytes, bytes] | None = None
        """The bytes of a frame before and after its text."""

    def feed(self, event: Event, /) -> list[bytes]:
        # Most events of a stream are deltas, which only cause their own frames.
        if isinstance(event, _DELTAS) and self._started and not self._closed and not self._order.queue:
            kind = type(event)
            if kind is self._grown and event.text:
                if self._pattern is None:
                    self._pattern = self._make_pattern(kind)
                before, after = self._pattern
                if before:
                    return [before + write(event.text).encode() + after]
            elif self.repeats_frames:
                self._grown, self._pattern = kind if event.text else None, None
            self._refuses = self._refuses or kind is RefusalDelta
            return [self._encode(frame) for frame in self._write_part(event)]
        self._grown = None
        return [self._encode(frame) for frame in self._frames_of(event)]

    def _make_pattern(self, kind: type[TextDelta | ThinkingDelta]) -> tuple[bytes, bytes]:
        """Return a frame without its text: to write it anew for each text takes twice as long."""
        data = b"".join([self._encode(frame) for frame in self._write_part(kind(_MARK))])
        before, _, after = data.partition(write(_MARK).encode())
        # A name that contains the mark would be taken for the text.
        return (before, after) if data.count(_MARK.encode()) == 1 else (b"", b"")

    def close(self) -> list[bytes]:
        return [self._encode(frame) for frame in self._last_frames()]

    def write_reply(self, reply: Reply) -> list[FrameT]:
        """Return all frames of a whole reply."""
        return self._write_all(unfold_in_order(reply))

    def _frames_of(self, event: Event) -> list[FrameT]:
        return self._write_all(self._order.feed(event))

    def _last_frames(self) -> list[FrameT]:
        frames = self._write_all(self._order.close())
        return frames if self._closed else frames + self._cut_off()

    def _write_all(self, events: Iterable[Event]) -> list[FrameT]:
        return [frame for event in events for frame in self._write(event)]

    def _write(self, event: Event) -> list[FrameT]:
        if self._closed:
            return []
        if isinstance(event, ReplyStarted):
            self._model = event.model or self._model
            self._id = event.id or self._id
            return self._begin()
        if isinstance(event, UsageReported):
            self._usage = event.usage
            return []
        frames = self._begin()
        if isinstance(event, ReplyFailed):
            return frames + self._fail(event.failure)
        if isinstance(event, ReplyEnded):
            if self._refuses and not self.has_refusals:
                event = replace(event, stop=stop_of_refusal(event.stop))
            return frames + self._end(event)
        self._refuses = self._refuses or isinstance(event, RefusalDelta)
        return frames + self._write_part(event)

    def _begin(self) -> list[FrameT]:
        if self._started:
            return []
        self._started = True
        return self._start()

    # ---- methods of a wire ------------------------------------------------------------------------------------------

    def _encode(self, frame: FrameT) -> bytes:
        """Encode a frame; by default, as a server-sent event with the type of the frame as its name."""
        fields: Any = frame
        return framing.encode_sse(fields["type"], write(fields))

    def _start(self) -> list[FrameT]:
        """Return the first frames."""
        return []

    @abstractmethod
    def _write_part(self, event: Event) -> list[FrameT]:
        """Return the frames of an event that is content of the reply."""

    @abstractmethod
    def _end(self, event: ReplyEnded) -> list[FrameT]:
        """Return the frames that end a reply; the writer is then closed."""

    @abstractmethod
    def _fail(self, failure: Failure) -> list[FrameT]:
        """Return the frames of a reply that failed."""

    def _cut_off(self) -> list[FrameT]:
        """Return the frames of a reply whose events stopped before its end."""
        return self._begin() + self._fail(NO_END)
