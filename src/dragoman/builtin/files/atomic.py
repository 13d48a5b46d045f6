"""Replace files atomically: each file is either the old or the new version, and all change or none.

New content goes into a file beside the old one first, and takes its name when it is complete. Where several files
change together, the old ones are kept under another name until the last one is in place, and come back if it fails.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from msgspec import Struct

from dragoman.builtin.files.workspace import (
    DirectoryEntry,
    Found,
    Workspace,
    digest_of,
    explained,
    give_to_owner_of,
    identity_of,
    quoted,
    times_of,
)
from dragoman.sandbox.protection import closing
from dragoman.tools import Error

_LARGE = 64 << 20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Change(Struct, frozen=True):
    """One file that is to be different: its new content, or None where it is to go."""

    expected: Found
    """What was there when the change was worked out; anything else there by now is left alone."""
    content: bytes | None
    mode: int | None = None
    """The permissions of a new file, where they are not the usual ones."""


def apply_changes(workspace: Workspace, changes: Sequence[Change]) -> None:
    """Make all changes, or none of them: after an error every file is as it was.

    A process that is killed between two files of several leaves the first ones changed; nothing short of that does.
    """
    steps: list[_Step] = []
    made: list[str] = []
    with ExitStack() as opened:
        try:
            for change in changes:
                _ensure_replaceable(change)
                making = made if change.content is not None else None
                entry = opened.enter_context(workspace.entry(change.expected.path, making=making))
                steps.append(_Step(workspace.path, change, entry))
            for step in steps:
                step.prepare()
            for step in steps:
                step.commit(keep=len(steps) > 1)
        except BaseException:
            for step in reversed(steps):
                step.undo()
            workspace.remove_empty(made)
            raise
        for step in steps:
            step.clear()


def _ensure_replaceable(change: Change) -> None:
    """Refuse what is no file, and files that are marked as not to be written."""
    before = change.expected
    if before.kind == "folder":
        raise Error(f"{quoted(before.path)} is a folder")
    if before.kind == "special":
        raise Error(f"{quoted(before.path)} is no regular file (a pipe, a socket or a device), and is left alone")
    # A rename would succeed, and root may write everything, but the user set this bit on purpose.
    if before.kind == "file" and not before.mode & 0o222:
        raise Error(f"{quoted(before.path)} is read-only (mode {before.mode:04o}), and is left alone")


class _Step:
    """One change on its way: a new file beside the old one, then in its place."""

    def __init__(self, workspace: str, change: Change, entry: DirectoryEntry) -> None:
        self._workspace = workspace
        self._change = change
        self._path = change.expected.path
        self._entry = entry
        self._new = self._old = ""
        self._done = False

    def prepare(self) -> None:
        """Write the new content beside the old one."""
        if self._change.content is None:
            return
        self._new = _free_name()
        with explained(self._path, self._workspace):
            # Nobody else may read what takes the place of a private file, not even for a moment.
            is_private = self._change.expected.kind == "file" or self._change.mode is not None
            mode = 0o600 if is_private else 0o666
            with closing(os.open(self._new, _NEW_FILE, mode, dir_fd=self._entry.folder)) as descriptor:
                _write_all(descriptor, self._change.content)
                self._take_over(descriptor)

    def _take_over(self, descriptor: int) -> None:
        """Owner and permissions of the file that was there; the owner of the folder if there was none."""
        before = self._entry.look()
        if before is None or not stat.S_ISREG(before.st_mode):
            give_to_owner_of(self._entry.folder, descriptor)
            if self._change.mode is not None:
                os.fchmod(descriptor, self._change.mode)
            return
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(OSError):  # Only root may give files away; the content counts more.
                os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, before.st_mode & 0o777 if self._change.mode is None else self._change.mode)

    def commit(self, keep: bool) -> None:
        """Put the new file in place of the old one, which is kept under another name where it may have to come back."""
        self._ensure_unchanged()
        entry = self._entry
        exists = self._change.expected.kind == "file"
        with explained(self._path, self._workspace):
            if exists and keep:
                self._old = self._keep(entry)
            if self._change.content is None:
                os.unlink(entry.name, dir_fd=entry.folder)
            elif exists:
                os.rename(self._new, entry.name, src_dir_fd=entry.folder, dst_dir_fd=entry.folder)
            else:
                self._create(entry)
        self._new, self._done = "", True

    def _ensure_unchanged(self) -> None:
        before, entry = self._change.expected, self._entry
        status = entry.look()
        identity = "" if status is None else identity_of(status)
        same = identity == before.identity and entry.real == before.real
        if same and status is not None and before.size > _LARGE:
            # Reading it all once more takes long; the times tell as much, but for a change in the same instant.
            same = (status.st_size, times_of(status)) == (before.size, before.times)
        elif same and before.digest:
            with explained(self._path, self._workspace), closing(entry.open()) as descriptor:
                same = digest_of(descriptor) == before.digest
        if not same:
            raise Error(f"{quoted(self._path)} changed while the call was at work; nothing was written, read it again")

    def _keep(self, entry: DirectoryEntry) -> str:
        """A second name for the old file; a copy where the file system has no second names."""
        name = _free_name()
        try:
            os.link(entry.name, name, src_dir_fd=entry.folder, dst_dir_fd=entry.folder, follow_symlinks=False)
        except OSError as problem:
            if not _has_no_links(problem):
                raise
            with (
                closing(entry.open()) as source,
                closing(os.open(name, _NEW_FILE, 0o600, dir_fd=entry.folder)) as target,
            ):
                while piece := os.read(source, 1 << 20):
                    _write_all(target, piece)
                os.fchmod(target, self._change.expected.mode)
        return name

    def _create(self, entry: DirectoryEntry) -> None:
        """Take a name that is free: unlike renaming, linking fails where somebody else was first."""
        try:
            os.link(self._new, entry.name, src_dir_fd=entry.folder, dst_dir_fd=entry.folder, follow_symlinks=False)
        except FileExistsError:
            raise Error(f"{quoted(self._path)} appeared while the call was at work; nothing was written") from None
        except OSError as problem:
            if not _has_no_links(problem):
                raise
            os.rename(self._new, entry.name, src_dir_fd=entry.folder, dst_dir_fd=entry.folder)
        else:
            with suppress(OSError):  # Then it is in the way as a second name, but the file is there.
                os.unlink(self._new, dir_fd=entry.folder)

    def undo(self) -> None:
        """As it was, as far as the disk allows it."""
        entry = self._entry
        with suppress(OSError):
            if self._old and self._done:
                os.rename(self._old, entry.name, src_dir_fd=entry.folder, dst_dir_fd=entry.folder)
                self._old = ""
            elif self._done and self._change.expected.kind == "absent":
                os.unlink(entry.name, dir_fd=entry.folder)
        self.clear()

    def clear(self) -> None:
        """Remove what stands beside the file."""
        for name in (self._new, self._old):
            if name:
                with suppress(OSError):
                    os.unlink(name, dir_fd=self._entry.folder)
        self._new = self._old = ""


def _free_name() -> str:
    return f".dragoman-{secrets.token_hex(8)}.tmp"


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _has_no_links(problem: OSError) -> bool:
    return problem.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
