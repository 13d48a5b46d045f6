"""A stage from the events of an endpoint to the events for a client, with calls found, repaired and judged. Pure.

The text of a reply is passed on as it arrives, up to the first character that may begin a call. From there on it is
held until the reply is over, because only a whole reply shows which calls count. The client then receives the rest of
the text and the calls. A client runs what it receives, so it never receives half a call:

| the endpoint sends | the client receives |
|---|---|
| a call in text that counts | a call |
| a call in text that does not count, or a suspect | its text, unchanged |
| a native call | the call, with repaired and coerced arguments |
| a native call that violates the schema | the call as it came: the client reports it |
| a native call of an unknown tool, or without a required argument | the call as it came, if the model repeats it |
| a native call that cannot be read, or a call that was cut off | a note in the text, if the model repeats it |
| a call in text of an unknown tool, or that cannot be read | its text, unchanged |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from dragoman.characters import is_blank
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    MarkerDropped,
    PartEnded,
    RefusalDelta,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.extraction import Extraction, Extractor
from dragoman.extraction.responses import ConversationContext
from dragoman.extraction.tool_mode import ComposedRequest, open_reader
from dragoman.pipeline.gate import MOST_HELD, TextGate
from dragoman.pipeline.repairs import RepairTurn, plan_repair
from dragoman.pipeline.requests import find_own_tools
from dragoman.replies import fold
from dragoman.types import Failure, InvalidCall, Message, StopReason, ToolCall, Usage
from dragoman.wire.registry import ROWS
from dragoman.wire.values import as_list

_CALLS = (CallEnded, CallBroken, CallRefused)
_STARTS = (CallStarted, *_CALLS)
_LATER = (ReplyStarted, ArgumentsDelta, *_CALLS, UsageReported, ReplyEnded, ReplyFailed)
"""A call follows as a whole, and the end of the reply after it."""
_PASSED = frozenset({TextDelta, ThinkingDelta, PartEnded, CallStarted})
"""What is passed on as it came, beside native calls."""


class Verdict(Struct, frozen=True):
    """The end of a reply."""

    events: list[Event]
    """What the client has not received yet, without the end of the reply."""
    calls: list[ToolCall]
    extraction: Extraction
    stop: StopReason = "unknown"
    extra: dict[str, Any] = {}
    usage: Usage = Usage()
    failure: Failure | None = None
    repair: RepairTurn | None = None
    """One more request, if the client cannot use the reply."""
    notes: tuple[str, ...] = ()
    received: Sequence[Event] = ()
    """The events of the reply as the endpoint sent them."""

    @property
    def is_blank(self) -> bool:
        """Whether the client cannot use the reply because it shows nothing."""
        return (
            self.repair is not None
            and not self.calls
            and not self.extraction.invalid
            and is_blank(self.extraction.text)
        )

    @property
    def message(self) -> Message:
        """The reply for the history of a repair turn."""
        parts = fold(self.received).message.parts
        return Message("assistant", [part for part in parts if not isinstance(part, ToolCall | InvalidCall)])


class ReplyTranslator:
    """Translates one reply. `feed` returns what the client may receive now, `close` returns the rest."""

    def __init__(
        self,
        composed: ComposedRequest,
        context: ConversationContext,
        *,
        is_single: bool = False,
        most_held: int = MOST_HELD,
    ) -> None:
        """`is_single` if the client accepts one call at most. Tools in text are sent without this option."""
        self._is_single = is_single
        self._composed = composed
        self._reader: Extractor = open_reader(composed, context)
        self._most_held = most_held
        # Only the profile that accepts calls in any place needs it: to the others such text is text.
        is_wide = self._reader.settings.profile.loose == "allow"
        self._gate = TextGate(composed.chosen_mode.tools.names if is_wide else ())
        self._received = 0
        """The characters of text that came."""
        self._passed = 0
        """The characters of text that the parser has decided on."""
        self._sent: list[str] = []
        self._held_from: int | None = None
        """Where the first possible call begins, in characters of the text."""
        self._is_released = False
        self._starts_late = False
        """A native call began while text before it was held. It and all calls after it follow the text."""
        self._has_refused = False
        self._failure: Failure | None = None
        self._heard: list[Event] = []
        """What the parser of the text reported, without previews."""
        self._native: list[Event] = []
        self._tail: list[Event] = []
        self._own: set[str] = set()
        """The tools that the client offers in the way of its vendor, once a call names an unknown one."""
        self._unfit: list[tuple[InvalidCall, ToolCall]] = []
        """The calls that are passed on as they came, although no client can run them."""

    def feed(self, event: Event, /) -> list[Event]:
        if isinstance(event, TextDelta):
            if isinstance(event, RefusalDelta):
                return self._pass_refusal(event)
            self._received += len(event.text)
            events = self._reader.feed(event)
            if len(events) == 1 and self._is_plain(events[0]):
                return self._pass_plain(events[0])
            return self._pass_text(event, events)
        if isinstance(event, ReplyFailed):
            if self._reader.recovers(event.failure):
                # The server could not read a call of its model, and says what the model wrote.
                read = self._reader.feed(event)
                self._received = len(self._reader.received)
                return self._pass_text(TextDelta(""), read)
            self._failure = event.failure
        if isinstance(event, _CALLS):
            self._native.append(event)
        passed = self._reader.feed(event)
        if isinstance(event, _LATER):
            return []
        if isinstance(event, CallStarted):
            # The client must see the text before the call first. It receives the call as a whole, also without this.
            self._starts_late = self._starts_late or self._holds_text
            return [] if self._starts_late else passed
        if self._held_from is not None:
            self._tail += passed
            return []
        return passed

    @property
    def _holds_text(self) -> bool:
        """Whether the client has not received all of the text that came."""
        is_undecided = not self._is_released and self._received > self._passed
        return self._held_from is not None or is_undecided or self._gate.holds

    def _pass_refusal(self, event: RefusalDelta) -> list[Event]:
        """The endpoint says that this text is no answer, so it is not searched for calls."""
        self._has_refused = True
        if self._held_from is None:
            return [event]
        self._tail.append(event)
        return []

    def _is_plain(self, event: Event) -> TypeGuard[TextDelta]:
        """Whether the text is passed on as it came, as by far the most is: nothing is held."""
        is_open = self._held_from is None and not self._is_released
        return type(event) is TextDelta and is_open and self._received - self._passed <= self._most_held

    def _pass_plain(self, event: TextDelta) -> list[Event]:
        self._heard.append(event)
        self._passed += len(event.raw)
        text = self._gate.feed(event.text)
        if not text:
            return []
        self._sent.append(text)
        return [event if event.received is None and text == event.text else TextDelta(text)]

    def _pass_text(self, event: TextDelta, events: Iterable[Event]) -> list[Event]:
        ready: list[Event] = []
        for each in events:
            if isinstance(each, _STARTS):
                if self._held_from is None:
                    self._held_from = self._passed
                if isinstance(each, _CALLS):
                    self._heard.append(each)
                    self._passed += len(each.raw)
            elif isinstance(each, ArgumentsDelta):
                continue
            else:
                self._heard.append(each)
                self._passed += len(getattr(each, "raw", ""))
                if self._held_from is None and not isinstance(each, MarkerDropped):
                    ready.append(each)
        if self._is_released:
            ready = [event] if event.text else []
        else:
            ready = [passed for each in ready for passed in self._pass_gate(each)]
        if self._is_released or self._gate.is_shut:
            pass
        elif self._held_from is None and self._received - self._passed > self._most_held:
            ready = self._release(ready)
        self._sent += [each.text for each in ready if isinstance(each, TextDelta)]
        return ready

    def _pass_gate(self, event: Event) -> list[Event]:
        if not isinstance(event, TextDelta):
            return [event]
        text = self._gate.feed(event.text)
        return [TextDelta(text)] if text else []

    def _release(self, ready: list[Event]) -> list[Event]:
        """Stop to hold text: so much of it came without the beginning of a call that it is an answer."""
        self._is_released = True
        waiting = self._gate.close() + self._reader.received[self._passed :]
        return [*ready, TextDelta(waiting)] if waiting else ready

    def translate(self, events: Sequence[Event]) -> tuple[list[Event], Verdict]:
        """Translate a reply that arrived whole. Return what `feed` and what `close` return for it."""
        native = self._read_native(events)
        if native is not None:
            return native
        return [passed for event in events for passed in self.feed(event)], self.close()

    def _read_native(self, events: Sequence[Event]) -> tuple[list[Event], Verdict] | None:
        """Translate a reply with native calls whose text is passed on as it came; None if it is not such a reply."""
        ready: list[Event] = []
        text = thinking = ""
        calls: list[ToolCall] = []
        usage, end = Usage(), ReplyEnded()
        for event in events:
            kind = type(event)
            if type(event) is CallEnded and event.call.complete:
                self._native.append(event)
                calls.append(event.call)
            elif type(event) is UsageReported:
                usage = event.usage
            elif type(event) is ReplyEnded:
                end = event
            elif kind in _PASSED:
                ready.append(event)
                if type(event) is TextDelta:
                    text += event.text
                elif type(event) is ThinkingDelta:
                    thinking += event.text
            elif kind is not ReplyStarted and kind is not ArgumentsDelta:
                calls.clear()
                break
        if not self._reader.judge_native(text, thinking, tuple(calls)):
            self._native.clear()
            return None
        found = self._accept_own(self._reader.extraction)
        chosen, ends, notes = self._choose(found)
        return ready, self._conclude(events, found, chosen, ends, notes, (end.stop, end.extra, usage))

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> Verdict:
        """Judge the reply, and return what the client has not received."""
        before = len(self._sent)
        last = self._pass_text(TextDelta(""), self._reader.close())
        del self._sent[before:]
        found, reply = self._accept_own(self._reader.extraction), self._reader.reply
        if self._failure is not None:
            return self._fail(last)
        calls, ends, notes = self._choose(found)
        thoughts = [each for each in last if not isinstance(each, TextDelta | UsageReported | ReplyEnded)]
        events = [*thoughts, *self._write_rest(found, calls), *self._tail, *ends]
        received, end = self._reader.wire_events, (reply.stop, reply.extra, reply.usage)
        return self._conclude(received, found, calls, events, notes, end)

    def _conclude(
        self,
        received: Sequence[Event],
        found: Extraction,
        calls: list[ToolCall],
        events: list[Event],
        notes: list[str],
        end: tuple[StopReason, dict[str, Any], Usage],
    ) -> Verdict:
        stop, extra, usage = end
        repair = None
        if len(calls) == len(self._unfit) and not self._has_refused:
            repair = plan_repair(self._composed, received, found, self._unfit, events)
        if calls:
            stop = "tool_calls" if stop in ("end", "stop_sequence", "unknown") else stop
            extra = _without_reason(extra)
        elif self._has_refused and stop == "end":
            stop = "refusal"
        return Verdict(events, calls, found, stop, extra, usage, None, repair, tuple(notes), received)

    def _fail(self, last: list[Event]) -> Verdict:
        """A reply that broke off has no calls: nobody knows whether it would have had others."""
        texts: list[Event] = [each for each in last if isinstance(each, TextDelta) and each.text]
        if self._held_from is not None and not self._is_released:
            texts = [TextDelta(self._reader.received[self._held_from :])]
        return Verdict(texts, [], Extraction(), "error", {}, self._reader.reply.usage, self._failure)

    def _write_rest(self, found: Extraction, calls: list[ToolCall]) -> list[Event]:
        """Return the text that the client has not received, without the calls that were found in it."""
        sent = "".join(self._sent)
        whole = self._reader.received if self._is_released else self._rebuild(found, calls)
        rest = whole.removeprefix(sent)
        for call in calls:
            if call.provenance is not None and call.provenance.channel == "text" and call.raw:
                rest = _cut_out(rest, call.raw)
        if calls and not rest.strip():
            return []
        return [TextDelta(rest)] if rest else []

    def _rebuild(self, found: Extraction, calls: list[ToolCall]) -> str:
        """Return the text of the answer. A call that is not passed on is a part of it again."""
        if not found.invalid and not self._native:
            # Beside native calls the text was not read, so reasoning in it would be passed on a second time.
            return found.text
        taken = {call.raw for call in (*calls, *found.calls)}
        pieces = []
        for event in self._heard:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            elif (isinstance(event, CallEnded) and event.raw not in taken) or (
                isinstance(event, CallBroken) and not event.is_cut
            ):
                pieces.append(event.raw)
        return "".join(pieces)

    def _accept_own(self, found: Extraction) -> Extraction:
        """Return the extraction with the native calls of tools that the client offers in the way of its vendor."""
        if not any(call.kind == "unknown_tool" for call in found.invalid):
            return found
        self._own = find_own_tools(self._composed.request)
        known = {end.call.id: end.call for end in self._native if isinstance(end, CallEnded) and end.call.complete}
        own = [call for call in found.invalid if call.kind == "unknown_tool" and call.name in self._own]
        calls = [known[call.id] for call in own if call.id in known]
        rest = [call for call in found.invalid if call.id not in {call.id for call in calls}]
        return replace(found, calls=[*found.calls, *calls], invalid=rest)

    def _choose(self, found: Extraction) -> tuple[list[ToolCall], list[Event], list[str]]:
        """Return the calls for the client, the events that end them, and what was left out."""
        choice = self._composed.choice
        if not found.invalid and not self._is_single and choice.mode == "auto" and not choice.names:
            paired = _pair(self._native, found.calls)
            if paired is not None:
                return list(found.calls), paired, []
        # By two keys, of which the first call counts: a reply may have thousands of calls.
        known: dict[object, ToolCall] = {}
        for end in self._native:
            if isinstance(end, CallEnded):
                known.setdefault(end.call.id, end.call)
                known.setdefault((end.call.raw, end.call.name), end.call)
        calls = list(found.calls)
        notes: list[str] = []
        broken: list[InvalidCall] = []
        for invalid in found.invalid:
            # The client checks arguments and names itself, and tells the model what is wrong with them.
            received = known.get(invalid.id) or known.get((invalid.raw, invalid.name))
            if invalid.kind in ("bad_arguments", "unknown_tool") and received is not None and received.complete:
                calls.append(received)
                if self._is_useless(invalid, received):
                    self._unfit.append((invalid, received))
            elif invalid.kind == "truncated" or _is_native(invalid):
                broken.append(invalid)
        calls, left_out = self._obey(calls)
        kept = set(map(id, calls))
        self._unfit = [each for each in self._unfit if id(each[1]) in kept]
        notes += left_out
        ends: list[Event] = []
        natives = {end.call.id: end for end in self._native if isinstance(end, CallEnded)}
        started = [end.index for end in self._native if isinstance(end, CallBroken) and end.index is not None]
        for place, call in enumerate(calls):
            begun = natives.pop(call.id, None)
            ends.append(CallEnded(-1 - place if begun is None else begun.index, call))
        ends += [_break(each, started.pop(0) if started else None) for each in broken]
        ends += [CallRefused(end.call, "it is not passed on", end.index) for end in natives.values()]
        return calls, ends, notes

    def _is_useless(self, invalid: InvalidCall, received: ToolCall) -> bool:
        """Whether no client can run a call. Many clients accept other violations of a schema, such as null."""
        if invalid.kind == "unknown_tool":
            # If the client offers tools of its vendor, the name may be one that only the two know.
            return not self._own
        tool = self._composed.chosen_mode.tools.find(received.name)
        required = as_list(tool.parameters.get("required")) if tool is not None else []
        return any(name not in received.arguments for name in required)

    def _obey(self, calls: list[ToolCall]) -> tuple[list[ToolCall], list[str]]:
        """Return the calls that the tool choice of the request allows."""
        choice, notes = self._composed.choice, []
        if choice.mode == "none" and calls:
            notes.append(f"tool_choice is none: left out {', '.join(call.name for call in calls)}")
            return [], notes
        if choice.names:
            wrong = [call for call in calls if call.name not in choice.names]
            notes += [f"tool_choice does not allow {call.name}: left out" for call in wrong]
            calls = [call for call in calls if call.name in choice.names]
        if self._is_single and len(calls) > 1:
            notes.append(f"parallel calls are off: left out {', '.join(call.name for call in calls[1:])}")
            calls = calls[:1]
        return calls, notes


def _pair(sent: list[Event], calls: list[ToolCall]) -> list[Event] | None:
    """Return the ends of the calls that count, if these are the calls that the endpoint sent, one for one."""
    if len(sent) != len(calls):
        return None
    ends: list[Event] = []
    for end, call in zip(sent, calls, strict=True):
        if type(end) is not CallEnded or end.call.id != call.id:
            return None
        ends.append(CallEnded(end.index, call))
    return ends


def _is_native(call: InvalidCall) -> bool:
    return call.provenance is None or call.provenance.channel == "native"


def _without_reason(extra: dict[str, Any]) -> dict[str, Any]:
    """Return the data about the end of a reply without a reason that does not mean a call: the reply has calls."""
    if not extra:
        return extra
    kept: dict[str, Any] = {}
    for wire, own in extra.items():
        words = ROWS[wire].call_reasons if wire in ROWS else ()
        if isinstance(own, dict) and words and own.get("reason") not in words:
            own = {name: value for name, value in own.items() if name != "reason"}
        kept[wire] = own
    return kept


def _cut_out(text: str, raw: str) -> str:
    """Return a text without a call in it, unless words follow the call on its line: then the sentence needs it."""
    start = text.find(raw)
    end = start + len(raw)
    if start < 0 or text[end : end + 1].strip():
        return text
    return text[:start] + text[end:]


def _break(call: InvalidCall, index: int | None) -> CallBroken:
    why = "; ".join(fault.why for fault in call.faults)
    is_cut = call.kind == "truncated"
    return CallBroken(call.raw, why, (0, 0), "", call.name, index, call.extra, call.wire_id, is_cut)
