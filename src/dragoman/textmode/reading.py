"""A conversation that was written for a text model, made into calls and results again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.events import CallBroken, CallEnded
from dragoman.formats import Format
from dragoman.textmode.envelopes import Envelope, open_results
from dragoman.textmode.speech import Speech
from dragoman.toolset import Toolset
from dragoman.types import Fault, InvalidCall, Message, Part, Provenance, Text, ToolCall, ToolResult
from dragoman.wire.values import join_texts


def read_history(
    messages: Iterable[Message],
    format: str | Format,
    *,
    boundaries: Iterable[str] = (),
    tools: Toolset | Iterable[object] | None = None,
    envelope: Envelope = "boundary",
) -> list[Message]:
    """The conversation that `render_history` wrote: give it the same format and tools, and the boundaries it used.

    Only an envelope with the next of these boundaries holds results; whatever else looks like one is text.
    """
    reader = _Reader(Speech(format, Toolset.of(tools)), envelope, boundaries)
    for message in messages:
        reader.read(message)
    return reader.out


class _Reader:
    def __init__(self, speech: Speech, envelope: Envelope, boundaries: Iterable[str]) -> None:
        self._speech = speech
        self._envelope: Envelope = envelope
        self._expected = deque(boundaries)
        self._count = 0
        self.out: list[Message] = []

    def read(self, message: Message) -> None:
        if message.role == "assistant":
            self.out.append(Message("assistant", self._read_assistant(message)))
            return
        results: list[ToolResult] = []
        rest: list[Part] = []
        for part in message.parts:
            opened = self._open(part.text) if isinstance(part, Text) and message.role == "user" else []
            results += opened
            rest += [] if opened else [part]
        if results:
            self.out.append(Message("tool", self._match(results)))
        if rest or not results:
            self.out.append(Message(message.role, rest, message.extra))

    def _read_assistant(self, message: Message) -> list[Part]:
        parsed = self._speech.parse(join_texts(message.parts))
        text = self._speech.read_text(parsed)
        parts: list[Part] = [Text(text)] if text else []
        for event in parsed.events:
            if isinstance(event, CallEnded | CallBroken):
                self._count += 1
                parts.append(_as_part(event, f"call_{self._count}"))
        return [*parts, *(part for part in message.parts if not isinstance(part, Text))]

    def _open(self, text: str) -> list[ToolResult]:
        if self._envelope == "seed":
            follows = bool(self.out) and self.out[-1].role == "assistant"
            return open_results(text, envelope="seed") if follows else []
        if not self._expected:
            return []
        results = open_results(text, boundary=self._expected[0])
        if results:
            self._expected.popleft()
        return results

    def _match(self, results: list[ToolResult]) -> list[Part]:
        """Bring calls and results under one id: they stand in the same order, and most formats write no ids."""
        said = list(self.out[-1].parts) if self.out and self.out[-1].role == "assistant" else []
        places = [place for place, part in enumerate(said) if isinstance(part, ToolCall | InvalidCall)]
        if len(places) != len(results):
            return list(results)
        matched: list[Part] = []
        for place, result in zip(places, results, strict=True):
            call = said[place]
            assert isinstance(call, ToolCall | InvalidCall)
            if result.call_id:
                said[place] = replace(call, id=result.call_id)
            matched.append(result if result.call_id else replace(result, call_id=call.id))
        self.out[-1] = replace(self.out[-1], parts=said)
        return matched


def _as_part(event: CallEnded | CallBroken, identity: str) -> ToolCall | InvalidCall:
    if isinstance(event, CallEnded):
        return replace(event.call, id=identity)
    provenance = Provenance("text", event.format, event.span)
    return InvalidCall(identity, event.name or "", event.raw, (Fault("$", event.why),), provenance)
