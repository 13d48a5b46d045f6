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
    text: list[str] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    refused: list[CallRefused] = []
    broken: list[CallBroken] = []
    for event in kept:
        match event:
            case TextDelta():
                text.append(event.text)
            case CallEnded():
                calls.append(event.call)
            case ThinkingDelta():
                thinking.append(event.text)
            case CallRefused():
                refused.append(event)
            case CallBroken():
                broken.append(event)
    return Parsed("".join(text), "".join(thinking), calls, refused, broken, kept)
