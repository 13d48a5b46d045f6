"""Short, harmless pieces of what models and tools say: for one line of a terminal, or a few."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dragoman.cli.screen import show_controls
from dragoman.types import File, Image, InvalidCall, ToolCall, ToolResult
from dragoman.types import Text as TextPart

# They turn the direction of what follows, so that a command can be made to look like another one.
_TURNS = {code: "\ufffd" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}
_TURNS |= {0x2028: "\u240a", 0x2029: "\u240a"}
MOST_LINES = 4
MOST_OF_A_LINE = 160
_SLACK = 24


def tame(text: str) -> str:
    """The text without anything that moves a cursor, changes a colour or turns the direction of writing."""
    return show_controls(text.replace("\r\n", "\n")).translate(_TURNS)


def cut(text: str, most: int) -> str:
    """The beginning of a text; what was cut off is counted. A few characters more are not worth a cut."""
    if len(text) <= most + _SLACK:
        return text
    return f"{text[:most]}… (+{len(text) - most} characters)"


def one_line(text: str, most: int = MOST_OF_A_LINE) -> str:
    """A text on one line."""
    # Only as much as can be shown is looked at: a result may be long.
    beginning = text[: most + _SLACK]
    shown = tame(beginning.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", " "))
    if len(text) <= most + _SLACK:
        return shown
    return f"{shown[:most]}… (+{len(text) - most} characters)"


def first_lines(text: str, lines: int = MOST_LINES, width: int = MOST_OF_A_LINE) -> list[str]:
    """The first lines of a text, each of them cut; the last one says how many there are more."""
    stripped = text.strip("\n")
    pieces = stripped.split("\n", lines)
    shown = [cut(tame(piece.rstrip("\r").replace("\t", "    ")), width) for piece in pieces[:lines]]
    if len(pieces) > lines:
        more = pieces[lines].count("\n") + 1
        shown.append(f"… {more} more line{'s' if more > 1 else ''}")
    return shown


def write_call(call: ToolCall | InvalidCall, most: int = MOST_OF_A_LINE) -> str:
    """The arguments of a call on one line; of one that could not be read, what stood there."""
    written = write_arguments(call.arguments) if isinstance(call, ToolCall) else call.raw
    return one_line(written, most)


def write_arguments(arguments: Any, indent: int | None = None) -> str:
    """Arguments as JSON, whatever a model put into them."""
    try:
        return json.dumps(arguments, ensure_ascii=False, indent=indent, default=repr)
    except (ValueError, RecursionError):
        return repr(arguments)


_FIRST = ("path", "file", "file_path", "command", "url", "pattern", "query", "name")
"""What most calls are about, in the order in which it is named."""
_MOST_OF_A_VALUE = 80


def summarise(arguments: Mapping[str, Any]) -> str:
    """Arguments in a few words: what the call is about first, long values cut, and nothing of what is a secret."""
    named = sorted(arguments, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    return ", ".join(f"{one_line(str(name), 40)}: {_summarise_value(str(name), arguments[name])}" for name in named)


def _summarise_value(name: str, value: Any) -> str:
    from dragoman.secrets import scrub
    from dragoman.secrets.fields import Weight, weigh_key

    if weigh_key(name) >= Weight.SECRET:
        return "[redacted]"
    text = scrub(value if isinstance(value, str) else write_arguments(value))
    shown = tame(text[:_MOST_OF_A_VALUE].replace("\n", "\\n").replace("\t", " "))
    return shown if len(text) <= _MOST_OF_A_VALUE else f"{shown}…"


def result_text(result: ToolResult) -> str:
    """What a tool answered, as text; images and files by their kind."""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text if isinstance(part, TextPart) else name_part(part) for part in result.content)


def name_part(part: Image | File) -> str:
    """An image or a file in a few words."""
    kind = type(part).__name__.lower()
    named = f" {part.name}" if isinstance(part, File) and part.name else ""
    return f"[{kind}{named}{', ' + part.media_type if part.media_type else ''}]"
