"""The tool `apply_patch`: it changes several files, all of them or none."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Annotated

import msgspec
from msgspec import Struct

from dragoman.builtin.files.atomic import Change, apply_changes
from dragoman.builtin.files.patch_formats import BEGIN, HEADINGS, Hunk, Section, read_marked, read_unified
from dragoman.builtin.files.text import PLAIN, Encoding, absent_words, encoding_of, miss_words
from dragoman.builtin.files.tools import (
    cannot_hold,
    content_to_edit,
    ensure_approved,
    file_tool,
    link_notes,
    operands_at,
    operands_of,
)
from dragoman.builtin.files.workspace import Found, Workspace, counted, quoted
from dragoman.tools import Context, Error, ToolContext
from dragoman.types import JsonObject, Operand

# --------------------------------------------------------------------------------------------------------------------
# Finding the place of each hunk in a file, and making the change there.
#
# A hunk has to fit exactly. Where it does not, a few differences are looked past, in this order and each only if that
# leaves a single place: white space at the ends of lines, then one and two lines at the outer ends of a hunk.
# Whatever was looked past is told. Lines that stay are always those of the file, and never those of the patch.

_MOST_DROPPED = 2
_NAMED = 5
_MOST_SEARCHED = 1 << 29
"""Characters that the hunks of one patch may go through in one file: many hunks and a large file multiply."""
_PER_LINE = 64
"""What a line costs that is looked at by itself, in characters of a search."""


class HunkMismatch(Error):
    """A hunk has no place, or more than one."""


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> tuple[str, list[str]]:
    """The text with all hunks applied, and what had to be looked past. Raises HunkMismatch."""
    lines = _split(text)
    notes: list[str] = []
    is_crlf = any(line.endswith("\r\n") for line in lines) and not any(map(_is_bare, lines))
    # A patch that has such a line end anywhere means each of its line ends as it is.
    if is_crlf and hunks and all(_is_bare(line) for hunk in hunks for _, line in hunk.lines if line.endswith("\n")):
        hunks = [_with_crlf(hunk) for hunk in hunks]
        notes.append("line ends were written as CR LF, as in the rest of the file")
    fitter = _Fitter(lines, "\r\n" if is_crlf else "\n")
    for number, hunk in enumerate(hunks, 1):
        try:
            told = [*hunk.notes, *fitter.fit(hunk)]
        except HunkMismatch as problem:
            raise HunkMismatch(f"hunk {number} (line {hunk.at} of the patch) {problem.reason}") from None
        if told:
            notes.append(f"hunk {number}: {', '.join(told)}")
    return fitter.finish(), notes


def _split(text: str) -> list[str]:
    """Lines with their ends; nothing but a line feed ends one."""
    *ended, rest = text.split("\n")
    return [line + "\n" for line in ended] + ([rest] if rest else [])


def _is_bare(line: str) -> bool:
    return line.endswith("\n") and not line.endswith("\r\n")


def _with_crlf(hunk: Hunk) -> Hunk:
    lines = [(sign, line[:-1] + "\r\n" if _is_bare(line) else line) for sign, line in hunk.lines]
    return msgspec.structs.replace(hunk, lines=lines)


class _View:
    """The lines of a file as one text, for looking up several lines in a single search."""

    def __init__(self, lines: list[str], evened: Callable[[str], str], spend: Callable[[int], None]) -> None:
        self._evened = evened
        self._spend = spend
        lengths = [evened(line) for line in lines]
        # A line feed in front of each line: so a search can only begin at the beginning of one.
        self._text = "\n" + "\n".join(lengths)
        self._offsets = [0, *accumulate(len(line) + 1 for line in lengths)]

    def is_at(self, wanted: list[str], index: int) -> bool:
        if not 0 <= index <= len(self._offsets) - 1 - len(wanted):
            return False
        sought = self._sought(wanted)
        return self._text.startswith(sought, self._offsets[index]) and self._ends_well(self._offsets[index], sought)

    def places(self, wanted: list[str], first: int, most: int) -> list[int]:
        """The lines, from `first` on, where the wanted ones begin; no more than `most`."""
        sought = self._sought(wanted)
        found: list[int] = []
        if first + len(wanted) >= len(self._offsets):
            return found  # There are not as many lines.
        start = self._offsets[first]
        at = self._text.find(sought, start)
        while at >= 0 and len(found) < most:
            self._spend(at - start + _PER_LINE)
            if self._ends_well(at, sought):
                found.append(bisect_left(self._offsets, at))
            start = at + 1
            at = self._text.find(sought, start)
        self._spend((len(self._text) if at < 0 else at) - start)
        return found

    def _sought(self, wanted: list[str]) -> str:
        return "".join("\n" + self._evened(line) for line in wanted)

    def _ends_well(self, at: int, sought: str) -> bool:
        end = at + len(sought)
        return end == len(self._text) or self._text[end] == "\n"


def _exactly(line: str) -> str:
    # The end of a line is told by a mark, so that a last line without one differs from the same line with one.
    return line[:-1] + "\0" if line.endswith("\n") else line


class _Fitter:
    """Goes through a file from top to bottom, hunk by hunk."""

    def __init__(self, lines: list[str], line_end: str) -> None:
        self._lines = lines
        self._line_end = line_end
        self._left = _MOST_SEARCHED
        self._exact = _View(lines, _exactly, self._spend)
        self._loose: _View | None = None
        self._done: list[str] = []
        self._cursor = 0
        self._drift = 0

    def fit(self, hunk: Hunk) -> list[str]:
        """Apply a hunk at its place; gives what had to be looked past."""
        first = self._after(hunk.anchors)
        if not hunk.old:
            return self._insert(hunk, first)
        at = self._place(self._exact, hunk, first)
        if at is not None:
            return self._apply(hunk, at, [])
        if self._loose is None:
            self._loose = _View(self._lines, str.rstrip, self._spend)
        for dropped in range(_MOST_DROPPED + 1):
            shorter, front = _shortened(hunk, dropped)
            if not shorter.old or (dropped and shorter.lines == hunk.lines):
                break
            at = self._place(self._loose, shorter, first + front)
            if at is not None:
                return self._apply(shorter, at, [self._difference(shorter, at, dropped)])
        raise HunkMismatch(self._why(hunk, first))

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise HunkMismatch(
                "has too many hunks before it for so large a file; say where they go, or apply it in parts"
            )

    def _difference(self, hunk: Hunk, at: int, dropped: int) -> str:
        if dropped:
            return f"up to {counted(dropped, 'line')} at its ends did not fit and were looked past"
        there = self._lines[at : at + len(hunk.old)]
        if [line.rstrip("\r\n") for line in there] == [line.rstrip("\r\n") for line in hunk.old]:
            return "line ends differ and were looked past"
        return "white space at the ends of lines differs and was looked past"

    def _after(self, anchors: tuple[str, ...]) -> int:
        """The line behind the last anchor."""
        first = self._cursor
        for anchor in anchors:
            self._spend(_PER_LINE * (len(self._lines) - first))
            holding = [at for at in range(first, len(self._lines)) if anchor in self._lines[at]]
            if not holding:
                raise HunkMismatch(f"begins behind a line that is not there: {anchor[:200]}")
            first = next((at for at in holding if self._lines[at].strip() == anchor), holding[0]) + 1
        return first

    def _place(self, view: _View, hunk: Hunk, first: int) -> int | None:
        """Where a hunk fits: where it says, or else at the only place; HunkMismatch where there are several."""
        old = hunk.old
        if hunk.at_end:
            at = len(self._lines) - len(old)
            return at if at >= first and view.is_at(old, at) else None
        if hunk.start is not None:
            expected = hunk.start + self._drift
            if expected >= first and view.is_at(old, expected):
                return expected
        places = view.places(old, first, _NAMED + 1)
        if len(places) <= 1 or hunk.anchors:
            return places[0] if places else None
        named = ", ".join(str(at + 1) for at in places[:_NAMED]) + (", ..." if len(places) > _NAMED else "")
        raise HunkMismatch(f"fits at several places (lines {named}); give more of the lines around the one you mean")

    def _insert(self, hunk: Hunk, first: int) -> list[str]:
        """Lines that come in without any line around them to go by."""
        if hunk.anchors:
            return self._apply(hunk, first, [])
        if hunk.start is None:
            return self._apply(hunk, len(self._lines), ["it names no place, and was put at the end"])
        at = hunk.start + self._drift
        if not self._cursor <= at <= len(self._lines):
            raise HunkMismatch(f"is to go behind line {at}, but the file has {counted(len(self._lines), 'line')}")
        return self._apply(hunk, at, [])

    def _apply(self, hunk: Hunk, at: int, told: list[str]) -> list[str]:
        if hunk.start is not None:
            moved = at - hunk.start - self._drift
            if moved:
                told = [*told, f"found {counted(abs(moved), 'line')} further {'down' if moved > 0 else 'up'}"]
            self._drift = at - hunk.start
        self._done += self._lines[self._cursor : at]
        for sign, line in hunk.lines:
            if sign == "+":
                self._done.append(line)
            else:
                if sign == " ":
                    self._done.append(self._lines[at])
                at += 1
        self._cursor = at
        return told

    def _why(self, hunk: Hunk, first: int) -> str:
        earlier = self._exact.places(hunk.old, 0, 1)
        if earlier and earlier[0] < first:
            return f"fits at line {earlier[0] + 1} only, before the hunk above it; put hunks in the order of the file"
        text = "".join(self._lines).replace("\r\n", "\n")
        old, new = ("".join(part).replace("\r\n", "\n") for part in (hunk.old, hunk.new))
        return f"does not fit. {miss_words(text, old.removesuffix(chr(10)), new)}"

    def finish(self) -> str:
        lines = self._done + self._lines[self._cursor :]
        # A last line without an end gets one when others come behind it.
        whole = [line if line.endswith("\n") else line + self._line_end for line in lines[:-1]]
        return "".join(whole + lines[-1:])


def _shortened(hunk: Hunk, most: int) -> tuple[Hunk, int]:
    """The hunk with up to that many lines fewer at either end, as far as they only show where it belongs."""
    lines = hunk.lines
    front = _leading(lines, most)
    back = _leading(lines[front:][::-1], most)
    kept = lines[front : len(lines) - back]
    start = None if hunk.start is None else hunk.start + front
    return msgspec.structs.replace(hunk, lines=kept, start=start, at_end=hunk.at_end and not back), front


def _leading(lines: Sequence[tuple[str, str]], most: int) -> int:
    return next((at for at, (sign, _) in enumerate(lines[:most]) if sign != " "), min(most, len(lines)))


# --------------------------------------------------------------------------------------------------------------------
# `apply_patch`: changes to several files at once, all of them or none.

MOST_FILES = 200


def apply_patch(patch: Annotated[str, "unified diff, or *** Begin Patch ... *** End Patch"], context: Context) -> str:
    """Change, add, delete or rename files by a patch. Either all of it is applied or nothing."""
    sections = read_patch(patch)
    with Workspace.of(context) as workspace:
        drafts = _Drafts(workspace)
        for path in _paths(sections):
            drafts.look(path)
        ensure_approved(context, [each for found in drafts.found for each in operands_of(workspace, found, "write")])
        told = [drafts.take(section) for section in sections]
        changes = drafts.changes()
        if not changes:
            return "the patch changes nothing: every file is already as it says"
        apply_changes(workspace, changes)
    return "\n".join(told)


def read_patch(patch: str) -> list[Section]:
    """What a patch says, in either form; an error where it says nothing."""
    lines = patch.split("\n")
    if lines and all(line.endswith("\r") for line in lines[:-1]) and len(lines) > 1:
        lines = [line.removesuffix("\r") for line in lines]  # The patch came with such line ends; its files may not.
    is_marked = any(line.startswith((BEGIN, *HEADINGS)) for line in lines)
    sections = read_marked(lines) if is_marked else read_unified(lines)
    if not sections:
        raise Error("this is no patch: give a unified diff (--- PATH, +++ PATH, @@ ...), or *** Begin Patch")
    if len(sections) > MOST_FILES:
        raise Error(f"the patch has more than {MOST_FILES} sections; apply it in parts")
    return sections


def _paths(sections: list[Section]) -> dict[str, None]:
    """Every path of a patch, once."""
    return dict.fromkeys(path for section in sections for path in section.paths)


class _Draft(Struct):
    """A file as it is, and as it is to be."""

    found: Found
    old: bytes | None = None
    """None where there is nothing, or nothing has been read yet."""
    new: bytes | None = None
    exists: bool = False
    mode: int | None = None
    is_read: bool = False

    def become(self, content: bytes | None, mode: int | None) -> None:
        self.new, self.mode, self.exists, self.is_read = content, mode, True, True


class _Drafts:
    """All files of a patch, changed in memory only: one section may go on where another one ended."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._by_path: dict[str, Found] = {}
        self._by_place: dict[str, _Draft] = {}

    @property
    def found(self) -> list[Found]:
        return list(self._by_path.values())

    def look(self, path: str) -> None:
        found = self._workspace.find(path, digest=True)
        self._by_path[path] = found
        self._by_place.setdefault(found.real, _Draft(found, exists=found.kind != "absent"))

    def changes(self) -> list[Change]:
        return [
            Change(draft.found, draft.new if draft.exists else None, draft.mode)
            for draft in self._by_place.values()
            if draft.exists != (draft.found.kind != "absent")
            or (draft.is_read and (draft.new != draft.old or draft.mode is not None))
        ]

    def take(self, section: Section) -> str:
        """Carry out one section; says what it does."""
        if section.action == "add":
            return self._add(section)
        draft = self._existing(section)
        if section.action == "delete":
            return self._delete(section, draft)
        content, notes = draft.new, list[str]()
        if section.hunks:
            assert content is not None
            content, notes = patched(content, section, section.path)
        target, mode = draft, draft.mode
        if section.target:
            target, mode = self._absent(section.target), draft.found.mode or None
            draft.exists = section.action == "copy"
        target.become(content, section.mode if section.mode is not None else mode)
        return _line(section, [*notes, *link_notes(draft.found)])

    def _add(self, section: Section) -> str:
        draft = self._absent(section.path)
        text = "".join(line for hunk in section.hunks for line in hunk.new)
        if any(sign != "+" for hunk in section.hunks for sign, _ in hunk.lines):
            raise Error(f"{quoted(section.path)} is to be a new file, but its lines do not all begin with +")
        draft.become(_encoded(text, PLAIN, section.path), section.mode)
        return _line(section, [])

    def _delete(self, section: Section, draft: _Draft) -> str:
        notes: list[str] = []
        if section.hunks:
            assert draft.new is not None
            rest, notes = patched(draft.new, section, section.path)
            if rest:
                raise Error(
                    f"{quoted(section.path)} is to be deleted, but has more in it than the patch; nothing was changed"
                )
        draft.exists = False
        return _line(section, notes)

    def _existing(self, section: Section) -> _Draft:
        draft = self._by_place[self._by_path[section.path].real]
        if not draft.exists:
            words = absent_words(self._workspace, draft.found)
            raise Error(f"{words if draft.found.kind == 'absent' else quoted(section.path) + ' is gone by then'}")
        # What only goes, or only gets another name, may be anything.
        if not draft.is_read and (section.hunks or section.action != "delete"):
            draft.old = draft.new = content_to_edit(self._workspace, draft.found, as_text=bool(section.hunks))
            draft.is_read = True
        return draft

    def _absent(self, path: str) -> _Draft:
        draft = self._by_place[self._by_path[path].real]
        if draft.exists:
            raise Error(f"{quoted(path)} is there already; nothing was changed. Update it, or delete it first")
        return draft


def patched(content: bytes, section: Section, path: str) -> tuple[bytes, list[str]]:
    """The content with the hunks of a section applied, in the encoding that it had."""
    encoding = encoding_of(content)
    readings = [(encoding, "strict")]
    if encoding.name == "latin-1":
        # Not UTF-8 throughout: the lines of the patch may still be.
        readings.append((PLAIN, "surrogateescape"))
    problem: HunkMismatch | None = None
    possible: list[tuple[bytes, list[str]]] = []
    for reading, errors in readings:
        try:
            text = content[len(reading.mark) :].decode(reading.name, errors)
        except UnicodeDecodeError:
            raise Error(f"{quoted(path)} is no sound {encoding.words}; it can only be written as a whole") from None
        try:
            changed, notes = apply_hunks(text, section.hunks)
        except HunkMismatch as misfit:
            problem = problem or misfit
            continue
        is_exact = not any(note.startswith("hunk ") for note in notes)
        if reading.name != "utf-8":
            notes.append(f"written as {reading.words}, as the file was")
        possible.append((reading.mark + _encoded(changed, reading, path, errors), notes))
        if is_exact:
            return possible[-1]
    if possible:
        return possible[0]
    raise Error(f"{quoted(path)}: {problem.reason if problem else ''}\nNothing was changed.")


def _encoded(text: str, encoding: Encoding, path: str, errors: str = "strict") -> bytes:
    try:
        return text.encode(encoding.name, errors)
    except UnicodeEncodeError as problem:
        raise cannot_hold(path, encoding, problem) from None


def _line(section: Section, notes: list[str]) -> str:
    added = sum(sign == "+" for hunk in section.hunks for sign, _ in hunk.lines)
    removed = sum(sign == "-" for hunk in section.hunks for sign, _ in hunk.lines)
    verb = {"add": "added", "delete": "deleted", "update": "updated", "copy": "copied"}[section.action]
    if section.action == "update" and section.target:
        verb = "renamed"
    named = quoted(section.path) + (f" to {quoted(section.target)}" if section.target else "")
    size = f" ({counted(added, 'line')} added, {removed:,} removed)" if added or removed else ""
    return "; ".join([f"{verb} {named}{size}", *notes])


def _inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
    patch = arguments.get("patch")
    if not isinstance(patch, str):
        return []
    try:
        sections = read_patch(patch)
    except Error:  # Nothing of it can be applied, and running it says why.
        return []
    with Workspace.of(context) as workspace:
        return [each for path in _paths(sections) for each in operands_at(workspace, path, "write")]


ApplyPatch = file_tool("apply_patch", apply_patch, "write", _inspect)
