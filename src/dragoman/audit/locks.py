"""Files that one writer at a time may have open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.audit.files import opened

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where one process at a time may write a log
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_RDWR | os.O_CREAT


@contextmanager
def open_alone(place: Path, flags: int = 0) -> Iterator[int]:
    """A file to read and write, made if it is not there, while nobody else has it in this way."""
    while True:
        with opened(place, _FLAGS | flags) as descriptor:
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
