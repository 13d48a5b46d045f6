"""The closed alphabet of events, in the order in which they may come.

    ReplyStarted?
      ( TextDelta | ThinkingDelta | MarkerDropped | PartEnded | PartReceived
      | CallStarted ArgumentsDelta* (CallEnded | CallBroken | CallRefused)
      | CallEnded | CallBroken | CallRefused )*
    ReplyFailed? UsageReported? ReplyEnded?

A wire holds `CallEnded` and `CallBroken` back until it has seen the end of the whole reply: a connection may break
behind a call, and what came before it is then to be thrown away. So there a call starts, its arguments come, the next
call starts; and all of them end together. A call stands in the reply where it started.

Laws, each a property test:

- *Conservation.* Joining `event.raw` of everything that a text format gives, but for `CallStarted` and
  `ArgumentsDelta`, is the text as received.
- *Fold.* Text, thinking and calls of a reply are the fold of its events, however the text was cut into pieces.
- `ArgumentsDelta.text`, joined, is the JSON of `call.arguments` whenever the call lists no repairs and no changes;
  otherwise `CallEnded.call` is the truth and the deltas were only a preview.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from dragoman.types import Failure, File, Image, JsonObject, Part, StopReason, ToolCall, Usage


class ReplyStarted(Struct, frozen=True, gc=False):
    model: str = ""
    id: str = ""


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


class PartEnded(Struct, frozen=True):
    """A part of text or thinking is complete, and this is what only its wire understands of it (a signature).

    A part of which nothing readable came (encrypted thinking) consists of this event alone.
    """

    kind: Literal["text", "thinking"]
    extra: dict[str, Any] = field(default_factory=dict)


class PartReceived(Struct, frozen=True):
    """A part that comes whole, such as an image that the model made."""

    part: Image | File


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
    """A well-formed call that does not count: in a place where none do (inside thinking), or copied from a result."""

    call: ToolCall
    why: str
    index: int | None = None
    """Set if it had started."""

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
    extra: dict[str, Any] = field(default_factory=dict)
    wire_id: str | None = None
    is_cut: bool = False
    """It broke off, so that the model has to send it again, rather than write it otherwise."""


class ReplyFailed(Struct, frozen=True):
    """The provider reported an error, or the connection ended before the reply did."""

    failure: Failure


class UsageReported(Struct, frozen=True, gc=False):
    usage: Usage


class ReplyEnded(Struct, frozen=True):
    stop: StopReason = "unknown"
    extra: dict[str, Any] = field(default_factory=dict)
    """What only the wire understands of the end, such as its own word for the reason."""
    parts: list[Part] | None = None
    """The parts of the message as they were judged, where `dragoman.stream` judged them otherwise than they came."""


Event = (
    ReplyStarted
    | TextDelta
    | ThinkingDelta
    | MarkerDropped
    | PartEnded
    | PartReceived
    | CallStarted
    | ArgumentsDelta
    | CallEnded
    | CallRefused
    | CallBroken
    | ReplyFailed
    | UsageReported
    | ReplyEnded
)
