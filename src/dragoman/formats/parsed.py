"""Events folded into what most callers want: text, thinking, calls, and what was refused or broken."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.events import CallBroken, CallEnded, CallRefused, Event, TextDelta, ThinkingDelta
from dragoman.types import ToolCall


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
    return Parsed(
        text="".join([event.text for event in kept if isinstance(event, TextDelta)]),
        thinking="".join([event.text for event in kept if isinstance(event, ThinkingDelta)]),
        calls=[event.call for event in kept if isinstance(event, CallEnded)],
        refused=[event for event in kept if isinstance(event, CallRefused)],
        broken=[event for event in kept if isinstance(event, CallBroken)],
        events=kept,
    )
