"""Where the programs of a command line come from: one that lies in the workspace may be the work of a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from dragoman.builtin.commands.git_settings import read_start

_STARTED_BY = {
    "egrep": ("grep",),
    "fgrep": ("grep",),
    "git": ("git", "gpg", "gpgsm", "ssh-keygen", "ssh", "sh"),
    "gh": ("gh", "git", "gpg", "ssh", "sh"),
}
"""The programs that others start by name, although they only read."""
_DEPTH = 3


def absolute_entries(path: str) -> list[str]:
    """The folders of a search path; one that is relative, or empty, means another folder after every `cd`."""
    return [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]


def find_programs(names: Iterable[str], path: str, top: str) -> list[str]:
    """Of the programs with these names, those that lie in the workspace."""
    entries = absolute_entries(path)
    found: dict[str, None] = {}
    seen: set[str] = set()
    for name in names:
        _look_up(name, entries, top, found, seen, 0)
    return list(found)


def _look_up(name: str, entries: list[str], top: str, found: dict[str, None], seen: set[str], depth: int) -> None:
    if name in seen or not name or "/" in name or "\0" in name or depth > _DEPTH:
        return
    seen.add(name)
    program = next(_candidates(name, entries), "")
    if program and any(is_beneath(each, top) for each in _places(program)):
        found[program] = None
    for other in (*_STARTED_BY.get(name, ()), *_interpreters(program)):
        _look_up(other, entries, top, found, seen, depth + 1)


def _candidates(name: str, entries: list[str]) -> Iterator[str]:
    for entry in entries:
        program = os.path.join(entry, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            yield program


def _places(program: str) -> tuple[str, str, str]:
    """The program as it is named, as it is named in its real folder, and as it is."""
    folder, name = os.path.split(program)
    return os.path.normpath(program), os.path.join(os.path.realpath(folder), name), os.path.realpath(program)


def is_beneath(path: str, top: str) -> bool:
    """Whether a path lies in a folder, as it is spelled."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def _interpreters(program: str) -> list[str]:
    """The program that `env` looks for, where a script begins with it."""
    if not program:
        return []
    try:
        start = read_start(program, 256)
    except OSError:
        return []
    if not start.startswith(b"#!"):
        return []
    words = os.fsdecode(start[2:].split(b"\n", 1)[0]).split()
    is_found_by_name = bool(words) and words[0].rsplit("/", 1)[-1] == "env"
    return [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1] if is_found_by_name else []
