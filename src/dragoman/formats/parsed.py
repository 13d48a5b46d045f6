"""Events folded into what most callers want: text, thinking, calls, and what was refused or broken."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    MarkerDropped,
    TextDelta,
    ThinkingDelta,
)
from dragoman.types import ToolCall

_PASSED_OVER = (ArgumentsDelta, CallStarted, MarkerDropped)


class Parsed(Struct, frozen=True):
    text: str
    thinking: str
    calls: list[ToolCall]
    refused: list[CallRefused]
    broken: list[CallBroken]
    events: list[Event]


def fold(events: Iterable[Event]) -> Parsed:
    """The reply that these events tell, however it was cut into pieces."""
    kept = list(events)
    text: list[str] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    refused: list[CallRefused] = []
    broken: list[CallBroken] = []
    for event in kept:
        # Most events are deltas of arguments, which the calls themselves hold: they are passed over first.
        if isinstance(event, _PASSED_OVER):
            continue
        if isinstance(event, TextDelta):
            text.append(event.text)
        elif isinstance(event, CallEnded):
            calls.append(event.call)
        elif isinstance(event, ThinkingDelta):
            thinking.append(event.text)
        elif isinstance(event, CallRefused):
            refused.append(event)
        elif isinstance(event, CallBroken):
            broken.append(event)
    return Parsed("".join(text), "".join(thinking), calls, refused, broken, kept)
