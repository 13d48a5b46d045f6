"""`EventOrder`: reorders events for the server side of a wire.

A codec may end all calls of a reply together, after text that followed them, and a repair can replace the deltas of
arguments. A client of the gateway assembles and runs what it receives. So it receives each call as a whole, once the
call is known to be correct, in the place where the call began.
"""

from __future__ import annotations

from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    MarkerDropped,
    PartEnded,
    PartReceived,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.replies import grow
from dragoman.types import InvalidCall, Reply, Text, Thinking, ToolCall, ToolResult


class EventOrder:
    """A stage from events to events: no `CallStarted`, no `ArgumentsDelta`, every `CallEnded` in its place.

    A broken call is never passed on as a call; a note in the text replaces it.
    """

    def __init__(self) -> None:
        self.queue: list[Event | int] = []
        """What waits for the end of a call; an index stands for such a call."""
        self._settled: dict[int, Event | None] = {}
        """The end of a call; None if it is left out."""
        self._open: set[int] = set()
        self._started = False

    def feed(self, event: Event, /) -> list[Event]:
        if isinstance(event, CallStarted):
            self._open.add(event.index)
            self.queue.append(event.index)
            return []
        if isinstance(event, ArgumentsDelta | MarkerDropped):
            return []
        if isinstance(event, CallRefused):
            return self._leave_out(event)
        if isinstance(event, ReplyStarted):
            if self._started:
                return []
            self._started = True
        if isinstance(event, CallEnded | CallBroken):
            return self._end(event)
        if self.queue:
            self.queue.append(event)
            return []
        return [event]

    def close(self) -> list[Event]:
        for index in self._open:
            self._settled[index] = TextDelta(describe_broken(None, "it was cut off"))
        self._open.clear()
        return self._flush()

    def _end(self, event: CallEnded | CallBroken) -> list[Event]:
        settled = event if isinstance(event, CallEnded) else TextDelta(describe_broken(event.name, event.why))
        if event.index is None or event.index not in self._open:
            self.queue.append(settled)
        else:
            self._open.discard(event.index)
            self._settled[event.index] = settled
        return self._flush()

    def _leave_out(self, event: CallRefused) -> list[Event]:
        if event.index is None or event.index not in self._open:
            return []
        self._open.discard(event.index)
        self._settled[event.index] = None
        return self._flush()

    def _flush(self) -> list[Event]:
        ready: list[Event] = []
        for place, entry in enumerate(self.queue):
            if isinstance(entry, int):
                if entry not in self._settled:
                    del self.queue[:place]
                    return ready
                settled = self._settled.pop(entry)
                ready += [] if settled is None else [settled]
            else:
                ready.append(entry)
        self.queue.clear()
        return ready


def unfold_in_order(reply: Reply) -> list[Event]:
    """Return the events of a whole reply, in the order of `EventOrder`."""
    events: list[Event] = [ReplyStarted(reply.model, reply.id)]
    for index, part in enumerate(reply.message.parts):
        if isinstance(part, ToolCall):
            events.append(CallEnded(index, part))
        elif isinstance(part, Text):
            events += [grow(part), PartEnded("text", part.extra)]
        elif isinstance(part, Thinking):
            events += [grow(part), PartEnded("thinking", part.extra)]
        elif isinstance(part, InvalidCall):
            events.append(TextDelta(describe_invalid(part)))
        elif not isinstance(part, ToolResult):
            events.append(PartReceived(part))
    failed = [ReplyFailed(reply.failure)] if reply.failure is not None else []
    return [*events, *failed, UsageReported(reply.usage), ReplyEnded(reply.stop, reply.extra)]


def describe_broken(name: str | None, why: str) -> str:
    """Return the note for a client that replaces a broken call."""
    return f"[A call of {name or 'a tool'} could not be passed on: {why}]"


def describe_invalid(part: InvalidCall) -> str:
    """The same note for the part of a whole reply."""
    return describe_broken(part.name, "; ".join(fault.why for fault in part.faults))
