"""Files that several processes write: private folders, locks, and names that survive a power cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where one process at a time may write such a file
    fcntl = None  # type: ignore[assignment]


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


@contextmanager
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


@contextmanager
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
