"""Results that are too long for a model: the beginning and the end stay, and a note says what is missing."""

from __future__ import annotations

from dragoman.types import File, Image, Text

MAX_OUTPUT = 50_000
"""Characters of a result that a model is shown where nobody says otherwise."""
MAX_IMAGE = 20_000_000
"""Characters of base64; larger images and files no provider takes."""

Part = Text | Image | File
_SMALLEST_WITH_NOTE = 200


def cut_text(text: str, limit: int) -> str:
    """At most `limit` characters: two thirds from the head and one from the tail, with a note between them.

    The note counts, unless the limit is so small that nothing but the note would be left.
    """
    if len(text) <= limit:
        return text
    room = limit
    if limit >= _SMALLEST_WITH_NOTE:
        room -= len(_note(len(text), len(text)))
    head = room - room // 3
    tail = room - head
    return text[:head] + _note(len(text) - room, len(text)) + text[len(text) - tail :]


def _note(missing: int, total: int) -> str:
    return f"\n[... {missing} of {total} characters left out here; ask for less to see them ...]\n"


def cut_parts(parts: list[Part], limit: int) -> list[Part]:
    """The same over several parts: the texts share the limit, in order; what cannot be sent is named."""
    found: list[Part] = []
    left = limit
    for part in parts:
        if isinstance(part, Text):
            text = cut_text(part.text, max(left, 0)) if part.text else ""
            left -= len(part.text)
            found.append(part if text == part.text else Text(text, part.extra))
        elif part.data is not None and len(part.data) > MAX_IMAGE:
            kind = "image" if isinstance(part, Image) else f"file {part.name}"
            found.append(Text(f"[{kind} left out: {len(part.data) * 3 // 4} bytes are too large to be sent]"))
        else:
            found.append(part)
    return found
