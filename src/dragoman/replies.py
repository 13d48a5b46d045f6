"""Replies from events, and events from replies.

`fold(events)` builds the reply of a stream. Codecs decode whole bodies into the same events, so there is one definition
of a reply. `unfold(reply)` is the inverse: `fold(unfold(reply)) == reply` for every reply that was folded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import add
from typing import Any

import msgspec
from msgspec.structs import astuple

from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    PartEnded,
    PartReceived,
    RefusalDelta,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import (
    Failure,
    Fault,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Provenance,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

_encode = msgspec.json.Encoder().encode


def fold(events: Iterable[Event]) -> Reply:
    """Return the reply that consists of these events."""
    folding = ReplyFolder()
    for event in events:
        folding.add(event)
    return folding.reply()


class ReplyFolder:
    """Builds a reply from its events as they arrive. The reply so far is available at any time."""

    __slots__ = (
        "_calls",
        "_extra",
        "_failure",
        "_id",
        "_kind",
        "_model",
        "_parts",
        "_pieces",
        "_refused",
        "_stop",
        "_usage",
    )

    def __init__(self) -> None:
        self._parts: list[Part | CallStarted] = []
        self._kind = ""
        self._pieces: list[str] = []
        self._calls: dict[int, int] = {}  # index of a call -> position of its part
        self._refused: set[int] = set()  # positions of calls that started and do not count
        self._usage = Usage()
        self._stop: StopReason = "unknown"
        self._extra: dict[str, Any] = {}
        self._model = self._id = ""
        self._failure: Failure | None = None

    def add(self, event: Event) -> None:
        if type(event) is ArgumentsDelta:
            return  # a preview of `CallEnded`
        if isinstance(event, TextDelta):
            self._grow("text", event.text)
        elif type(event) is ThinkingDelta:
            self._grow("thinking", event.text)
        elif type(event) is PartEnded:
            if self._kind != event.kind:
                self._close()
                self._kind = event.kind
            self._close(event.extra)
        elif type(event) is CallStarted:
            self._close()
            self._calls[event.index] = len(self._parts)
            self._parts.append(event)
        elif type(event) is CallEnded:
            self._settle(event.index, event.call)
        elif type(event) is CallBroken:
            self._break(event)
        else:
            self._add_rare(event)

    def _add_rare(self, event: Event) -> None:
        if type(event) is PartReceived:
            self._close()
            self._parts.append(event.part)
        elif type(event) is UsageReported:
            self._usage = event.usage
        elif type(event) is ReplyStarted:
            self._model, self._id = event.model, event.id
        elif type(event) is ReplyFailed:
            self._failure = event.failure
        elif type(event) is CallRefused:
            if event.index in self._calls:
                self._refused.add(self._calls[event.index])
        elif type(event) is ReplyEnded:
            self._stop, self._extra = event.stop, event.extra
            if event.parts is not None:
                self._close()
                self._parts = list(event.parts)
                self._refused.clear()

    def reply(self) -> Reply:
        self._close()
        # A call without an end was truncated.
        counted = [part for place, part in enumerate(self._parts) if place not in self._refused]
        parts: list[Part] = [_cut(part) if isinstance(part, CallStarted) else part for part in counted]
        message = Message("assistant", parts)
        return Reply(message, self._usage, self._stop, self._extra, self._model, self._id, self._failure)

    def _grow(self, kind: str, text: str) -> None:
        if self._kind != kind:
            self._close()
            self._kind = kind
        self._pieces.append(text)

    def _close(self, extra: dict[str, Any] | None = None) -> None:
        if self._kind:
            text = "".join(self._pieces)
            if text or extra:
                self._parts.append(Text(text, extra or {}) if self._kind == "text" else Thinking(text, extra or {}))
            self._kind = ""
            self._pieces = []

    def _settle(self, index: int, part: ToolCall | InvalidCall) -> None:
        place = self._calls.get(index)
        if place is None:
            self._close()
            self._calls[index] = len(self._parts)
            self._parts.append(part)
        else:
            self._parts[place] = part

    def _break(self, event: CallBroken) -> None:
        started = self._parts[self._calls[event.index]] if event.index in self._calls else None
        identity = started.id if isinstance(started, CallStarted | InvalidCall) else ""
        provenance = Provenance("native", event.format)
        faults = (Fault("$", event.why),)
        broken = InvalidCall(
            identity,
            event.name or "",
            event.raw,
            faults,
            provenance,
            event.extra,
            event.wire_id,
            "truncated" if event.is_cut else "malformed",
        )
        self._settle(-1 - len(self._parts) if event.index is None else event.index, broken)


def _cut(started: CallStarted) -> InvalidCall:
    return InvalidCall(started.id, started.name, "", (Fault("$", "the call was cut off"),), kind="truncated")


def grow(part: Text | Thinking) -> Event:
    """Return the event that brings the whole text of a part."""
    if isinstance(part, Thinking):
        return ThinkingDelta(part.text)
    return RefusalDelta(part.text) if part.is_refusal else TextDelta(part.text)


def unfold(reply: Reply) -> list[Event]:
    """Return the events of a reply, each part in one piece."""
    events: list[Event] = [ReplyStarted(reply.model, reply.id)]
    ends: list[Event] = []
    for part in reply.message.parts:
        if isinstance(part, ToolCall | InvalidCall):
            _unfold_call(part, len(ends), events, ends)
        elif isinstance(part, Text | Thinking):
            if part.text:
                events.append(grow(part))
            events.append(PartEnded("text" if isinstance(part, Text) else "thinking", part.extra))
        elif not isinstance(part, ToolResult):
            events.append(PartReceived(part))
    events += ends
    if reply.failure is not None:
        events.append(ReplyFailed(reply.failure))
    events.append(UsageReported(reply.usage))
    events.append(ReplyEnded(reply.stop, reply.extra))
    return events


def _write(arguments: JsonObject) -> str:
    try:
        return _encode(arguments).decode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form, but JSON has an escape for it.
        return json.dumps(arguments, separators=(",", ":"))


def _unfold_call(part: ToolCall | InvalidCall, index: int, events: list[Event], ends: list[Event]) -> None:
    events.append(CallStarted(index, part.name, part.id))
    if isinstance(part, ToolCall):
        events.append(ArgumentsDelta(index, _write(part.arguments)))
        ends.append(CallEnded(index, part))
        return
    if part.raw:
        events.append(ArgumentsDelta(index, part.raw))
    format = part.provenance.format if part.provenance else ""
    why = "; ".join(fault.why for fault in part.faults)
    is_cut = part.kind == "truncated"
    ends.append(CallBroken(part.raw, why, (0, 0), format, part.name, index, part.extra, part.wire_id, is_cut))


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages."""
    return Usage(*map(add, astuple(one), astuple(other)))
