"""`glob`: the files whose paths match a pattern, in the order of their names."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from dragoman.builtin.files.defining import file_tool
from dragoman.builtin.files.inspecting import ensure_approved, operands_at, operands_of
from dragoman.builtin.files.patterns import PathPattern, split_base
from dragoman.builtin.files.walking import Walk
from dragoman.builtin.files.wording import quoted
from dragoman.builtin.files.workspace import Found, OutsideError, Workspace
from dragoman.tools import Context, Error, ToolContext
from dragoman.types import JsonObject, Operand

MOST_PATHS = 1000
_MOST_CHARACTERS = 45_000


class _Search(Struct, frozen=True):
    """A pattern, taken apart: the folder to begin in, and what is matched below it."""

    base: str
    rest: str


def glob(
    pattern: Annotated[str, "such as **/*.py or src/*.{js,ts}"],
    context: Context,
    path: Annotated[str, "folder to look in"] = ".",
) -> str:
    """Find files by the pattern of their path. Sorted by name; `*` alone lists a folder."""
    with Workspace.of(context) as workspace:
        search = _search(workspace, pattern, path)
        found = workspace.find(search.base)
        ensure_approved(context, operands_of(workspace, found, "read"))
        _ensure_folder(found)
        wanted = PathPattern(search.rest)
        walk = Walk(workspace, found.real, wanted=wanted.literals, deepest=wanted.deepest, cancelled=context.cancelled)
        return _answer(_matching(walk, wanted, found.real), walk, pattern, found, wanted)


def _search(workspace: Workspace, pattern: str, path: str) -> _Search:
    """Where a search begins; a pattern that is an absolute path says it all by itself."""
    if pattern.startswith("/"):
        pattern, path = workspace.relative(pattern), "."
    base, rest = split_base(pattern)
    start = workspace.relative(path)
    return _Search(start if base == "." else f"{start}/{base}", rest)


def _matching(walk: Walk, wanted: PathPattern, base: str) -> list[str]:
    start = 0 if base == "." else len(base) + 1
    found: list[str] = []
    for entry in walk:
        # Folders are part of a listing; where any depth is searched, they are only in the way.
        if (not entry.is_folder or wanted.deepest is not None) and wanted.matches(entry.path[start:]):
            found.append(entry.path + "/" * entry.is_folder)
    return found


def _answer(paths: list[str], walk: Walk, pattern: str, found: Found, wanted: PathPattern) -> str:
    lines: list[str] = []
    room = _MOST_CHARACTERS
    for path in paths[:MOST_PATHS]:
        line = quoted(path)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    notes = walk.notes(hint=not paths)
    if len(lines) < len(paths):
        notes.insert(0, f"{len(lines):,} of {len(paths):,} matches; use a narrower pattern or a path to see the others")
    if not paths:
        deeper = "; **/ at the beginning looks at any depth" if wanted.deepest is not None else ""
        notes.insert(0, f"nothing matches {quoted(pattern)} in {quoted(found.path)}{deeper}")
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def _ensure_folder(found: Found) -> None:
    if found.kind == "absent":
        raise Error(f"{quoted(found.path)}: there is no such folder")
    if found.kind != "folder":
        raise Error(f"{quoted(found.path)} is no folder")


def _inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
    pattern, path = arguments.get("pattern"), arguments.get("path", ".")
    if not isinstance(pattern, str) or not isinstance(path, str):
        return []
    with Workspace.of(context) as workspace:
        try:
            base = _search(workspace, pattern, path).base
        except OutsideError:
            base = pattern if pattern.startswith("/") else path
        except Error:
            base = path
        return operands_at(workspace, base, "read")


Glob = file_tool("glob", glob, "read", _inspect)
