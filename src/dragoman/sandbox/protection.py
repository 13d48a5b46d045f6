"""The protected paths of a workspace, and how changes of them are prevented or undone."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.own_code import is_below
from dragoman.sandbox.protected_names import PROTECTED_FILES, PROTECTED_FOLDERS, PROTECTED_PATTERNS, words
from dragoman.sandbox.repositories import (
    Repository,
    find_named_paths,
    find_rebase_lists,
    find_repositories,
    find_worktrees,
    repositories_above,
)

# --------------------------------------------------------------------------------------------------------------------
# The real locations of the protected paths, and how each is protected.

PROTECTED = words(
    ".git/hooks .git/config .dragoman .dragoman.toml dragoman.toml .mcp.json .envrc .bashrc .bash_profile .profile "
    ".zshrc .zshenv"
)
"""Paths that no command may create: other programs run or trust them automatically, maybe during the command.

The list is short on purpose: while a command runs, a placeholder occupies each path that does not exist.
"""

WATCHED = tuple(path for path in PROTECTED_FOLDERS + PROTECTED_FILES if path not in PROTECTED)
"""The other protected paths. Those that exist are read-only; those that a command creates are removed after it."""


class PathProtection(Struct):
    """How the protected paths of one workspace are protected, as full paths without links."""

    fixed: list[str] = []
    """They exist, and become read-only."""
    anchors: list[str] = []
    """Folders above a protected path. They stay writable, but cannot be renamed."""
    absent: list[str] = []
    """They do not exist, and get a placeholder."""
    guarded: list[str] = []
    """Links, and watched paths that do not exist: they are checked after the command."""
    repositories: tuple[Repository, ...] = ()
    """The repositories whose rebases are checked after the command."""


def plan_protection(workspace: str, protected: tuple[str, ...], watched: tuple[str, ...] = ()) -> PathProtection:
    """Find the protected paths of a workspace. `workspace` is a real path; nothing is changed."""
    protection = PathProtection()
    for path in protected:
        _follow(protection, workspace, path, hold=True)
    if protected:
        _add_repositories(protection, workspace)
    for path in (*watched, *_find_patterns(workspace)) if watched else ():
        _follow(protection, workspace, path, hold=False)
    for field in ("fixed", "anchors", "absent", "guarded"):
        setattr(protection, field, sorted(dict.fromkeys(getattr(protection, field))))
    return protection


def find_protected_places(workspace: str) -> tuple[str, ...]:
    """Return the full paths that are protected in a workspace although their names do not show it, and some that do.

    They are behind a link with a protected name, or the settings of git name them. The path is a real one.
    """
    protection = plan_protection(workspace, PROTECTED, WATCHED)
    return (*protection.fixed, *protection.guarded)


def is_protected_place(path: str, workspace: str, places: tuple[str, ...]) -> bool:
    """Whether a real path is in one of these places, or named by the settings of a repository above it."""
    repositories = tuple(repositories_above(os.path.dirname(path)))
    named = (os.path.join(workspace, each) for each in find_named_paths(workspace, repositories))
    # Some file systems do not distinguish case.
    return any(is_below(path.casefold(), place.casefold()) for place in (*places, *named))


def _add_repositories(protection: PathProtection, workspace: str) -> None:
    protection.repositories = find_repositories(workspace)
    for repository in protection.repositories:
        pointer = os.path.join(repository.top, ".git")
        if os.path.isfile(pointer) and is_below(pointer, workspace):
            protection.fixed.append(pointer)
        # The files of the main repository are in the lists.
        if os.path.isdir(repository.folder) and repository.folder != os.path.join(workspace, ".git"):
            _add_files(protection, workspace, repository.folder, hooks=True)
        for worktree in find_worktrees(repository):
            _add_files(protection, workspace, worktree, hooks=False)
    for path in find_named_paths(workspace, protection.repositories):
        # The folders above are not anchored: files cannot be renamed across mounts. So they may be moved, and the path
        # is checked after the command as well.
        _follow(protection, workspace, path, hold=False, first=len(path.split("/")) - 1)
        protection.guarded.append(os.path.join(workspace, path))


def _add_files(protection: PathProtection, workspace: str, folder: str, *, hooks: bool) -> None:
    """Protect the settings of a repository, or of a worktree, and the files that say where settings are."""
    if not is_below(folder, workspace):
        return
    parts = [part for part in os.path.relpath(folder, workspace).split("/") if part != "."]
    # Only the repository itself is anchored: a mount on every folder above it would split the workspace.
    first = parts.index(".git") if ".git" in parts else max(len(parts) - 1, 0)
    for name in ("hooks", "config") if hooks else ():
        _follow(protection, workspace, "/".join((*parts, name)), hold=True, first=first)
    for name in ("commondir", "config.worktree", *(() if hooks else ("gitdir",))):
        _follow(protection, workspace, "/".join((*parts, name)), hold=False, first=first)
    if first > 0 and hooks:
        # A folder above the repository may be moved, and another one may take its place.
        protection.guarded += [os.path.join(folder, name) for name in ("hooks", "config")]


def _find_patterns(workspace: str) -> list[str]:
    """The files at the top of a workspace whose names match a pattern."""
    try:
        names = os.listdir(workspace)
    except OSError:
        return []
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in PROTECTED_PATTERNS)]


def open_below(workspace: str, path: str) -> int:
    """Open one of these paths without following links below the workspace, and return the descriptor."""
    here = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in os.path.relpath(path, workspace).split("/"):
        above = here
        try:
            here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except OSError as error:
            raise ConfigError(f"{path} changed while a command was being started", hint="try again") from error
        finally:
            os.close(above)
    if stat.S_ISLNK(os.fstat(here).st_mode):
        os.close(here)
        raise ConfigError(f"{path} changed while a command was being started", hint="try again")
    return here


def is_placeholder(state: os.stat_result) -> bool:
    """Whether this is one of our placeholders. Nobody else has a socket, or a sealed empty file, with these names."""
    sealed = stat.S_ISREG(state.st_mode) and state.st_size == 0 and stat.S_IMODE(state.st_mode) == 0
    return stat.S_ISSOCK(state.st_mode) or sealed


def _follow(
    protection: PathProtection, workspace: str, relative: str, *, hold: bool, first: int = 0, depth: int = 0
) -> None:
    """Descend to the first component that is not a folder: that one has to be protected."""
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    here = workspace
    for index, part in enumerate(parts):
        if index > first:
            protection.anchors.append(here)
        here = os.path.join(here, part)
        try:
            state: os.stat_result | None = os.lstat(here)
        except FileNotFoundError:
            state = None
        if state is None or is_placeholder(state):
            # A folder above a watched path may be created; what matters is the path itself.
            (protection.absent if hold else protection.guarded).append(
                here if hold else os.path.join(here, *parts[index + 1 :])
            )
            return
        if stat.S_ISLNK(state.st_mode):
            protection.guarded.append(here)
            real = os.path.relpath(os.path.realpath(os.path.join(here, *parts[index + 1 :])), workspace)
            if real.split("/")[0] not in ("..", ".") and depth < 8:
                _follow(protection, workspace, real, hold=hold, depth=depth + 1)
            return
        if not stat.S_ISDIR(state.st_mode):
            break
    protection.fixed.append(here)


# --------------------------------------------------------------------------------------------------------------------
# Placeholders occupy protected paths that do not exist, while a command runs.
#
# A mount needs a target, and a command must not be able to create the path. So a placeholder exists there while a
# command runs in the workspace. It is a socket without a listener: git, tar and search tools skip sockets, and to open
# one fails. A socket with such a name can only be ours, so the next launch can remove the placeholders of a killed
# process.

_TRIES = 200
_PAUSE = 0.005


class Placeholders:
    """The placeholders of one launch. Several launches in one workspace share them; the last removes them."""

    def __init__(self, workspace: str, paths: list[str], stale: list[str]) -> None:
        self._stale = stale
        self.held: list[str] = []
        """The paths that have a placeholder. The others are in folders that cannot be written."""
        self._alone = False
        self._folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._alone = not self._lock("shared", tries=_TRIES)
            self.held += [path for path in paths if _put(path)]
        except BaseException:
            self.remove()
            raise

    def remove(self) -> tuple[str, ...]:
        """Remove the placeholders, unless another launch still needs them."""
        if self._folder >= 0:
            try:
                if self._alone or self._lock("exclusive", tries=1):
                    for path in self.held + self._stale:
                        _take(path)
            finally:
                os.close(self._folder)
                self._folder = -1
        return ()

    def _lock(self, kind: Literal["shared", "exclusive"], *, tries: int) -> bool:
        """Lock the folder itself, so that no lock file remains. Returns False if there are no locks on this system."""
        import fcntl  # Windows has no such module, and no sandbox either.

        operation = (fcntl.LOCK_SH if kind == "shared" else fcntl.LOCK_EX) | fcntl.LOCK_NB
        for attempt in range(tries):
            time.sleep(_PAUSE if attempt else 0)
            try:
                fcntl.flock(self._folder, operation)
                return True
            except BlockingIOError:
                continue
            except OSError:
                return False
        if tries == 1:
            return False
        raise ConfigError("the workspace is locked by another program", hint="wait for it, or end it")


def _put(path: str) -> bool:
    for kind in (stat.S_IFSOCK, stat.S_IFREG):
        try:
            os.mknod(path, kind)
            return True
        except FileExistsError:
            if is_placeholder(os.lstat(path)):
                return True
            raise ConfigError(f"{path} appeared while a command was being started", hint="try again") from None
        except OSError as error:
            # If we cannot create a file there, the command cannot either.
            is_last = kind == stat.S_IFREG
            if error.errno in (errno.EACCES, errno.EROFS) or (is_last and error.errno == errno.EPERM):
                return False
            if is_last:
                raise ConfigError(
                    f"cannot protect {path}: {error.strerror}", hint="check the permissions of its folder"
                ) from None
    return False


def _take(path: str) -> None:
    with contextlib.suppress(OSError):
        if is_placeholder(os.lstat(path)):
            os.unlink(path)


# --------------------------------------------------------------------------------------------------------------------
# Protected paths that cannot be made read-only: they are saved before a command, and restored after it.
#
# All operations use descriptors of folders and follow no links, because the command may have created links.

_MOST_BYTES = 8 * 1024 * 1024
_MOST_ENTRIES = 4000
_DEEPEST = 64
"""A folder further down is only identified: a command can nest more of them than can be followed."""
# Windows has none of these three, and no sandbox either.
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class _State(Struct, frozen=True):
    """The state of a path: nothing, a link, a file, a folder, or something else that is only identified."""

    kind: str = "nothing"
    mode: int = 0
    content: bytes | None = None
    """The content of a file, or the target of a link; None for a file that is too large to be saved."""
    mark: tuple[int, ...] = ()
    """The identity of such a file."""
    owner: tuple[int, int] | None = None
    """The user and the group, if root restores the path: only root can give a file to another user."""
    entries: dict[str, _State] = {}


_NOTHING = _State()


class PathSnapshot:
    """The state of some paths of a workspace before a command ran in it."""

    def __init__(
        self, workspace: str, paths: list[str], aside: str | None = None, repositories: tuple[Repository, ...] = ()
    ) -> None:
        self._workspace = workspace
        self._aside = aside
        self._bytes = _MOST_BYTES
        self._count = _MOST_ENTRIES
        self._before: dict[str, _State] = {}
        self._repositories = repositories
        self._lists = find_rebase_lists(workspace, repositories)
        if paths:
            with _opened(workspace) as folder:
                for path in paths:
                    relative = os.path.relpath(path, workspace)
                    self._before[relative] = self._look_at(folder, relative)

    def put_back(self) -> tuple[str, ...]:
        """Restore the paths. Returns those that had changed, relative to the workspace.

        Nothing is lost: the changed versions are kept elsewhere, since another program may have changed them and not
        the command. The text names the place, or says that a path could not be restored.
        """
        changed: list[str] = []
        if not self._before or not os.path.isdir(self._workspace):
            return ()
        with _opened(self._workspace) as folder:
            for relative, before in self._before.items():
                self._bytes, self._count = _MOST_BYTES, _MOST_ENTRIES
                if self._look_at(folder, relative) == before:
                    continue
                try:
                    whole = self._restore_at(folder, relative, before)
                except OSError:
                    whole = False
                changed.append(self._describe(relative, whole))
            changed += self._remove_rebase_lists(folder)
        return tuple(changed)

    def _describe(self, relative: str, whole: bool) -> str:
        kept = f"the other version is in {self._aside}" if self._aside else "there was no other version"
        return f"{relative} ({kept if whole else 'could not be restored'})"

    def _remove_rebase_lists(self, folder: int) -> Iterator[str]:
        """Remove the lists of rebases with new commands: git would run those at `git rebase --continue`.

        Other lists stay, so that a rebase can be continued by the next command.
        """
        for relative, commands in find_rebase_lists(self._workspace, self._repositories).items():
            if commands - self._lists.get(relative, frozenset()):
                try:
                    whole = self._restore_at(folder, relative, _NOTHING)
                except OSError:
                    whole = False
                yield self._describe(relative, whole)

    def _look_at(self, folder: int, relative: str) -> _State:
        *above, name = relative.split("/")
        with contextlib.ExitStack() as stack:
            for part in above:
                try:
                    folder = stack.enter_context(_opened(part, folder))
                except OSError:
                    # A link or a file replaced a folder: the path may now lead to other files.
                    return _NOTHING if _is_absent(folder, part) else _State(kind="diverted")
            return self._look(folder, name)

    def _look(self, folder: int, name: str, depth: int = 0) -> _State:
        self._count -= 1
        try:
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if is_placeholder(state):
                return _NOTHING
            mode = stat.S_IMODE(state.st_mode)
            if stat.S_ISLNK(state.st_mode):
                return _State(kind="link", content=os.fsencode(os.readlink(name, dir_fd=folder)))
            if stat.S_ISREG(state.st_mode):
                return self._look_into_file(folder, name, state)
            if stat.S_ISDIR(state.st_mode) and self._count > 0 and depth < _DEEPEST:
                with _opened(name, folder) as inner:
                    entries = {each: self._look(inner, each, depth + 1) for each in sorted(os.listdir(inner))}
                return _State(kind="folder", mode=mode, owner=_owner(state), entries=entries)
        except FileNotFoundError:
            return _NOTHING
        except OSError:
            return _State(kind="unreadable")
        return _State(kind="other", mark=_mark(state))

    def _look_into_file(self, folder: int, name: str, state: os.stat_result) -> _State:
        mode = stat.S_IMODE(state.st_mode)
        if state.st_size > self._bytes or self._count <= 0:
            return _State(kind="file", mode=mode, mark=_mark(state))
        self._bytes -= state.st_size
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(descriptor, "rb") as file:
            return _State(kind="file", mode=mode, content=file.read(state.st_size + 1), owner=_owner(state))

    def _restore_at(self, folder: int, relative: str, before: _State) -> bool:
        *above, name = relative.split("/")
        with contextlib.ExitStack() as stack:
            for part in above:
                try:
                    inner = _opened(part, folder)
                except OSError:
                    is_absent = _is_absent(folder, part)
                    if is_absent and before.kind == "nothing":
                        return True
                    if not is_absent:
                        self._set_aside(folder, part)
                    inner = self._make_folder(folder, part)
                folder = stack.enter_context(inner)
            return self._restore(folder, name, before)

    def _make_folder(self, folder: int, name: str) -> contextlib.AbstractContextManager[int]:
        """Create a folder that is missing above a protected path. It belongs to the owner of the folder above it."""
        os.mkdir(name, dir_fd=folder)
        with _opened(name, folder) as inner:
            _give(inner, _State(kind="folder", owner=_owner(os.fstat(folder))))
        return _opened(name, folder)

    def _restore(self, folder: int, name: str, before: _State) -> bool:
        now = self._look(folder, name)
        if now == before:
            return True
        if before.kind in ("other", "unreadable", "diverted") or (before.kind == "file" and before.content is None):
            return False
        if before.kind == now.kind == "folder" and before.owner == now.owner:
            with _opened(name, folder) as inner:
                os.fchmod(inner, before.mode)
                whole = [self._restore(inner, each, _NOTHING) for each in now.entries if each not in before.entries]
                whole += [self._restore(inner, each, state) for each, state in before.entries.items()]
            return all(whole)
        if now.kind != "nothing":
            self._set_aside(folder, name)
        return _make(folder, name, before)

    def _set_aside(self, folder: int, name: str) -> None:
        """Move it out of the workspace; if that is on another disk and it is large, rename it in place."""
        self._aside = self._aside or tempfile.mkdtemp(prefix="dragoman-set-aside-")
        with _opened(self._aside) as aside:
            new = f"{len(os.listdir(aside))}-{name}"
            try:
                os.rename(name, new, src_dir_fd=folder, dst_dir_fd=aside)
            except OSError:
                if _make(aside, new, self._look(folder, name)):
                    _remove(folder, name)
                else:
                    os.rename(name, f"set-aside-{new}", src_dir_fd=folder, dst_dir_fd=folder)


def _owner(state: os.stat_result) -> tuple[int, int] | None:
    return (state.st_uid, state.st_gid) if os.geteuid() == 0 else None


def _give(descriptor: int, state: _State) -> None:
    """Give a new file or an empty folder to its owner. Another user may have put a folder of ours in its place."""
    if state.owner is not None and (state.kind == "file" or not os.listdir(descriptor)):
        os.fchown(descriptor, *state.owner)


def _is_absent(folder: int, name: str) -> bool:
    """Whether nothing has this name, or one of our placeholders."""
    try:
        return is_placeholder(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return True


def _make(folder: int, name: str, state: _State) -> bool:
    if state.kind == "link" and state.content is not None:
        os.symlink(os.fsdecode(state.content), name, dir_fd=folder)
    elif state.kind == "file" and state.content is not None:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(descriptor, "wb") as file:
            file.write(state.content)
            _give(descriptor, state)
            os.fchmod(descriptor, state.mode)
    elif state.kind == "folder":
        os.mkdir(name, dir_fd=folder)
        with _opened(name, folder) as inner:
            _give(inner, state)
            os.fchmod(inner, state.mode | stat.S_IRWXU)
            whole = [_make(inner, each, entry) for each, entry in state.entries.items()]
            os.fchmod(inner, state.mode)
        return all(whole)
    return state.kind == "nothing" or state.content is not None


def _remove(folder: int, name: str) -> None:
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def _mark(state: os.stat_result) -> tuple[int, ...]:
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_mode)


def _opened(path: str, above: int | None = None) -> contextlib.AbstractContextManager[int]:
    return closing(os.open(path, _FOLDER, dir_fd=above))


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Yield a descriptor, and close it at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)
