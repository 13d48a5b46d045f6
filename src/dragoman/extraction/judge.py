"""Decides which calls of a reply count, which are refused and which are invalid; for whole and streamed replies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman import formats
from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.loader import load
from dragoman.errors import did_you_mean
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    MarkerDropped,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.extraction.echo import Allowance
from dragoman.extraction.mistakes import write_notice
from dragoman.extraction.regions import Regions, SpanList, is_in_sentence, is_shown
from dragoman.extraction.responses import ConversationContext, ParsedResponse, receive
from dragoman.extraction.suspects import (
    CONFIRMED,
    Suspect,
    find_near_misses,
    mark_call,
    suspect_call,
)
from dragoman.extraction.trust import Judgement, Profile, Situation, decide, find_level
from dragoman.formats.cursor import IMPROVISED
from dragoman.formats.envelope import read_parallel
from dragoman.formats.intent import has_placeholder
from dragoman.formats.registry import plan_for, reasoning_plan
from dragoman.formats.thinking import ORPHANS
from dragoman.providers.facts import find_generation
from dragoman.replies import fold
from dragoman.toolset import Toolset
from dragoman.types import Change, Failure, Fault, InvalidCall, InvalidKind, Provenance, Reply, Tool, ToolCall

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
    """A message to the model about refused calls and suspects; empty if there are none, or if it has received it."""
    suspects: list[Suspect] = field(default_factory=list)
    """Text that looks like a call of an offered tool and does not count as one."""


# --------------------------------------------------------------------------------------------------------------------
# The tool that a name refers to: the offered spelling, a name without its namespace, or an alias of the user.


class ToolNames:
    """The offered tools and the user's aliases. There are no built-in aliases.

    The parsers also accept aliases, so that bare calls under them are recognised. The calls get the name of the tool.
    """

    def __init__(self, tools: Toolset | Iterable[object] | None, aliases: Mapping[str, str] | None = None) -> None:
        self.tools = self.offered = Toolset.of(tools)
        self._aliases: dict[str, Tool] = {}
        if not aliases:
            return
        for alias, name in aliases.items():
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

    def names_of(self, name: str) -> list[str]:
        """Return the aliases of a tool."""
        return [alias for alias, tool in self._aliases.items() if tool.name == name]

    def rename(self, call: ToolCall) -> ToolCall:
        """Return the call with the offered spelling of its name."""
        if self.offered is None:
            return call
        tool = self.find(call.name)
        if tool is None:
            return call if call.known_tool is False else replace(call, known_tool=False)
        return call if call.name == tool.name and call.known_tool else replace(call, name=tool.name, known_tool=True)


# --------------------------------------------------------------------------------------------------------------------
# Every possible call in a text, with its region. Each part of the text is used once.


_QUOTES = "`'\"“”‘’ \t\r\n"


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
    if not any(isinstance(event, CallEnded | CallRefused) for event in events):
        return []
    regions, spans = Regions(text, _spans(events)), SpanList(_spans(events))
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
            region = "thinking" if event.call.id in drafts else place if place != "answer" else inside
            if (region == "answer" and is_in_sentence(text, span_of(event.call), spans)) or (
                followed and region in ("answer", "marked") and is_shown(text, span_of(event.call), spans)
            ):
                region = "sentence"
            candidates.append(Candidate(event.call, region, followed and region != "message"))
        elif isinstance(event, CallRefused):
            candidates.append(Candidate(event.call, "thinking"))
    return candidates[::-1]


def split_parallel(candidate: Candidate, book: ToolNames) -> list[Candidate]:
    """Return the candidates for the calls in a call of several tools at once; any other candidate alone.

    Each of them is judged as if it stood alone, in the place of the one call.
    """
    call = candidate.call
    inner = read_parallel(call.name, call.arguments) if "tool_uses" in call.arguments else []
    if not inner or book.find(call.name) is not None:
        return [candidate]
    return [
        replace(
            candidate,
            call=replace(
                call,
                id=call.id if not number else "",
                name=one.name,
                arguments=one.arguments,
                repairs=(*call.repairs, *one.repairs),
                known_tool=None if book.offered is None else book.find(one.name) is not None,
            ),
        )
        for number, one in enumerate(inner)
    ]


def _find_drafts(events: list[Event]) -> set[str]:
    """Return the ids of the calls before a token that closes reasoning which nothing opened: the prompt opened it."""
    drafts: set[str] = set()
    for event in events:
        if isinstance(event, ThinkingDelta):
            return set()
        if isinstance(event, CallEnded):
            drafts.add(event.call.id)
        elif isinstance(event, MarkerDropped) and event.raw.strip() in ORPHANS:
            return drafts
    return set()


def without_previews(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates without improvised calls that equal a call of a known format: they are its preview."""
    known = [one.call for one in candidates if not _is_improvised(one.call)]
    if len(known) == len(candidates) or not known:
        return candidates
    return [
        one
        for one in candidates
        if not _is_improvised(one.call)
        or not any(one.call.name == call.name and one.call.arguments == call.arguments for call in known)
    ]


def _is_improvised(call: ToolCall) -> bool:
    return call.provenance is not None and call.provenance.format == IMPROVISED


def find_loose(text: str, events: list[Event], settings: Settings) -> list[Candidate]:
    """Return calls that only a loose search finds and that no format has used."""
    if "{" not in text and "(" not in text:
        return []
    spans = _spans(events)
    if settings.format == "auto":
        from dragoman.formats.loose.stage import find_more

        found = find_more(events, settings.book.tools, plan_for("auto"))
    else:
        # Only one format was read; the loose search finds the calls of all others.
        inside = settings.starts_in_thinking
        found = formats.parse(
            text, tools=settings.book.tools, loose=True, starts_in_thinking=inside, more_thinking=True
        ).calls
    taken = SpanList(spans)
    free = [call for call in found if not taken.meets(span_of(call))]
    if not free:
        return []
    regions = Regions(text, [*spans, *(_without_quotes(text, span_of(call)) for call in free)])
    units = SpanList([*spans, *map(span_of, free)])
    return [Candidate(call, _loose_region(text, call, regions, units), is_taken=False) for call in free]


def _without_quotes(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Return the span of a loose call without the quotes and backticks around it, which belong to its region."""
    raw = text[span[0] : span[1]]
    start = span[0] + len(raw) - len(raw.lstrip(_QUOTES))
    return start, max(start, span[1] - len(raw) + len(raw.rstrip(_QUOTES)))


def _loose_region(text: str, call: ToolCall, regions: Regions, units: SpanList) -> str:
    """A profile may accept a loose call in a code block. Weak models put their calls there, after a sentence."""
    region = regions.find(_without_quotes(text, span_of(call)))
    if region == "answer" and is_in_sentence(text, span_of(call), units):
        return "sentence"
    return "loose" if region in ("answer", "fence") else region


def _spans(events: Iterable[Event]) -> list[tuple[int, int]]:
    """Return the spans of everything that the parser read as a call, also in reasoning and if it is malformed."""
    return [
        event.span if isinstance(event, CallBroken) else span_of(event.call)
        for event in events
        if isinstance(event, CallEnded | CallRefused | CallBroken)
    ]


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
    meant = did_you_mean(name, known)
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
_markup = re.compile(r"[^\w\s.,;!?'\"\-]|\n").search
"""Matches what plain prose in one line does not have. Without it, no text looks like a call."""
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
    text_calls: bool = True
    """Whether text is searched for calls. Reasoning is separated from it in any case."""


class Judge:
    """Judges one response."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._calls: list[ToolCall] = []
        self._refused: list[CallRefused] = []
        self._invalid: list[InvalidCall] = []
        self._suspects: list[Suspect] = []
        self._ids: set[str] = set(settings.background.ids)
        self._allowance: Allowance | None = None
        self._has_open_string = False

    @property
    def _echoes(self) -> Allowance:
        """The echo guard. It reads the conversation, so it is created for the first call in text."""
        if self._allowance is None:
            self._allowance = Allowance(self._settings.background.echoes)
        return self._allowance

    def judge(self, received: ParsedResponse, events: list[Event]) -> Extraction:
        """Return the extraction. `events` are those of the text parser; empty if the text is not parsed."""
        settings = self._settings
        for call in received.calls:
            self._settle(Candidate(call, "native"))
        for broken in received.invalid:
            self._invalid.append(self._identify(broken))
        if not events and not self._refused:
            return Extraction(received.text, received.thinking, self._calls, [], self._invalid, "", self._suspects)
        kept = {}
        for candidate in without_previews(find_candidates(received.text, events)):
            settled = [self._settle(one, is_cut=received.is_cut) for one in split_parallel(candidate, settings.book)]
            kept[id(candidate.call)] = any(settled)
        if events and settings.text_calls:
            self._suspect(received, events)
        for event in events:
            if isinstance(event, CallBroken):
                self._invalid.append(self._identify(read_broken(event)))
        text = _rebuild(received.text, events, kept)
        thinking = received.thinking + "".join(event.text for event in events if isinstance(event, ThinkingDelta))
        notice = ""
        if self._refused or self._suspects:
            background = settings.background
            new = [suspect for suspect in self._suspects if suspect.mark not in background.noticed]
            notice = write_notice(self._refused, new, background.told, settings.book.offered)
        return Extraction(text, thinking, self._calls, self._refused, self._invalid, notice, self._suspects)

    def _suspect(self, received: ParsedResponse, events: list[Event]) -> None:
        """Judge the calls that only a loose search finds, and note what looks like a call and was not read."""
        settings = self._settings
        taken = _spans(events)
        for candidate in find_loose(received.text, events, settings):
            self._settle(candidate, is_cut=received.is_cut)
            taken.append(span_of(candidate.call))
        rest = SpanList(taken).cut_out(received.text, 0, len(received.text)) if taken else received.text
        if _markup(rest) and not rest.isspace():
            self._suspects += find_near_misses(received.text, taken, settings.book.tools)

    def _settle(self, candidate: Candidate, *, is_cut: bool = False) -> bool:
        """Judge one call and store it. Return whether its text is removed from the answer."""
        settings = self._settings
        call = settings.book.rename(candidate.call)
        level = find_level(call, candidate.region, settings.family)
        if level in ("T4", "T3", "T2") and has_placeholder(call.arguments):
            level = "T1"
        if level == "T1" and _may_be_confirmed(candidate) and mark_call(call) in settings.background.noticed:
            # The model has received a notice about this call, and has repeated it.
            level, call = "T2", replace(call, repairs=(*call.repairs, CONFIRMED))
        # In a region where calls never count, validation is unnecessary.
        ready = call if level == "T0" else fit_call(call, settings.book, bare=level in ("T2", "T1"), is_cut=is_cut)
        if isinstance(ready, InvalidCall):
            if level == "T1":
                self._suspects.append(suspect_call(call, str(ready.faults[0]) if ready.faults else "it is not valid"))
                return False
            marked_invalid = replace(ready, provenance=_mark(ready.provenance, level, None, candidate))
            self._invalid.append(self._identify(marked_invalid))
            return True
        if ready is None:
            judgement = Judgement("refuse", "bare", "bare JSON needs its arguments")
        else:
            call, judgement = ready, self._decide(ready, level, candidate)
        marked = replace(call, provenance=_mark(call.provenance, level, judgement, candidate))
        if level == "T1" and _is_suspect(candidate, judgement):
            self._suspects.append(suspect_call(marked, judgement.why))
            return False
        if judgement.verdict == "refuse":
            self._refused.append(CallRefused(marked, judgement.why))
            return False
        self._calls.append(self._identify(marked))
        return candidate.is_taken

    def _decide(self, call: ToolCall, level: Any, candidate: Candidate) -> Judgement:
        settings = self._settings
        if level == "T5":
            return _NATIVE  # no other rule applies to it, and the echo search is the most expensive one
        self._has_open_string |= _OPEN_STRING in call.repairs
        # The content may use any name of the tool: the model's, an alias, or the offered one.
        echo = self._echoes.judge(call, (candidate.call.name, *settings.book.names_of(call.name)))
        return decide(
            Situation(
                level,
                settings.book.find(call.name),
                echo.kind,
                echo.source,
                candidate.is_followed,
                not settings.background.echoes.is_empty,
                # What follows a string without an end may be a part of it.
                (*call.repairs, _OPEN_STRING) if self._has_open_string else call.repairs,
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


_OPEN_STRING = "closed_string"


def _may_be_confirmed(candidate: Candidate) -> bool:
    """A model cannot confirm a call that it only talks about, or a wrapper with the nonce of another turn."""
    return candidate.region != "sentence" and not _has_stale_nonce(candidate.call)


def _has_stale_nonce(call: ToolCall) -> bool:
    return call.provenance is not None and call.provenance.format == formats.STALE_NONCE


def _is_suspect(candidate: Candidate, judgement: Judgement) -> bool:
    """Whether a call at T1 is a suspect: no rule but its form speaks against it."""
    return judgement.rule == "loose" and not _has_stale_nonce(candidate.call)


def _mark(given: Provenance | None, level: Any, judgement: Judgement | None, candidate: Candidate) -> Provenance:
    provenance = given or Provenance("native")
    verdict = None if judgement is None or judgement.verdict == "refuse" else judgement.verdict
    why = judgement.why if judgement is not None and verdict == "ask" else ""
    region = candidate.region if candidate.region not in ("native", "loose") else provenance.region
    return replace(provenance, level=level, verdict=verdict, why=why, region=region)


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
    if not settings.text_calls:
        return formats.Parser(reasoning_plan(), starts_in_thinking=settings.starts_in_thinking)
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


def _is_plain(text: str, settings: Settings) -> bool:
    """Whether a parser would only pass on a text in which no calls are searched for."""
    return settings.nonce is None and plan_for(settings.format, more_thinking=True).is_plain(text)


def _join_texts(events: list[Event]) -> list[Event]:
    """Return the events with each run of text in one piece: the judge looks at every event several times."""
    joined: list[Event] = []
    run: list[str] = []
    for event in events:
        if type(event) is TextDelta and event.received is None:
            run.append(event.text)
            continue
        if run:
            joined.append(TextDelta("".join(run)))
            run = []
        joined.append(event)
    if run:
        joined.append(TextDelta("".join(run)))
    return joined


RECOVERED = "failed_generation"
"""The repair of a call that was read out of a failure."""
_LAST = (UsageReported, ReplyFailed, ReplyEnded)
_PASSED = frozenset((ReplyStarted, ThinkingDelta, CallStarted, ArgumentsDelta, CallEnded))
"""The events of the wire that the extraction passes on as they are."""


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
        self._is_recovered = False
        self._unread: list[str] = []
        """Text of a whole reply that the parser gets at the end."""
        self.extraction = Extraction()

    def recovers(self, failure: Failure) -> bool:
        """Whether a failure contains the output of the model, which the server could not read. It is read instead."""
        return self.settings.text_calls and bool(find_generation(failure))

    def _recover(self, failure: Failure) -> list[Event]:
        """Read the output of the model in a failure, except for what has arrived before."""
        self._is_recovered = True
        generation, before = find_generation(failure) or "", "".join(self._texts)
        rest = generation[len(before) :] if generation.startswith(before) else f"\n{generation}"
        self._wire.append(TextDelta(rest))
        return self.feed(rest)

    def feed(self, piece: str | Event, /) -> list[Event]:
        """Take a piece of text, or an event of a wire, and return what is known after it."""
        if type(piece) in _PASSED:
            self._wire.append(piece)  # type: ignore[arg-type]
            return [piece]  # type: ignore[list-item]
        if isinstance(piece, TextDelta):
            self._wire.append(piece)
            return self._feed_text(piece.text)
        if isinstance(piece, str):
            return self._feed_text(piece)
        if isinstance(piece, ReplyFailed) and self.recovers(piece.failure):
            return self._recover(piece.failure)
        if self._is_recovered and isinstance(piece, ReplyEnded):
            piece = replace(piece, stop="end")
        self._wire.append(piece)
        if isinstance(piece, _LAST):
            # The parser may still hold text back, so the end comes after it.
            self._held.append(piece)
            return []
        return [piece]

    def feed_whole(self, events: Iterable[Event]) -> None:
        """Take the events of a whole reply. Its text is parsed at the end: a complete text costs less than pieces."""
        for event in events:
            if type(event) is TextDelta:
                self._wire.append(event)
                self._texts.append(event.text)
                self._unread.append(event.text)
            else:
                self.feed(event)

    def judge_native(self, text: str, thinking: str, calls: tuple[ToolCall, ...]) -> bool:
        """Judge a whole reply with native calls whose text needs no parser. Return False if it is not such a reply.

        Text beside native calls is never searched for calls, so only reasoning in it would need the parser.
        """
        settings = self.settings
        if not calls or not settings.native or settings.self_contained:
            return False
        if text and (settings.opens_thinking or settings.starts_in_thinking or not _is_plain(text, settings)):
            return False
        self.extraction = Judge(settings).judge(ParsedResponse(text, thinking, calls), [])
        return True

    def _feed_text(self, text: str) -> list[Event]:
        self._texts.append(text)
        if self._parser is None:
            self._parser = self._open_parser()
        events = self._parser.feed("".join([*self._unread, text]) if self._unread else text)
        self._unread = []
        self._events += events
        return events

    def _open_parser(self) -> formats.Parser | LooseParser:
        settings = self.settings
        if settings.opens_thinking and any(isinstance(event, ThinkingDelta) for event in self._wire):
            # The server sends the reasoning in a separate field, so the text contains none.
            settings = self.settings = replace(settings, opens_thinking=False)
        inside = settings.opens_thinking or settings.starts_in_thinking
        return open_parser(
            settings if inside is settings.starts_in_thinking else replace(settings, starts_in_thinking=inside)
        )

    @property
    def received(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def wire_events(self) -> Sequence[Event]:
        """The events of the wire so far, before the extraction."""
        return self._wire

    @property
    def reply(self) -> Reply:
        """The reply so far, as the wire sent it, before the extraction."""
        return self._reply if self._reply is not None else fold(self._wire)

    def close(self) -> list[Event]:
        """Return the rest: calls are judged when the whole reply is known. `extraction` has the verdict."""
        if self._parser is None and self._unread:
            self._parser = self._open_parser()
        events = self._parser.close("".join(self._unread)) if self._parser is not None else []
        self._events += events
        self._reply = fold(self._wire)
        received = receive(self._reply, self.settings.book.tools) if self._wire else ParsedResponse()
        received = replace(received, text="".join(self._texts))
        if self._is_recovered:
            # What the server read of the calls before it failed is part of the same output.
            received = replace(received, calls=(), invalid=())
        self.extraction = settle(received, _join_texts(self._events), self.settings)
        if self._is_recovered:
            calls = [replace(call, repairs=(*call.repairs, RECOVERED)) for call in self.extraction.calls]
            self.extraction = replace(self.extraction, calls=calls)
        return [*events, *self._held]
