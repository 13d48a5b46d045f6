"""The judge of a reply: which of the calls in it count, which are refused, and which cannot be run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from dragoman import formats
from dragoman.events import CallBroken, CallEnded, CallRefused, Event, TextDelta, ThinkingDelta
from dragoman.extraction.candidates import Candidate, find_candidates, find_loose
from dragoman.extraction.conversations import Background
from dragoman.extraction.fitting import fit_call, read_broken
from dragoman.extraction.mistakes import write_notice
from dragoman.extraction.naming import NameBook
from dragoman.extraction.responses import Received
from dragoman.extraction.result import Extraction
from dragoman.trust.echo_index import Echo
from dragoman.trust.levels import find_level
from dragoman.trust.profiles import Judgement, Profile, Situation, decide
from dragoman.types import InvalidCall, Provenance, ToolCall

if TYPE_CHECKING:
    from dragoman.formats.loose.stage import LooseParser


_NATIVE = Judgement("allow", "level")


class Settings(msgspec.Struct, frozen=True):
    """How a reply is read and judged."""

    profile: Profile
    book: NameBook
    background: Background
    native: bool = True
    self_contained: bool = False
    nonce: str | None = None
    family: tuple[str, ...] | None = None
    format: str = "auto"
    starts_in_thinking: bool = False


class Judge:
    """Settles what a response amounts to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._calls: list[ToolCall] = []
        self._refused: list[CallRefused] = []
        self._invalid: list[InvalidCall] = []
        self._ids: set[str] = set(settings.background.ids)

    def judge(self, received: Received, events: list[Event]) -> Extraction:
        """`events` are those of the text's parser; empty where the text is not looked at."""
        settings = self._settings
        for call in received.calls:
            self._settle(Candidate(call, "native"))
        for broken in received.invalid:
            self._add_invalid(broken)
        kept = {}
        for candidate in find_candidates(received.text, events):
            kept[id(candidate.call)] = self._settle(candidate, is_cut=received.is_cut)
        if events:
            for candidate in find_loose(
                received.text, settings.book.tools, events, starts_in_thinking=settings.starts_in_thinking
            ):
                self._settle(candidate, is_cut=received.is_cut)
        for event in events:
            if isinstance(event, CallBroken):
                self._add_invalid(read_broken(event))
        text = _rebuild(received.text, events, kept)
        thinking = received.thinking + "".join(_thinking(event) for event in events)
        notice = write_notice(self._refused, settings.background.told) if self._refused else ""
        return Extraction(text, thinking, self._calls, self._refused, self._invalid, notice)

    def _settle(self, candidate: Candidate, *, is_cut: bool = False) -> bool:
        """Put a call where it belongs; whether its text stays out of the answer."""
        settings = self._settings
        call = settings.book.rename(candidate.call)
        level = find_level(call, candidate.region, settings.family)
        # Where calls never count nobody needs to know whether they would fit.
        ready = call if level == "T0" else fit_call(call, settings.book, bare=level in ("T2", "T1"), is_cut=is_cut)
        if isinstance(ready, InvalidCall):
            if level == "T1":
                return False
            self._add_invalid(replace(ready, provenance=_mark(ready.provenance, level, None, candidate)))
            return True
        judgement = Judgement("refuse", "bare", "bare JSON needs its arguments") if ready is None else None
        final = call if ready is None else ready
        judgement = judgement or self._decide(final, level, candidate)
        marked = replace(final, provenance=_mark(final.provenance, level, judgement, candidate))
        if judgement.verdict == "refuse":
            self._refused.append(CallRefused(marked, judgement.why))
            return False
        self._calls.append(self._identify(marked))
        return candidate.is_taken

    def _find_echo(self, call: ToolCall, written: str) -> Echo:
        """Whether content holds the call, under the name of its tool or under the one that the model wrote."""
        echoes = self._settings.background.echoes
        echo = echoes.judge(call)
        if written == call.name or echo.kind == "exact":
            return echo
        other = echoes.judge(replace(call, name=written))
        return other if other.kind != "none" else echo

    def _decide(self, call: ToolCall, level: Any, candidate: Candidate) -> Judgement:
        settings = self._settings
        if level == "T5":
            return _NATIVE  # no other rule applies to it, and looking for echoes would cost the most
        echo = self._find_echo(call, candidate.call.name)
        return decide(
            Situation(
                level,
                settings.book.find(call.name),
                echo.kind,
                echo.source,
                candidate.is_followed,
                not settings.background.echoes.is_empty,
            ),
            settings.profile,
        )

    def _identify(self, call: ToolCall) -> ToolCall:
        identity = self._new_id(call.id)
        return call if identity == call.id else replace(call, id=identity)

    def _add_invalid(self, call: InvalidCall) -> None:
        identity = self._new_id(call.id)
        self._invalid.append(call if identity == call.id else replace(call, id=identity))

    def _new_id(self, wanted: str) -> str:
        identity, number = wanted, 0
        while not identity or identity in self._ids:
            number += 1
            identity = f"call_{len(self._ids) + number}"
        self._ids.add(identity)
        return identity


def _mark(given: Provenance | None, level: Any, judgement: Judgement | None, candidate: Candidate) -> Provenance:
    provenance = given or Provenance("native")
    verdict = None if judgement is None or judgement.verdict == "refuse" else judgement.verdict
    region = candidate.region if candidate.region not in ("native", "loose") else provenance.region
    return replace(provenance, level=level, verdict=verdict, region=region)


def _thinking(event: Event) -> str:
    return event.text if isinstance(event, ThinkingDelta) else ""


def _rebuild(text: str, events: list[Event], kept: Mapping[int, bool]) -> str:
    """The answer: what refused calls consist of is words again, for somebody may have asked to see them."""
    if not events:
        return text
    pieces: list[str] = []
    for event in events:
        if isinstance(event, TextDelta):
            pieces.append(event.text)
        elif isinstance(event, CallEnded) and not kept.get(id(event.call), True):
            pieces.append(event.call.raw)
    return "".join(pieces)


def open_parser(settings: Settings) -> formats.Parser | LooseParser:
    """The parser for the text of a reply, this turn's nonce wrapper included."""
    extra = [formats.nonce_format(settings.nonce)] if settings.nonce else []
    return formats.parser(
        settings.format, settings.book.tools, starts_in_thinking=settings.starts_in_thinking, extra=extra
    )


def settle(received: Received, events: Iterable[Event] | None, settings: Settings) -> Extraction:
    """The extraction of a response. `events` are those of its text, if it was parsed already."""
    if settings.self_contained:
        # Such a program runs its tools itself; its text is text, whatever it looks like.
        return Extraction(received.text, received.thinking)
    if (received.calls or received.invalid) and settings.native:
        return Judge(settings).judge(received, [])
    if events is None:
        events = open_parser(settings).close(received.text)
    return Judge(settings).judge(received, list(events))
