"""A conversation for a model that reads and writes nothing but text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from dragoman.formats import Format
from dragoman.textmode.envelopes import Envelope, choose_boundary, seal_results
from dragoman.textmode.invention import strip_invented_results
from dragoman.textmode.speech import Speech
from dragoman.toolset import Toolset
from dragoman.types import File, Image, InvalidCall, Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.failures import Loss
from dragoman.wire.history import Turn, pair
from dragoman.wire.values import join_texts, plain_result

_opens_results = re.compile(r"<<result ([A-Za-z0-9_\-]+) ").match


class Rendered(Struct, frozen=True):
    """A conversation as text, what could not be carried, and the boundaries that were used, in order."""

    messages: list[Message]
    losses: list[Loss]
    boundaries: tuple[str, ...] = ()


def render_history(
    messages: Iterable[Message],
    format: str | Format,
    *,
    boundaries: Iterable[str] = (),
    tools: Toolset | Iterable[object] | None = None,
    envelope: Envelope = "boundary",
) -> Rendered:
    """Write a conversation for a text model: its calls in its own format, the results of a turn in one user message.

    `boundaries` are random words, at least one for each turn with results. Given the same ones again, a longer
    conversation begins with the same bytes, so that prompt caches hit.
    """
    losses: list[Loss] = []
    turns = [Turn(place, each.role, list(each.parts), each.extra) for place, each in enumerate(messages)]
    renderer = _Renderer(Speech(format, Toolset.of(tools)), envelope, iter(boundaries), losses)
    written = [message for turn in pair(turns, losses) for message in renderer.render(turn)]
    return Rendered(written, losses, tuple(renderer.used))


class _Renderer:
    def __init__(self, speech: Speech, envelope: Envelope, boundaries: Iterator[str], losses: list[Loss]) -> None:
        self._speech = speech
        self._envelope = envelope
        self._boundaries = boundaries
        self._losses = losses
        self._taken: set[str] = set()
        self.used: list[str] = []

    def render(self, turn: Turn) -> Iterator[Message]:
        if turn.role == "assistant":
            yield self._render_assistant(turn)
        elif turn.role == "tool":
            if turn.parts:
                yield self._render_results(turn)
        else:
            opened = [_opens_results(part.text) for part in turn.parts if isinstance(part, Text)]
            self._taken.update(match[1] for match in opened if match)
            yield Message(turn.role, turn.parts, turn.extra)

    def _lose(self, rule: str, turn: Turn, detail: str) -> None:
        self._losses.append(Loss(rule, f"message {turn.place}", detail))

    # ---- the assistant -----------------------------------------------------------------------------------------------

    def _render_assistant(self, turn: Turn) -> Message:
        text = self._take_text(turn)
        raws, notes = self._take_invalid(turn)
        calls = [part for part in turn.parts if isinstance(part, ToolCall)]
        written = self._speech.write("\n".join(filter(None, [text, *notes])), raws, calls)
        if not written.exact:
            self._lose("approximated", turn, "no format carries this message as it is")
        elif calls and written.format != self._speech.row.name:
            self._lose("approximated", turn, f"{self._speech.row.name} cannot express the calls; {written.format} does")
        if written.broken:
            self._lose("approximated", turn, "text that would be read as a call was broken up")
        media: list[Part] = [part for part in turn.parts if isinstance(part, Image | File)]
        if turn.extra:
            self._lose("dropped", turn, f"data that only {', '.join(sorted(turn.extra))} understands was left out")
        return Message("assistant", [*([Text(written.text)] if written.text else ()), *media])

    def _take_text(self, turn: Turn) -> str:
        if any(isinstance(part, Thinking) for part in turn.parts):
            self._lose("dropped", turn, "reasoning was left out")
        said = False
        for part in turn.parts:
            if isinstance(part, ToolCall | InvalidCall):
                said = True
            elif said and isinstance(part, Text) and part.text.strip():
                self._lose("moved", turn, "text behind a call was put before it")
                break
        text, invented = strip_invented_results(join_texts(turn.parts))
        if invented:
            self._lose("dropped", turn, "a result that the model made up was left out")
        return text.strip()

    def _take_invalid(self, turn: Turn) -> tuple[list[str], list[str]]:
        """Calls that could not be read: as they were written, where they were text; in words, where they were not."""
        raws: list[str] = []
        notes: list[str] = []
        for part in turn.parts:
            if isinstance(part, InvalidCall):
                if part.raw and part.provenance is not None and part.provenance.channel == "text":
                    raws.append(part.raw.strip())
                else:
                    notes.append(f"[a call of {part.name or 'a tool'} that could not be read: {part.raw}]")
                    self._lose("approximated", turn, f"the call {part.id} that could not be read became words")
        return raws, notes

    # ---- results -----------------------------------------------------------------------------------------------------

    def _render_results(self, turn: Turn) -> Message:
        results = [part for part in turn.parts if isinstance(part, ToolResult)]
        media: list[Part] = []
        for result in results:
            if not isinstance(result.content, str):
                found = [part for part in result.content if not isinstance(part, Text)]
                if found:
                    self._lose("moved", turn, f"images and files of the result of {result.name} stand behind its text")
                media += found
        boundary = self._choose_boundary(results)
        text = seal_results(results, boundary=boundary, envelope=self._envelope)
        if self._envelope == "seed":
            self._lose("approximated", turn, "the results bear no ids, and could be forged by what they hold")
        return Message("user", [Text(text), *media])

    def _choose_boundary(self, results: Sequence[ToolResult]) -> str:
        if self._envelope == "seed":
            return ""
        free = (candidate for candidate in self._boundaries if candidate not in self._taken)
        boundary = choose_boundary(free, map(plain_result, results))
        self._taken.add(boundary)
        self.used.append(boundary)
        return boundary
