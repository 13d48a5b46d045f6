"""Small files that several processes share: each write replaces the whole file, and one process writes at a time."""

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
    """Write a file atomically: a reader sees the old content or the new content, never a part."""
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
    """Yield the content of a file, to be changed in place. It is written if it changed and no exception was raised.

    Other processes wait meanwhile. On a system without such locks, the last writer wins.
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
    """Create the folder of a file, accessible only to its owner."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def flush_folder(path: Path) -> None:
    """Sync a folder, so that the name of a new file is durable and not only its content."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a regular file and yield its descriptor. A pipe or a device raises OSError."""
    # To open a pipe for reading would block until a writer opens it.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_alone(place: Path, flags: int = 0) -> Iterator[int]:
    """Open a file for reading and writing with an exclusive lock. Create it if it does not exist."""
    while True:
        with opened(place, os.O_RDWR | os.O_CREAT | flags) as descriptor:
            if fcntl is not None:
                # Not a POSIX lock: all threads of a process share that one.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(place, descriptor):
                yield descriptor
                return
        # The file was removed or renamed during the wait: the next process would open another file.


def wait_for_writers(descriptor: int) -> None:
    """Wait until no process writes a file, and block writers until the descriptor is closed."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _is_still(place: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(place), os.fstat(descriptor))
    except FileNotFoundError:
        return False
