"""`-a/--attach` of `dragoman run` and `dragoman chat`: files, web addresses and standard input in a message."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dragoman.cli.screen import STANDARD_INPUT, describe_part
from dragoman.errors import ConfigError
from dragoman.media import MAX_BYTES
from dragoman.types import File, Image, Message, Part, Text

_HINT = "write the task as an argument, and use - for standard input only once"


def read_attachments(sources: Sequence[str], *, uses_stdin: bool = False) -> list[Part]:
    """The parts of all attachments, in order. Raises ConfigError with the reason if one cannot be read.

    `uses_stdin` says that something else reads standard input, such as the task.
    """
    piped = sum(source == STANDARD_INPUT for source in sources)
    if piped and (uses_stdin or piped > 1):
        raise ConfigError("standard input can be read only once", hint=_HINT)
    if piped and sys.stdin.isatty():
        raise ConfigError(
            "there is nothing to attach: standard input is a terminal", hint="pipe a file in: -a - < FILE"
        )
    parts: list[Part] = []
    for source in sources:
        parts += _read_attachment(source)
    return parts


def check_words(words: Sequence[str], sources: Sequence[str]) -> None:
    """Raise ConfigError if a word of the task is a file that was meant as a further attachment, as in `-a *.png`."""
    stray = next((word for word in words if sources and len(words) > 1 and os.path.isfile(word)), None)
    if stray is not None:
        raise ConfigError(f"{stray!r} is a file without an option", hint=f"write -a before each file: -a {stray}")


def add_attachments(task: str | list[Message], parts: Sequence[Part]) -> str | list[Message]:
    """The task, or the messages of a prompt, with the attachments behind it."""
    if not parts:
        return task
    if isinstance(task, str):
        return [Message("user", [Text(task), *parts])]
    return [*task, Message("user", list(parts))]


def _read_attachment(source: str) -> list[Part]:
    from dragoman.builtin.attachments import attach, make_part

    if source == STANDARD_INPUT:
        name = "standard input"
        part = make_part(sys.stdin.buffer.read(MAX_BYTES + 1), name)
    else:
        name = source.partition("?")[0].rstrip("/").rpartition("/")[2] or source
        part = attach(source)
    if isinstance(part, Text):
        return [part]
    # A task that names its files needs their names beside them: not every wire has a place for one.
    words = "Image" if isinstance(part, Image) else "File"
    label = part.name if isinstance(part, File) and source != STANDARD_INPUT else name
    return [Text(f"{words} {label}:"), part]


def describe_attachments(parts: Sequence[Part]) -> list[str]:
    """A line for each image and file, for the screen."""
    return [describe_part(part) for part in parts if isinstance(part, Image | File)]
