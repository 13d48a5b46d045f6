"""Small files that several processes share: each write replaces the whole file, and one process writes at a time."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeVar

from dragoman.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where one process at a time may write such a file
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


def replace_file(path: Path, content: str | bytes, *, private: bool = True, sync: bool = True) -> None:
    """Write a file atomically: a reader sees the old content or the new content, never a part.

    Without `sync`, that holds if a process is killed, and not if the machine loses its power.
    """
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    # A temporary file is private from the start.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if sync:
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
    if os.name == "nt":
        return  # Windows cannot open a folder.
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


def read_at(descriptor: int, count: int, position: int) -> bytes:
    """Read from a position of a file, and leave the current position as it is."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, position)
    with _moved_to(descriptor, position):
        return os.read(descriptor, count)


def write_at(descriptor: int, content: bytes, position: int) -> None:
    """Write to a position of a file, and leave the current position as it is."""
    if hasattr(os, "pwrite"):
        os.pwrite(descriptor, content, position)
        return
    with _moved_to(descriptor, position):
        os.write(descriptor, content)


@contextlib.contextmanager
def _moved_to(descriptor: int, position: int) -> Iterator[None]:
    """For Windows, which has no call that takes a position. The threads of a process do not share a descriptor."""
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, position, os.SEEK_SET)
    try:
        yield
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)


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


def lock_now(descriptor: int) -> None:
    """Lock a file until the descriptor is closed. Raises BlockingIOError if another process holds the lock."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def wait_for_writers(descriptor: int) -> None:
    """Wait until no process writes a file, and block writers until the descriptor is closed."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _is_still(place: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(place), os.fstat(descriptor))
    except FileNotFoundError:
        return False


# --------------------------------------------------------------------------------------------------------------------
# Small files of TOML. Reads are bounded, and an error names the line and column.

LARGEST_FILE = 256 * 1024
NO_VALUE = "none"
"""The text for a missing value, which TOML does not have."""
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)\Z").search
# `tomllib` needs quadratic memory in the parts of a dotted key, and the file of a project is untrusted.
_ENDLESS_KEY = re.compile(r"""(?:(?:"[^"\n]*"|'[^'\n]*'|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]+)[ \t]*\.[ \t]*){64}""").search


def read_text(path: Path) -> str:
    """Read the text of a small file. Raises ConfigError."""
    try:
        # A pipe or a device could block, or never end.
        if not path.is_file():
            raise ConfigError(f"{path} is not a file", hint="name a TOML file")
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(f"cannot read {path}: {why}", hint="check its permissions") from None
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path} is larger than {LARGEST_FILE // 1024} kB", hint="this is not a configuration file")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None


def parse_toml(text: str, shown: str) -> dict[str, Any]:
    """Parse a TOML text. An error names the line and column."""
    endless = _ENDLESS_KEY(text)
    if endless is not None:
        at = text.count("\n", 0, endless.start()) + 1
        raise ConfigError(f"{shown}:{at}: a name of more than 64 parts", hint="no setting needs more than a few")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE(message)
        end = (text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)
        line, column = place.groups() if place else end
        why = message[: place.start()] if place else message
        raise ConfigError(f"{shown}:{line}:{column}: not TOML: {why}", hint="fix the file at that place") from None
    except RecursionError:
        raise ConfigError(f"{shown}: nested too deeply", hint="no setting needs more than a few levels") from None


def to_toml(value: Any) -> str:
    """Return a plain value as TOML."""
    if value is None:
        return f'"{NO_VALUE}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
