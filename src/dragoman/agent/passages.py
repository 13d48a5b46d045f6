"""A conversation in passages: what can be left out of it as a whole without tearing a call from its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from dragoman.types import InvalidCall, Message, Text, ToolCall, ToolResult

PINNED = "pinned"
NOTE = "compacted"
"""The key in `Message.extra` of a message that stands for others."""
_MOST_NAMES = 6


class Passage(Struct):
    """Messages that stay or go together: an assistant message with all results of its calls, or one message alone."""

    places: list[int]
    is_turn: bool = False
    kept: bool = False
    """Whether it has to stay, because one of its messages has to."""
    note: bool = False


class Note(Struct, frozen=True):
    """What a message that stands for others says of them."""

    messages: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    summary: str = ""


def is_pinned(message: Message) -> bool:
    return bool(message.extra.get(PINNED))


def read_passages(messages: Sequence[Message]) -> list[Passage]:
    """The passages of a conversation, in order. Results that come late bind everything back to their call."""
    passages: list[Passage] = []
    waiting: dict[str, list[int]] = {}  # the id of a call -> the passages in which it waits for its result
    for place, message in enumerate(messages):
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        if results:
            _bind(place, results, passages, waiting)
        else:
            passages.append(Passage([place], note=NOTE in message.extra))
        if message.role == "assistant":
            passages[-1].is_turn = True
        for part in message.parts:
            if isinstance(part, ToolCall | InvalidCall):
                waiting.setdefault(part.id, []).append(len(passages) - 1)
    staying = _find_staying(messages)
    for passage in passages:
        passage.kept = any(place in staying for place in passage.places)
    return passages


def _bind(place: int, results: Sequence[ToolResult], passages: list[Passage], waiting: dict[str, list[int]]) -> None:
    """Put results to the passage of their calls, and everything in between with them."""
    last = len(passages) - 1
    # A result whose call is not to be found stays where it is, with what stands before it.
    first = last if passages and passages[last].is_turn else last + 1
    for result in results:
        if places := waiting.get(result.call_id):
            first = min(first, places.pop(), last)
    if first > last:
        passages.append(Passage([place]))
        return
    bound = passages[first]
    for passage in passages[first + 1 :]:
        bound.places += passage.places
        bound.is_turn = bound.is_turn or passage.is_turn
        bound.note = bound.note or passage.note
    del passages[first + 1 :]
    bound.places.append(place)


def _find_staying(messages: Sequence[Message]) -> set[int]:
    """What always stays: system messages, the first and the last words of the user, pinned messages, summaries."""
    spoken = [
        place
        for place, message in enumerate(messages)
        if message.role == "user"
        and NOTE not in message.extra
        and not all(isinstance(part, ToolResult) for part in message.parts)
    ]
    staying = {*spoken[:1], *spoken[-1:]}
    for place, message in enumerate(messages):
        if message.role == "system" or is_pinned(message) or (NOTE in message.extra and note_of(message).summary):
            staying.add(place)
    return staying


# ---- notes ---------------------------------------------------------------------------------------------------------


def note_of(message: Message) -> Note:
    """What a message says that stands for others; of any other message, that it is one of those left out."""
    told: Any = message.extra.get(NOTE)
    if isinstance(told, dict):
        calls = told.get("calls")
        return Note(
            int(told.get("messages") or 0),
            {str(name): int(count) for name, count in calls.items()} if isinstance(calls, dict) else {},
            message.text if told.get("summary") else "",
        )
    return Note(1, dict(Counter(part.name for part in message.parts if isinstance(part, ToolCall | InvalidCall))))


def add_notes(notes: Iterable[Note]) -> Note:
    total = 0
    calls: Counter[str] = Counter()
    for note in notes:
        total += note.messages
        calls.update(note.calls)
    return Note(total, dict(calls))


def write_note(note: Note) -> Message:
    """The message that stands for those left out, or for those that are summarised."""
    extra: dict[str, Any] = {NOTE: {"messages": note.messages, "calls": note.calls, "summary": bool(note.summary)}}
    many = f"{note.messages:,} earlier message{'s' if note.messages != 1 else ''}"
    if note.summary:
        words = f"[Summary of {many}, which were left out to save room]\n{note.summary}"
    else:
        words = f"[{many} left out here to save room{_name_calls(note.calls)}]"
    return Message("user", [Text(words)], extra)


def _name_calls(calls: dict[str, int]) -> str:
    if not calls:
        return ""
    ranked = sorted(calls.items(), key=lambda entry: (-entry[1], entry[0]))
    named = [f"{name[:60]} {count:,} times" if count > 1 else name[:60] for name, count in ranked[:_MOST_NAMES]]
    others = len(ranked) - len(named)
    return f"; called were: {', '.join(named)}" + (f" and {others} other tools" if others else "")
