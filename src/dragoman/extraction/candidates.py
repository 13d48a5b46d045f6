"""Everything in a text that may be a call, with the region it stands in. Each stretch of text is used once."""

from __future__ import annotations

from msgspec import Struct

from dragoman import formats
from dragoman.events import CallBroken, CallEnded, CallRefused, Event, TextDelta
from dragoman.extraction.regions import Regions
from dragoman.toolset import Toolset
from dragoman.types import ToolCall


class Candidate(Struct, frozen=True):
    """A call that was found in text: where, and whether words follow it."""

    call: ToolCall
    region: str
    is_followed: bool = False
    is_taken: bool = True
    """Taken out of the text by the parser; others were only noticed and still stand in it."""


def span_of(call: ToolCall) -> tuple[int, int]:
    return call.provenance.span if call.provenance is not None else (0, 0)


def find_candidates(text: str, events: list[Event]) -> list[Candidate]:
    """The calls that the parser of the text reported, in order."""
    regions = Regions(text, [_span(event) for event in events if isinstance(event, CallEnded | CallBroken)])
    candidates: list[Candidate] = []
    # From the end, so that it is known for every call whether words follow.
    followed = False
    for event in reversed(events):
        if isinstance(event, TextDelta):
            followed = followed or bool(event.text.strip())
        elif isinstance(event, CallEnded):
            inside = event.call.provenance.region if event.call.provenance is not None else "answer"
            place = regions.find(span_of(event.call))
            region = place if place != "answer" else inside
            candidates.append(Candidate(event.call, region, followed and region != "message"))
        elif isinstance(event, CallRefused):
            candidates.append(Candidate(event.call, "thinking"))
    return candidates[::-1]


def find_loose(text: str, tools: Toolset | None, events: list[Event], *, starts_in_thinking: bool) -> list[Candidate]:
    """What looks like a call to somebody who looks hard, and was not used by any format."""
    if "{" not in text and "(" not in text:
        return []
    parsed = formats.parse(text, tools=tools, loose=True, starts_in_thinking=starts_in_thinking)
    taken = [_span(event) for event in events if isinstance(event, CallEnded | CallRefused | CallBroken)]
    return [
        Candidate(call, "loose", is_taken=False)
        for call in parsed.calls
        if not any(start < span_of(call)[1] and span_of(call)[0] < end for start, end in taken)
    ]


def _span(event: CallEnded | CallRefused | CallBroken) -> tuple[int, int]:
    return event.span if isinstance(event, CallBroken) else span_of(event.call)
