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

from dragoman.characters import escape_line
from dragoman.errors import ConfigError, DragomanError, did_you_mean
from dragoman.secrets import HumanSink
from dragoman.state_files import flush_folder, make_folder, open_alone, opened, read_at, wait_for_writers, write_at

# --------------------------------------------------------------------------------------------------------------------
# The errors of an audit log, each with the next step.

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class AuditFailed(DragomanError):
    """The log cannot be read or written. Its earlier records are still there and can be verified."""

    hint = "check the disk and the permissions of the file; no call should run without a record"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Convert an error of the system to one with a next step."""
    try:
        yield
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        if error.errno in _FULL:
            hint = "free space on the disk, then run it again"
        elif error.errno in _FORBIDDEN:
            hint = "check the permissions of the file and its folder, or choose another path for the log"
        elif error.errno == errno.EINVAL:
            hint = "give the path of a file for the audit log"
        else:
            hint = AuditFailed.hint
        raise AuditFailed(f"the audit log {path} cannot be used: {why}", hint=hint) from error


# --------------------------------------------------------------------------------------------------------------------
# One line of the log: a JSON object whose last field is the hash of everything before it.
#
# The hash covers the bytes as stored, so every record has exactly one form: an added space is a change. `prev` is the
# hash of the record before, so the lines form a chain.

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
"""Written by the log itself: it describes the bytes that a killed writer left before this record."""
GAP = "gap"
"""Written by the log itself: earlier records are gone, and the log continues nevertheless."""
CONTINUED = "continued"
"""Written by the log itself: the first record of a file, which continues the file before."""
NOTHING_BEFORE = "0" * 64
MOST_OF_A_LINE = 1 << 20
"""In bytes. The log does not write longer lines."""

_MARK = b',"hash":"'
_TAIL = len(_MARK) + 64 + len(b'"}')


class Link(Struct, frozen=True):
    """The fields of a record that the chain needs."""

    n: int
    kind: str
    prev: str
    hash: str


_decode_link = msgspec.json.Decoder(Link).decode


def write_line(number: int, at: float, kind: str, fields: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """Return a complete line and its hash."""
    record = {"n": number, "at": at, "kind": kind, **fields, "prev": previous}
    # Only ASCII: no reader of lines finds the end of a line inside it.
    body = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    hashed = sha256(body).hexdigest()
    return body[:-1] + _MARK + hashed.encode("ascii") + b'"}\n', hashed


def read_link(line: bytes) -> Link | None:
    """Return the link of a line without its newline; None if the line is not in the form that the log writes."""
    body, mark, hashed, end = line[:-_TAIL], line[-_TAIL:-66], line[-66:-2], line[-2:]
    if mark != _MARK or end != b'"}' or sha256(body + b"}").hexdigest().encode("ascii") != hashed:
        return None
    try:
        return _decode_link(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_record(line: bytes) -> dict[str, Any] | None:
    """Return a record with all its fields, even if it was changed; None if it is not a JSON object."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


# --------------------------------------------------------------------------------------------------------------------
# The files of a log: the current one, and the full ones, renamed with a number.


def rotated_files(path: Path) -> list[Path]:
    """Return the full files, the oldest first: `audit.jsonl.1`, `audit.jsonl.2`, ..."""
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return []
    start = path.name + "."
    numbers = [name[len(start) :] for name in names if name.startswith(start)]
    return [path.with_name(start + each) for each in sorted(filter(_is_number, numbers), key=int)]


def next_rotated_file(path: Path) -> Path:
    """Return the next name for the current file when it is full."""
    before = rotated_files(path)
    number = int(before[-1].name.rpartition(".")[2]) + 1 if before else 1
    return path.with_name(f"{path.name}.{number}")


def _is_number(text: str) -> bool:
    # Only in the form written here: audit.jsonl.07 belongs to somebody else.
    return text.isascii() and text.isdecimal() and not text.startswith("0")


# --------------------------------------------------------------------------------------------------------------------
# The head file: it is next to the log, stores the last record, and its lock admits one writer at a time.
#
# It reveals that records were removed at the end, which a chain alone cannot show. It is written after the record that
# it names. So after a crash it may be older than the log, but never newer.

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
    """Return the content of a head file; None if it is new or unreadable."""
    found = _WRITTEN(read_at(descriptor, _LENGTH + 1, 0))
    return Head(int(found[1]), found[2].decode("ascii")) if found else None


def _write_head(descriptor: int, head: Head) -> None:
    # It always has the same length, so it never needs more space on the disk.
    write_at(descriptor, b"%020d %s\n" % (head.number, head.hash.encode("ascii")), 0)
    if os.fstat(descriptor).st_size != _LENGTH:
        os.ftruncate(descriptor, _LENGTH)


@contextmanager
def reading(path: Path) -> Iterator[Head | None]:
    """Return the head of a log while no process writes it; None if it is unknown."""
    place = head_path(path)
    if not place.exists():
        yield None
        return
    with opened(place, os.O_RDONLY) as descriptor:
        wait_for_writers(descriptor)
        yield _read_head(descriptor)


# --------------------------------------------------------------------------------------------------------------------
# The end of a log, read backwards: its last record, and the bytes after it.

_PIECE = 1 << 16


class Tail(Struct, frozen=True):
    """The end of a file of the log."""

    size: int
    last: Link | None = None
    behind: int = 0
    """The number of bytes after the last record, from a killed writer or from somebody else."""
    ended: bool = True
    """Whether the last line has a newline."""


def read_tail(descriptor: int) -> Tail:
    """Find the last record of a file. The cost is the length of the last line, unless the end is damaged."""
    size = os.fstat(descriptor).st_size
    ended = size == 0 or read_at(descriptor, 1, size - 1) == b"\n"
    for start, stop in _lines_backwards(descriptor, size):
        link = read_link_at(descriptor, start, stop)
        if link is not None:
            return Tail(size, link, max(0, size - stop - 1), ended)
    return Tail(size, None, size, ended)


def read_link_at(descriptor: int, start: int, stop: int) -> Link | None:
    """Return the record between two positions of a file, if there is one."""
    if stop - start > MOST_OF_A_LINE:
        return None
    return read_link(read_at(descriptor, stop - start, start))


def digest_end(descriptor: int, size: int, length: int, ended: bool) -> str:
    """SHA-256 of the last bytes of a file, including the newline that they will get if they have none."""
    digest = sha256()
    for place in range(size - length, size, _PIECE):
        digest.update(read_at(descriptor, min(_PIECE, size - place), place))
    if not ended:
        digest.update(b"\n")
    return digest.hexdigest()


def agrees(descriptor: int, tail: Tail, known: Head | None) -> bool:
    """Whether the file contains the record of the head, as far as the file reaches back."""
    if known is None or known.number == 0:
        return True
    if tail.last is None or tail.last.n < known.number:
        return False
    if tail.last.n == known.number:
        return tail.last.hash == known.hash
    # The head file may be older after a power failure; by one record after a crash.
    for start, stop in _lines_backwards(descriptor, tail.size):
        link = read_link_at(descriptor, start, stop)
        if link is not None and link.n <= known.number:
            return link.n != known.number or link.hash == known.hash
    return True


def _lines_backwards(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the positions of the lines without newlines, last line first. Memory does not depend on their length."""
    stop = size
    position = size
    while position > 0:
        start = max(0, position - _PIECE)
        piece = read_at(descriptor, position - start, start)
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
# The values in the log: names in printable characters with a length limit, everything else as a digest.

MOST_OF_A_NAME = 200
MOST_OF_A_LIST = 16
_DIGEST = "sha256:"
_PLAIN = (bool, int, float, type(None))


def digest_of(value: Any) -> str:
    """Return SHA-256 of the JSON of a value with sorted keys. 1, 1.0, true and "1" are four different values."""
    try:
        written = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_name_other)
    except (ValueError, TypeError, RecursionError) as error:
        # If model output could make the log fail, a model could disable the log.
        return f"unwritable:{type(error).__name__}"
    return _DIGEST + sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def escape(text: str) -> str:
    """Return the text on one line: invisible characters as \\uXXXX, and a backslash as two."""
    # Only the stored part is read: a name may have any length.
    written = escape_line(text[:MOST_OF_A_NAME].replace("\\", "\\\\"))
    left_out = max(0, len(text) - MOST_OF_A_NAME)
    return f"{written}...(+{left_out} characters)" if left_out else written


def encode_field(value: Any) -> Any:
    """Return a field as the log stores it: escaped text, numbers, a list of texts, and a digest of anything else."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, _PLAIN):
        # JSON cannot represent infinities and NaN.
        return str(value) if isinstance(value, float) and value - value != 0 else value
    if isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
        kept = [escape(each) for each in value[:MOST_OF_A_LIST]]
        return [*kept, f"...(+{len(value) - len(kept)})"] if len(value) > len(kept) else kept
    return digest_of(value)


def _name_other(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray):
        return {"bytes": sha256(value).hexdigest()}
    return {type(value).__name__: repr(value)}


# --------------------------------------------------------------------------------------------------------------------
# The writer: any number of threads and processes append lines.

_OWN = frozenset({"n", "at", "kind", "run", "call", "prev", "hash"})
_SHORTEST_SECRET = 6
_LONGEST_READ = 20_000
"""The number of characters that are searched for secrets; far more than the log stores."""


class AuditLog:
    """A log of decisions. Every change and every removal of a record can be detected.

    Every record is one line of JSON with the hash of the record before it. Texts are names: the log redacts
    credentials, escapes the text and limits its length. Mappings and other values are stored only as digests.
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
        """Append a record. On return it is in the file, and with `sync` on the disk.

        Raises AuditFailed if that is impossible; then nothing was appended.
        """
        content = self._write_record(kind, run, call, fields)
        with self._one_at_a_time, explained(self.path):
            make_folder(self.path)
            with open_alone(head_path(self.path)) as head:
                return self._append(head, kind, content)

    def _write_record(self, kind: str, run: str, call: str, fields: dict[str, Any]) -> dict[str, Any]:
        if kind not in KINDS:
            meant = did_you_mean(kind, KINDS)
            raise ConfigError(f"there is no kind of record {kind!r}{meant}", hint=f"the kinds are {', '.join(KINDS)}")
        if taken := sorted(_OWN.intersection(fields)):
            raise ConfigError(f"the log itself writes {', '.join(taken)}", hint="give the field another name")
        # A field that is None is left out.
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
        # The head file is locked. If somebody removed it meanwhile, the next writer would lock another one.
        with open_alone(self.path, os.O_APPEND) as log:
            tail, lines = self._find_end(log, known, kind, content)
            if not self._is_full(tail, lines):
                return self._write(log, tail, lines, head)
            os.rename(self.path, next_rotated_file(self.path))
        with open_alone(self.path, os.O_APPEND) as log:
            tail, lines = self._find_end(log, known, kind, content)
            return self._write(log, tail, lines, head)

    def _find_end(self, log: int, known: Head | None, kind: str, content: dict[str, Any]) -> tuple[Tail, _Lines]:
        tail = read_tail(log)
        lines = self._lines_after(log, tail, known)
        lines.add(kind, content)
        return tail, lines

    def _is_full(self, tail: Tail, lines: _Lines) -> bool:
        if self._max_bytes is None or tail.size == 0:
            return False
        # A damaged end is repaired before the file is renamed.
        return lines.count == 1 and tail.ended and tail.size + len(lines.written) > self._max_bytes

    def _lines_after(self, log: int, tail: Tail, known: Head | None) -> _Lines:
        """Return the lines that must precede the next record, for a file with this end."""
        lines = _Lines(self._clock)
        if tail.last is not None:
            lines.head = Head(tail.last.n, tail.last.hash)
        agreed = agrees(log, tail, known)
        if tail.size == 0 and (before := rotated_files(self.path)):
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
            # A partial record is worse than none. If this fails as well, the next record reports it.
            with suppress(OSError):
                os.ftruncate(log, tail.size)
            raise
        return lines.head


class _Lines:
    """Lines to append, each linked to the one before."""

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
