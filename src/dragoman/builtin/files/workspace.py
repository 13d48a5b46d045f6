"""The workspace: it opens paths below one directory, and never outside it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from typing import Literal

from msgspec import Struct

from dragoman.sandbox.boxes import secrets_below, system_secrets
from dragoman.sandbox.protected_names import is_protected
from dragoman.sandbox.protection import closing, find_protected_places
from dragoman.tools import Error, ToolContext

# --------------------------------------------------------------------------------------------------------------------
# Names of files, and numbers, in the answers of the file tools.

# Control characters, line separators and what turns the direction of writing round: a name must stay on its line.
_UNPLAIN = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"]')
_LONGEST = 4096


def quoted(path: str) -> str:
    """A path for one line of an answer: as it is, or in JSON's spelling where it could be misread."""
    if len(path) > _LONGEST:
        path = path[: _LONGEST - 3] + "..."
    return json.dumps(path) if _UNPLAIN.search(path) or path != path.strip() or not path else path


def counted(number: int, word: str, plural: str = "") -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


# --------------------------------------------------------------------------------------------------------------------
# Opening a path beneath a folder, and never anything else, while others move links and folders about.
#
# Where the kernel has `openat2`, it resolves the whole path and refuses to leave the folder. Elsewhere the path is
# walked part by part with descriptors; no part may be a link, and links are read and walked in turn. Neither ever
# compares paths as text and then opens them: between the two, what is there can change.

MOST_LINKS = 40
"""Links that are followed for one path, as many as the kernel follows."""
_SYSCALL = 437
_NO_MAGIC_LINKS = 0x02
_NO_LINKS = 0x04
_BENEATH = 0x08
_ATTEMPTS = 32
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
FOLDER: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
"""How a folder is opened that is only gone through: listing it is not asked for."""

Openat2 = Callable[[int, str, int, int], int]


class Outside(OSError):
    """The path leads out of the folder."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "leads out of the workspace", path)


class Root(Struct, frozen=True):
    """The folder that nothing may leave."""

    descriptor: int
    spellings: tuple[str, ...] = ()
    """Its absolute paths: an absolute link that begins with one of them is followed from the top again."""

    def below(self, path: str) -> str | None:
        """An absolute path as one from here, by its text alone; None where it does not begin with a spelling.

        It is compared part by part, for `/work-b` does not lie in `/work`.
        """
        for spelling in self.spellings:
            parts, start = _parts(path), _parts(spelling)
            if not start or parts[-len(start) :] == start:
                return "/".join(reversed(parts[: len(parts) - len(start)])) or "."
        return None


def open_beneath(top: Root, relative: str, flags: int, *, follow: bool = True) -> int:
    """A descriptor of what is at a relative path; links are followed as long as they stay beneath the top.

    With `follow=False`, no part of the path may be a link. Raises Outside where the path, or a link on it, leads out,
    and OSError as `os.open` does.
    """
    openat2 = kernel_open()
    resolve = _BENEATH | _NO_MAGIC_LINKS | (0 if follow else _NO_LINKS)
    for _ in range(_ATTEMPTS if openat2 else 0):
        try:
            return openat2(top.descriptor, relative, flags, resolve)  # type: ignore[misc]
        except OSError as problem:
            if problem.errno == errno.EXDEV:
                break  # It refuses every absolute link; one that leads back inside is followed below, by hand.
            if problem.errno != errno.EAGAIN:
                raise
            # Something was renamed meanwhile, and the kernel could not be sure about a `..`: once more.
    return _open_by_walking(top, relative, flags, follow)


def open_parent(top: Root, relative: str, *, making: list[str] | None = None) -> tuple[int, str, str]:
    """The folder in which a path ends once every link is followed: its descriptor, its place beneath the top, the name.

    The name itself may be absent, and is no link at the time of looking; use it with the descriptor, and follow
    nothing. For the top itself it is `.`. With `making`, missing folders are made, and noted there.
    """
    openat2 = kernel_open()
    for _ in range(_ATTEMPTS):
        walker = _Walker(top, relative, making)
        try:
            name = walker.to_last_name()
            if openat2 is None:
                return os.dup(walker.folder), walker.place, name
            # The walk has found a way without links; the kernel says whether it still is one.
            confirmed = _BENEATH | _NO_MAGIC_LINKS | _NO_LINKS
            return openat2(top.descriptor, walker.place or ".", FOLDER, confirmed), walker.place, name
        except OSError as problem:
            if openat2 is None or problem.errno not in (errno.EAGAIN, errno.ELOOP) or walker.links > MOST_LINKS:
                raise
        finally:
            walker.close()
    raise OSError(errno.EAGAIN, "keeps changing", relative)


def place_of(top: Root, relative: str) -> str:
    """Where a path ends once every link is followed, also where that is missing; for showing, not for opening."""
    walker = _Walker(top, relative)
    try:
        parts = [walker.to_last_name()]
    except FileNotFoundError:
        parts = walker.missing
        if ".." in parts:
            raise
    try:
        return "/".join(part for part in (walker.place, *parts) if part not in ("", ".")) or "."
    finally:
        walker.close()


def _open_by_walking(top: Root, relative: str, flags: int, follow: bool) -> int:
    walker = _Walker(top, relative, most_links=MOST_LINKS if follow else 0)
    try:
        while True:
            name = walker.to_last_name()
            try:
                return os.open(name, flags | _NO_FOLLOW | os.O_CLOEXEC, dir_fd=walker.folder)
            except OSError as problem:
                # It was no link a moment ago: then it is walked as the link that it has become.
                if problem.errno not in (errno.ELOOP, errno.ENOTDIR) or not walker.is_link(name):
                    raise
                walker.follow(name)
    finally:
        walker.close()


class _Walker:
    """Goes along a path, part by part, and holds a descriptor of every folder on its way from the top."""

    def __init__(self, top: Root, relative: str, making: list[str] | None = None, most_links: int = MOST_LINKS) -> None:
        self._top = top
        self._path = relative
        self._making = making
        self._most_links = most_links
        self._held: list[tuple[int, str]] = []
        self._left = _parts(relative)
        self._part = ""
        self.links = 0

    @property
    def folder(self) -> int:
        return self._held[-1][0] if self._held else self._top.descriptor

    @property
    def place(self) -> str:
        return "/".join(name for _, name in self._held)

    @property
    def missing(self) -> list[str]:
        """The part that could not be entered, and all that come after it."""
        return [self._part, *reversed(self._left)]

    def to_last_name(self) -> str:
        """Go as far as the folder of the last part, and give that part; links among the parts are followed."""
        while self._left:
            part = self._part = self._left.pop()
            if part == "..":
                # The folder above is the one that was walked through, and not whatever `..` means by now.
                if not self._held:
                    raise Outside(self._path)
                os.close(self._held.pop()[0])
            elif self._left:
                self._enter(part)
            elif self.is_link(part):
                self.follow(part)
            else:
                return part
        return "."

    def _enter(self, part: str) -> None:
        try:
            self._held.append((self._open_folder(part), part))
        except OSError as problem:
            # Which of the two a link gives depends on the system.
            if problem.errno not in (errno.ELOOP, errno.ENOTDIR) or not self.is_link(part):
                raise
            self.follow(part)

    def _open_folder(self, part: str) -> int:
        try:
            return os.open(part, FOLDER | _NO_FOLLOW, dir_fd=self.folder)
        except FileNotFoundError:
            if self._making is None:
                raise
        with suppress(FileExistsError):  # Somebody else made it; whether it is a folder is seen next.
            os.mkdir(part, dir_fd=self.folder)
            self._making.append(f"{self.place}/{part}".lstrip("/"))
            with closing(os.open(part, FOLDER | _NO_FOLLOW, dir_fd=self.folder)) as made:
                give_to_owner_of(self.folder, made)
        return os.open(part, FOLDER | _NO_FOLLOW, dir_fd=self.folder)

    def is_link(self, name: str) -> bool:
        try:
            return stat.S_ISLNK(os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def follow(self, name: str) -> None:
        """Put what a link says in its place."""
        self.links += 1
        if self.links > self._most_links:
            raise OSError(errno.ELOOP, "goes round in links", self._path)
        try:
            target = os.readlink(name, dir_fd=self.folder)
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                raise
            self._left.append(name)  # By now it is no link any more.
            return
        if target.startswith("/"):
            rest = self._top.below(target)
            if rest is None:
                raise Outside(self._path)
            target = rest
            self.close()
        self._left.extend(_parts(target))

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop()[0])


def give_to_owner_of(folder: int, made: int) -> None:
    """Give what root created in a folder to the owner of the folder, as if the owner had created it.

    Commands in a sandbox run as that user, and have to be able to change the file. A folder that is not empty is not
    the one that was created, and stays as it is.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    owner, state = os.fstat(folder), os.fstat(made)
    if owner.st_uid == 0:
        return
    with suppress(OSError):  # A file system, or a user namespace, may not know this owner.
        if stat.S_ISREG(state.st_mode):
            os.fchown(made, owner.st_uid, owner.st_gid)
            return
        with closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=made)) as inner:
            if not os.listdir(inner):
                os.fchown(inner, owner.st_uid, owner.st_gid)


def _parts(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


@lru_cache(maxsize=1)
def kernel_open() -> Openat2 | None:
    """`openat2` as a function; None where the system has none, or a sandbox around us forbids it."""
    if sys.platform != "linux":
        return None
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    try:
        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    syscall.restype = ctypes.c_long

    def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
        how = OpenHow(flags | os.O_CLOEXEC, 0, resolve)
        descriptor: int = syscall(
            ctypes.c_long(_SYSCALL),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)  # Python picks the class: FileNotFoundError and so on.
        return descriptor

    with closing(os.open("/", FOLDER)) as somewhere:
        try:
            os.close(openat2(somewhere, ".", FOLDER, _BENEATH | _NO_MAGIC_LINKS))
        except OSError:
            return None
    return openat2


# --------------------------------------------------------------------------------------------------------------------
# The folder of the file tools, held by a descriptor: all opened files are below it, even if other processes move it.
#
# Paths come from a model, so they may be anything. A relative one starts at the top of the workspace, an absolute one
# has to begin with it, `..` may not leave it, `~` is an ordinary name. Links are followed as long as they stay
# inside.

CHUNK = 1 << 20
_LONGEST_PATH = 4095
_FOR_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)

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


class DirectoryEntry(Struct, frozen=True):
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
        return _ensure_regular(os.open(self.name, _FOR_READING | _NO_FOLLOW, dir_fd=self.folder), self.real)


class Workspace:
    """A folder, and everything that may be done beneath it. Use it in a `with` statement, or call `close`."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if os.open not in os.supports_dir_fd or os.stat not in os.supports_follow_symlinks:
            raise Error("the file tools need Linux, macOS or BSD; on Windows, they run in WSL")
        try:
            given = os.path.abspath(os.fspath(path) if path is not None else os.getcwd())
            self.path = os.path.realpath(given)
            descriptor = os.open(self.path, FOLDER)
        except OSError as problem:
            where = os.fspath(path) if path is not None else "the current folder"
            raise Error(f"the workspace {where} cannot be used: {_why(problem)}") from problem
        self.top = Root(descriptor, (self.path,) if given == self.path else (self.path, given))

    @classmethod
    def of(cls, context: ToolContext) -> Workspace:
        """The workspace of a call; the current folder where nothing is said."""
        return cls(context.workspace)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor of the folder. Every later use raises an error."""
        if self.top.descriptor >= 0:
            os.close(self.top.descriptor)
            self.top = Root(-1)

    # ---- paths -----------------------------------------------------------------------------------------------------

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Where the user and the system keep secrets, as far as that is in here: it does not count as the workspace."""
        return frozenset(secrets_below([self.path], system_secrets()))

    @cached_property
    def protected_places(self) -> tuple[str, ...]:
        """Full paths that are protected because of a link or the settings of git, whatever their names are."""
        return find_protected_places(self.path)

    def absolute(self, relative: str) -> str:
        """Return the absolute path of a path in the workspace."""
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
        rest = self.top.below(given)
        if rest is None:
            raise OutsideError(given, self.path)
        return rest

    def find(self, given: str, *, digest: bool = False) -> Found:
        """What is at a path; with `digest`, the SHA-256 of a file's content. Absence is an answer, not an error."""
        path = self.relative(given)
        with explained(given, self.path):
            try:
                folder, place, name = open_parent(self.top, path)
            except FileNotFoundError:
                return Found(_tidy(path), place_of(self.top, path))
            with closing(folder):
                return _look(DirectoryEntry(folder, _join(place, name), name), _tidy(path), digest)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def open_read(self, given: str) -> int:
        """A descriptor of a regular file; pipes, sockets, devices and folders are refused."""
        with explained(given, self.path):
            return _ensure_regular(open_beneath(self.top, self.relative(given), _FOR_READING), given)

    def read_bytes(self, given: str, most: int) -> bytes:
        """The whole content of a file; an error where it has more than `most` bytes."""
        content = bytearray()
        with closing(self.open_read(given)) as descriptor, explained(given, self.path):
            while len(content) <= most and (piece := os.read(descriptor, CHUNK)):
                content += piece
        if len(content) > most:
            raise Error(f"{quoted(given)} has more than {most:,} bytes, which is too large for this")
        return bytes(content)

    def names(self, given: str) -> list[str]:
        """The names in a folder, sorted; folders end in a slash."""
        with explained(given, self.path):
            top = open_beneath(self.top, self.relative(given), _FOR_READING | os.O_DIRECTORY)
            with closing(top), os.scandir(top) as entries:
                return sorted(each.name + "/" if each.is_dir(follow_symlinks=False) else each.name for each in entries)

    # ---- places to write -------------------------------------------------------------------------------------------

    @contextmanager
    def entry(self, given: str, making: list[str] | None = None) -> Iterator[DirectoryEntry]:
        """The place behind a path, for writing: links are followed to where the file really is, or would be.

        With `making`, missing folders are made and noted there, so that they can be taken away again.
        """
        with explained(given, self.path):
            folder, place, name = open_parent(self.top, self.relative(given), making=making)
        with closing(folder):
            yield DirectoryEntry(folder, _join(place, name), name)

    def remove_empty(self, folders: list[str]) -> None:
        """Take folders away that were made for nothing, the last one first; one that is in use stays."""
        for place in reversed(folders):
            with suppress(OSError):
                folder, _, name = open_parent(self.top, place)
                with closing(folder):
                    os.rmdir(name, dir_fd=folder)


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


def _look(entry: DirectoryEntry, path: str, digest: bool) -> Found:
    status = entry.look()
    if status is None:
        return Found(path, entry.real)
    kind, content = _kind(status), ""
    if digest and kind == "file":
        with closing(entry.open()) as descriptor:
            status = os.fstat(descriptor)
            content = digest_of(descriptor)
    return Found(
        path,
        entry.real,
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
    return "/".join(reversed(_parts(path))) or "."


def _join(place: str, name: str) -> str:
    return place or "." if name == "." else f"{place}/{name}" if place not in ("", ".") else name


# ---- error messages ------------------------------------------------------------------------------------------------

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
    """Convert errors of the system into messages for a model."""
    try:
        yield
    except OSError as problem:
        if isinstance(problem, Outside) or problem.errno == errno.EXDEV:
            raise OutsideError(given, workspace) from None
        hint = ""
        if given.startswith("~") and problem.errno == errno.ENOENT:
            hint = "; ~ is not expanded, paths start at the workspace"
        raise Error(f"{quoted(given)}: {_why(problem)}{hint}") from problem
