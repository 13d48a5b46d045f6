"""Decides which calls of a reply count, which are refused and which are invalid; for whole and streamed replies."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman import formats
from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.loader import load
from dragoman.errors import nearest
from dragoman.events import (
    CallBroken,
    CallEnded,
    CallRefused,
    Event,
    MarkerDropped,
    ReplyEnded,
    ReplyFailed,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.extraction.echo import Echo
from dragoman.extraction.mistakes import write_notice
from dragoman.extraction.responses import ConversationContext, ParsedResponse, receive
from dragoman.extraction.trust import Judgement, Profile, Situation, decide, find_level
from dragoman.formats.thinking import ORPHANS
from dragoman.replies import fold
from dragoman.toolset import Toolset
from dragoman.types import Change, Fault, InvalidCall, InvalidKind, Provenance, Reply, Tool, ToolCall

if TYPE_CHECKING:
    from dragoman.formats.loose.stage import LooseParser


# --------------------------------------------------------------------------------------------------------------------
# The result of an extraction: the calls that count, those that do not, and why.


class Extraction(Struct, frozen=True):
    """`calls` may run (`provenance.verdict` is `allow`) or need an approval (`ask`). No other call may run."""

    text: str = ""
    thinking: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    refused: list[CallRefused] = field(default_factory=list)
    """Well-formed calls that do not count, with the reason. Their place is in `call.provenance`."""
    invalid: list[InvalidCall] = field(default_factory=list)
    """Calls that cannot run as written: malformed, truncated, of an unknown tool, or with invalid arguments."""
    notice: str = ""
    """A message to the model about refused calls; empty if there are none, or if the model has already received it."""


# --------------------------------------------------------------------------------------------------------------------
# The tool that a name refers to: the offered spelling, a name without its namespace, or an alias of the user.


class ToolNames:
    """The offered tools and the user's aliases. There are no built-in aliases.

    The parsers also accept aliases, so that bare calls under them are recognised. The calls get the name of the tool.
    """

    def __init__(self, tools: Toolset | Iterable[object] | None, aliases: Mapping[str, str] | None = None) -> None:
        self.offered = Toolset.of(tools)
        self._aliases: dict[str, Tool] = {}
        for alias, name in (aliases or {}).items():
            tool = self.offered.find(name) if self.offered is not None else None
            if tool is not None and (self.offered is None or self.offered.find(alias) is None):
                self._aliases[alias] = tool
        extra = [replace(tool, name=alias) for alias, tool in self._aliases.items()]
        self.tools = Toolset([*self.offered, *extra]) if extra and self.offered is not None else self.offered

    def find(self, name: str) -> Tool | None:
        """Return the offered tool that a name refers to."""
        if name in self._aliases:
            return self._aliases[name]
        return self.offered.find(name) if self.offered is not None else None

    def rename(self, call: ToolCall) -> ToolCall:
        """Return the call with the offered spelling of its name."""
        if self.offered is None:
            return call
        tool = self.find(call.name)
        if tool is None:
            return call if call.known_tool is False else replace(call, known_tool=False)
        return call if call.name == tool.name and call.known_tool else replace(call, name=tool.name, known_tool=True)


# --------------------------------------------------------------------------------------------------------------------
# The region of a call in a message: the answer, a quotation, or a code block that is not part of its format.

# The text after the opening backticks contains no backtick: otherwise it is inline code.
_fence = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)", re.MULTILINE).match
_blanks = re.compile(r"\s*").match
_quote = re.compile(r"[ \t]{0,3}>").match

Span = tuple[int, int]


class Regions:
    """The quotations and code blocks of a text, found once. Markers inside a call do not open or close anything."""

    def __init__(self, text: str, calls: Sequence[Span]) -> None:
        self._text = text
        self._calls = sorted(calls)
        self._starts = [start for start, _ in self._calls]
        self._fences = self._find_fences()
        self._fence_starts = [start for start, _ in self._fences]
        self._is_all = len(self._fences) == 1 and self._is_all_there_is(self._fences[0])

    def find(self, span: Span) -> str:
        """Return `answer`, `quote` or `fence`."""
        # Blanks before a call belong to it. The position of its first letter decides.
        start = _blanks(self._text, span[0]).end()  # type: ignore[union-attr]
        if _quote(self._text, self._text.rfind("\n", 0, start) + 1, start):
            return "quote"
        place = bisect_right(self._fence_starts, start) - 1
        if place < 0 or start >= self._fences[place][1]:
            return "answer"
        return "answer" if self._is_all else "fence"

    def _find_fences(self) -> list[Span]:
        fences: list[Span] = []
        opened: tuple[int, str] | None = None
        position = 0
        for line in self._text.splitlines(keepends=True):
            found = None if self._is_within_call(position) else _fence(line)
            if found and opened is None:
                opened = (position, found[1])
            elif (
                found
                and opened is not None
                and found[1].startswith(opened[1])  # the same character, at least as often
                and not found[2].strip()
            ):
                fences.append((opened[0], position + len(line)))
                opened = None
            position += len(line)
        if opened is not None:
            fences.append((opened[0], len(self._text)))
        return fences

    def _is_within_call(self, position: int) -> bool:
        place = bisect_right(self._starts, position) - 1
        return place >= 0 and position < self._calls[place][1]

    def _is_all_there_is(self, fence: Span) -> bool:
        """Whether the message is only this code block, and the block contains only calls, as weak models send them."""
        if self._text[: fence[0]].strip() or self._text[fence[1] :].strip():
            return False
        rest, position = "", fence[0]
        for start, end in self._calls:
            if fence[0] <= start < fence[1]:
                rest += self._text[position:start]
                position = end
        rest += self._text[position : fence[1]]
        return all(_fence(line) for line in rest.splitlines() if line.strip())


# --------------------------------------------------------------------------------------------------------------------
# Every possible call in a text, with its region. Each part of the text is used once.


class Candidate(Struct, frozen=True):
    """A call in text, its region, and whether text follows it."""

    call: ToolCall
    region: str
    is_followed: bool = False
    is_taken: bool = True
    """The parser removed it from the text. Otherwise it is still part of the text."""


def span_of(call: ToolCall) -> tuple[int, int]:
    return call.provenance.span if call.provenance is not None else (0, 0)


def find_candidates(text: str, events: list[Event]) -> list[Candidate]:
    """Return the calls that the parser of the text reported, in order."""
    regions = Regions(text, [_span(event) for event in events if isinstance(event, CallEnded | CallBroken)])
    candidates: list[Candidate] = []
    drafts = _find_drafts(events)
    # From the end, so that for every call it is known whether text follows.
    followed = False
    for event in reversed(events):
        if isinstance(event, TextDelta):
            followed = followed or bool(event.text.strip())
        elif isinstance(event, CallEnded):
            inside = event.call.provenance.region if event.call.provenance is not None else "answer"
            place = regions.find(span_of(event.call))
            region = "orphan_thinking" if event.call.id in drafts else place if place != "answer" else inside
            candidates.append(Candidate(event.call, region, followed and region != "message"))
        elif isinstance(event, CallRefused):
            candidates.append(Candidate(event.call, "thinking"))
    return candidates[::-1]


def _find_drafts(events: list[Event]) -> set[str]:
    """Return the ids of the calls before a tag that closes reasoning which nothing opened: the prompt opened it."""
    drafts: set[str] = set()
    for event in events:
        if isinstance(event, ThinkingDelta):
            return set()
        if isinstance(event, CallEnded):
            drafts.add(event.call.id)
        elif isinstance(event, MarkerDropped) and event.raw.strip() in ORPHANS:
            return drafts
    return set()


def find_loose(text: str, events: list[Event], settings: Settings) -> list[Candidate]:
    """Return calls that only a loose search finds and that no format has used."""
    if "{" not in text and "(" not in text:
        return []
    if settings.format == "auto":
        from dragoman.formats.loose.stage import find_more

        found = find_more(events, settings.book.tools)
    else:
        # Only one format was read; the loose search finds the calls of all others.
        inside = settings.starts_in_thinking
        found = formats.parse(
            text, tools=settings.book.tools, loose=True, starts_in_thinking=inside, more_thinking=True
        ).calls
    taken = [_span(event) for event in events if isinstance(event, CallEnded | CallRefused | CallBroken)]
    return [
        Candidate(call, "loose", is_taken=False)
        for call in found
        if not any(start < span_of(call)[1] and span_of(call)[0] < end for start, end in taken)
    ]


def _span(event: CallEnded | CallRefused | CallBroken) -> tuple[int, int]:
    return event.span if isinstance(event, CallBroken) else span_of(event.call)


# --------------------------------------------------------------------------------------------------------------------
# Validation of arguments against the schema of their tool, and reports on calls that cannot run.
#
# Each module that handles arguments does one part of the work, and coercion changes a value once:
#
# | where | decode and repair | coerce | validate | why there |
# |---|---|---|---|---|
# | `formats.cursor`, `formats.loose`, `wire.builder` | yes | yes | no | events show the call as it will run |
# | `fit_call`, here | no | only what was decoded without the tools | yes | the one check before a call counts |
# | `agent.turn`, `agent.approvals` | no | only changes of a hook or an approver | those | nobody checked them yet |
# | `tools.calls.bind` | no | no | no | converts valid JSON to Python values |
#
# A value that the parser or the codec has coerced is valid, and `coerce` returns a valid value unchanged.

_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input", "params", "argument", "parameter", "kwargs"})


def fit_call(call: ToolCall, book: ToolNames, *, bare: bool, is_cut: bool) -> ToolCall | InvalidCall | None:
    """Return the call with valid arguments, an InvalidCall with its faults, or None for bare JSON without arguments."""
    if is_cut and "closed_wrapper" in call.repairs:
        return _invalid(call, "truncated", (Fault("$", "the reply ended inside the call"),))
    if lacks_arguments(call):
        if bare:
            return None
        call = replace(call, changes=(*call.changes, Change("$", "null_arguments", None, {})))
    if book.offered is None:
        return call
    tool = book.find(call.name)
    if tool is None:
        return _invalid(call, "unknown_tool", (_name_fault(call.name, book),))
    loaded = load(call.arguments, tool)
    if loaded.errors or loaded.value is None:
        return _invalid(call, "bad_arguments", loaded.errors)
    if not loaded.changes and loaded.value == call.arguments:
        return call
    return replace(call, arguments=loaded.value, changes=(*call.changes, *loaded.changes))


def lacks_arguments(call: ToolCall) -> bool:
    """Whether a call in JSON has no arguments or null. An empty object counts as arguments."""
    if call.arguments:
        return False
    start = call.raw.find("{")
    if start < 0:
        return not call.raw and "null_arguments" in call.repairs
    try:
        value, _ = raw_decode(call.raw, start)
    except Undecodable:
        return False
    inner = value.get("function") if isinstance(value, dict) else None
    body = inner if isinstance(inner, dict) else value
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return False
    given = [body[key] for key in body if key in _ARGUMENTS]
    return not given or given[0] is None


def _name_fault(name: str, book: ToolNames) -> Fault:
    known = book.offered.names if book.offered is not None else ()
    guess = nearest(name, known)
    meant = f"; did you mean {guess!r}?" if guess else ""
    listed = ", ".join(known) or "none"
    return Fault("$.name", f"there is no tool named {name!r}{meant} (the tools are: {listed})")


def _invalid(call: ToolCall, kind: InvalidKind, faults: tuple[Fault, ...]) -> InvalidCall:
    return InvalidCall(call.id, call.name, call.raw, faults, call.provenance, call.extra, call.wire_id, kind)


def read_broken(event: CallBroken) -> InvalidCall:
    """Return what a parser could not read as an invalid call."""
    provenance = Provenance("text", event.format, event.span)
    faults = (Fault("$", event.why),)
    kind: InvalidKind = "truncated" if event.is_cut else "malformed"
    return InvalidCall("", event.name or "", event.raw, faults, provenance, kind=kind)


# --------------------------------------------------------------------------------------------------------------------
# The judge of a reply: which of its calls count, which are refused, and which cannot run.

_NATIVE = Judgement("allow", "level")
_AnyCall = TypeVar("_AnyCall", ToolCall, InvalidCall)


class Settings(msgspec.Struct, frozen=True):
    """How a reply is read and judged."""

    profile: Profile
    book: ToolNames
    background: ConversationContext
    native: bool = True
    self_contained: bool = False
    nonce: str | None = None
    family: tuple[str, ...] | None = None
    format: str = "auto"
    starts_in_thinking: bool = False
    opens_thinking: bool = False
    """The prompt template of the model opens the reasoning, so a reply begins inside it unless the server says
    otherwise: it gives reasoning in a field, or hides it, and then no closing tag comes."""


class Judge:
    """Judges one response."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._calls: list[ToolCall] = []
        self._refused: list[CallRefused] = []
        self._invalid: list[InvalidCall] = []
        self._ids: set[str] = set(settings.background.ids)

    def judge(self, received: ParsedResponse, events: list[Event]) -> Extraction:
        """Return the extraction. `events` are those of the text parser; empty if the text is not parsed."""
        settings = self._settings
        for call in received.calls:
            self._settle(Candidate(call, "native"))
        for broken in received.invalid:
            self._invalid.append(self._identify(broken))
        kept = {}
        for candidate in find_candidates(received.text, events):
            kept[id(candidate.call)] = self._settle(candidate, is_cut=received.is_cut)
        if events:
            for candidate in find_loose(received.text, events, settings):
                self._settle(candidate, is_cut=received.is_cut)
        for event in events:
            if isinstance(event, CallBroken):
                self._invalid.append(self._identify(read_broken(event)))
        text = _rebuild(received.text, events, kept)
        thinking = received.thinking + "".join(event.text for event in events if isinstance(event, ThinkingDelta))
        notice = write_notice(self._refused, settings.background.told) if self._refused else ""
        return Extraction(text, thinking, self._calls, self._refused, self._invalid, notice)

    def _settle(self, candidate: Candidate, *, is_cut: bool = False) -> bool:
        """Judge one call and store it. Return whether its text is removed from the answer."""
        settings = self._settings
        call = settings.book.rename(candidate.call)
        level = find_level(call, candidate.region, settings.family)
        # In a region where calls never count, validation is unnecessary.
        ready = call if level == "T0" else fit_call(call, settings.book, bare=level in ("T2", "T1"), is_cut=is_cut)
        if isinstance(ready, InvalidCall):
            if level == "T1":
                return False
            marked_invalid = replace(ready, provenance=_mark(ready.provenance, level, None, candidate))
            self._invalid.append(self._identify(marked_invalid))
            return True
        if ready is None:
            judgement = Judgement("refuse", "bare", "bare JSON needs its arguments")
        else:
            call, judgement = ready, self._decide(ready, level, candidate)
        marked = replace(call, provenance=_mark(call.provenance, level, judgement, candidate))
        if judgement.verdict == "refuse":
            self._refused.append(CallRefused(marked, judgement.why))
            return False
        self._calls.append(self._identify(marked))
        return candidate.is_taken

    def _find_echo(self, call: ToolCall, written: str) -> Echo:
        """Check for an echo under the name of the tool and under the name that the model wrote."""
        echoes = self._settings.background.echoes
        echo = echoes.judge(call)
        if written == call.name or echo.kind == "exact":
            return echo
        other = echoes.judge(replace(call, name=written))
        return other if other.kind != "none" else echo

    def _decide(self, call: ToolCall, level: Any, candidate: Candidate) -> Judgement:
        settings = self._settings
        if level == "T5":
            return _NATIVE  # no other rule applies to it, and the echo search is the most expensive one
        echo = self._find_echo(call, candidate.call.name)
        return decide(
            Situation(
                level,
                settings.book.find(call.name),
                echo.kind,
                echo.source,
                candidate.is_followed,
                not settings.background.echoes.is_empty,
                call.repairs,
            ),
            settings.profile,
        )

    def _identify(self, call: _AnyCall) -> _AnyCall:
        """Return the call with a unique id."""
        identity, number = call.id, 0
        while not identity or identity in self._ids:
            number += 1
            identity = f"call_{len(self._ids) + number}"
        self._ids.add(identity)
        return call if identity == call.id else replace(call, id=identity)


def _mark(given: Provenance | None, level: Any, judgement: Judgement | None, candidate: Candidate) -> Provenance:
    provenance = given or Provenance("native")
    verdict = None if judgement is None or judgement.verdict == "refuse" else judgement.verdict
    region = candidate.region if candidate.region not in ("native", "loose") else provenance.region
    return replace(provenance, level=level, verdict=verdict, region=region)


def _rebuild(text: str, events: list[Event], kept: Mapping[int, bool]) -> str:
    """Return the answer. Refused calls become text again, because the user may have asked to see them."""
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
    """Return the parser for the text of a reply, including this turn's nonce wrapper."""
    extra = [formats.nonce_format(settings.nonce)] if settings.nonce else []
    return formats.parser(
        settings.format,
        settings.book.tools,
        starts_in_thinking=settings.starts_in_thinking,
        more_thinking=True,
        extra=extra,
    )


def settle(received: ParsedResponse, events: Iterable[Event] | None, settings: Settings) -> Extraction:
    """Return the extraction of a response. `events` are those of its text, if it is already parsed."""
    if settings.self_contained:
        # Such a program runs its tools itself; its text is only text.
        return Extraction(received.text, received.thinking)
    if (received.calls or received.invalid) and settings.native:
        return Judge(settings).judge(received, [])
    if settings.opens_thinking and not settings.starts_in_thinking:
        return _settle_opened(received, events, settings)
    if events is None:
        events = open_parser(settings).close(received.text)
    return Judge(settings).judge(received, list(events))


def _settle_opened(received: ParsedResponse, events: Iterable[Event] | None, settings: Settings) -> Extraction:
    """Return the extraction if the prompt opened the reasoning: calls before its closing tag are drafts.

    A reply that ends normally without a closing tag has no reasoning in its text: the server removed it, or reasoning
    was off. Only such a text is parsed a second time, because calls inside reasoning are read differently.
    """
    if not received.thinking:
        inside = replace(settings, starts_in_thinking=True)
        read = list(open_parser(inside).close(received.text) if events is None else events)
        if received.is_cut or any(isinstance(event, TextDelta | MarkerDropped | CallEnded) for event in read):
            return Judge(inside).judge(received, read)
    return settle(received, None, replace(settings, opens_thinking=False))


# --------------------------------------------------------------------------------------------------------------------
# The same verdicts for a streamed reply.

_LAST = (UsageReported, ReplyFailed, ReplyEnded)


class Extractor:
    """A Stage for a streamed reply: feed it pieces of text, or the events of a wire.

    The result is equal to that of the whole reply. `feed` and `close` return events to display; `extraction` is
    available after `close`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Created for the first piece of text: most replies with native calls have none.
        self._parser: formats.Parser | LooseParser | None = None
        self._wire: list[Event] = []
        self._texts: list[str] = []
        self._events: list[Event] = []
        self._held: list[Event] = []
        self._reply: Reply | None = None
        self.extraction = Extraction()

    def feed(self, piece: str | Event, /) -> list[Event]:
        if isinstance(piece, str):
            self._texts.append(piece)
            if self._parser is None:
                self._parser = self._open_parser()
            events = self._parser.feed(piece)
            self._events += events
            return events
        self._wire.append(piece)
        if isinstance(piece, TextDelta):
            return self.feed(piece.text)
        if isinstance(piece, _LAST):
            # The parser may still hold text back, so the end comes after it.
            self._held.append(piece)
            return []
        return [piece]

    def _open_parser(self) -> formats.Parser | LooseParser:
        settings = self.settings
        if settings.opens_thinking and any(isinstance(event, ThinkingDelta) for event in self._wire):
            # The server sends the reasoning in a separate field, so the text contains none.
            settings = self.settings = replace(settings, opens_thinking=False)
        inside = settings.opens_thinking or settings.starts_in_thinking
        return open_parser(replace(settings, starts_in_thinking=inside))

    @property
    def reply(self) -> Reply:
        """The reply so far, as the wire sent it, before the extraction."""
        return self._reply if self._reply is not None else fold(self._wire)

    def close(self) -> list[Event]:
        events = self._parser.close() if self._parser is not None else []
        self._events += events
        self._reply = fold(self._wire)
        received = receive(self._reply, self.settings.book.tools) if self._wire else ParsedResponse()
        received = replace(received, text="".join(self._texts))
        self.extraction = settle(received, self._events, self.settings)
        return [*events, *self._held]
