"""Results made shorter: old ones down to their beginning, the latest ones in the middle."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.tools.results import cut_text
from dragoman.types import File, Image, Message, Part, Text, ToolResult

_MARK = "[result trimmed: "


def size_of(message: Message) -> int:
    """The characters of the largest result in a message."""
    return max((_length(part) for part in message.parts if isinstance(part, ToolResult)), default=0)


def trim_results(message: Message, head: int, least: int) -> tuple[Message, int]:
    """The message with its results of `least` characters and more trimmed, and how many characters were lost.

    Images and files in results go whatever the size of the text.
    """
    parts: list[Part] = []
    lost = 0
    for part in message.parts:
        if isinstance(part, ToolResult):
            trimmed = trim_result(part, head, least)
            lost += 0 if trimmed is part else max(_length(part) - _length(trimmed), 1)
            parts.append(trimmed)
        else:
            parts.append(part)
    return (replace(message, parts=parts), lost) if lost else (message, 0)


def trim_result(result: ToolResult, head: int, least: int) -> ToolResult:
    """The result with its first characters and a note for the rest; itself where that would save nothing."""
    content = result.content
    if isinstance(content, str):
        note = _note(content, head, least)
        return result if note is None else replace(result, content=note)
    text = "\n".join(part.text for part in content if isinstance(part, Text))
    media = [part for part in content if not isinstance(part, Text)]
    note = _note(text, head, least)
    if note is None and not media:
        return result
    if note is None:
        note = text
    words = [f"[{_kind(part)} left out to save room]" for part in media]
    return replace(result, content="\n".join([*([note] if note else ()), *words]))


def shorten_results(message: Message, limit: int) -> Message:
    """The message with results of at most so many characters: their beginning and their end, with a note between."""
    return replace(message, parts=[_shorten(part, limit) for part in message.parts])


def _shorten(part: Part, limit: int) -> Part:
    if not isinstance(part, ToolResult) or _length(part) <= limit:
        return part
    if isinstance(part.content, str):
        return replace(part, content=cut_text(part.content, limit))
    texts = sum(isinstance(each, Text) for each in part.content)
    each_limit = max(limit // texts, 1)
    cut = [
        replace(each, text=cut_text(each.text, each_limit)) if isinstance(each, Text) else each for each in part.content
    ]
    return replace(part, content=cut)


def _note(text: str, head: int, least: int) -> str | None:
    if len(text) < least or text.startswith(_MARK):
        return None
    beginning = " ".join(text[:head].split())
    note = f"{_MARK}{len(text):,} characters" + (f", began with: {beginning}]" if beginning else "]")
    # A note may take more tokens for a character than what it stands for, so it has to save a good deal.
    return note if 2 * len(note) < len(text) else None


def _length(result: ToolResult) -> int:
    content = result.content
    return (
        len(content) if isinstance(content, str) else sum(len(part.text) for part in content if isinstance(part, Text))
    )


def _kind(part: Image | File) -> str:
    return "image" if isinstance(part, Image) else f"file {part.name[:80]}"
