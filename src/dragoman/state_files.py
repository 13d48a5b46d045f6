"""Small files that several processes read and change: replaced as a whole, and changed by one process at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where one process at a time may write such a file
    fcntl = None  # type: ignore[assignment]

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
    make_folder(path)
    with open_alone(path.with_name(f".{path.name}.lock")):
        content = read(path)
        before = write(content)
        yield content
        after = write(content)
        if after != before:
            replace_file(path, after)


def make_folder(path: Path) -> None:
    """Make the folder of a file, for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def flush_folder(path: Path) -> None:
    """Put the name of a new file on the disk, not only its content."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a file, which has to be a file and not a pipe or a device."""
    # Opening a pipe to read it would wait for somebody who writes into it.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_alone(place: Path, flags: int = 0) -> Iterator[int]:
    """A file to read and write, made if it is not there, while nobody else has it in this way."""
    while True:
        with opened(place, os.O_RDWR | os.O_CREAT | flags) as descriptor:
            if fcntl is not None:
                # Not the lock of POSIX: that one lets every thread of a process in.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(place, descriptor):
                yield descriptor
                return
        # It was removed or put aside while this waited: whoever comes next opens another one.


def wait_for_writers(descriptor: int) -> None:
    """Wait until nobody writes a file, and keep them waiting until it is closed."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _is_still(place: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(place), os.fstat(descriptor))
    except FileNotFoundError:
        return False
