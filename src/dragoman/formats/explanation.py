"""Explanations of a parse: what the parser did with every opener and near miss, and why."""

from __future__ import annotations

import re

from dragoman.errors import nearest
from dragoman.events import CallBroken, CallEnded, CallRefused, Event, TextDelta
from dragoman.formats.cursor import IMPROVISED
from dragoman.formats.improvised.attempts import find_attempts
from dragoman.formats.improvised.entry import read_message
from dragoman.formats.loose import find_calls
from dragoman.formats.loose.stage import LooseParser
from dragoman.formats.parser import Attempt, Parser
from dragoman.formats.plan import Plan
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

Explanation = Attempt

_tag_like = re.compile(
    r"</?[|｜]?[\w:.\-]*(?:tool|function|invoke|call)[\w:.\-]*[^<>\n]{0,60}>|```[\w\-]+|~~~[\w\-]+", re.I
)


def explain(text: str, plan: Plan, tools: Toolset | None, *, loose: bool = False) -> list[Explanation]:
    """Return what the parser did with every opener and near miss, in the order of the text."""
    attempts: list[Attempt] = []
    engine = Parser(plan, tools, attempts=attempts)
    stage = LooseParser(engine, read_message) if loose else engine
    events = stage.feed(text) + stage.close()
    taken = [explanation for event in events if (explanation := _explain_event(event)) is not None]
    covered = [explanation.span for explanation in taken]
    tried = [attempt for attempt in attempts if attempt.verdict == "text" and not _within(attempt.span, covered)]
    seen = covered + [attempt.span for attempt in tried]
    misses = [miss for miss in _near_misses(text, events, plan, tools, loose=loose) if not _within(miss.span, seen)]
    seen += [miss.span for miss in misses]
    misses += _unread(text, tools, seen) if plan.improvised is not None and tools is not None else []
    return sorted((*taken, *_merge(tried), *misses), key=lambda explanation: explanation.span)


def _unread(text: str, tools: Toolset, seen: list[tuple[int, int]]) -> list[Explanation]:
    """Explain what looks like a call of an offered tool and cannot be read."""
    starts = {start for start, _ in seen}
    found = find_attempts(text, tools, lambda span: span[0] in starts or _within(span, seen))
    return [
        Attempt(
            one.span, _shorten(text[slice(*one.span)]), IMPROVISED, "near miss", f"{one.name or 'no name'}: {one.why}"
        )
        for one in found
    ]


def _explain_event(event: Event) -> Explanation | None:
    if isinstance(event, CallEnded):
        return _explain_call(event.call, "call", "")
    if isinstance(event, CallRefused):
        return _explain_call(event.call, "refused", event.why)
    if isinstance(event, CallBroken):
        return Attempt(event.span, _shorten(event.raw), event.format, "broken", event.why)
    return None


def _explain_call(call: ToolCall, verdict: str, why: str) -> Explanation:
    assert call.provenance is not None
    notes = [why] if why else []
    notes.append(
        {True: "an offered tool", False: "a tool that was not offered", None: "no tools to compare with"}[
            call.known_tool
        ]
    )
    if call.provenance.region not in ("answer", "thinking"):
        notes.append(f"found in region {call.provenance.region}")
    if call.repairs:
        notes.append("repaired: " + ", ".join(call.repairs))
    if call.changes:
        notes.append("changed: " + ", ".join(f"{change.path} ({change.rule})" for change in call.changes))
    return Attempt(call.provenance.span, _shorten(call.raw.lstrip()), call.provenance.format, verdict, "; ".join(notes))


def _shorten(raw: str) -> str:
    line = raw.split("\n", 1)[0]
    return line if len(line) <= 40 else line[:37] + "..."


def _within(span: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    return any(start <= span[0] < end for start, end in others)


def _merge(attempts: list[Attempt]) -> list[Explanation]:
    """Merge the entries of an opener that several formats share, with the reason of each format."""
    merged: dict[tuple[int, int], Attempt] = {}
    for attempt in attempts:
        earlier = merged.get(attempt.span)
        if earlier is None:
            merged[attempt.span] = attempt
            continue
        why = f"{attempt.format}: {attempt.why}" if attempt.format else attempt.why
        first = f"{earlier.format}: {earlier.why}" if earlier.format else earlier.why
        merged[attempt.span] = Attempt(attempt.span, attempt.opener, "", "text", f"{first}; {why}")
    return list(merged.values())


def _near_misses(
    text: str, events: list[Event], plan: Plan, tools: Toolset | None, *, loose: bool
) -> list[Explanation]:
    """Find tags that no format has, and calls that only loose mode finds."""
    found: list[Explanation] = []
    position = 0
    for event in events:
        raw = getattr(event, "raw", "")
        if isinstance(event, TextDelta):
            for match in _tag_like.finditer(raw):
                span = (position + match.start(), position + match.end())
                guess = nearest(match.group(), [*plan.openers, *plan.section_ends])
                why = "none of the searched formats begins like this" + (f"; the nearest is {guess!r}" if guess else "")
                found.append(Attempt(span, _shorten(match.group()), "", "near miss", why))
        position += len(raw)
    if not loose and not any(isinstance(event, CallEnded) for event in events):
        for call in find_calls(text, tools):
            why = f"reads like a call of {call.name!r} in region {call.region}; only loose mode reads it"
            found.append(
                Attempt((call.start, call.end), _shorten(text[call.start : call.end]), "loose", "near miss", why)
            )
    return found
