"""Loose mode as a stage: searches the text that the engine found no call in for calls without markers.

The stage follows the engine. Plain lines pass at once. From the first bracket or fence on, the stage holds the text
until the reply ends, because only the whole reply shows whether a call in prose is a call or an example. If the engine
has found a call by its markers, the rest stays text: a model that uses its format does not need loose mode.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from dragoman.events import ArgumentsDelta, CallBroken, CallEnded, CallStarted, Event, TextDelta
from dragoman.formats.cursor import Cursor
from dragoman.formats.loose import Found, find_calls
from dragoman.formats.nonce import NONCE, STALE_NONCE
from dragoman.formats.notation import write_strict_json
from dragoman.formats.parser import Parser
from dragoman.formats.plan import Plan
from dragoman.toolset import Toolset
from dragoman.types import Provenance, ToolCall

_bracket = re.compile(r"[(\[{`]").search
_BLANK_LIMIT = 1000


class LooseParser:
    """A stage that turns pieces of text into events, including calls without markers."""

    def __init__(self, engine: Parser, read_message: Callable[[str, Toolset | None], list[Found]]) -> None:
        """`read_message` reads a message that the scanner cannot read."""
        self._engine = engine
        self._read_message = read_message
        self._seen: list[Event] = []  # everything so far, for the final scan
        self._held: list[Event] = []
        self._holding = False
        self._line: list[str] = []  # the line that has not ended
        self._lines: list[str] = []  # the last line that is not blank, and the blank lines after it
        self._blanks = 0
        self._reported = 0

    def feed(self, piece: str, /) -> list[Event]:
        out: list[Event] = []
        for event in self._engine.feed(piece):
            self._take(event, out)
        return out

    def close(self, rest: str = "") -> list[Event]:
        out: list[Event] = []
        for event in self._engine.close(rest):
            self._take(event, out)
        self._hold()
        if not any(isinstance(event, CallEnded) for event in self._seen):
            self._held = self._insert(self._find())
        return out + self._held

    # ---- what may pass -----------------------------------------------------------------------------------------------

    def _take(self, event: Event, out: list[Event]) -> None:
        self._seen.append(event)
        if self._holding:
            self._held.append(event)
        elif not isinstance(event, TextDelta) or event.received is not None:
            self._hold()
            self._held.append(event)
        elif _bracket(event.text):
            self._line.append(event.text)
            self._hold()
        else:
            self._pass_lines(event.text, out)

    def _pass_lines(self, text: str, out: list[Event]) -> None:
        *ended, rest = text.split("\n")
        for end in ended:
            self._line.append(end + "\n")
            line = "".join(self._line)
            self._line = []
            if not line.isspace():
                self._release(out)
            self._lines.append(line)
            self._blanks = self._blanks + len(line) if line.isspace() else 0
            if self._blanks > _BLANK_LIMIT:
                self._release(out)
        if rest:
            self._line.append(rest)

    def _release(self, out: list[Event]) -> None:
        if self._lines:
            out.append(TextDelta("".join(self._lines)))
        self._lines = []
        self._blanks = 0

    def _hold(self) -> None:
        """Hold all text from here on, and the line before: it may be the name of the tool."""
        if not self._holding:
            self._holding = True
            text = "".join((*self._lines, *self._line))
            self._held = [TextDelta(text)] if text else []

    # ---- the final scan --------------------------------------------------------------------------------------------

    def _find(self) -> list[Found]:
        text = "".join([event.text for event in self._seen if isinstance(event, TextDelta)])
        return find_calls(text, self._engine.tools) or self._read_message(text, self._engine.tools)

    def _insert(self, found: list[Found]) -> list[Event]:
        """Return the held events, with the calls in place of their text."""
        if not found:
            return self._held
        if all(type(event) is TextDelta and event.received is None for event in self._seen):
            return self._insert_into_text(found)
        raw = "".join([event.raw for event in self._held if hasattr(event, "raw")])
        received = "".join([event.raw for event in self._seen if hasattr(event, "raw")])
        places = _Places(self._seen)
        held_from = len(received) - len(raw)
        spans = [(places.locate(one.start), places.locate(one.end - 1) + 1) for one in found]
        spans = [(start, end) for start, end in spans if start >= held_from]
        out: list[Event] = []
        position = held_from
        queue = list(zip(spans, found[len(found) - len(spans) :], strict=True))
        for event in self._held:
            if not hasattr(event, "raw"):
                out.append(event)
                continue
            end = position + len(event.raw)
            self._replace(event, position, end, queue, received, out)
            position = end
        return _renumber(out)

    def _insert_into_text(self, found: list[Found]) -> list[Event]:
        """The common case: the whole reply is text, so offsets in the text are offsets in the input."""
        text = "".join([event.text for event in self._seen if isinstance(event, TextDelta)])
        position = len(text) - sum(len(event.text) for event in self._held if isinstance(event, TextDelta))
        out: list[Event] = []
        for one in found:
            if one.start < position:
                continue
            if one.start > position:
                out.append(TextDelta(text[position : one.start]))
            out.extend(self._report(one, (one.start, one.end), text[one.start : one.end]))
            position = one.end
        if position < len(text):
            out.append(TextDelta(text[position:]))
        return out

    def _replace(
        self,
        event: Event,
        start: int,
        end: int,
        queue: list[tuple[tuple[int, int], Found]],
        received: str,
        out: list[Event],
    ) -> None:
        """Return the rest of an event without the calls that overlap it."""
        position = start
        for (call_start, call_end), one in queue:
            if call_end <= position or call_start >= end:
                continue
            if call_start > position:
                out.append(_part(event, received[position:call_start]))
            if call_start >= start:
                out.extend(self._report(one, (call_start, call_end), received[call_start:call_end]))
            position = min(end, call_end)
        if position < end or end == start:
            out.append(event if position == start else _part(event, received[position:end]))

    def _report(self, one: Found, span: tuple[int, int], raw: str) -> list[Event]:
        index = self._reported
        self._reported += 1
        call = _make_call(one, index, span, raw)
        return [
            CallStarted(index, call.name, call.id),
            ArgumentsDelta(index, write_strict_json(call.arguments)),
            CallEnded(index, call),
        ]


def find_more(events: Sequence[Event], tools: Toolset | None, plan: Plan) -> list[ToolCall]:
    """Return the calls that loose mode finds in a text; `events` are the result of `auto`, whose plan is `plan`.

    The engine does not run again, and text without a bracket contains no call. A call that `auto` read without a
    marker becomes text again, as in loose mode, so the result may contain a call that `auto` found.
    """
    if not any(isinstance(event, TextDelta) and _bracket(event.text) for event in events):
        return []
    plain = [_unread(event, plan) for event in events]
    if any(isinstance(event, CallEnded) for event in plain):
        return []
    received = "".join([event.raw for event in plain if hasattr(event, "raw")])
    text = "".join([event.text for event in plain if isinstance(event, TextDelta)])
    places = _Places(plain)
    calls: list[ToolCall] = []
    for index, one in enumerate(find_calls(text, tools)):
        span = (places.locate(one.start), places.locate(one.end - 1) + 1)
        calls.append(_make_call(one, index, span, received[slice(*span)]))
    return calls


def _unread(event: Event, plan: Plan) -> Event:
    """Convert a call that loose mode leaves to the loose scanner to text; return any other event unchanged."""
    if isinstance(event, CallEnded):
        read = event.call.provenance
        if read is not None and read.region == "marked":
            return event  # loose mode reads it as well
        format = read.format if read is not None else ""
    elif isinstance(event, CallBroken):
        format = event.format
    else:
        return event
    return TextDelta(event.raw) if format in (NONCE, STALE_NONCE) or _is_unmarked(format, event.raw, plan) else event


def _is_unmarked(format: str, raw: str, plan: Plan) -> bool:
    """Whether an entry that loose mode does not use has read this; some formats have entries of both kinds."""
    readers = [reader for reader in (*plan.line_entries, *plan.message_entries) if reader.format == format]
    written = raw.lstrip()
    if not readers or written.startswith(tuple(plan.openers)):
        return False
    kept = (reader for reader in readers if getattr(reader, "is_read_loosely", False))
    cursor = Cursor(None)
    cursor.text, cursor.final = written, True
    return not any(reader.begins(cursor, 0) for reader in kept)


def _make_call(one: Found, index: int, span: tuple[int, int], raw: str) -> ToolCall:
    return ToolCall(
        id=f"call_{index + 1}",
        name=one.name,
        arguments=one.arguments,
        known_tool=one.known_tool,
        repairs=one.repairs,
        changes=one.changes,
        provenance=Provenance("text", "loose", span, one.region),
        raw=raw,
    )


def _renumber(events: list[Event]) -> list[Event]:
    """Number the calls in the order of the text: a broken call of the engine may follow a loose one."""
    index = -1
    renumbered: list[Event] = []
    for event in events:
        if isinstance(event, CallStarted):
            index += 1
        if isinstance(event, CallStarted | ArgumentsDelta | CallEnded) or (
            isinstance(event, CallBroken) and event.index is not None
        ):
            event = replace(event, index=index)
        renumbered.append(event)
    return renumbered


def _part(event: Event, text: str) -> Event:
    return TextDelta(text) if isinstance(event, TextDelta) else type(event)(text)  # type: ignore[call-arg,arg-type]


class _Places:
    """Maps offsets in the visible text to offsets in the text as received."""

    def __init__(self, events: list[Event]) -> None:
        self._texts: list[int] = []
        self._received: list[int] = []
        text = received = 0
        for event in events:
            if isinstance(event, TextDelta):
                self._texts.append(text)
                self._received.append(received)
                text += len(event.text)
            received += len(getattr(event, "raw", ""))

    def locate(self, offset: int) -> int:
        index = bisect_right(self._texts, offset) - 1
        return self._received[index] + offset - self._texts[index]
