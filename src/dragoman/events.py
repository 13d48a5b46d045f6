"""The closed alphabet of events, in the order in which they may come.

    ReplyStarted?
      ( TextDelta | ThinkingDelta | MarkerDropped
      | CallStarted ArgumentsDelta* (CallEnded | CallBroken | CallRefused)
      | CallEnded | CallBroken | CallRefused )*
    UsageReported? ReplyEnded?

Laws, each a property test:

- *Conservation.* Joining `event.raw` of everything but `CallStarted` and `ArgumentsDelta` gives the text as received.
- *Fold.* Text, thinking and calls of a reply are the fold of its events, however the text was cut into pieces.
- `ArgumentsDelta.text`, joined, is the JSON of `call.arguments` whenever the call lists no repairs and no changes;
  otherwise `CallEnded.call` is the truth and the deltas were only a preview.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.types import JsonObject, StopReason, ToolCall, Usage


class ReplyStarted(Struct, frozen=True, gc=False):
    model: str = ""


class TextDelta(Struct, frozen=True, gc=False):
    text: str
    received: str | None = None
    """What stood in the text for it, when that is not `text` itself (an unwrapped `content` member)."""

    @property
    def raw(self) -> str:
        return self.text if self.received is None else self.received


class ThinkingDelta(Struct, frozen=True, gc=False):
    text: str

    @property
    def raw(self) -> str:
        return self.text


class MarkerDropped(Struct, frozen=True, gc=False):
    """Framing that is neither text nor call: section tags, think tags, blanks between two calls."""

    raw: str


class CallStarted(Struct, frozen=True, gc=False):
    index: int
    name: str
    id: str


class ArgumentsDelta(Struct, frozen=True, gc=False):
    index: int
    text: str


class CallEnded(Struct, frozen=True):
    index: int
    call: ToolCall

    @property
    def raw(self) -> str:
        return self.call.raw


class CallRefused(Struct, frozen=True):
    """A well-formed call in a place where calls do not count (inside thinking)."""

    call: ToolCall
    why: str

    @property
    def raw(self) -> str:
        return self.call.raw

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def arguments(self) -> JsonObject:
        return self.call.arguments


class CallBroken(Struct, frozen=True):
    """Text that began as a call and cannot be one: cut off, or past repair. `index` is set if it had started."""

    raw: str
    why: str
    span: tuple[int, int]
    format: str = ""
    name: str | None = None
    index: int | None = None


class UsageReported(Struct, frozen=True, gc=False):
    usage: Usage


class ReplyEnded(Struct, frozen=True, gc=False):
    stop: StopReason = "unknown"


Event = (
    ReplyStarted
    | TextDelta
    | ThinkingDelta
    | MarkerDropped
    | CallStarted
    | ArgumentsDelta
    | CallEnded
    | CallRefused
    | CallBroken
    | UsageReported
    | ReplyEnded
)
