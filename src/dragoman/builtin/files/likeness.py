"""What a model may have meant that named a file, or quoted a text, which is not there."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress

from dragoman.builtin.files.wording import quoted
from dragoman.builtin.files.workspace import Found, Workspace
from dragoman.tools import Error

_MOST_LINES = 10_000
_MOST_PARTS = 200
_MOST_COMPARED = 300
_LONGEST_LINE = 300
_AROUND = 2
_NO_ACCIDENT = 8
_MOST_SHOWN = 12
_NUMBERED = re.compile(r"[ ]*\d+\t")


def absent_words(workspace: Workspace, found: Found) -> str:
    """That there is no such file, and what may have been meant."""
    words = f"{quoted(found.path)}: there is no such file"
    folder, _, name = found.path.rpartition("/")
    names: list[str] = []
    with suppress(Error):
        names = workspace.names(folder or ".")
    if not names:
        return f"{words}; glob finds files by pattern"
    near = difflib.get_close_matches(name, names[:2000], n=3, cutoff=0.6)
    beside = ", ".join(quoted(f"{folder}/{each}" if folder else each) for each in near)
    return f"{words}. Similar: {beside}" if near else f"{words}; glob finds files by pattern"


def miss_words(text: str, wanted: str, replacement: str) -> str:
    """Why a text may not have been found in a file, and the lines that come nearest to it."""
    lines, parts = text.removesuffix("\n").split("\n"), wanted.split("\n")
    if any(_NUMBERED.match(part) for part in parts) and all(_NUMBERED.match(part) or not part for part in parts):
        return "It begins with the line numbers that read shows; leave out each number and the tab behind it."
    there = _line_of(text, replacement.strip("\n"))
    if there is not None:
        return f"The new text is there already, at line {there}."
    near, is_alike = _nearest(lines, parts)
    if near is None:
        return "Nothing in the file comes near it; read the file again."
    words = "These lines differ from it in white space only:" if is_alike else "The nearest lines are:"
    return f"{words}\n{numbered(lines, near, len(parts))}"


def _line_of(text: str, replacement: str) -> int | None:
    """Where a text is: in whole lines, or anywhere if it is long enough for that to be no accident."""
    at = f"\n{text}\n".find(f"\n{replacement}\n") if replacement.strip() else -1
    if at < 0 and len(replacement.strip()) >= _NO_ACCIDENT:
        at = text.find(replacement)
    return None if at < 0 else text.count("\n", 0, at) + 1


def numbered(lines: list[str], at: int, length: int) -> str:
    """Some lines, from index `at`, with a few around them, as `read` shows them."""
    first = max(at - _AROUND, 0)
    last = min(at + length + _AROUND, len(lines), first + _MOST_SHOWN)
    return "\n".join(f"{number + 1}\t{_short(lines[number])}" for number in range(first, last))


def _short(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " [...]"


def _nearest(lines: list[str], parts: list[str]) -> tuple[int | None, bool]:
    """The index of the line that is most like the first one that was wanted; whether only white space differs."""
    skipped = next((index for index, part in enumerate(parts) if part.strip()), None)
    if skipped is None:
        return None, False
    squeezed = ["".join(line.split()) for line in lines[:_MOST_LINES]]
    wanted = ["".join(part.split()) for part in parts[: skipped + _MOST_PARTS]]
    for index, line in enumerate(squeezed):
        if line == wanted[skipped] and squeezed[index : index + len(wanted) - skipped] == wanted[skipped:]:
            return max(index - skipped, 0), True
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(parts[skipped].strip()[:_LONGEST_LINE])
    best = 0.6
    at: int | None = None
    left = _MOST_COMPARED  # Comparing takes long, and this is only a hint.
    for index, line in enumerate(lines[:_MOST_LINES]):
        matcher.set_seq1(line.strip()[:_LONGEST_LINE])
        if left and matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            left -= 1
            if matcher.ratio() > best:
                best, at = matcher.ratio(), index
    return at, False
