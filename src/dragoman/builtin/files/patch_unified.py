"""Unified diffs, as `diff -u` and git write them, and as models do, who cannot count."""

from __future__ import annotations

import re
from typing import cast

from dragoman.builtin.files.patch_sections import Hunk, PatchFault, Section, Sign

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_NOWHERE = "/dev/null"


def read_unified(lines: list[str]) -> list[Section]:
    """The sections of a diff; `lines` without their ends."""
    return _Reader(lines).read()


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._sections: list[Section] = []

    def read(self) -> list[Section]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                self._git_section()
            elif self._is_file_header():
                self._sections.append(self._plain_section(None))
            elif line.startswith("@@ "):
                raise PatchFault(self._at + 1, "this hunk belongs to no file; --- PATH and +++ PATH come before it")
            else:
                self._at += 1  # Words around a patch.
        return self._sections

    def _is_file_header(self) -> bool:
        after = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
        return self._lines[self._at].startswith("--- ") and after.startswith("+++ ")

    # ---- headings --------------------------------------------------------------------------------------------------

    def _git_section(self) -> None:
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
                section = Section("update" if word == "rename" else "copy", source, target, hunks=[], mode=mode)
                if self._at < len(self._lines) and self._is_file_header():
                    self._at += 2
                section.hunks = self._hunks()
                self._sections.append(section)
                return
        if self._at < len(self._lines) and self._is_file_header():
            self._sections.append(self._plain_section(mode))
            return
        self._sections.append(self._bare_section(first, told, mode))

    def _bare_section(self, first: int, told: dict[str, str], mode: int | None) -> Section:
        """Without hunks: an empty file comes or goes, or only the permissions change."""
        path = _git_path(self._lines[first][len("diff --git ") :])
        if path is None:
            raise PatchFault(first + 1, "the path cannot be told; add --- and +++ lines")
        if "deleted file mode " in told:
            return Section("delete", path, hunks=[])
        if "new file mode " in told:
            return Section("add", path, hunks=[], mode=mode)
        if mode is None:
            raise PatchFault(first + 1, "nothing is said about this file")
        return Section("update", path, hunks=[], mode=mode)

    def _plain_section(self, mode: int | None) -> Section:
        number = self._at + 1
        old, new = _header_path(self._lines[self._at]), _header_path(self._lines[self._at + 1])
        self._at += 2
        if _NOWHERE not in (old, new):
            prefixed = old.startswith("a/") and new.startswith("b/")
            old, new = (old[2:], new[2:]) if prefixed else (old, new)
            section = Section("update", old, new if new != old else "", hunks=[], mode=mode)
        elif old != _NOWHERE:
            section = Section("delete", old.removeprefix("a/"), hunks=[])
        elif new != _NOWHERE:
            section = Section("add", new.removeprefix("b/"), hunks=[], mode=mode)
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
        heading = self._lines[self._at]
        ranges = _RANGES.match(heading)
        hunk = Hunk([], self._at + 1, notes=[])
        self._at += 1
        old_left = new_left = 0
        if ranges is None:
            hunk.notes.append("it has no line numbers")
        else:
            start, old_left, new_left = int(ranges[1]), int(ranges[2] or 1), int(ranges[4] or 1)
            # Where nothing is taken away, the number is that of the line before.
            hunk.start = start - 1 if old_left else start
        counted = ranges is not None
        while self._at < len(self._lines):
            line = self._lines[self._at]
            is_due = old_left > 0 or new_left > 0
            if line.startswith("\\"):
                self._take_line_end(hunk)
            elif not self._is_body(line, is_due):
                break
            else:
                sign = cast(Sign, line[:1] or " ")
                old_left -= sign != "+"
                new_left -= sign != "-"
                hunk.lines.append((sign, line[1:] + "\n"))
            self._at += 1
        if counted and (old_left or new_left):
            hunk.notes.append("its line counts are wrong")
        if not hunk.lines:
            raise PatchFault(hunk.at, "this hunk is empty")
        return hunk

    def _is_body(self, line: str, is_due: bool) -> bool:
        if is_due:
            return line[:1] in ("", " ", "-", "+")
        # More than was announced: a hunk goes on, unless something else begins here.
        return line[:1] in (" ", "-", "+") and not self._is_file_header() and line != "-- "

    def _take_line_end(self, hunk: Hunk) -> None:
        """`\\ No newline at end of file`: it is about the line before."""
        if not hunk.lines:
            raise PatchFault(self._at + 1, "there is no line before this one")
        sign, text = hunk.lines[-1]
        hunk.lines[-1] = (sign, text.removesuffix("\n"))


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
