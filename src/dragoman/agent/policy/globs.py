"""Patterns of paths: `*` within a name, `?` for one character, `**` for any number of folders.

Everything else is literal where something would be allowed. Where something would be denied or asked about, a pattern
is read in every way in which it may have been meant: without regard to case, with `[...]` as a set of characters, and
with everything beneath what it names.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

ANY_FOLDERS = "**"
_ROOT = "/"


def matches_text(pattern: str, text: str) -> bool:
    """Whether a text is of this form; `*` is anything, `?` is one character. Takes no more than length by length."""
    position = index = 0
    star = resume = -1
    while position < len(text):
        # The star first: a text may hold one, and it stands for itself only where the pattern has no better use for it.
        if index < len(pattern) and pattern[index] == "*":
            star, resume = index, position
            index += 1
        elif index < len(pattern) and pattern[index] in ("?", text[position]):
            position, index = position + 1, index + 1
        elif star >= 0:
            resume += 1
            position, index = resume, star + 1
        else:
            return False
    return all(character == "*" for character in pattern[index:])


def matches_name(pattern: str, name: str) -> bool:
    """Whether a tool is meant by a pattern; capitals make no difference."""
    return _matches_loosely(pattern.casefold(), name.casefold())


def allows_path(pattern: str, path: str) -> bool:
    """Whether a path is surely one that the pattern names, letter by letter."""
    found = split_path(path)
    if ".." in found or not path or "\0" in path:
        return False
    states = {0}
    wanted = split_path(pattern)
    for name in found:
        states = _step(wanted, states, name, matches_text)
    return len(wanted) in _reach(wanted, states)


def mentions_path(pattern: str, path: str) -> bool:
    """Whether a path may be one that the pattern names, or lies beneath one."""
    return any(_lies_in(wanted, found) for wanted in _readings(pattern) for found in _spellings(path))


def may_hold(pattern: str, folder: str) -> bool:
    """Whether something that the pattern names could lie in a folder, at any depth."""
    for wanted in _readings(pattern):
        for found in _spellings(folder):
            states = {0}
            for name in found:
                states = _step(wanted, states, name, _matches_loosely)
            if _reach(wanted, states):
                return True
    return False


def split_path(path: str) -> tuple[str, ...]:
    """The names of a path; an absolute one begins with the root, so that no relative pattern is mistaken for it."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    return (_ROOT, *names) if path.startswith("/") else tuple(names)


def _readings(pattern: str) -> Iterator[tuple[str, ...]]:
    # Whose home is meant is not known here, so every folder may be it.
    if pattern == "~" or pattern.startswith("~/"):
        pattern = ANY_FOLDERS + pattern[1:]
    yield split_path(_plain(pattern))


def _spellings(path: str) -> Iterator[tuple[str, ...]]:
    plain = _plain(path)
    yield split_path(plain)
    for other in (posixpath.normpath(plain), plain.replace("\\", "/")):
        if other != plain:
            yield split_path(other)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _lies_in(wanted: Sequence[str], found: Sequence[str]) -> bool:
    states = {0}
    for name in found:
        if len(wanted) in _reach(wanted, states):
            return True
        states = _step(wanted, states, name, _matches_loosely)
        if not states:
            return False
    return len(wanted) in _reach(wanted, states)


def _reach(wanted: Sequence[str], states: set[int]) -> set[int]:
    """The places in the pattern that can be reached without another name: `**` may stand for none."""
    reached = set(states)
    for index, name in enumerate(wanted):
        if index in reached and name == ANY_FOLDERS:
            reached.add(index + 1)
    return reached


def _step(wanted: Sequence[str], states: set[int], name: str, fits: Callable[[str, str], bool]) -> set[int]:
    after = set()
    for index in _reach(wanted, states):
        if index == len(wanted):
            continue
        if wanted[index] == ANY_FOLDERS:
            after.add(index)
        elif fits(wanted[index], name):
            after.add(index + 1)
    return after


def _matches_loosely(pattern: str, text: str) -> bool:
    if matches_text(pattern, text):
        return True
    if "[" not in pattern:
        return False
    try:
        return fnmatchcase(text, pattern)
    except re.error:
        return True
