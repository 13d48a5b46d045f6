"""Where the keys of a TOML text stand; the parser of the standard library tells values, not lines.

The text has been parsed already, so this only has to walk it: strings, brackets and comments are skipped, and what is
left at the outermost level are headers of tables and keys.
"""

from __future__ import annotations

import re

Path = tuple[str, ...]

_KEY = re.compile(r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))\s*""").match
# What can hide a bracket, a quote or the end of a line inside a value.
_NEXT = re.compile(r'"""|\'\'\'|"|\'|#|\n|[\[{]|[\]}]').search
_ENDS = {
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL).match,
    "'''": re.compile(r"(?:[^']|'(?!''))*'''").match,
    '"': re.compile(r'(?:[^"\\\n]|\\.)*"').match,
    "'": re.compile(r"[^'\n]*'").match,
}


def find_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table header and every key that is not inside a value."""
    found: dict[Path, int] = {}
    table: Path = ()
    position, line = 0, 1
    while position < len(text):
        if text[position] in " \t\r":
            position += 1
            continue
        if text[position] == "\n":
            position, line = position + 1, line + 1
            continue
        start = line
        if text[position] == "[":
            opening = 2 if text.startswith("[[", position) else 1
            table, _ = _read_path(text, position + opening)
            _note(found, (), table, start)
            position = _end_of_line(text, position)
        elif text[position] == "#":
            position = _end_of_line(text, position)
        else:
            path, after = _read_path(text, position)
            _note(found, table, path, start)
            end = _skip_value(text, after)
            line += text.count("\n", position, end)
            position = max(end, position + 1)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """The line of a key, or of the nearest table around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _note(found: dict[Path, int], table: Path, path: Path, line: int) -> None:
    # A dotted key makes the tables on its way; a long one is a quadratic number of letters, so only the first few.
    whole = (*table, *path)
    for length in range(len(table) + 1, min(len(whole), len(table) + 8) + 1):
        found.setdefault(whole[:length], line)


def _read_path(text: str, position: int) -> tuple[Path, int]:
    names: list[str] = []
    while match := _KEY(text, position):
        names.append(next((group for group in match.groups() if group is not None), ""))
        position = match.end()
        if not text.startswith(".", position):
            break
        position += 1
    return tuple(names), position


def _skip_value(text: str, position: int) -> int:
    """Where the line ends on which the value ends."""
    depth = 0
    while match := _NEXT(text, position):
        mark, position = match.group(), match.end()
        if mark == "#":
            position = _end_of_line(text, position)
        elif mark == "\n":
            if depth <= 0:
                return match.start()
        elif mark in _ENDS:
            end = _ENDS[mark](text, position)
            position = len(text) if end is None else end.end()
        else:
            depth += 1 if mark in "[{" else -1
    return len(text)


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
