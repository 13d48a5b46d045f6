"""Opening a path beneath a folder, and never anything else, while others move links and folders about.

Where the kernel has `openat2`, it resolves the whole path and refuses to leave the folder. Elsewhere the path is walked
part by part with descriptors; no part may be a link, and links are read and walked in turn. Neither ever compares
paths as text and then opens them: between the two, what is there can change.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct

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


class Top(Struct, frozen=True):
    """The folder that nothing may leave."""

    descriptor: int
    spellings: tuple[str, ...] = ()
    """Its absolute paths: an absolute link that begins with one of them is followed from the top again."""
    by_walking: bool = False
    """Do without `openat2`, as on a kernel that has none."""


def open_beneath(top: Top, relative: str, flags: int, *, follow: bool = True) -> int:
    """A descriptor of what is at a relative path; links are followed as long as they stay beneath the top.

    With `follow=False`, no part of the path may be a link. Raises Outside where the path, or a link on it, leads out,
    and OSError as `os.open` does.
    """
    openat2 = None if top.by_walking else kernel_open()
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


def open_parent(top: Top, relative: str, *, making: list[str] | None = None) -> tuple[int, str, str]:
    """The folder in which a path ends once every link is followed: its descriptor, its place beneath the top, the name.

    The name itself may be absent, and is no link at the time of looking; use it with the descriptor, and follow
    nothing. For the top itself it is `.`. With `making`, missing folders are made, and noted there.
    """
    openat2 = None if top.by_walking else kernel_open()
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


def place_of(top: Top, relative: str) -> str:
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


def _open_by_walking(top: Top, relative: str, flags: int, follow: bool) -> int:
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

    def __init__(self, top: Top, relative: str, making: list[str] | None = None, most_links: int = MOST_LINKS) -> None:
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
            target = self._beneath(target)
            self.close()
        self._left.extend(_parts(target))

    def _beneath(self, target: str) -> str:
        """An absolute link as a path from the top: part by part, for `/work-b` does not lie in `/work`."""
        for spelling in self._top.spellings:
            rest = below(target, spelling)
            if rest is not None:
                return rest
        raise Outside(self._path)

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop()[0])


def _parts(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def below(path: str, folder: str) -> str | None:
    """An absolute path as one below a folder, by its text alone; None where it does not begin with it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    start = [part for part in folder.split("/") if part not in ("", ".")]
    return "/".join(parts[len(start) :]) or "." if parts[: len(start)] == start else None


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

    somewhere = os.open("/", FOLDER)
    try:
        os.close(openat2(somewhere, ".", FOLDER, _BENEATH | _NO_MAGIC_LINKS))
    except OSError:
        return None
    finally:
        os.close(somewhere)
    return openat2
