"""The folder that the file tools work in, held by a descriptor: what they open lies beneath it, whatever others do.

Paths come from a model, so they may be anything. A relative one starts at the top of the workspace, an absolute one has
to begin with it, `..` may not leave it, `~` is an ordinary name. Links are followed as long as they stay inside.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from types import TracebackType
from typing import Literal

from msgspec import Struct

from dragoman.builtin.files.confining import FOLDER, Outside, Top, below, open_beneath, open_parent, place_of
from dragoman.builtin.files.wording import quoted
from dragoman.sandbox.protected import is_protected
from dragoman.sandbox.system import secrets_below, system_secrets
from dragoman.tools import Error, ToolContext

CHUNK = 1 << 20
_LONGEST_PATH = 4095
_FOR_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_WITHOUT_LINKS: int = getattr(os, "O_NOFOLLOW", 0)

Kind = Literal["file", "folder", "special", "absent"]


class OutsideError(Error):
    """The path leads out of the workspace."""

    def __init__(self, given: str, workspace: str) -> None:
        super().__init__(
            f"{quoted(given)} leads out of the workspace {quoted(workspace)}; only what lies inside can be used"
        )


class Found(Struct, frozen=True):
    """What is at a path at this moment, with every link followed."""

    path: str
    """As it was given, relative to the workspace."""
    real: str
    """Relative to the workspace, without links; where it would be if it is absent."""
    kind: Kind = "absent"
    identity: str = ""
    size: int = 0
    mode: int = 0
    names: int = 1
    """How many names (hard links) the file has."""
    digest: str = ""
    times: tuple[int, int] = (0, 0)
    """When the content and anything else of it changed last, in nanoseconds."""

    @property
    def protected(self) -> bool:
        return is_protected(self.path) or is_protected(self.real)


class Spot(Struct, frozen=True):
    """A name in an open folder: the place where a file is replaced, without going by its path again."""

    folder: int
    real: str
    name: str

    def look(self) -> os.stat_result | None:
        """What the name stands for itself, be it a link; None where there is nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self) -> int:
        """A descriptor of the regular file there, for reading."""
        return _ensure_regular(os.open(self.name, _FOR_READING | _WITHOUT_LINKS, dir_fd=self.folder), self.real)


class Workspace:
    """A folder, and everything that may be done beneath it. Use it in a `with` statement, or call `close`."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, by_walking: bool = False) -> None:
        if os.open not in os.supports_dir_fd or os.stat not in os.supports_follow_symlinks:
            raise Error("the file tools need a system with descriptors of folders (Linux, macOS, BSD)")
        try:
            given = os.path.abspath(os.fspath(path) if path is not None else os.getcwd())
            self.path = os.path.realpath(given)
            descriptor = os.open(self.path, FOLDER)
        except OSError as problem:
            where = os.fspath(path) if path is not None else "the current folder"
            raise Error(f"the workspace {where} cannot be used: {_why(problem)}") from problem
        spellings = (self.path,) if given == self.path else (self.path, given)
        self.top = Top(descriptor, spellings, by_walking)

    @classmethod
    def of(cls, context: ToolContext) -> Workspace:
        """The workspace of a call; the current folder where nothing is said."""
        return cls(context.workspace)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.top.descriptor >= 0:
            os.close(self.top.descriptor)
            self.top = Top(-1)

    # ---- paths -----------------------------------------------------------------------------------------------------

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Where the user and the system keep secrets, as far as that is in here: it does not count as the workspace."""
        return frozenset(secrets_below([self.path], system_secrets()))

    def absolute(self, relative: str) -> str:
        return self.path if relative == "." else f"{self.path.rstrip('/')}/{relative}"

    def relative(self, given: str) -> str:
        """A path as a model wrote it, relative to the workspace. Nothing is opened: `..` and links are still in it."""
        if not given:
            raise Error('the path is empty; "." is the workspace itself')
        if "\0" in given:
            raise Error("the path contains a NUL character, which no path can")
        try:
            length = len(os.fsencode(given))
        except UnicodeEncodeError:
            raise Error("the path contains half a character (a lone surrogate), which no path can") from None
        if length > _LONGEST_PATH:
            raise Error(f"the path is {length} bytes long; no path may have more than {_LONGEST_PATH}")
        if not given.startswith("/"):
            return given
        for spelling in self.top.spellings:
            rest = below(given, spelling)
            if rest is not None:
                return rest
        raise OutsideError(given, self.path)

    def find(self, given: str, *, digest: bool = False) -> Found:
        """What is at a path; with `digest`, the SHA-256 of a file's content. Absence is an answer, not an error."""
        path = self.relative(given)
        with explained(given, self.path):
            try:
                folder, place, name = open_parent(self.top, path)
            except FileNotFoundError:
                return Found(_tidy(path), place_of(self.top, path))
            try:
                return _look(Spot(folder, _join(place, name), name), _tidy(path), digest)
            finally:
                os.close(folder)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def open_read(self, given: str) -> int:
        """A descriptor of a regular file; pipes, sockets, devices and folders are refused."""
        with explained(given, self.path):
            return _ensure_regular(open_beneath(self.top, self.relative(given), _FOR_READING), given)

    def open_folder(self, given: str) -> int:
        """A descriptor of a folder that can be listed."""
        with explained(given, self.path):
            return open_beneath(self.top, self.relative(given), _FOR_READING | os.O_DIRECTORY)

    def read_bytes(self, given: str, most: int) -> bytes:
        """The whole content of a file; an error where it has more than `most` bytes."""
        descriptor = self.open_read(given)
        try:
            with explained(given, self.path):
                return read_all(descriptor, most, given)
        finally:
            os.close(descriptor)

    def names(self, given: str) -> list[str]:
        """The names in a folder, sorted; folders end in a slash."""
        descriptor = self.open_folder(given)
        try:
            with explained(given, self.path), os.scandir(descriptor) as entries:
                return sorted(each.name + "/" if each.is_dir(follow_symlinks=False) else each.name for each in entries)
        finally:
            os.close(descriptor)

    # ---- places to write -------------------------------------------------------------------------------------------

    @contextmanager
    def spot(self, given: str, making: list[str] | None = None) -> Iterator[Spot]:
        """The place behind a path, for writing: links are followed to where the file really is, or would be.

        With `making`, missing folders are made and noted there, so that they can be taken away again.
        """
        with explained(given, self.path):
            folder, place, name = open_parent(self.top, self.relative(given), making=making)
        try:
            yield Spot(folder, _join(place, name), name)
        finally:
            os.close(folder)

    def remove_empty(self, folders: list[str]) -> None:
        """Take folders away that were made for nothing, the last one first; one that is in use stays."""
        for place in reversed(folders):
            with suppress(OSError):
                folder, _, name = open_parent(self.top, place)
                try:
                    os.rmdir(name, dir_fd=folder)
                finally:
                    os.close(folder)


def read_all(descriptor: int, most: int, path: str) -> bytes:
    """Everything that a descriptor gives, bounded."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(descriptor, CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise Error(f"{quoted(path)} has more than {most:,} bytes, which is too large for this")
    return b"".join(pieces)


def digest_of(descriptor: int) -> str:
    """SHA-256 of what a descriptor gives from here on."""
    digest = hashlib.sha256()
    while piece := os.read(descriptor, CHUNK):
        digest.update(piece)
    return digest.hexdigest()


def identity_of(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def times_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_ctime_ns


def _look(spot: Spot, path: str, digest: bool) -> Found:
    status = spot.look()
    if status is None:
        return Found(path, spot.real)
    kind, content = _kind(status), ""
    if digest and kind == "file":
        descriptor = spot.open()
        try:
            status = os.fstat(descriptor)
            content = digest_of(descriptor)
        finally:
            os.close(descriptor)
    return Found(
        path,
        spot.real,
        kind,
        identity=identity_of(status),
        size=status.st_size,
        mode=status.st_mode & 0o777,
        names=status.st_nlink,
        digest=content,
        times=times_of(status),
    )


def _kind(status: os.stat_result) -> Kind:
    if stat.S_ISREG(status.st_mode):
        return "file"
    return "folder" if stat.S_ISDIR(status.st_mode) else "special"


def _ensure_regular(descriptor: int, path: str) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise Error(f"{quoted(path)} is no regular file (a pipe, a socket or a device), and is left alone")


def _tidy(path: str) -> str:
    """Without empty and idle parts. `..` stays: behind a link it is not what it seems."""
    return "/".join(part for part in path.split("/") if part not in ("", ".")) or "."


def _join(place: str, name: str) -> str:
    return place or "." if name == "." else f"{place}/{name}" if place not in ("", ".") else name


# ---- errors in words -----------------------------------------------------------------------------------------------

_WORDS = {
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a part of the path is a file and not a folder",
    errno.EISDIR: "it is a folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.ELOOP: "its links lead round in circles",
    errno.ENAMETOOLONG: "a part of the name is too long",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "the file would be larger than is allowed",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk reports an error",
    errno.EAGAIN: "it keeps changing while it is looked at",
    errno.ENXIO: "it is no regular file",
    errno.ENOTEMPTY: "the folder is not empty",
}


def _why(problem: OSError) -> str:
    return _WORDS.get(problem.errno or 0) or (problem.strerror or type(problem).__name__).lower()


@contextmanager
def explained(given: str, workspace: str) -> Iterator[None]:
    """Failures of the system, in words for a model."""
    try:
        yield
    except OSError as problem:
        if isinstance(problem, Outside) or problem.errno == errno.EXDEV:
            raise OutsideError(given, workspace) from None
        hint = ""
        if given.startswith("~") and problem.errno == errno.ENOENT:
            hint = "; ~ is not expanded, paths start at the workspace"
        raise Error(f"{quoted(given)}: {_why(problem)}{hint}") from problem
