"""What looks for a pattern in open files: ripgrep, or our own search, each in a process that can be ended.

The files are opened by us, beneath the workspace, and handed over as descriptors. So neither engine ever goes by a
path, and it does not matter what happens to the paths meanwhile; and both look at the same files in the same order.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.tools import Error

_LONGEST_MESSAGE = 8 << 20
_LONGEST_LINE_HERE = 10_000
_PIECE = 1 << 16
_PATIENCE = 0.1


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


class TimeIsUp(Exception):
    """The search was stopped."""


class UnknownPattern(Exception):
    """The engine does not know this kind of pattern."""


Engine = Callable[[Query, Sequence[int], Callable[[], bool]], Iterator[Hit]]
"""Finds in files that are open: the query, their descriptors, and whether to stop."""


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
    """Where `rg` is. Not one that lies in the workspace: whoever writes there must not choose what runs."""
    return _ripgrep_on(os.environ.get("PATH", os.defpath), workspace)


@lru_cache(maxsize=8)
def _ripgrep_on(path: str, workspace: str) -> str | None:
    for folder in path.split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        program = Path(folder, "rg")
        if program.is_file() and os.access(program, os.X_OK):
            real = program.resolve()
            if not any(each.is_relative_to(workspace) for each in (program, real)):
                return str(program)
    return None


def ripgrep(program: str) -> Engine:
    """The engine that ripgrep is, with everything off that reads settings, follows links or starts programs."""

    def find(query: Query, files: Sequence[int], stopped: Callable[[], bool]) -> Iterator[Hit]:
        command = [program, "--no-config", "--json", "--text", "--crlf", "--no-mmap", "--no-pre", "--no-messages"]
        command += ["--threads=1", "--ignore-case" if query.ignore_case else "--case-sensitive"]
        command += [f"--context={query.context}", f"--regexp={query.pattern}"]
        if query.most is not None:
            command.append(f"--max-count={query.most}")
        return _run([*command, "--", *_paths(files)], b"", files, stopped, fine=(0, 1))

    return find


# ---- our own -------------------------------------------------------------------------------------------------------


def own_search(query: Query, files: Sequence[int], stopped: Callable[[], bool]) -> Iterator[Hit]:
    """Our own search, in a process of its own; in this one where no Python can be started."""
    script = Path(__file__).with_name("matching.py")
    request = {
        "pattern": query.pattern,
        "ignore_case": query.ignore_case,
        "context": query.context,
        "most": query.most,
        "paths": _paths(files),
    }
    if not sys.executable or getattr(sys, "frozen", False) or not script.is_file():
        return _search_here(request, files, stopped)
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(script)]
    return _run(command, json.dumps(request).encode(), files, stopped, fine=(0,))


def _search_here(request: dict[str, Any], files: Sequence[int], stopped: Callable[[], bool]) -> Iterator[Hit]:
    """Without a process that could be ended: lines are bounded, but a pattern that never ends is not."""
    from dragoman.builtin.files.matching import search

    numbers = {path: index for index, path in enumerate(_paths(files))}
    for message in search(request, _LONGEST_LINE_HERE):
        if stopped():
            raise TimeIsUp
        yield _hit(message, numbers)


def _paths(files: Sequence[int]) -> list[str]:
    return [f"/dev/fd/{descriptor}" for descriptor in files]


# ---- processes -----------------------------------------------------------------------------------------------------


def _run(
    command: list[str], request: bytes, files: Sequence[int], stopped: Callable[[], bool], *, fine: tuple[int, ...]
) -> Iterator[Hit]:
    """Run an engine and read what it finds, until it ends or is told to; `fine` are the ways to end without trouble."""
    numbers = {path: index for index, path in enumerate(_paths(files))}
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
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
        _hand_over(process, request)
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


def _hand_over(process: subprocess.Popen[bytes], request: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(request)
        process.stdin.close()
    except BrokenPipeError:  # It ended already; why, it says itself.
        pass


def _lines(process: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> Iterator[bytes]:
    """The lines of the output; one that is too long is passed over, and its file told by its beginning alone."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    held = bytearray()
    is_passing = False
    while True:
        if stopped():
            raise TimeIsUp
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


class Clock:
    """How long a search has been going on, and whether to stop it."""

    def __init__(self, seconds: float, cancelled: Callable[[], bool]) -> None:
        self._end = time.monotonic() + seconds
        self._cancelled = cancelled

    def __call__(self) -> bool:
        return self._cancelled() or time.monotonic() > self._end
