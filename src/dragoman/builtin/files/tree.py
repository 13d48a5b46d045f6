"""Directory traversal and path patterns."""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from dragoman.builtin.files.workspace import Workspace, counted, open_beneath, quoted
from dragoman.sandbox.protection import closing
from dragoman.tools import Error

# --------------------------------------------------------------------------------------------------------------------
# Patterns of paths: `*`, `?`, `[a-z]`, `{py,toml}` within a name, and `**` for any number of folders.
#
# They are matched part by part, so no pattern takes longer than the product of its length and that of the path.

_MAGIC = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_FORMS = 64
_LONGEST = 1000


class PathPattern:
    """A pattern, ready to be compared with paths."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise Error(f"the pattern is longer than {_LONGEST} characters")
        self.forms = [_parts(form) for form in _without_braces(pattern)]
        self._compiled = [[None if part == "**" else _compiled(part) for part in form] for form in self.forms]

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match(form, names) for form in self._compiled)

    @property
    def deepest(self) -> int | None:
        """How many parts a path may have that matches; None where there is no end."""
        if any("**" in form for form in self.forms):
            return None
        return max(len(form) for form in self.forms)

    @property
    def literals(self) -> frozenset[str]:
        """Names that stand in the pattern as they are."""
        return frozenset(part for form in self.forms for part in form if not _MAGIC.search(part))


def split_base(pattern: str) -> tuple[str, str]:
    """The folders at the beginning of a pattern that are plain names, and the rest, which is never empty."""
    parts = _parts(pattern)
    at = next((index for index, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    at = min(at, len(parts) - 1)
    return "/".join(parts[:at]) or ".", "/".join(parts[at:])


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Error('a pattern cannot contain ".."; give the folder as path')
    if not parts:
        raise Error('the pattern is empty; "**" finds everything')
    if parts[-1] == "**":
        parts.append("*")  # All that is below, and not only folders.
    return parts


def _without_braces(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`; the innermost ones first."""
    forms = [pattern]
    while any(_BRACES.search(form) for form in forms):
        opened: list[str] = []
        for form in forms:
            braces = _BRACES.search(form)
            if braces is None:
                opened.append(form)
            else:
                opened += [form[: braces.start()] + each + form[braces.end() :] for each in braces[1].split(",")]
        forms = opened
        if len(forms) > _MOST_FORMS:
            raise Error(f"the pattern stands for more than {_MOST_FORMS} patterns; use fewer braces")
    return forms


def _compiled(part: str) -> re.Pattern[str]:
    try:
        return re.compile(fnmatch.translate(part))
    except re.error as problem:
        raise Error(f"the pattern {part!r} cannot be used: {problem}") from None


def _match(form: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Compare from the left; at a dead end, the last `**` takes one folder more."""
    at_form = at_name = 0
    again: tuple[int, int] | None = None
    while at_name < len(names):
        part = form[at_form] if at_form < len(form) else ...
        if part is None:
            again = (at_form + 1, at_name)
            at_form += 1
        elif part is not ... and part.match(names[at_name]):
            at_form, at_name = at_form + 1, at_name + 1
        elif again is not None:
            again = (again[0], again[1] + 1)
            at_form, at_name = again
        else:
            return False
    return at_form == len(form)


# --------------------------------------------------------------------------------------------------------------------
# Going through the folders of a workspace, in the order of their names, without following links.

MOST_ENTRIES = 200_000
"""Names that are looked at in one go."""
LEFT_OUT = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj"),
        *("node_modules", "bower_components", ".next", ".nuxt"),
        *(".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
        *(".tox", ".nox", ".eggs", ".gradle", ".terraform", ".cache"),
    }
)
"""Large folders without the user's own work; they are searched only if the pattern names them."""
_NAMED = 5
_LIST = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class Entry(Struct, frozen=True):
    """Something in a folder."""

    path: str
    """Relative to the workspace."""
    is_folder: bool = False
    is_file: bool = False
    """A regular file. Links, pipes and the like are neither."""
    depth: int = 1


class Walk:
    """One walk: what it gives, and afterwards what it left out."""

    def __init__(
        self,
        workspace: Workspace,
        start: str,
        *,
        wanted: frozenset[str] = frozenset(),
        deepest: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """`start` is a folder without links in its path; `wanted` are names that are not to be left out."""
        self._workspace = workspace
        self._start = start
        self._names = LEFT_OUT - wanted
        self._deepest = deepest
        self._cancelled = cancelled
        self._left = MOST_ENTRIES
        self.left_out: list[str] = []
        self.unreadable: list[str] = []

    @property
    def is_cut(self) -> bool:
        """Whether there were more names than are looked at."""
        return self._left <= 0

    def __iter__(self) -> Iterator[Entry]:
        # Paths wait here and not descriptors: a deep tree must not use those up.
        waiting = self._entries(self._start, 1)
        while waiting:
            entry = waiting.pop()
            if self._workspace.absolute(entry.path) in self._workspace.secrets:
                self.left_out.append(entry.path)
                continue
            yield entry
            if entry.is_folder and self._is_entered(entry):
                waiting += self._entries(entry.path, entry.depth + 1)

    def _is_entered(self, entry: Entry) -> bool:
        if self._deepest is not None and entry.depth >= self._deepest:
            return False
        if entry.path.rpartition("/")[2] in self._names:
            self.left_out.append(entry.path)
            return False
        return not self.is_cut

    def _entries(self, place: str, depth: int) -> list[Entry]:
        """What is in a folder, the first name last."""
        if self._cancelled():
            raise Error("the call was given up before it was done")
        found: list[Entry] = []
        try:
            with (
                closing(open_beneath(self._workspace.top, place, _LIST, follow=False)) as descriptor,
                os.scandir(descriptor) as entries,
            ):
                for each in islice(entries, max(self._left, 0)):
                    path = each.name if place == "." else f"{place}/{each.name}"
                    is_folder = each.is_dir(follow_symlinks=False)
                    found.append(Entry(path, is_folder, each.is_file(follow_symlinks=False), depth))
        except OSError:  # It went away, became a link, or may not be listed.
            self.unreadable.append(place)
        self._left -= len(found)
        found.sort(key=lambda entry: entry.path, reverse=True)
        return found

    def notes(self, hint: bool) -> list[str]:
        """Return a description of what the walk skipped; with `hint`, also how to include it."""
        notes: list[str] = []
        if self.left_out:
            names = Counter(path.rpartition("/")[2] for path in self.left_out)
            named = ", ".join(
                name if times == 1 else f"{name} ({times} times)" for name, times in sorted(names.items())
            )
            notes.append(f"left out: {named}" + "; name such a folder to look into it" * hint)
        if self.unreadable:
            notes.append(f"could not be listed: {_named(self.unreadable)}")
        if self.is_cut:
            notes.append(f"stopped after {MOST_ENTRIES:,} names; ask for a folder further down")
        return notes


def _named(paths: list[str]) -> str:
    more = f" and {counted(len(paths) - _NAMED, 'other')}" if len(paths) > _NAMED else ""
    return ", ".join(quoted(path) for path in paths[:_NAMED]) + more
