"""Leaked calls in a history: text of the assistant that is a call becomes that call.

A model learns from its own turns. If a call that it wrote as text is sent back as text, it writes the next one in the
same way. `rewrite_leaks` replaces such text by the call, in any conversation. `settle_confirmed` is the part for a
conversation whose replies were read when they arrived: it needs no second reading, except of turns that a notice is
about. Both are pure and return a new conversation; what was received stays in the journal of the caller.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.extraction import extract
from dragoman.extraction.judge import Extraction
from dragoman.extraction.responses import ConversationContext, read_messages
from dragoman.extraction.suspects import mark_call, marks_of_notice
from dragoman.extraction.tool_mode import answer_parts
from dragoman.extraction.trust import Profile
from dragoman.toolset import Toolset
from dragoman.types import Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.values import find_calls

_has_notation = re.compile(r"[{(<\[=]").search
"""Matches what every notation of arguments has. Words about a tool need no second reading."""
NOT_RECEIVED = "Not run: this call was written as text, so nothing received it."
"""The result of a call in a history that nobody has run."""


class Rewrite(Struct, frozen=True):
    """One turn that was rewritten: its place in the conversation that was given, the tools, and the rule."""

    place: int
    names: tuple[str, ...]
    rule: Literal["accepted", "confirmed", "copy"]
    """`accepted`: its text was a call. `confirmed`: a later turn repeated the call after a notice. `copy`: its text
    repeated a call that the turn also made."""

    def __str__(self) -> str:
        return f"message {self.place}: the text of {', '.join(self.names)} became a call ({self.rule})"


class CleanHistory(Struct, frozen=True):
    """A conversation without leaked calls, and what was rewritten."""

    messages: list[Message]
    rewrites: list[Rewrite]


def rewrite_leaks(
    messages: Iterable[Message | Mapping[str, Any]],
    tools: Toolset | Iterable[object] | None,
    *,
    trust: str | Profile = "default",
    family: Iterable[str] | None = None,
    aliases: Mapping[str, str] | None = None,
    memory: TurnMemory | None = None,
) -> CleanHistory:
    """Return a conversation in which the leaked calls of the assistant are calls, and what was rewritten.

    A call counts as in `extract`, with the same echo guard over the messages before it. A call that got no result gets
    `NOT_RECEIVED`. Text that is not a call stays byte for byte, and so does a turn with a call that cannot be read. The
    last message stays too, because the model may have to continue it. Without tools, nothing is a call. `memory` keeps
    what was read, for a caller who receives the same conversation again and again.
    """
    given, offered = read_messages(messages), Toolset.of(tools)
    if offered is None or not len(offered) or all(message.role != "assistant" for message in given):
        return CleanHistory(given, [])
    reader = _TurnReader(offered, trust, tuple(family) if family is not None else None, aliases, memory)
    settled = _settle(given, reader)
    background, taken = ConversationContext((), offered), ConversationContext(given).ids
    written: list[Message] = []
    rewrites = list(settled.rewrites)
    for place, message in zip(_places(given, settled), settled.messages, strict=True):
        parts = None
        if _is_open(message) and place + 1 < len(given):
            # The place keeps the ids equal when the conversation grows, so that prompt caches match.
            parts = _read_turn(message, background, reader, _ids(place, taken).__next__)
        added = [message] if parts is None else _answer(message, parts)
        if parts is not None:
            rewrites.append(Rewrite(place, tuple(call.name for call in find_calls(parts)), "accepted"))
        written += added
        # Our own words about the calls are not content of others.
        background.extend(added[:1])
        reader.pass_by(message)
    return CleanHistory(written, sorted(rewrites, key=lambda each: each.place))


def _ids(place: int, taken: Container[str]) -> Iterator[str]:
    return (name for number in count(1) if (name := f"leak_{place}_{number}") not in taken)


def _answer(message: Message, parts: list[Part]) -> list[Message]:
    """Return a rewritten turn and the results of its calls."""
    results: list[Part] = [ToolResult(call.id, call.name, NOT_RECEIVED, is_error=True) for call in find_calls(parts)]
    return [replace(message, parts=parts), Message("tool", results)]


def _is_open(message: Message) -> bool:
    """Whether the text of a message may be a call: a turn with calls was read when it arrived."""
    return message.role == "assistant" and not find_calls(message.parts)


def _read_turn(
    message: Message, background: ConversationContext, reader: _TurnReader, name: Callable[[], str]
) -> list[Part] | None:
    """Return the parts of a turn with its leaked calls as calls; None if it has none, or one that cannot be read."""
    text = message.text
    found = reader.read(text, background) if text.strip() else _NOTHING
    if not found.calls or found.invalid:
        return None
    calls = [replace(call, id=name()) for call in found.calls]
    thoughts: list[Part] = [Thinking(found.thinking)] if found.thinking else []
    return [*thoughts, *answer_parts(message.parts, _cut_calls(found.text, calls), calls)]


# --------------------------------------------------------------------------------------------------------------------
# What was read in turns. A client of a gateway sends its whole conversation with every request.

_MOST_CHARACTERS = 4_000_000
_CHARACTERS_OF_AN_ENTRY = 300
"""What an entry without a text takes."""
_MOST_TOOLSETS = 32
_NOTHING = Extraction()
_Key = tuple[str, bytes]


class TurnMemory:
    """Keeps what was read in the turns of histories, by their text and the tools, up to a size.

    The text of a turn decides alone, unless something in it looks like a call: then the messages before it count too.
    """

    def __init__(self, most: int = _MOST_CHARACTERS) -> None:
        """`most` is the number of characters of all texts that are kept."""
        self._most = most
        self.size = 0
        self._settings: OrderedDict[int, object] = OrderedDict()
        self._number = 0
        self._found: OrderedDict[tuple[int, _Key], Extraction | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def number(self, settings: object) -> int:
        """Return the number of some settings: tools, and how turns are read with them. Equal ones have the same."""
        for number, known in self._settings.items():
            if known == settings:
                self._settings.move_to_end(number)
                return number
        self._number += 1
        self._settings[self._number] = settings
        if len(self._settings) > _MOST_TOOLSETS:
            # What was read with these tools is never asked for again, and leaves as the oldest entries do.
            self._settings.popitem(last=False)
        return self._number

    def find(self, number: int, text: str, before: bytes = b"") -> Extraction | Literal[False] | None:
        """Return what was read; None if it depends on the messages before, False if nothing is known."""
        key = number, (text, before)
        if key not in self._found:
            return False
        self._found.move_to_end(key)
        return self._found[key]

    def put(self, number: int, text: str, found: Extraction | None, before: bytes = b"") -> None:
        """Keep what was read in a text."""
        if len(text) > self._most // 4:
            return
        key = number, (text, before)
        if key not in self._found:
            self.size += len(text) + _CHARACTERS_OF_AN_ENTRY
        self._found[key] = found
        while self.size > self._most:
            (_, (left, _)), _ = self._found.popitem(last=False)
            self.size -= len(left) + _CHARACTERS_OF_AN_ENTRY


class _TurnReader:
    """Reads the turns of one history, with a memory or without."""

    def __init__(
        self,
        tools: Toolset | None,
        trust: str | Profile,
        family: tuple[str, ...] | None,
        aliases: Mapping[str, str] | None,
        memory: TurnMemory | None,
    ) -> None:
        self._tools, self._trust, self._family, self._aliases = tools, trust, family, aliases
        self._memory = memory
        given = tools.tools if tools is not None else None
        self._number = memory.number((given, trust, family, dict(aliases or {}))) if memory is not None else 0
        self._passed: list[Message] = []
        self._digest = sha256()

    def pass_by(self, message: Message) -> None:
        """Go on to the next message."""
        if self._memory is not None:
            self._passed.append(message)

    def read(self, text: str, before: ConversationContext) -> Extraction:
        """Return the calls in a turn that follows other messages."""
        memory = self._memory
        if memory is None:
            return self._extract(text, before)
        known = memory.find(self._number, text)
        if known:
            return known
        if known is None and (place := self._mark_place()) and (again := memory.find(self._number, text, place)):
            return again
        found = self._extract(text, before)
        if not (found.calls or found.refused or found.invalid or found.suspects):
            # Nothing was judged, so nothing depended on the messages before.
            memory.put(self._number, text, _NOTHING)
        elif place := self._mark_place():
            memory.put(self._number, text, None)
            memory.put(self._number, text, found, place)
        return found

    def _extract(self, text: str, before: ConversationContext) -> Extraction:
        return extract(
            text, tools=self._tools, trust=self._trust, conversation=before, family=self._family, aliases=self._aliases
        )

    def scan(self, text: str) -> Extraction:
        """Return the calls in a text by itself, of any family."""
        memory = self._memory
        if memory is not None and (known := memory.find(self._number, text, _ALONE)):
            return known
        found = extract(text, tools=self._tools, aliases=self._aliases)
        if memory is not None:
            memory.put(self._number, text, found, _ALONE)
        return found

    def _mark_place(self) -> bytes | None:
        """Return a digest of the messages so far; None if they contain a value that cannot be written."""
        try:
            for message in self._passed:
                data = msgspec.msgpack.encode(message)
                self._digest.update(b"%d " % len(data) + data)
        except (TypeError, ValueError):
            return None
        self._passed.clear()
        return self._digest.digest()


_ALONE = b"alone"
"""Stands for the messages before a text that is read by itself."""


# --------------------------------------------------------------------------------------------------------------------
# Turns that a later turn explains.


def settle_confirmed(
    messages: Sequence[Message], tools: Toolset | None, *, aliases: Mapping[str, str] | None = None
) -> CleanHistory:
    """Return a conversation without the attempts that the model has repeated as calls after a notice about them.

    The attempt, the notice and the call become one turn: the words of the attempt and the call. Text that repeats a
    call of its own turn is left out as well. A notice about anything else stays, with its turn.
    """
    return _settle(messages, _TurnReader(tools, "default", None, aliases, None))


def _settle(messages: Sequence[Message], reader: _TurnReader) -> CleanHistory:
    written: list[Message] = []
    rewrites: list[Rewrite] = []
    place = 0
    while place < len(messages):
        explained = _find_explained(messages, place, reader)
        taken, names = (messages[place : place + 1], ()) if explained is None else explained
        clean = [_without_copies(message, reader) for message in taken]
        if explained is not None:
            rewrites.append(Rewrite(place, names, "confirmed"))
        elif clean[0] is not messages[place]:
            names = tuple(call.name for call in find_calls(messages[place].parts))
            rewrites.append(Rewrite(place, names, "copy"))
        written += clean
        place += _count_explained(messages, place) if explained is not None else 1
    return CleanHistory(written, rewrites)


def _count_explained(messages: Sequence[Message], place: int) -> int:
    """Return how many messages there are from an attempt to the call after the notice: results may be between them."""
    return 4 if place + 1 < len(messages) and messages[place + 1].role == "tool" else 3


def _find_explained(
    messages: Sequence[Message], place: int, reader: _TurnReader
) -> tuple[Sequence[Message], tuple[str, ...]] | None:
    """Return what replaces an attempt, the notice about it and the call, and the tools; None for other messages."""
    turns = messages[place : place + _count_explained(messages, place)]
    if messages[place].role != "assistant" or len(turns) < 3 or turns[-1].role != "assistant":
        return None
    attempt, notice, answer = turns[0], turns[-2], turns[-1]
    marks = marks_of_notice(notice)
    called = {mark_call(part): part.name for part in answer.parts if isinstance(part, ToolCall)}
    # A turn with calls has results after it, and one without calls has none.
    if not marks or not marks <= called.keys() or _is_open(attempt) != (len(turns) == 3):
        return None
    # Without the family of the model, a suspect may read as a call.
    found = reader.scan(attempt.text)
    spans = {suspect.mark: suspect.span for suspect in found.suspects}
    spans |= {mark_call(call): call.provenance.span for call in found.calls if call.provenance is not None}
    if not marks <= spans.keys():
        return None
    words = _cut(attempt.text, [spans[mark] for mark in marks])
    names = tuple(name for mark, name in called.items() if mark in marks)
    if not _is_open(attempt):
        return [replace(attempt, parts=_with_text(attempt.parts, words)), turns[1], answer], names
    return [_join(attempt, words, answer)], names


def _join(attempt: Message, words: str, answer: Message) -> Message:
    """Return one turn for two: the words of the first, unless the second repeats them, and all of the second."""
    rest = [part for part in attempt.parts if not isinstance(part, Text | Thinking)]
    said = [Text(words)] if words.strip() and words.strip() not in answer.text else []
    parts: list[Part] = [*(part for part in answer.parts if isinstance(part, Thinking)), *rest, *said]
    return replace(answer, parts=[*parts, *(part for part in answer.parts if not isinstance(part, Thinking))])


def _without_copies(message: Message, reader: _TurnReader) -> Message:
    """Return a turn without text that is one of its own calls: it was read from there, or the model wrote both."""
    text = message.text
    calls = [call for call in find_calls(message.parts) if isinstance(call, ToolCall)]
    copied = [call for call in calls if _is_from_text(call) and call.raw.strip() in text]
    if any(call.name in text and not _is_from_text(call) for call in calls) and _has_notation(text):
        marks = {mark_call(call) for call in calls}
        copied += [each for each in reader.scan(text).calls if mark_call(each) in marks]
    words = _cut_calls(text, copied)
    return message if words == text else replace(message, parts=_with_text(message.parts, words))


def _is_from_text(call: ToolCall) -> bool:
    return bool(call.raw.strip()) and call.provenance is not None and call.provenance.channel == "text"


def _with_text(parts: Iterable[Part], words: str) -> list[Part]:
    """Return the parts with this text instead of theirs."""
    written: list[Part] = []
    for part in parts:
        if not isinstance(part, Text):
            written.append(part)
        elif words.strip():
            written.append(replace(part, text=words))
            words = ""
    return written


# --------------------------------------------------------------------------------------------------------------------
# Text without its calls.


def _cut_calls(text: str, calls: Iterable[ToolCall]) -> str:
    """Return a text without what these calls were read from, as far as it is still there; each of them once."""
    spans: list[tuple[int, int]] = []
    after: dict[str, int] = {}
    for raw in (call.raw.strip() for call in calls):
        start = text.find(raw, after.get(raw, 0)) if raw else -1
        if start >= 0:
            after[raw] = start + len(raw)
            spans.append((start, after[raw]))
    return _cut(text, spans) if spans else text


def _cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        pieces.append(text[end : max(start, end)])
        end = max(stop, end)
    return "".join([*pieces, text[end:]]).strip()


def _places(given: Sequence[Message], settled: CleanHistory) -> list[int]:
    """Return the place of each settled message in the conversation that was given."""
    explained = {rewrite.place for rewrite in settled.rewrites if rewrite.rule == "confirmed"}
    places: list[int] = []
    place = 0
    while place < len(given):
        count = _count_explained(given, place) if place in explained else 1
        # The notice is left out. An attempt without calls and the call after it are one turn.
        places += [place] if count < 4 else [place, place + 1, place + 3]
        place += count
    return places
