"""What dragoman makes of a text: for the playground, and for the replay of a recorded reply with other settings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from dragoman import formats
from dragoman.characters import escape_line
from dragoman.errors import DragomanError
from dragoman.events import Event
from dragoman.extraction import Extraction, extract, extractor
from dragoman.server.inspector.redaction import CleanText, clean_extraction
from dragoman.server.inspector.store import Entry, Turn
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Message, Part, Reply, Text, Thinking
from dragoman.wire.values import BROKEN, parse

MOST_TEXT = 512 * 1024
TRUSTS = ("strict", "default", "compat")
AUTO = "auto"
_MOST_STEPS = 400
_MOST_PIECES = 20_000


class Step(Struct, frozen=True):
    """An event of a stream, and the piece of text after which it came."""

    piece: int
    shown: str
    event: str
    detail: str


class Trial(Struct, frozen=True):
    """The result of an extraction."""

    turn: Turn
    answer: str = ""
    """The text without the calls."""
    steps: list[Step] = []
    pieces: int = 0
    is_same: bool = True
    """Whether the pieces gave the same result as the whole text."""
    seconds: float = 0.0


class TrialError(Exception):
    """What is wrong with the input."""


class _Unchanged:
    """Hides nothing: the text comes from the person who reads it, or was redacted before."""

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any) -> Any:
        return value

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        return []


_UNCHANGED = _Unchanged()


def list_formats() -> list[str]:
    """Return the formats that can be chosen."""
    return [AUTO, *formats.names()]


def read_tools(text: str) -> list[JsonObject] | None:
    """Return the tools that somebody pasted: a list, or one tool; None if there are none. Raises TrialError."""
    if not text.strip():
        return None
    value = parse(text.encode("utf-8", "replace"))
    if isinstance(value, dict):
        inner = value.get("tools")
        value = inner if isinstance(inner, list) else [value]
    if value is BROKEN or not isinstance(value, list):
        raise TrialError("the tools are not JSON: write a list of tools, as a request has them")
    try:
        Toolset.of(value)
    except (DragomanError, TypeError, ValueError) as error:
        raise TrialError(f"the tools cannot be read: {error}") from None
    return value


def check_choice(format: str, trust: str) -> None:
    """Raise TrialError for an unknown format or trust profile."""
    if format not in list_formats():
        raise TrialError(f"there is no format {format[:100]!r}")
    if trust not in TRUSTS:
        raise TrialError(f"there is no trust profile {trust[:100]!r}; they are {', '.join(TRUSTS)}")


def try_text(
    text: str, tools: Sequence[JsonObject] | None, format: str = AUTO, trust: str = "default", piece: int = 0
) -> Trial:
    """Return what is found in a text. With `piece` it arrives in pieces of this size as well."""
    check_choice(format, trust)
    if len(text) > MOST_TEXT:
        raise TrialError(f"the text has more than {MOST_TEXT} characters")
    options: dict[str, Any] = {"tools": tools, "trust": trust, "format": format}
    if format != AUTO:
        options["family"] = (format,)
    began = time.perf_counter()
    found = extract(text, {"native_tool_calls": False}, **options)
    seconds = time.perf_counter() - began
    turn = _show(text, found, format, trust)
    if piece < 1:
        return Trial(turn, found.text, seconds=seconds)
    size = max(piece, -(-len(text) // _MOST_PIECES))
    stage = extractor({"native_tool_calls": False}, **options)
    steps: list[Step] = []
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    for number, each in enumerate(pieces, 1):
        _note(steps, number, each, stage.feed(each))
    _note(steps, len(pieces) + 1, "(end)", stage.close())
    is_same = _compare(stage.extraction) == _compare(found)
    return Trial(turn, found.text, steps, len(pieces), is_same, seconds)


def _note(steps: list[Step], number: int, piece: str, events: Iterable[Event]) -> None:
    for event in events:
        if len(steps) >= _MOST_STEPS:
            return
        fields = msgspec.structs.asdict(event)
        said = fields.get("text") or fields.get("name") or fields.get("why") or ""
        if not said and (call := fields.get("call")) is not None:
            said = f"{call.name} {msgspec.json.encode(call.arguments).decode()}"
        steps.append(Step(number, escape_line(piece[:80]), type(event).__name__, escape_line(str(said)[:300])))


def _compare(found: Extraction) -> tuple[object, ...]:
    """Return what has to be equal however the text is cut; the ids of calls are random."""
    calls = [(call.name, call.arguments, call.repairs, call.provenance) for call in found.calls]
    refused = [(entry.name, entry.why) for entry in found.refused]
    invalid = [(call.name, call.kind) for call in found.invalid]
    return calls, refused, invalid, [(each.name, each.span) for each in found.suspects], found.text


def _show(text: str, found: Extraction, format: str, trust: str) -> Turn:
    turn = clean_extraction(_UNCHANGED, found, CleanText(_UNCHANGED, text))
    return msgspec.structs.replace(
        turn, thinking=found.thinking, notice=found.notice, format="" if format == AUTO else format, trust=trust
    )


def replay_reply(entry: Entry, format: str, trust: str, messages: Sequence[Message | Mapping[str, Any]] = ()) -> Trial:
    """Read the last recorded reply of an exchange again, with another format or trust profile. Nothing is sent."""
    check_choice(format, trust)
    if not entry.turns:
        raise TrialError("no reply of this exchange was read, so there is none to read again")
    turn = entry.turns[-1]
    parts: list[Part] = [Thinking(turn.thinking)] if turn.thinking else []
    parts += [Text(turn.text)] if turn.text else []
    reply = Reply(Message("assistant", [*parts, *turn.native]), stop="length" if turn.stop == "length" else "end")
    began = time.perf_counter()
    found = extract(
        reply,
        {"native_tool_calls": turn.tool_mode != "text"},
        tools=entry.tools,
        trust=trust,
        conversation=messages,
        family=turn.family if format == AUTO else (format,),
        format=format,
        opens_thinking=turn.opens_thinking,
    )
    return Trial(_show(turn.text, found, format, trust), found.text, seconds=time.perf_counter() - began)
