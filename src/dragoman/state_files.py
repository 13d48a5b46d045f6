"""Small files that several processes read and change: replaced as a whole, and changed by one process at a time."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def replace_file(path: Path, content: str | bytes, *, private: bool = True) -> None:
    """Write a file so that whoever reads it sees the old content or the new one, and nothing in between."""
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    # A temporary file is private from the start.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            umask = os.umask(0)
            os.umask(umask)
            Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


@contextlib.contextmanager
def change_file(path: Path, read: Callable[[Path], T], write: Callable[[T], str | bytes]) -> Iterator[T]:
    """The content of a file, to be changed in place; it is written if it was changed and nothing was raised.

    Other processes wait meanwhile. Where the system has no such locks, the last one to write wins.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        content = read(path)
        before = write(content)
        yield content
        after = write(content)
        if after != before:
            replace_file(path, after)
    finally:
        os.close(descriptor)
