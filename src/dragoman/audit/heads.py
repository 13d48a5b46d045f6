"""The file beside the log that knows its last record, and whose lock lets one writer at a time in.

It makes visible that records were cut off at the end, which a chain alone cannot show. It is written behind the record
that it names, so after a crash it may know less than the log, and never more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from dragoman.audit.files import opened
from dragoman.audit.lines import NOTHING_BEFORE
from dragoman.audit.locks import open_alone, wait_for_writers

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


class HeadFile:
    """The open head file of a log, locked."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> Head | None:
        """What it knows; None if it is new or cannot be understood."""
        return _parse(os.pread(self._descriptor, _LENGTH + 1, 0))

    def write(self, head: Head) -> None:
        """Know another head. It is always of one length, so it never needs more room on the disk."""
        os.pwrite(self._descriptor, b"%020d %s\n" % (head.number, head.hash.encode("ascii")), 0)
        if os.fstat(self._descriptor).st_size != _LENGTH:
            os.ftruncate(self._descriptor, _LENGTH)


@contextmanager
def writing(path: Path) -> Iterator[HeadFile]:
    """The head file of a log, while nobody else writes that log."""
    with open_alone(head_path(path)) as descriptor:
        yield HeadFile(descriptor)


@contextmanager
def reading(path: Path) -> Iterator[Head | None]:
    """The head of a log, while nobody writes it; None where none is known."""
    place = head_path(path)
    if not place.exists():
        yield None
        return
    with opened(place, os.O_RDONLY) as descriptor:
        wait_for_writers(descriptor)
        yield HeadFile(descriptor).read()


def _parse(content: bytes) -> Head | None:
    found = _WRITTEN(content)
    return Head(int(found[1]), found[2].decode("ascii")) if found else None
