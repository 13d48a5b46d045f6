"""The files of a log: the one that is written, and those that were put aside when they were full, by number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from dragoman.audit.errors import AuditFailed


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


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a file of the log, which has to be a file and not a pipe or a device."""
    # Opening a pipe to read it would wait for somebody who writes into it.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise AuditFailed(f"{path} is not a file", hint="name a file for the audit log")
        yield descriptor
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make the folder of a log, for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def flush_folder(path: Path) -> None:
    """Make sure that a new name survives a power cut."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_number(text: str) -> bool:
    # Only as it is written here: audit.jsonl.07 is somebody else's.
    return text.isascii() and text.isdecimal() and not text.startswith("0")
