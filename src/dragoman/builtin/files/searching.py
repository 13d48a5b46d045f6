"""`grep`: lines that match a regular expression, or the files that have some."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Literal

from dragoman.builtin.files.confining import open_beneath
from dragoman.builtin.files.defining import file_tool, inspect_path
from dragoman.builtin.files.encodings import is_binary
from dragoman.builtin.files.engines import (
    Clock,
    Engine,
    Hit,
    Query,
    TimeIsUp,
    UnknownPattern,
    ensure_pattern,
    find_ripgrep,
    own_search,
    ripgrep,
)
from dragoman.builtin.files.inspecting import ensure_approved, operands_of
from dragoman.builtin.files.patterns import PathPattern
from dragoman.builtin.files.walking import Walk
from dragoman.builtin.files.wording import counted, quoted
from dragoman.builtin.files.workspace import Found, Workspace
from dragoman.tools import Context, Error

LIMIT = 200
TIME_LIMIT = 30.0
LARGEST_FILE = 256 << 20
_MOST_AT_ONCE = 400
_MOST_CONTEXT = 50
_MOST_CHARACTERS = 45_000
_LONGEST_LINE = 400
_BEFORE_MATCH = 100
_FOR_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def grep(
    pattern: Annotated[str, "regular expression"],
    call: Context,
    path: Annotated[str, "file or folder to search"] = ".",
    glob: Annotated[str, "only such files: *.py or src/**/*.ts"] = "",
    output: Annotated[Literal["lines", "files", "count"], "what to give"] = "lines",
    context: Annotated[int, "lines to show around each match"] = 0,
    ignore_case: bool = False,
    limit: Annotated[int, "most matches, or files, to give"] = LIMIT,
) -> str:
    """Search files for a regular expression, line by line. Gives path:line:text."""
    with Workspace.of(call) as workspace:
        found = workspace.find(path)
        ensure_approved(call, operands_of(workspace, found, "read"))
        if found.kind == "absent":
            raise Error(f"{quoted(found.path)}: there is no such file or folder")
        around = min(max(context, 0), _MOST_CONTEXT) if output == "lines" else 0
        query = Query(pattern, ignore_case, around, 1 if output == "files" else None)
        search = Search(workspace, query, Clock(TIME_LIMIT, call.cancelled))
        files = _Files(workspace, found, glob, call.cancelled)
        answer = Answer(output, max(limit, 1), apart=around > 0)
        answer.take(search.hits(files.paths()))
        if not answer.matches and not search.is_cut:
            answer.notes.append(_nothing(search, pattern, glob))
        answer.notes += [*search.notes(), *files.notes(hint=not answer.matches)]
        return str(answer)


def _nothing(search: Search, pattern: str, glob: str) -> str:
    among = f" that match {quoted(glob)}" if glob else ""
    hint = "; grep looks at one line at a time" if r"\n" in pattern else ""
    return f"no match in {counted(search.searched, 'file')}{among}{hint}"


class Search:
    """A pattern and the engine for it, over any number of files."""

    def __init__(
        self, workspace: Workspace, query: Query, stopped: Callable[[], bool], program: str | None = ""
    ) -> None:
        """`program` is ripgrep's place; empty to look for it, None to do without."""
        self._workspace = workspace
        self._query = query
        self._stopped = stopped
        found = find_ripgrep(workspace.path) if program == "" else program
        ensure_pattern(query.pattern, or_ripgrep=found is not None)
        self._engine: Engine = own_search if found is None else ripgrep(found)
        self.is_cut = False
        self.binary: list[str] = []
        self.large: list[str] = []
        self.searched = 0

    def hits(self, paths: Iterator[str]) -> Iterator[tuple[str, Hit]]:
        """What is found in files, given by paths without links."""
        try:
            while names := list(islice(paths, _files_at_once())):
                if self._stopped():
                    raise TimeIsUp
                yield from self._hits_in(names)
        except TimeIsUp:
            self.is_cut = True

    def _hits_in(self, names: list[str]) -> Iterator[tuple[str, Hit]]:
        opened: list[tuple[str, int]] = []
        try:
            for name in names:
                descriptor = self._open(name)
                if descriptor is not None:
                    opened.append((name, descriptor))
            self.searched += len(opened)
            if opened:
                yield from ((opened[hit.file][0], hit) for hit in self._found([each for _, each in opened]))
        finally:
            for _, descriptor in opened:
                os.close(descriptor)

    def _found(self, files: list[int]) -> Iterator[Hit]:
        try:
            yield from self._engine(self._query, files, self._stopped)
        except UnknownPattern as problem:
            if self._engine is own_search:
                raise Error(f"the search failed: {problem}") from None
            # What ripgrep does not know (looking ahead, references back), Python may.
            ensure_pattern(self._query.pattern)
            self._engine = own_search
            yield from self._engine(self._query, files, self._stopped)

    def notes(self) -> list[str]:
        """What was not searched, in words."""
        notes: list[str] = []
        if self.is_cut:
            notes.append(f"stopped after {TIME_LIMIT:.0f} seconds; not everything was searched")
        if self.binary:
            notes.append(f"not searched, for they are no text: {counted(len(self.binary), 'file')}")
        if self.large:
            named = ", ".join(quoted(name) for name in self.large[:5])
            notes.append(f"not searched, for they are larger than {LARGEST_FILE >> 20} MB: {named}")
        return notes

    def _open(self, name: str) -> int | None:
        """A file to be searched; None for what is none, is no text, or is too large."""
        try:
            descriptor = open_beneath(self._workspace.top, name, _FOR_READING, follow=False)
        except OSError:  # It went away, or may not be read.
            return None
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size:
            if status.st_size > LARGEST_FILE:
                self.large.append(name)
            elif is_binary(os.pread(descriptor, 8192, 0)):
                self.binary.append(name)
            else:
                return descriptor
        os.close(descriptor)
        return None


def _files_at_once() -> int:
    """Files that are open at the same time: a part of what this process may have open."""
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_AT_ONCE if allowed == resource.RLIM_INFINITY else max(min(_MOST_AT_ONCE, allowed // 4), 1)


class _Files:
    """The files to search: one, or those of a folder."""

    def __init__(self, workspace: Workspace, found: Found, pattern: str, cancelled: Callable[[], bool]) -> None:
        self._one = found.real if found.kind != "folder" else None
        self._is_wanted = _filter(pattern, found.real)
        wanted = PathPattern(pattern.removeprefix("!")).literals if pattern else frozenset[str]()
        self._walk = Walk(workspace, found.real, wanted=wanted, cancelled=cancelled)

    def paths(self) -> Iterator[str]:
        if self._one is not None:
            yield self._one
            return
        for entry in self._walk:
            if entry.is_file and self._is_wanted(entry.path):
                yield entry.path

    def notes(self, hint: bool) -> list[str]:
        return self._walk.notes(hint)


def _filter(pattern: str, base: str) -> Callable[[str], bool]:
    """Which files a pattern means: by name at any depth, or by path where it contains a slash; `!` turns it round."""
    if not pattern:
        return lambda path: True
    wanted = PathPattern(pattern.removeprefix("!"))
    by_name = "/" not in pattern.rstrip("/")
    start = 0 if base == "." else len(base) + 1

    def matches(path: str) -> bool:
        if by_name:
            return wanted.matches(path.rpartition("/")[2])
        return wanted.matches(path) or wanted.matches(path[start:])

    return (lambda path: not matches(path)) if pattern.startswith("!") else matches


class Answer:
    """What was found, as the model is shown it."""

    def __init__(self, output: str, limit: int, *, apart: bool = False) -> None:
        """`apart` puts a line between lines that do not follow each other."""
        self.notes: list[str] = []
        self.matches = 0
        self._output = output
        self._limit = limit
        self._apart = apart
        self._lines: list[str] = []
        self._counts: dict[str, int] = {}
        self._room = _MOST_CHARACTERS
        self._last = ("", 0)

    def take(self, hits: Iterator[tuple[str, Hit]]) -> None:
        for path, hit in hits:
            if not self._fits(path, hit):
                shown = counted(self.matches, "match", "matches")
                if self._output != "lines":
                    shown = counted(len(self._counts), "file")
                self.notes.append(f"the first {shown}; there are more: narrow it down with path, glob or pattern")
                return
            if hit.is_match:
                self.matches += 1
                self._counts[path] = self._counts.get(path, 0) + 1
            if self._output == "lines":
                self._show(path, hit)

    def _fits(self, path: str, hit: Hit) -> bool:
        if self._room <= 0:
            return False
        if self._output == "lines":
            return not hit.is_match or self.matches < self._limit
        if path not in self._counts:
            self._room -= len(path)
        return path in self._counts or len(self._counts) < self._limit

    def _show(self, path: str, hit: Hit) -> None:
        if self._apart and self._lines and self._last != (path, hit.line - 1):
            self._lines.append("--")
        mark = ":" if hit.is_match else "-"
        line = f"{quoted(path)}{mark}{hit.line}{mark}{_shortened(hit)}"
        self._room -= len(line)
        self._lines.append(line)
        self._last = (path, hit.line)

    def __str__(self) -> str:
        if self._output == "files":
            shown = [quoted(path) for path in self._counts]
        elif self._output == "count":
            shown = [f"{quoted(path)}:{count}" for path, count in self._counts.items()]
        else:
            shown = self._lines
        return "\n".join([*shown, *(f"[{note}]" for note in self.notes)])


def _shortened(hit: Hit) -> str:
    """The line, or of a long one the part where the match is."""
    text = _readable(hit.text)
    if len(text) <= _LONGEST_LINE:
        return text
    start = min(max(hit.start - _BEFORE_MATCH, 0), len(text) - _LONGEST_LINE)
    end = start + _LONGEST_LINE
    return f"{'[...]' if start else ''}{text[start:end]}{'[...]' if end < len(text) else ''}"


def _readable(text: str) -> str:
    """A line that is not UTF-8 is shown as latin-1, as `read` does."""
    if text.isascii():
        return text
    content = text.encode("utf-8", "surrogateescape")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


Grep = file_tool("grep", grep, "read", inspect_path("read", "."))
