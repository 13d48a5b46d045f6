"""Events folded into what most callers want: text, thinking, calls, and what was refused or broken."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

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
    parsed = Parsed("", "", [], [], [], kept)
    text: list[str] = []
    thinking: list[str] = []
    for event in kept:
        if isinstance(event, TextDelta):
            text.append(event.text)
        elif isinstance(event, CallEnded):
            parsed.calls.append(event.call)
        elif isinstance(event, ThinkingDelta):
            thinking.append(event.text)
        elif isinstance(event, CallRefused):
            parsed.refused.append(event)
        elif isinstance(event, CallBroken):
            parsed.broken.append(event)
    return replace(parsed, text="".join(text), thinking="".join(thinking))
