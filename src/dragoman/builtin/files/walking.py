"""Going through the folders of a workspace, in the order of their names, without following links."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from dragoman.builtin.files.confining import open_beneath
from dragoman.builtin.files.wording import counted, quoted
from dragoman.builtin.files.workspace import Workspace
from dragoman.tools import Error

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
"""Folders that are large and hold nobody's own work; they are gone into only where somebody names them."""
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
            descriptor = open_beneath(self._workspace.top, place, _LIST, follow=False)
        except OSError:  # It went away, became a link, or may not be listed.
            self.unreadable.append(place)
            return found
        try:
            with os.scandir(descriptor) as entries:
                for each in islice(entries, max(self._left, 0)):
                    path = each.name if place == "." else f"{place}/{each.name}"
                    is_folder = each.is_dir(follow_symlinks=False)
                    found.append(Entry(path, is_folder, each.is_file(follow_symlinks=False), depth))
        except OSError:
            self.unreadable.append(place)
        finally:
            os.close(descriptor)
        self._left -= len(found)
        found.sort(key=lambda entry: entry.path, reverse=True)
        return found

    def notes(self, hint: bool) -> list[str]:
        """What the walk did not see, in words; with `hint`, also how to see it."""
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
