"""The end of a log, read from the end: its last record, and what lies behind it that is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct

from dragoman.audit.heads import Head
from dragoman.audit.lines import MOST_OF_A_LINE, Link, read_link

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
