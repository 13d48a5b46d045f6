"""What a tool parser inside an inference server does, without the server: text in pieces in, text and calls out.

A server sends what it is given, and cannot take anything back. So a call leaves as a whole, when it has ended: repairs
and the schema may still change its arguments until then, and a call that never ends stays text. Nothing else is lost
either: reasoning that the server did not separate, calls inside it, and broken calls leave as the text that the model
wrote. Only markers and end tokens of the format are dropped, and the blanks that separate a call from the text.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct

from dragoman import formats
from dragoman.errors import ConfigError
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    Event,
    MarkerDropped,
    TextDelta,
    ThinkingDelta,
)
from dragoman.formats.template import Literal, Many, Maybe, Node, compile_template
from dragoman.formats.thinking import ORPHANS, pairs
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

PREFIX = "dragoman"
_log = logging.getLogger("dragoman.integrations")
MOST_CALLS, MOST_ITEMS, DEEPEST = 16, 128, 5
"""The limits of a grammar on a server, where the model is large: wider than those for a small one."""


def parser_formats() -> dict[str, str]:
    """Return the names under which a server offers the parsers, each with its format: `dragoman` is `auto`."""
    formats.load_installed()
    return {PREFIX: "auto", **{f"{PREFIX}_{name}": name for name in formats.names()}}


def as_toolset(tools: Iterable[Any] | None) -> Toolset | None:
    """Return the tools of a request, which servers hold as objects of pydantic. None if there are none."""
    given = [tool.model_dump(exclude_none=True) if hasattr(tool, "model_dump") else tool for tool in tools or ()]
    return Toolset.of(given) if given else None


# ---- replies ---------------------------------------------------------------------------------------------------------


class Piece(Struct, frozen=True):
    """What a server may send now."""

    text: str = ""
    calls: Sequence[ToolCall] = ()


NOTHING = Piece()

_CLOSERS = dict(pairs(named=True))
_SUFFIXED = ("<think:", "</think:")
_LONGEST_MARKER = 200
_is_made_id = re.compile(r"call_\d+").fullmatch


class ServerReply:
    """Reads one reply. Every way to cut its text gives the same text and the same calls."""

    __slots__ = ("_blanks", "_closer", "_has_calls", "_has_text", "_marker", "_parser")

    def __init__(self, format: str, tools: Toolset | None, choice: Choice | None = None) -> None:
        is_replaced = choice is not None and not has_grammar(format)
        self._parser = formats.parser(format, tools, extra=[formats.get(DEFAULT)] if is_replaced else ())
        self._closer = ""
        self._marker = ""
        """What was dropped just before: the tag around calls. It is text if the call is."""
        self._blanks: list[str] = []
        """The blanks at the end of the text so far. They are sent if text follows."""
        self._has_text = self._has_calls = False

    def feed(self, text: str) -> Piece:
        """Return what the next piece of text completes."""
        events = self._parser.feed(text)
        if not events:
            return NOTHING
        if len(events) == 1:
            if type(events[0]) is TextDelta:
                return Piece(self._trim(events[0].text))
            if type(events[0]) is ArgumentsDelta:
                return NOTHING
        return self._collect(events)

    def close(self, rest: str = "") -> Piece:
        """Return what the end of the reply completes."""
        piece = self._collect(self._parser.close(rest))
        return piece if self._has_calls else Piece(piece.text + "".join(self._blanks))

    def _collect(self, events: Sequence[Event]) -> Piece:
        text = ""
        calls: list[ToolCall] = []
        for event in events:
            if isinstance(event, MarkerDropped) and not self._is_reasoning_tag(event.raw):
                self._marker = (self._marker + event.raw)[-_LONGEST_MARKER:]
                continue
            if isinstance(event, CallEnded):
                text += self._end_line()
                self._has_calls = True
                self._marker = ""
                calls.append(event.call)
            elif isinstance(event, CallBroken):
                text += self._trim(self._marker + event.raw)
            elif isinstance(event, TextDelta | ThinkingDelta):
                text += self._trim(event.text)
            elif isinstance(event, MarkerDropped | CallRefused):
                text += self._trim(event.raw)
        return Piece(text, calls)

    def _trim(self, text: str) -> str:
        """Return the text up to its last blanks, behind the blanks that were held. Blanks before a first call go."""
        self._marker = ""
        kept = text.rstrip()
        if not kept:
            self._blanks.append(text)
            return ""
        held = "".join(self._blanks)
        self._blanks = [text[len(kept) :]]
        if not self._has_text:
            self._has_text = True
            if self._has_calls:
                return kept.lstrip()
        return held + kept if held else kept

    def _end_line(self) -> str:
        """Return the blanks before a call that belong to the text: those on its line."""
        held = "".join(self._blanks)
        if not self._has_text or "\n" in held:
            return ""
        self._blanks = []
        return held

    def _is_reasoning_tag(self, raw: str) -> bool:
        tag = raw.strip()
        if tag in _CLOSERS:
            self._closer = _CLOSERS[tag]
            return True
        # Some closers also end other parts of a reply.
        return tag == self._closer or tag in ORPHANS or tag.startswith(_SUFFIXED)


def write_arguments(call: ToolCall) -> str:
    """Return the arguments as JSON that can be sent as UTF-8."""
    text = json.dumps(call.arguments, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(call.arguments)
    return text


def native_id(call: ToolCall) -> str | None:
    """Return the id that the model wrote; None if it wrote none."""
    return None if not call.id or _is_made_id(call.id) else call.id


_may_hold_call = re.compile(r"[{<\[(>|`:=]|\Aall\n").search  # the last one is a recipient of Functionary


def may_hold_call(text: str) -> bool:
    """Whether a text may contain a call of any format, for a server that asks before it parses."""
    return _may_hold_call(text) is not None


# ---- required and named calls ----------------------------------------------------------------------------------------


class Choice(Struct, frozen=True):
    """A tool choice that a grammar can enforce: any tool, or the one with this name."""

    name: str | None = None

    @classmethod
    def of(cls, given: Any) -> Choice | None:
        """Return the choice of a request; None if it does not require a call."""
        if given in ("required", "any"):
            return cls()
        inner = getattr(given, "function", given)
        name = getattr(inner, "name", None)
        return cls(name) if isinstance(name, str) and not isinstance(given, str) else None


DEFAULT = "hermes"
"""The format of required calls if the format of the parser has no grammar, or is not known."""


@cache
def has_grammar(format: str) -> bool:
    """Whether required calls can be held to this format."""
    if format == "auto":
        return True
    try:
        formats.grammar([{"name": "any"}], format, "gbnf", tool_choice="required")
    except ConfigError:
        return False
    return True


def find_grammar(format: str, tools: Toolset, choice: Choice, *, is_single: bool, template: str = "") -> str | None:
    """Return the grammar in GBNF that makes a model write such calls. None if there is none for these tools.

    `auto` takes the format that the chat template of the model shows.
    """
    taken = guess_format(template) if format == "auto" else format
    chosen: Any = "required" if choice.name is None else {"name": choice.name}
    try:
        return formats.grammar(
            tools,
            taken if has_grammar(taken) else DEFAULT,
            "gbnf",
            tool_choice=chosen,
            most_calls=1 if is_single or choice.name is not None else MOST_CALLS,
            most_items=MOST_ITEMS,
            longest_text=None,
            deepest=DEEPEST,
        )
    except ConfigError as error:
        _log.warning("a required call is not held to a grammar: %s", error)
        return None


@lru_cache(maxsize=8)
def guess_format(template: str) -> str:
    """Return the format that a chat template writes the calls of the history in; the default if it shows none."""
    best, longest = DEFAULT, 0
    for name in formats.names():
        row = formats.get(name)
        if row.name != name or not row.in_auto:
            continue
        markers = [(text, needed) for text, needed in _literals(compile_template(row.template)) if _is_marker(text)]
        found = sum(len(text) for text, _ in markers if text in template)
        if found > longest and all(text in template for text, needed in markers if needed):
            best, longest = name, found
    return best


_is_marker = re.compile(r"[<\[|]").search


def _literals(nodes: Sequence[Node], *, needed: bool = True) -> list[tuple[str, bool]]:
    """Return the literals of a template, each with whether every call has it."""
    found: list[tuple[str, bool]] = []
    for node in nodes:
        if isinstance(node, Literal):
            found.append((node.text, needed))
        elif isinstance(node, Many | Maybe):
            found += _literals(node.body, needed=needed and isinstance(node, Many))
    return found
