"""Patch formats: `*** Begin Patch` and unified diffs."""

from __future__ import annotations

import re
from typing import Literal, cast

from msgspec import Struct

from dragoman.tools import Error

# --------------------------------------------------------------------------------------------------------------------
# What a patch says, whichever way it is written: sections for files, and hunks for places in a file.

Sign = Literal[" ", "-", "+"]
Action = Literal["add", "delete", "update", "copy"]


class Hunk(Struct):
    """Lines to be found at a place, and the ones to be there instead."""

    lines: list[tuple[Sign, str]]
    """Each with its line end, unless the patch says that it has none."""
    at: int = 0
    """The line of the patch that it begins in."""
    start: int | None = None
    """The index of the first line in the old file, where the patch tells it."""
    anchors: tuple[str, ...] = ()
    """Lines that come before the place, one after another."""
    at_end: bool = False
    """Whether the last line has to be the last one of the file."""
    notes: list[str] = []

    def add(self, line: str) -> Sign:
        """Add a line of the patch. White space at its end gets lost on the way: an empty one has nothing in it."""
        sign = cast(Sign, line[:1] or " ")
        self.lines.append((sign, line[1:] + "\n"))
        return sign

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class Section(Struct):
    """What happens to one file."""

    action: Action
    path: str
    target: str = ""
    """The new name of a file that is moved or copied."""
    hunks: list[Hunk] = []
    mode: int | None = None

    @property
    def paths(self) -> list[str]:
        return [self.path, self.target] if self.target else [self.path]


class PatchFault(Error):
    """The patch itself is wrong."""

    def __init__(self, line: int, words: str) -> None:
        super().__init__(f"line {line} of the patch: {words}; nothing was changed")


# --------------------------------------------------------------------------------------------------------------------
# Patches between `*** Begin Patch` and `*** End Patch`: without line numbers, with the lines around a place.

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_LAST = "*** End of File"
_ANCHOR_RANGES = re.compile(r"^ -\d+(,\d+)? \+\d+(,\d+)? @@")
HEADINGS: dict[str, Action] = {_ADD: "add", _DELETE: "delete", _UPDATE: "update"}


def read_marked(lines: list[str]) -> list[Section]:
    """The sections of such a patch; `lines` without their ends."""
    reader = _MarkedReader()
    for number, line in enumerate(lines, 1):
        if line.strip() == END:
            break
        reader.read(number, line)
    reader.close()
    return reader.sections


class _MarkedReader:
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
            anchor = _ANCHOR_RANGES.sub("", line[2:]).strip().removesuffix("@@").strip()
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
        for start, action in HEADINGS.items():
            if words.startswith(start):
                self._section = Section(action, _path(number, words, start))
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
            self._hunk, self._anchors = Hunk([], number, anchors=self._anchors), ()
            section.hunks.append(self._hunk)
        self._empty = 0 if line else self._empty + 1
        self._hunk.add(line)


def _path(number: int, words: str, start: str) -> str:
    path = words[len(start) :].strip()
    if not path:
        raise PatchFault(number, "the path is missing")
    return path


# --------------------------------------------------------------------------------------------------------------------
# Unified diffs, as `diff -u` and git write them, and as models do, who cannot count.

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_NOWHERE = "/dev/null"


def read_unified(lines: list[str]) -> list[Section]:
    """The sections of a diff; `lines` without their ends."""
    return _UnifiedReader(lines).read()


class _UnifiedReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> list[Section]:
        sections: list[Section] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                sections.append(self._git_section())
            elif self._is_file_header():
                sections.append(self._plain_section(None))
            elif line.startswith("@@ "):
                raise PatchFault(self._at + 1, "this hunk belongs to no file; --- PATH and +++ PATH come before it")
            else:
                self._at += 1  # Words around a patch.
        return sections

    def _is_file_header(self) -> bool:
        before, after = (*self._lines[self._at : self._at + 2], "", "")[:2]
        return before.startswith("--- ") and after.startswith("+++ ")

    # ---- headings --------------------------------------------------------------------------------------------------

    def _git_section(self) -> Section:
        """`diff --git`, with what git says beyond the names."""
        first = self._at
        told: dict[str, str] = {}
        self._at += 1
        while self._at < len(self._lines) and not self._is_file_header():
            line = self._lines[self._at]
            word = next((each for each in _TOLD if line.startswith(each)), None)
            if word is None:
                break
            told[word] = line[len(word) :].strip()
            self._at += 1
        if any(word in told for word in ("GIT binary patch", "Binary files ")):
            raise PatchFault(first + 1, "binary content cannot be patched")
        mode = _mode(first + 1, told.get("new mode ") or told.get("new file mode ") or "")
        for word in ("rename", "copy"):
            if f"{word} from " in told and f"{word} to " in told:
                source, target = _unquoted(told[f"{word} from "]), _unquoted(told[f"{word} to "])
                self._at += 2 * self._is_file_header()
                return Section("update" if word == "rename" else "copy", source, target, self._hunks(), mode)
        if self._is_file_header():
            return self._plain_section(mode)
        # Without hunks: an empty file comes or goes, or only the permissions change.
        path = _git_path(self._lines[first][len("diff --git ") :])
        if path is None:
            raise PatchFault(first + 1, "the path cannot be told; add --- and +++ lines")
        if "deleted file mode " in told:
            return Section("delete", path)
        if mode is None and "new file mode " not in told:
            raise PatchFault(first + 1, "nothing is said about this file")
        return Section("add" if "new file mode " in told else "update", path, mode=mode)

    def _plain_section(self, mode: int | None) -> Section:
        number = self._at + 1
        old, new = _header_path(self._lines[self._at]), _header_path(self._lines[self._at + 1])
        self._at += 2
        if _NOWHERE not in (old, new):
            prefixed = old.startswith("a/") and new.startswith("b/")
            old, new = (old[2:], new[2:]) if prefixed else (old, new)
            section = Section("update", old, new if new != old else "", mode=mode)
        elif old != _NOWHERE:
            section = Section("delete", old.removeprefix("a/"))
        elif new != _NOWHERE:
            section = Section("add", new.removeprefix("b/"), mode=mode)
        else:
            raise PatchFault(number, "both sides are /dev/null")
        section.hunks = self._hunks()
        if not section.hunks and not section.target and mode is None and section.action == "update":
            raise PatchFault(number, "this file has no hunks")
        return section

    # ---- hunks -----------------------------------------------------------------------------------------------------

    def _hunks(self) -> list[Hunk]:
        hunks: list[Hunk] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@"):
            hunks.append(self._hunk())
        return hunks

    def _hunk(self) -> Hunk:
        ranges = _RANGES.match(self._lines[self._at])
        hunk = Hunk([], self._at + 1)
        self._at += 1
        old_left = new_left = 0
        if ranges is None:
            hunk.notes.append("it has no line numbers")
        else:
            start, old_left, new_left = int(ranges[1]), int(ranges[2] or 1), int(ranges[4] or 1)
            # Where nothing is taken away, the number is that of the line before.
            hunk.start = start - 1 if old_left else start
        while self._at < len(self._lines):
            line = self._lines[self._at]
            is_due = old_left > 0 or new_left > 0
            if line.startswith("\\"):
                # `\ No newline at end of file` is about the line before.
                if not hunk.lines:
                    raise PatchFault(self._at + 1, "there is no line before this one")
                sign, text = hunk.lines.pop()
                hunk.lines.append((sign, text.removesuffix("\n")))
            elif not self._is_body(line, is_due):
                break
            else:
                sign = hunk.add(line)
                old_left -= sign != "+"
                new_left -= sign != "-"
            self._at += 1
        if ranges is not None and (old_left or new_left):
            hunk.notes.append("its line counts are wrong")
        if not hunk.lines:
            raise PatchFault(hunk.at, "this hunk is empty")
        return hunk

    def _is_body(self, line: str, is_due: bool) -> bool:
        if is_due:
            return line[:1] in ("", " ", "-", "+")
        # More than was announced: a hunk goes on, unless something else begins here.
        return line[:1] in (" ", "-", "+") and not self._is_file_header() and line != "-- "


_TOLD = (
    *("old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ", "rename from "),
    *("rename to ", "similarity index ", "dissimilarity index ", "index ", "GIT binary patch", "Binary files "),
)


def _mode(line: int, told: str) -> int | None:
    if not told:
        return None
    if told not in ("100644", "100755"):
        raise PatchFault(line, f"mode {told} is not that of a plain file; links and submodules are left alone")
    return 0o755 if told == "100755" else 0o644


def _header_path(line: str) -> str:
    words = line[4:]
    return _unquoted(words) if words.startswith('"') else words.partition("\t")[0].rstrip()


def _git_path(words: str) -> str | None:
    """The path of `a/PATH b/PATH`, where both are the same."""
    if words.startswith('"'):
        end = words.find('" "')
        old = _unquoted(words[: end + 1]) if end > 0 else ""
        return old.removeprefix("a/") or None
    half = len(words) // 2
    old, new = words[:half], words[half + 1 :]
    return old[2:] if old[:2] == "a/" and new[:2] == "b/" and old[2:] == new[2:] else None


def _unquoted(words: str) -> str:
    """A path in quotes, with the escapes of C, as git writes unusual ones."""
    if not (words.startswith('"') and words.rstrip().endswith('"')):
        return words
    inner = words.rstrip()[1:-1].encode("utf-8", "surrogatepass")

    def plain(match: re.Match[bytes]) -> bytes:
        escape = match[1].decode("latin-1")
        return bytes([int(escape, 8) & 0xFF]) if escape[0] in "01234567" else _ESCAPES.get(escape, match[0])

    return _ESCAPE.sub(plain, inner).decode("utf-8", "surrogateescape")
