"""Leaked calls in a history: text of the assistant that is a call becomes that call.

A model learns from its own turns. If a call that it wrote as text is sent back as text, it writes the next one in the
same way. `rewrite_leaks` replaces such text by the call, in any conversation. `settle_confirmed` is the part for a
conversation whose replies were read when they arrived: it needs no second reading, except of turns that a notice is
about. Both are pure and return a new conversation; what was received stays in the journal of the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal

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


Reader = Callable[[str, ConversationContext], Extraction]


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
) -> CleanHistory:
    """Return a conversation in which the leaked calls of the assistant are calls, and what was rewritten.

    A call counts as in `extract`, with the same echo guard over the messages before it. A call that got no result gets
    `NOT_RECEIVED`. Text that is not a call stays byte for byte, and so does a turn with a call that cannot be read. The
    last message stays too, because the model may have to continue it. Without tools, nothing is a call.
    """
    given, offered = read_messages(messages), Toolset.of(tools)
    if offered is None or not len(offered) or all(message.role != "assistant" for message in given):
        return CleanHistory(given, [])
    names = tuple(family) if family is not None else None

    def read(text: str, before: ConversationContext) -> Extraction:
        return extract(text, tools=offered, trust=trust, conversation=before, family=names, aliases=aliases)

    settled = settle_confirmed(given, offered, aliases=aliases)
    background, taken = ConversationContext((), offered), ConversationContext(given).ids
    written: list[Message] = []
    rewrites = list(settled.rewrites)
    for place, message in zip(_places(given, settled), settled.messages, strict=True):
        parts = None
        if _is_open(message) and place + 1 < len(given):
            # The place keeps the ids equal when the conversation grows, so that prompt caches match.
            parts = _read_turn(message, background, read, _ids(place, taken).__next__)
        added = [message] if parts is None else _answer(message, parts)
        if parts is not None:
            rewrites.append(Rewrite(place, tuple(call.name for call in find_calls(parts)), "accepted"))
        written += added
        # Our own words about the calls are not content of others.
        background.extend(added[:1])
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
    message: Message, background: ConversationContext, read: Reader, name: Callable[[], str]
) -> list[Part] | None:
    """Return the parts of a turn with its leaked calls as calls; None if it has none, or one that cannot be read."""
    text = message.text
    found = read(text, background) if text.strip() else Extraction()
    if not found.calls or found.invalid:
        return None
    calls = [replace(call, id=name()) for call in found.calls]
    thoughts: list[Part] = [Thinking(found.thinking)] if found.thinking else []
    return [*thoughts, *answer_parts(message.parts, _cut_calls(found.text, calls), calls)]


# --------------------------------------------------------------------------------------------------------------------
# Turns that a later turn explains.


def settle_confirmed(
    messages: Sequence[Message], tools: Toolset | None, *, aliases: Mapping[str, str] | None = None
) -> CleanHistory:
    """Return a conversation without the attempts that the model has repeated as calls after a notice about them.

    The attempt, the notice and the call become one turn: the words of the attempt and the call. Text that repeats a
    call of its own turn is left out as well. A notice about anything else stays, with its turn.
    """
    written: list[Message] = []
    rewrites: list[Rewrite] = []
    place = 0
    while place < len(messages):
        explained = _find_explained(messages, place, tools, aliases)
        taken, names = (messages[place : place + 1], ()) if explained is None else explained
        clean = [_without_copies(message, tools, aliases) for message in taken]
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
    messages: Sequence[Message], place: int, tools: Toolset | None, aliases: Mapping[str, str] | None
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
    found = extract(attempt.text, tools=tools, aliases=aliases)
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


def _without_copies(message: Message, tools: Toolset | None, aliases: Mapping[str, str] | None) -> Message:
    """Return a turn without text that is one of its own calls: it was read from there, or the model wrote both."""
    text = message.text
    calls = [call for call in find_calls(message.parts) if isinstance(call, ToolCall)]
    copied = [call for call in calls if _is_from_text(call) and call.raw.strip() in text]
    if any(call.name in text and not _is_from_text(call) for call in calls) and _has_notation(text):
        marks = {mark_call(call) for call in calls}
        copied += [each for each in extract(text, tools=tools, aliases=aliases).calls if mark_call(each) in marks]
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
