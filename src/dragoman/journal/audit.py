"""The audit log: an append-only, hash-chained file of decisions, approvals, starts and ends."""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError, DragomanError, nearest
from dragoman.secrets import HumanSink
from dragoman.state_files import flush_folder, make_folder, open_alone, opened, wait_for_writers

# --------------------------------------------------------------------------------------------------------------------
# What can go wrong with an audit log, with the next step.

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class AuditFailed(DragomanError):
    """The log cannot be read or written. What stood in it before is still there, and can still be verified."""

    hint = "check the disk and the rights of the file; nothing should run that is not recorded"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """A failure of the system becomes one that says what to do."""
    try:
        yield
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        if error.errno in _FULL:
            hint = "make room on the disk, then run it again"
        elif error.errno in _FORBIDDEN:
            hint = "check the rights of the file and its folder, or name another place for the log"
        elif error.errno == errno.EINVAL:
            hint = "name a file for the audit log"
        else:
            hint = AuditFailed.hint
        raise AuditFailed(f"the audit log {path} cannot be used: {why}", hint=hint) from error


# --------------------------------------------------------------------------------------------------------------------
# One line of the log: a JSON object whose last field is the hash of everything before it.
#
# The hash is taken of the bytes as they stand, so there are no two ways to write the same record: a changed space is
# a change. `prev` is the hash of the record before, which makes the lines a chain.

Kind = Literal[
    "decision",
    "approval_asked",
    "approval_given",
    "approval_ignored",
    "started",
    "ended",
    "run_started",
    "run_ended",
]
KINDS: tuple[str, ...] = get_args(Kind)
TORN = "torn"
"""Written by the log itself: what a writer that was killed has left in front of this record."""
GAP = "gap"
"""Written by the log itself: records that were there are gone, and the log goes on nevertheless."""
CONTINUED = "continued"
"""Written by the log itself: the first record of a file, behind the last one of the file before."""
NOTHING_BEFORE = "0" * 64
MOST_OF_A_LINE = 1 << 20
"""Bytes; a longer line was not written by the log."""

_MARK = b',"hash":"'
_TAIL = len(_MARK) + 64 + len(b'"}')


class Link(Struct, frozen=True):
    """What the chain needs to know of a record."""

    n: int
    kind: str
    prev: str
    hash: str


_decode_link = msgspec.json.Decoder(Link).decode


def write_line(number: int, at: float, kind: str, fields: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """A line with its end, and its hash."""
    record = {"n": number, "at": at, "kind": kind, **fields, "prev": previous}
    # ASCII alone: no reader of lines takes anything in it for the end of one.
    body = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    hashed = sha256(body).hexdigest()
    return body[:-1] + _MARK + hashed.encode("ascii") + b'"}\n', hashed


def read_link(line: bytes) -> Link | None:
    """The link of a line without its end; None if it is not as the log wrote it."""
    body, mark, hashed, end = line[:-_TAIL], line[-_TAIL:-66], line[-66:-2], line[-2:]
    if mark != _MARK or end != b'"}' or sha256(body + b"}").hexdigest().encode("ascii") != hashed:
        return None
    try:
        return _decode_link(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_record(line: bytes) -> dict[str, Any] | None:
    """A record with all its fields, whether it was changed or not; None if it is no JSON object."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


# --------------------------------------------------------------------------------------------------------------------
# The files of a log: the one that is written, and those that were put aside when they were full, by number.


def put_aside(path: Path) -> list[Path]:
    """The files that were full, the oldest first: `audit.jsonl.1`, `audit.jsonl.2`, ..."""
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return []
    start = path.name + "."
    numbers = [name[len(start) :] for name in names if name.startswith(start)]
    return [path.with_name(start + each) for each in sorted(filter(_is_number, numbers), key=int)]


def next_aside(path: Path) -> Path:
    """The name under which the file is put aside that is written now."""
    before = put_aside(path)
    number = int(before[-1].name.rpartition(".")[2]) + 1 if before else 1
    return path.with_name(f"{path.name}.{number}")


def _is_number(text: str) -> bool:
    # Only as it is written here: audit.jsonl.07 is somebody else's.
    return text.isascii() and text.isdecimal() and not text.startswith("0")


# --------------------------------------------------------------------------------------------------------------------
# The file beside the log that knows its last record, and whose lock lets one writer at a time in.
#
# It makes visible that records were cut off at the end, which a chain alone cannot show. It is written behind the
# record that it names, so after a crash it may know less than the log, and never more.

_WRITTEN = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n").fullmatch
_LENGTH = 20 + 1 + 64 + 1


class Head(Struct, frozen=True):
    """The last record of a log: its number and its hash."""

    number: int = 0
    hash: str = NOTHING_BEFORE

    def __str__(self) -> str:
        return self.hash


def head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _read_head(descriptor: int) -> Head | None:
    """What a head file knows; None if it is new or cannot be understood."""
    found = _WRITTEN(os.pread(descriptor, _LENGTH + 1, 0))
    return Head(int(found[1]), found[2].decode("ascii")) if found else None


def _write_head(descriptor: int, head: Head) -> None:
    # It is always of one length, so it never needs more room on the disk.
    os.pwrite(descriptor, b"%020d %s\n" % (head.number, head.hash.encode("ascii")), 0)
    if os.fstat(descriptor).st_size != _LENGTH:
        os.ftruncate(descriptor, _LENGTH)


@contextmanager
def reading(path: Path) -> Iterator[Head | None]:
    """The head of a log, while nobody writes it; None where none is known."""
    place = head_path(path)
    if not place.exists():
        yield None
        return
    with opened(place, os.O_RDONLY) as descriptor:
        wait_for_writers(descriptor)
        yield _read_head(descriptor)


# --------------------------------------------------------------------------------------------------------------------
# The end of a log, read from the end: its last record, and what lies behind it that is none.

_PIECE = 1 << 16


class Tail(Struct, frozen=True):
    """How a file of the log ends."""

    size: int
    last: Link | None = None
    behind: int = 0
    """Bytes behind the last record: what a writer has left that was killed, or that somebody put there."""
    ended: bool = True
    """Whether the last line has its end."""


def read_tail(descriptor: int) -> Tail:
    """Find the last record of a file. It costs as much as the last line is long, unless the end is damaged."""
    size = os.fstat(descriptor).st_size
    ended = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
    for start, stop in _lines_backwards(descriptor, size):
        link = read_at(descriptor, start, stop)
        if link is not None:
            return Tail(size, link, max(0, size - stop - 1), ended)
    return Tail(size, None, size, ended)


def read_at(descriptor: int, start: int, stop: int) -> Link | None:
    """The record between two places of a file, if there is one."""
    if stop - start > MOST_OF_A_LINE:
        return None
    return read_link(os.pread(descriptor, stop - start, start))


def digest_end(descriptor: int, size: int, length: int, ended: bool) -> str:
    """SHA-256 of the last bytes of a file, with the end of the line that they will get if they have none."""
    digest = sha256()
    for place in range(size - length, size, _PIECE):
        digest.update(os.pread(descriptor, min(_PIECE, size - place), place))
    if not ended:
        digest.update(b"\n")
    return digest.hexdigest()


def agrees(descriptor: int, tail: Tail, known: Head | None) -> bool:
    """Whether the file holds the record that is known as the head, as far as the file reaches back."""
    if known is None or known.number == 0:
        return True
    if tail.last is None or tail.last.n < known.number:
        return False
    if tail.last.n == known.number:
        return tail.last.hash == known.hash
    # The head file may be behind after a power cut; by one record after a crash.
    for start, stop in _lines_backwards(descriptor, tail.size):
        link = read_at(descriptor, start, stop)
        if link is not None and link.n <= known.number:
            return link.n != known.number or link.hash == known.hash
    return True


def _lines_backwards(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """The places of the lines, the last one first, without their ends. Memory does not depend on their length."""
    stop = size
    position = size
    while position > 0:
        start = max(0, position - _PIECE)
        piece = os.pread(descriptor, position - start, start)
        place = piece.rfind(b"\n")
        while place >= 0:
            if start + place + 1 < stop:
                yield start + place + 1, stop
            stop = start + place
            place = piece.rfind(b"\n", 0, place)
        position = start
    if stop > 0:
        yield 0, stop


# --------------------------------------------------------------------------------------------------------------------
# How values stand in the log: names in harmless characters and cut to a length, everything else as a digest.

MOST_OF_A_NAME = 200
MOST_OF_A_LIST = 16
_DIGEST = "sha256:"
_PLAIN = (bool, int, float, type(None))


def digest_of(value: Any) -> str:
    """The digest of a value: SHA-256 of its JSON with the keys in order. 1, 1.0, true and "1" are four values."""
    try:
        written = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_name_other)
    except (ValueError, TypeError, RecursionError) as error:
        # A log that fails on what a model wrote could be switched off by a model.
        return f"unwritable:{type(error).__name__}"
    return _DIGEST + sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def escape(text: str, most: int = MOST_OF_A_NAME) -> str:
    """The text on one line, in characters that do nothing: others as \\uXXXX, and a backslash as two."""
    # Only what can be kept is looked at: a name may be of any length.
    written = "".join(map(_escape_one, text[:most]))
    left_out = max(0, len(text) - most)
    return f"{written}...(+{left_out} characters)" if left_out else written


def encode_field(value: Any) -> Any:
    """A field as the log keeps it: a text escaped, numbers as they are, a list of texts, a digest of anything else."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, _PLAIN):
        # JSON has no word for these two, nor for "not a number".
        return str(value) if isinstance(value, float) and value - value != 0 else value
    if isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
        kept = [escape(each) for each in value[:MOST_OF_A_LIST]]
        return [*kept, f"...(+{len(value) - len(kept)})"] if len(value) > len(kept) else kept
    return digest_of(value)


def _escape_one(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _name_other(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray):
        return {"bytes": sha256(value).hexdigest()}
    return {type(value).__name__: repr(value)}


# --------------------------------------------------------------------------------------------------------------------
# Writing the audit log: lines are only ever added, by any number of threads and processes.

_OWN = frozenset({"n", "at", "kind", "run", "call", "prev", "hash"})
_SHORTEST_SECRET = 6
_LONGEST_READ = 20_000
"""Characters of a text in which secrets are looked for; far more than is kept of it."""


class AuditLog:
    """A log of decisions in which nothing can be changed or removed unnoticed.

    Every record is one line of JSON with the hash of the one before it. Texts are names: they are scrubbed of
    credentials, escaped and cut. Mappings and other values are put down as digests, never as they are.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: bool = True,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
        sink: HumanSink | None = None,
    ) -> None:
        if max_bytes is not None and max_bytes < 1:
            raise ConfigError(f"max_bytes is {max_bytes}", hint="give the size of a file in bytes, or None")
        self.path = Path(path)
        self._sync = sync
        self._max_bytes = max_bytes
        self._clock = clock
        self._sink = HumanSink() if sink is None else sink
        self._one_at_a_time = threading.Lock()

    def append(self, kind: Kind, *, run: str = "", call: str = "", **fields: Any) -> Head:
        """Add a record; when this returns, it is in the file, and with `sync` on the disk.

        Raises AuditFailed if that is not possible; then nothing was added.
        """
        content = self._put_down(kind, run, call, fields)
        with self._one_at_a_time, explained(self.path):
            make_folder(self.path)
            with open_alone(head_path(self.path)) as head:
                return self._append(head, kind, content)

    def _put_down(self, kind: str, run: str, call: str, fields: dict[str, Any]) -> dict[str, Any]:
        if kind not in KINDS:
            guess = nearest(kind, KINDS)
            meant = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigError(f"there is no kind of record {kind!r}{meant}", hint=f"the kinds are {', '.join(KINDS)}")
        if taken := sorted(_OWN.intersection(fields)):
            raise ConfigError(f"the log itself writes {', '.join(taken)}", hint="give the field another name")
        # A field that is None says nothing.
        told = {name: encode_field(self._scrub(value)) for name, value in fields.items() if value is not None}
        return {"run": escape(run), "call": escape(call), **told}

    def _scrub(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) < _SHORTEST_SECRET:
                return value
            return self._sink.text(value[:_LONGEST_READ]) + value[_LONGEST_READ:]
        if isinstance(value, list | tuple):
            return [self._scrub(each) if isinstance(each, str) else each for each in value]
        return value

    def _append(self, head: int, kind: str, content: dict[str, Any]) -> Head:
        known = _read_head(head)
        # The head file is locked already. It may be removed, though, and then the next writer has another one.
        with open_alone(self.path, os.O_APPEND) as log:
            tail, lines = self._line_up(log, known, kind, content)
            if not self._is_full(tail, lines):
                return self._write(log, tail, lines, head)
            os.rename(self.path, next_aside(self.path))
        with open_alone(self.path, os.O_APPEND) as log:
            tail, lines = self._line_up(log, known, kind, content)
            return self._write(log, tail, lines, head)

    def _line_up(self, log: int, known: Head | None, kind: str, content: dict[str, Any]) -> tuple[Tail, _Lines]:
        tail = read_tail(log)
        lines = self._lines_after(log, tail, known)
        lines.add(kind, content)
        return tail, lines

    def _is_full(self, tail: Tail, lines: _Lines) -> bool:
        if self._max_bytes is None or tail.size == 0:
            return False
        # An end that has to be put in order is, before the file is put aside.
        return lines.count == 1 and tail.ended and tail.size + len(lines.written) > self._max_bytes

    def _lines_after(self, log: int, tail: Tail, known: Head | None) -> _Lines:
        """What has to be said before anything else can be added to a file that ends like this."""
        lines = _Lines(self._clock)
        if tail.last is not None:
            lines.head = Head(tail.last.n, tail.last.hash)
        agreed = agrees(log, tail, known)
        if tail.size == 0 and (before := put_aside(self.path)):
            agreed = self._continue(before[-1], lines, known)
        if not tail.ended:
            lines.written += b"\n"
        if tail.behind:
            digest = digest_end(log, tail.size, tail.behind, tail.ended)
            lines.add(TORN, {"bytes": tail.behind + (not tail.ended), "sha256": digest})
        if not agreed and known is not None:
            here = lines.head.number
            lines.head = Head(max(here, known.number), lines.head.hash)
            lines.add(GAP, {"after": here, "head": known.hash, "number": known.number})
        return lines

    def _continue(self, before: Path, lines: _Lines, known: Head | None) -> bool:
        with opened(before, os.O_RDONLY) as log:
            tail = read_tail(log)
            if tail.last is None:
                return False
            lines.head = Head(tail.last.n, tail.last.hash)
            lines.add(CONTINUED, {"file": before.name})
            return agrees(log, tail, known)

    def _write(self, log: int, tail: Tail, lines: _Lines, head: int) -> Head:
        try:
            rest = memoryview(lines.written)
            while rest:
                rest = rest[os.write(log, rest) :]
            if self._sync:
                os.fsync(log)
                if tail.size == 0:
                    flush_folder(self.path)
            _write_head(head, lines.head)
        except OSError:
            # Half a record is worse than none. If this fails as well, the next one that is added tells of it.
            with suppress(OSError):
                os.ftruncate(log, tail.size)
            raise
        return lines.head


class _Lines:
    """Lines that are about to be added, each behind the one before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.head = Head()
        self.written = b""
        self.count = 0

    def add(self, kind: str, fields: dict[str, Any]) -> None:
        number = self.head.number + 1
        line, hashed = write_line(number, round(self._clock(), 6), kind, fields, self.head.hash)
        self.written += line
        self.head = Head(number, hashed)
        self.count += 1
