"""Which programs a line starts, and in which folders: more rather than fewer, as far as the line alone tells."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from msgspec import Struct

from dragoman.shell.lines import SimpleCommand
from dragoman.shell.reading import read_command
from dragoman.shell.wrappers import SHELLS, WRAPPERS, base_name

_DEPTH = 4
_MOST_FOLDERS = 64
_MOST_WORDS = 64


class Visit(Struct, frozen=True):
    """One program with its arguments, and every folder in which it may be started."""

    words: tuple[str, ...]
    folders: tuple[str, ...] = ("",)
    """Relative to where the line starts, or absolute, as written; a `cd` that fails leaves the folder as it was."""
    is_certain: bool = True
    """False where the line changes folders in ways that are not followed."""
    assignments: tuple[str, ...] = ()


def visits(text: str) -> tuple[Visit, ...]:
    """The programs of a line, those behind `env`, `sudo`, `sh -c` and their like included."""
    return tuple(_visit_line(text, ("",), True, 0))


def _visit_line(text: str, folders: tuple[str, ...], is_certain: bool, depth: int) -> Iterator[Visit]:
    for command in read_command(text).commands:
        if not command.words:
            continue
        yield from _visit_words(command.words, Visit((), folders, is_certain, command.assignments), depth)
        if base_name(command.words[0]) in ("cd", "pushd", "popd"):
            moved = _move(folders, command)
            is_certain = is_certain and moved is not None
            folders = moved or folders


def _visit_words(words: tuple[str, ...], start: Visit, depth: int) -> Iterator[Visit]:
    yield Visit(words, start.folders, start.is_certain, start.assignments)
    name = base_name(words[0])
    if depth >= _DEPTH or name not in WRAPPERS | SHELLS:
        return
    # Where the wrapped command starts is not certain, so it may start at any word.
    for index, word in enumerate(words[1:_MOST_WORDS], 1):
        if any(blank in word for blank in " \t\n;&|"):
            yield from _visit_line(word, start.folders, start.is_certain, depth + 1)
        elif word and not word.startswith("-") and name not in SHELLS:
            yield Visit(words[index:], start.folders, start.is_certain, start.assignments)


def _move(folders: tuple[str, ...], command: SimpleCommand) -> tuple[str, ...] | None:
    """The folders after a `cd`, which may have failed; None where it is not known where it leads."""
    operands = [word for word in command.words[1:] if word not in ("-P", "-L", "--")]
    if command.words[0] != "cd" or len(operands) != 1 or operands[0] in ("", "-") or any(command.marks):
        return None
    moved = dict.fromkeys((*folders, *(posixpath.join(folder, operands[0]) for folder in folders)))
    return tuple(moved) if len(moved) <= _MOST_FOLDERS else None
