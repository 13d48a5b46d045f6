"""The tool `grep`: it finds lines that match a regular expression, with ripgrep or with its own search."""

from __future__ import annotations

import json
import os
import re
import select
import stat
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from dragoman.builtin.files.text import is_binary
from dragoman.builtin.files.tools import file_tool, find_approved, inspect_path
from dragoman.builtin.files.tree import PathPattern, Walk
from dragoman.builtin.files.workspace import Workspace, counted, open_beneath, quoted
from dragoman.errors import ConfigError
from dragoman.own_code import find_program, loader_environment, read_script, script_command
from dragoman.tools import Context, Error

# --------------------------------------------------------------------------------------------------------------------
# What looks for a pattern in open files: ripgrep, or our own search, each in a process that can be ended.
#
# The files are opened by us, beneath the workspace, and handed over as descriptors. So neither engine ever goes by a
# path, and it does not matter what happens to the paths meanwhile; and both look at the same files in the same order.

_LONGEST_MESSAGE = 8 << 20
_LONGEST_LINE_HERE = 10_000
_PIECE = 1 << 16
_PATIENCE = 0.1
_MATCHER = read_script(__name__, "matcher.py")


class Hit(Struct, frozen=True):
    """A line that was found, or one around it."""

    file: int
    """Which of the files."""
    line: int
    text: str
    is_match: bool
    start: int = 0
    """Where in the text the match begins."""


class Query(Struct, frozen=True):
    pattern: str
    ignore_case: bool = False
    context: int = 0
    most: int | None = None
    """Matches in one file after which the rest of it does not matter."""


class SearchTimeout(Exception):
    """The search was stopped."""


class UnknownPattern(Exception):
    """The engine does not know this kind of pattern."""


def ensure_pattern(pattern: str, *, or_ripgrep: bool = False) -> None:
    """Refuse a pattern that cannot be searched for, with the place of the mistake.

    With `or_ripgrep`, what only ripgrep understands passes: it will say itself if it does not.
    """
    if "\n" in pattern or "\0" in pattern:
        raise Error("the pattern contains a line end or a NUL: grep looks at one line at a time")
    if _has_nested_set(pattern):
        raise Error(
            r"the pattern has a set within a set, which engines read differently: write [[:alpha:]] as [A-Za-z], and a "
            r"bracket in a set as \["
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as problem:
        if not or_ripgrep:
            marks = "( ) [ ] { } . * + ? |"
            raise Error(
                f"bad pattern: {problem}. It is a regular expression: put \\ before {marks} to find those"
            ) from None


def _has_nested_set(pattern: str) -> bool:
    """Whether there is something in square brackets that is a letter to one engine and a sign to another."""
    at, start = 0, -1
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 1
        elif start < 0:
            if letter == "[":
                at += pattern.startswith("^", at + 1)
                start = at + 1
        elif letter == "[" or (letter in "-&~|" and pattern.startswith(letter, at + 1)):
            return True
        elif letter == "]" and at > start:  # Right at the beginning it is a letter.
            start = -1
        at += 1
    return False


# ---- ripgrep -------------------------------------------------------------------------------------------------------


def find_ripgrep(workspace: str) -> str | None:
    """Return the path of `rg`. It must not be in the workspace, because a model can write there."""
    return find_program("rg", workspace)


def run_ripgrep(
    program: str, query: Query, files: Sequence[int], stopped: Callable[[], bool], workspace: str
) -> Iterator[Hit]:
    """Search with ripgrep, with everything off that reads settings, follows links or starts programs."""
    command = [program, "--no-config", "--json", "--text", "--crlf", "--no-mmap", "--no-pre", "--no-messages"]
    command += ["--threads=1", "--ignore-case" if query.ignore_case else "--case-sensitive"]
    command += [f"--context={query.context}", f"--regexp={query.pattern}"]
    command += [f"--max-count={query.most}"] if query.most is not None else []
    return _run([*command, "--", *_paths(files)], b"", files, stopped, workspace, fine=(0, 1))


# ---- our own -------------------------------------------------------------------------------------------------------


def own_search(query: Query, files: Sequence[int], stopped: Callable[[], bool], workspace: str) -> Iterator[Hit]:
    """Our own search, in a process of its own; in this one where no Python can be started."""
    request = {**msgspec.structs.asdict(query), "paths": _paths(files)}
    try:
        command = [*script_command(_MATCHER, workspace)]
    except ConfigError:
        return _search_here(request, files, stopped)
    return _run(command, json.dumps(request).encode(), files, stopped, workspace, fine=(0,))


def _search_here(request: dict[str, Any], files: Sequence[int], stopped: Callable[[], bool]) -> Iterator[Hit]:
    """Without a process that could be ended: lines are bounded, but a pattern that never ends is not."""
    from dragoman.builtin.files.matcher import search

    numbers = {path: index for index, path in enumerate(_paths(files))}
    for message in search(request, _LONGEST_LINE_HERE):
        if stopped():
            raise SearchTimeout
        yield _hit(message, numbers)


def _paths(files: Sequence[int]) -> list[str]:
    return [f"/dev/fd/{descriptor}" for descriptor in files]


# ---- processes -----------------------------------------------------------------------------------------------------


def _run(
    command: list[str],
    request: bytes,
    files: Sequence[int],
    stopped: Callable[[], bool],
    workspace: str,
    *,
    fine: tuple[int, ...],
) -> Iterator[Hit]:
    """Run an engine and read what it finds, until it ends or is told to; `fine` are the ways to end without trouble."""
    numbers = {path: index for index, path in enumerate(_paths(files))}
    environment = loader_environment(workspace)
    environment |= {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if "SYSTEMROOT" in os.environ else {}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={**environment, "LC_ALL": "C.UTF-8"},
        pass_fds=files,
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # It ended already; why, it says itself.
            process.stdin.write(request)
            process.stdin.close()
        for line in _lines(process, stopped):
            message = msgspec.json.decode(line)
            if message["type"] in ("match", "context"):
                yield _hit(message, numbers)
        _judge(process, fine)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


def _lines(process: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> Iterator[bytes]:
    """The lines of the output; one that is too long is passed over, and its file told by its beginning alone."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    held = bytearray()
    is_passing = False
    while True:
        if stopped():
            raise SearchTimeout
        if not select.select([output], [], [], _PATIENCE)[0]:
            continue
        piece = os.read(output, _PIECE)
        if not piece:
            return
        *ended, rest = piece.split(b"\n")
        for each in ended:
            if not is_passing:
                yield bytes(held + each)
            held.clear()
            is_passing = False
        if not is_passing:
            held += rest
            if len(held) > _LONGEST_MESSAGE:
                yield _without_line(bytes(held[:1000]))
                held.clear()
                is_passing = True


def _without_line(head: bytes) -> bytes:
    """A message whose line is too long to be held: that there is a match, and in which file."""
    kind, path = re.search(rb'"type":"(\w+)"', head), re.search(rb'"path":\{"text":"([^"]*)"\}', head)
    if kind is None or path is None:
        return b'{"type":"other"}'
    words = f"[a line of more than {_LONGEST_MESSAGE:,} bytes]"
    data = {"path": {"text": path[1].decode()}, "lines": {"text": words}, "line_number": 0, "submatches": []}
    return json.dumps({"type": kind[1].decode(), "data": data}).encode()


def _hit(message: dict[str, Any], numbers: dict[str, int]) -> Hit:
    data = message["data"]
    text = _text_of(data["lines"]).removesuffix("\n").removesuffix("\r")
    start = data["submatches"][0]["start"] if data["submatches"] else 0
    at = len(text.encode("utf-8", "surrogateescape")[:start].decode("utf-8", "surrogateescape"))
    return Hit(numbers[data["path"]["text"]], data["line_number"] or 0, text, message["type"] == "match", at)


def _text_of(lines: dict[str, str]) -> str:
    if "text" in lines:
        return lines["text"]
    # Not UTF-8. Offsets count bytes, so the bytes stay countable until the text is shown.
    return b64decode(lines["bytes"]).decode("utf-8", "surrogateescape")


def _judge(process: subprocess.Popen[bytes], fine: tuple[int, ...]) -> None:
    assert process.stderr is not None
    words = process.stderr.read(4000).decode("utf-8", "replace")
    status = process.wait()
    # ripgrep has some trouble, without a word, where a file went away; that is none for us.
    if status not in fine and (words or status < 0):
        raise UnknownPattern(words.strip() or f"it was ended by signal {-status}")


def stop_after(seconds: float, cancelled: Callable[[], bool]) -> Callable[[], bool]:
    """Whether to stop a search that begins now."""
    end = time.monotonic() + seconds
    return lambda: cancelled() or time.monotonic() > end


# --------------------------------------------------------------------------------------------------------------------
# `grep`: lines that match a regular expression, or the files that have some.

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
        found = find_approved(workspace, path, "read", call)
        if found.kind == "absent":
            raise Error(f"{quoted(found.path)}: there is no such file or folder")
        around = min(max(context, 0), _MOST_CONTEXT) if output == "lines" else 0
        query = Query(pattern, ignore_case, around, 1 if output == "files" else None)
        search = Search(workspace, query, stop_after(TIME_LIMIT, call.cancelled))
        wanted = PathPattern(glob.removeprefix("!")) if glob else None
        walk = Walk(workspace, found.real, wanted=wanted.literals if wanted else frozenset(), cancelled=call.cancelled)
        is_wanted = _filter(wanted, glob, found.real)
        files = (entry.path for entry in walk if entry.is_file and is_wanted(entry.path))
        answer = Answer(output, max(limit, 1), apart=around > 0)
        answer.take(search.hits(files if found.kind == "folder" else iter((found.real,))))
        if not answer.matches and not search.is_cut:
            among = f" that match {quoted(glob)}" if glob else ""
            hint = "; grep looks at one line at a time" if r"\n" in pattern else ""
            answer.notes.append(f"no match in {counted(search.searched, 'file')}{among}{hint}")
        answer.notes += [*search.notes(), *walk.notes(hint=not answer.matches)]
        return str(answer)


class Search:
    """A pattern and the engine for it, over any number of files."""

    def __init__(self, workspace: Workspace, query: Query, stopped: Callable[[], bool]) -> None:
        self._workspace = workspace
        self._query = query
        self._stopped = stopped
        self._ripgrep = find_ripgrep(workspace.path)
        ensure_pattern(query.pattern, or_ripgrep=self._ripgrep is not None)
        self.is_cut = False
        self.binary: list[str] = []
        self.large: list[str] = []
        self.searched = 0

    def hits(self, paths: Iterator[str]) -> Iterator[tuple[str, Hit]]:
        """What is found in files, given by paths without links."""
        try:
            while names := list(islice(paths, _files_at_once())):
                if self._stopped():
                    raise SearchTimeout
                yield from self._hits_in(names)
        except SearchTimeout:
            self.is_cut = True

    def _hits_in(self, names: list[str]) -> Iterator[tuple[str, Hit]]:
        opened: dict[int, str] = {}
        try:
            for name in names:
                if (descriptor := self._open(name)) is not None:
                    opened[descriptor] = name
            self.searched += len(opened)
            descriptors = list(opened)
            for hit in self._found(descriptors) if descriptors else ():
                yield opened[descriptors[hit.file]], hit
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _found(self, files: list[int]) -> Iterator[Hit]:
        if self._ripgrep is not None:
            try:
                yield from run_ripgrep(self._ripgrep, self._query, files, self._stopped, self._workspace.path)
                return
            except UnknownPattern:
                # What ripgrep does not know (looking ahead, references back), Python may.
                ensure_pattern(self._query.pattern)
                self._ripgrep = None
        try:
            yield from own_search(self._query, files, self._stopped, self._workspace.path)
        except UnknownPattern as problem:
            raise Error(f"the search failed: {problem}") from None

    def notes(self) -> list[str]:
        """Return a description of what was not searched."""
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


def _filter(wanted: PathPattern | None, pattern: str, base: str) -> Callable[[str], bool]:
    """Which files a pattern means: by name at any depth, or by path where it contains a slash; `!` turns it round."""
    if wanted is None:
        return lambda path: True
    by_name = "/" not in pattern.rstrip("/")
    start = 0 if base == "." else len(base) + 1

    def matches(path: str) -> bool:
        spellings = (path.rpartition("/")[2],) if by_name else (path, path[start:])
        return any(map(wanted.matches, spellings)) is not pattern.startswith("!")

    return matches


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
