"""The types of events, and the order in which they occur.

    ReplyStarted?
      ( TextDelta | RefusalDelta | ThinkingDelta | MarkerDropped | PartEnded | PartReceived
      | CallStarted ArgumentsDelta* (CallEnded | CallBroken | CallRefused)
      | CallEnded | CallBroken | CallRefused )*
    ReplyFailed? UsageReported? ReplyEnded?

A codec delays `CallEnded` and `CallBroken` until the end of the whole reply: the connection may break after a call, and
then the calls before the break are discarded. So on a wire a call starts, its arguments arrive, the next call starts,
and all calls end together. The position of a call in the reply is the position of its start.

Invariants, each with a property test:

- *Conservation.* The joined `event.raw` of all events of a text format, except `CallStarted` and `ArgumentsDelta`, is
  the text as received.
- *Fold.* Text, thinking and calls of a reply are the fold of its events, for every way to split the text.
- The joined `ArgumentsDelta.text` is the JSON of `call.arguments` if the call has no repairs and no changes. Otherwise
  `CallEnded.call` is authoritative, and the deltas are only a preview.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from dragoman.types import Failure, File, Image, JsonObject, Part, StopReason, ToolCall, Usage


class ReplyStarted(Struct, frozen=True, gc=False):
    """A reply begins. `model` is the model that answers, and `id` is the provider's id of the reply."""

    model: str = ""
    id: str = ""


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of text for the user."""

    text: str
    received: str | None = None
    """The received text, if it differs from `text` (an unwrapped `content` member)."""

    @property
    def raw(self) -> str:
        """The piece as it was received."""
        return self.text if self.received is None else self.received


class RefusalDelta(TextDelta, frozen=True, gc=False):
    """Text that the provider marks as a refusal. OpenAI's wires have fields of their own for it."""


class ThinkingDelta(Struct, frozen=True, gc=False):
    """A piece of the model's reasoning."""

    text: str

    @property
    def raw(self) -> str:
        """The piece as it was received."""
        return self.text


class MarkerDropped(Struct, frozen=True, gc=False):
    """Framing that is neither text nor call: section tags, think tags, whitespace between two calls."""

    raw: str


class PartEnded(Struct, frozen=True):
    """A part of text or thinking is complete. `extra` holds the data that only its wire understands (a signature).

    A part without readable text (encrypted thinking) consists of this event alone.
    """

    kind: Literal["text", "thinking"]
    extra: dict[str, Any] = field(default_factory=dict)


class PartReceived(Struct, frozen=True):
    """A part that arrives in one piece, such as an image that the model generated."""

    part: Image | File


class CallStarted(Struct, frozen=True, gc=False):
    """A call begins: its name and id are known, its arguments follow. It may still turn out to be broken."""

    index: int
    name: str
    id: str


class ArgumentsDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call with this index. It is a preview: `CallEnded` has the arguments."""

    index: int
    text: str


class CallEnded(Struct, frozen=True):
    """A call is complete, repaired and validated."""

    index: int
    call: ToolCall

    @property
    def raw(self) -> str:
        """The text of the call as it was received."""
        return self.call.raw


class CallRefused(Struct, frozen=True):
    """A well-formed call that does not count: in a place where none do (inside thinking), or copied from a result."""

    call: ToolCall
    why: str
    index: int | None = None
    """Set if it had started."""

    @property
    def raw(self) -> str:
        """The text of the call as it was received."""
        return self.call.raw

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.call.name

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call."""
        return self.call.arguments


class CallBroken(Struct, frozen=True):
    """Text that began as a call and is none: truncated, or beyond repair. `index` is set if the call had started."""

    raw: str
    why: str
    span: tuple[int, int]
    format: str = ""
    name: str | None = None
    index: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    wire_id: str | None = None
    is_cut: bool = False
    """Whether the call was truncated: the model has to send it again, not to write it differently."""


class ReplyFailed(Struct, frozen=True):
    """The provider reported an error, or the connection ended before the reply did."""

    failure: Failure


class UsageReported(Struct, frozen=True, gc=False):
    """The number of tokens of the request and the reply, so far."""

    usage: Usage


class ReplyEnded(Struct, frozen=True):
    """The reply is over. `stop` is the reason."""

    stop: StopReason = "unknown"
    extra: dict[str, Any] = field(default_factory=dict)
    """Data about the end that only the wire understands, such as its own name of the reason."""
    parts: list[Part] | None = None
    """The parts of the message as `dragoman.stream` judged them, if the events alone would fold to others."""


Event = (
    ReplyStarted
    | TextDelta
    | RefusalDelta
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
"""What a translator returns for a reply."""
