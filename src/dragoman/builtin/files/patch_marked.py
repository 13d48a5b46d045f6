"""Patches between `*** Begin Patch` and `*** End Patch`: without line numbers, with the lines around a place."""

from __future__ import annotations

import re
from typing import cast

from dragoman.builtin.files.patch_sections import Hunk, PatchFault, Section, Sign

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_LAST = "*** End of File"
_RANGES = re.compile(r"^ -\d+(,\d+)? \+\d+(,\d+)? @@")
HEADINGS = (_ADD, _DELETE, _UPDATE)


def read_marked(lines: list[str]) -> list[Section]:
    """The sections of such a patch; `lines` without their ends."""
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        if line.strip() == END:
            break
        reader.read(number, line)
    reader.close()
    return reader.sections


class _Reader:
    def __init__(self) -> None:
        self.sections: list[Section] = []
        self._section: Section | None = None
        self._hunk: Hunk | None = None
        self._anchors: tuple[str, ...] = ()
        self._empty = 0

    def close(self) -> None:
        """End a hunk. Lines without anything at its end are space between the parts of a patch."""
        if self._hunk is not None and self._empty:
            del self._hunk.lines[-self._empty :]
            if not self._hunk.lines and self._section is not None:
                self._section.hunks.remove(self._hunk)
        self._hunk, self._empty = None, 0

    def read(self, number: int, line: str) -> None:
        if line.startswith("*** "):
            self._heading(number, line)
        elif self._section is None:
            if line.strip() and line[0] in "+-@":
                raise PatchFault(number, "this belongs to no file; begin with *** Update File: PATH")
        elif line.startswith("@@") and self._section.action == "update":
            self.close()
            anchor = _RANGES.sub("", line[2:]).strip().removesuffix("@@").strip()
            if anchor:
                self._anchors = (*self._anchors, anchor)
        else:
            self._body(number, line, self._section)

    def _heading(self, number: int, line: str) -> None:
        words = line.rstrip()
        if words == BEGIN:
            return
        if words == _LAST:
            if self._hunk is not None:
                self._hunk.at_end = True
            self.close()
            return
        self.close()
        self._anchors = ()
        if words.startswith(_MOVE):
            if self._section is None or self._section.action != "update":
                raise PatchFault(number, "only a file that is updated can be moved")
            self._section.target = _path(number, words, _MOVE)
            return
        for start, action in ((_ADD, "add"), (_DELETE, "delete"), (_UPDATE, "update")):
            if words.startswith(start):
                self._section = Section(action, _path(number, words, start), hunks=[])  # type: ignore[arg-type]
                self.sections.append(self._section)
                return
        raise PatchFault(number, f"unknown heading {words[:60]!r}")

    def _body(self, number: int, line: str, section: Section) -> None:
        if section.action == "delete" or (section.action == "add" and line[:1] != "+"):
            if line.strip():
                what = "after a file to delete nothing may follow"
                raise PatchFault(number, what if section.action == "delete" else "lines of a new file begin with +")
            return
        if line[:1] not in ("", " ", "-", "+"):
            raise PatchFault(number, "lines of a hunk begin with a space, - or +")
        if self._hunk is None:
            self._hunk = Hunk([], number, anchors=self._anchors, notes=[])
            self._anchors = ()
            section.hunks.append(self._hunk)
        # Trailing white space gets lost on the way, so an empty line stands for a line with nothing in it.
        self._empty = 0 if line else self._empty + 1
        self._hunk.lines.append((cast(Sign, line[:1] or " "), line[1:] + "\n"))


def _path(number: int, words: str, start: str) -> str:
    path = words[len(start) :].strip()
    if not path:
        raise PatchFault(number, "the path is missing")
    return path
