"""Protected paths of a workspace, and how each is kept unchanged."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
import unicodedata
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from dragoman.errors import ConfigError

# --------------------------------------------------------------------------------------------------------------------
# Paths whose content is trusted later: hooks of git, our own settings, what a shell or an editor runs at its start.
#
# Nothing that a model asks for may change them unnoticed, and nothing may create them either: a file that is not
# there yet is as good a way in as one that is. This is data and one pure function; the file tools and the sandbox
# both use it.


def words(text: str) -> tuple[str, ...]:
    """The words of a text: long lists of names are easier to read so."""
    return tuple(text.split())


PROTECTED_FOLDERS = words(
    ".git/hooks .git/info .husky .dragoman .config/dragoman .local/state/dragoman .github/workflows .vscode .idea "
    ".zed .claude .codex .cursor .gemini .ssh .gnupg .config/git .config/fish .config/autostart .config/systemd"
)
"""Folders, with everything below them, wherever in a workspace they lie."""

PROTECTED_FILES = words(
    ".git/config .git/config.worktree .gitmodules .gitconfig dragoman.toml .dragoman.toml .mcp.json .envrc "
    ".profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin "
    ".zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xsessionrc .pam_environment .vimrc .exrc "
    ".npmrc .pypirc .netrc .gitlab-ci.yml"
)
"""Files, wherever in a workspace they lie."""

_FOLDERS = tuple(tuple(each.split("/")) for each in PROTECTED_FOLDERS)
_FILES = tuple(tuple(each.split("/")) for each in PROTECTED_FILES)
# A repository inside another one, and one of a submodule, have hooks and settings as well.
# What says where those are counts as well: `commondir` and `gitdir` name folders, the index names submodules.
_GIT_FILES = ("config", "config.worktree", "commondir", "gitdir", "index")
_GIT_FOLDERS = ("hooks", "info")


def is_protected(relative: str) -> bool:
    """Whether changing this path, or anything in its place, would change what is trusted later.

    The path is only text here: whoever follows links asks for the path that was given and for the one behind it.
    Spelling does not help: case, look-alike forms of letters, invisible characters, and the short names, trailing
    dots and streams of Windows are evened out, since some file system takes each of them for the same name.
    """
    parts = _parts(relative)
    for start in range(len(parts)):
        rest = parts[start:]
        # `.git` alone may be a file: it says where the repository is, with hooks of its own.
        if rest == (".git",) or rest in _FILES:
            return True
        if any(rest[: len(folder)] == folder for folder in _FOLDERS):
            return True
        # A repository without files of its own is called `NAME.git`, by custom.
        if rest[0].endswith(".git") and _is_inside_git(rest[1:]):
            return True
    return False


def _is_inside_git(parts: tuple[str, ...]) -> bool:
    """Settings and hooks at any depth of a `.git` folder: `.git/modules/NAME/hooks`, `.git/worktrees/NAME/config`."""
    return parts[-1:] != () and (parts[-1] in _GIT_FILES or any(part in _GIT_FOLDERS for part in parts))


def _parts(relative: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in _plain(relative).split("/"):
        name = part if part in (".", "..") else part.partition(":")[0].rstrip(". ")
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(".git" if name == "git~1" else name)
    return tuple(found)


def _plain(text: str) -> str:
    text = text.replace("\\", "/")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cf", "Mn"))
    return text.partition("\0")[0].casefold()


# --------------------------------------------------------------------------------------------------------------------
# Repositories inside a workspace beside the one at its top: each has hooks and settings that git runs by itself.

_MOST_FOLDERS = 200
_DEEPEST = 4
_PASSED_OVER = frozenset({"node_modules", ".venv", "venv", "target", "__pycache__", ".tox", ".mypy_cache", "objects"})


def paths_of_repositories(workspace: str) -> tuple[str, ...]:
    """The protected paths of nested repositories and submodules, relative to the workspace.

    A search with bounds: a few levels deep and two hundred folders, the upper ones first.
    """
    found: list[str] = []
    waiting = deque([("", 0)])
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            break
        folder, depth = waiting.popleft()
        names = _names(os.path.join(workspace, folder))
        if folder and ".git" in names:
            above = f"{folder}/.git"
            found += [above] if os.path.isfile(os.path.join(workspace, above)) else _of(above)
        if {"HEAD", "config", "objects"} <= names.keys() and folder != ".git":
            found += _of(folder)
        for name, is_folder in names.items():
            below = f"{folder}/{name}" if folder else name
            if is_folder and depth < _DEEPEST and name not in _PASSED_OVER and _may_hold_repositories(below):
                waiting.append((below, depth + 1))
    return tuple(dict.fromkeys(found))


def _of(repository: str) -> list[str]:
    return [f"{repository}/hooks", f"{repository}/config"]


def _may_hold_repositories(folder: str) -> bool:
    """Inside `.git` only the submodules are of interest."""
    parts = folder.split("/")
    if ".git" not in parts:
        return True
    inside = parts[parts.index(".git") + 1 :]
    return not inside or inside[0] == "modules"


def _names(folder: str) -> dict[str, bool]:
    """The names in a folder, and of each whether it is a folder itself."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return {}


# --------------------------------------------------------------------------------------------------------------------
# Where the protected paths of a workspace really are, and how each of them is kept as it is.

PROTECTED = words(
    ".git/hooks .git/config .dragoman .dragoman.toml dragoman.toml .mcp.json .envrc .bashrc .bash_profile .profile "
    ".zshrc .zshenv"
)
"""What no command may create either: something runs or trusts it by itself, maybe while the command is still running.

They are few on purpose: while a command runs, each one that is absent is held by an empty node of its name.
"""

WATCHED = tuple(path for path in PROTECTED_FOLDERS + PROTECTED_FILES if path not in PROTECTED)
"""The other protected paths. Those that exist are read-only; those that a command creates are removed after it."""


class PathProtection(Struct):
    """How the protected paths of one workspace are kept, as full paths without a link in them."""

    fixed: list[str] = []
    """They exist, and become read-only."""
    anchors: list[str] = []
    """Folders above a protected path. They stay writable, but cannot be moved away with what they hold."""
    absent: list[str] = []
    """They do not exist, and are held by a placeholder."""
    guarded: list[str] = []
    """Links, and watched paths that do not exist: they are looked at when the command is over."""


def plan_protection(workspace: str, protected: tuple[str, ...], watched: tuple[str, ...] = ()) -> PathProtection:
    """Find the protected paths of a workspace. `workspace` is a real path; nothing is changed."""
    protection = PathProtection()
    for path in protected:
        _follow(protection, workspace, path, hold=True)
    for path in paths_of_repositories(workspace) if protected else ():
        # Only the repository itself is anchored: a mount on every folder above it would split the workspace up, and
        # files cannot be renamed from one mount to another.
        parts = path.split("/")
        _follow(
            protection, workspace, path, hold=True, first=parts.index(".git") if ".git" in parts else len(parts) - 2
        )
    for path in watched:
        _follow(protection, workspace, path, hold=False)
    for field in protection.__struct_fields__:
        setattr(protection, field, sorted(dict.fromkeys(getattr(protection, field))))
    return protection


def open_below(workspace: str, path: str) -> int:
    """A descriptor of one of these paths, opened without following a link anywhere below the workspace."""
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
    """Whether this is a node that was put there by us. Nobody has a socket, or a sealed empty file, of these names."""
    sealed = stat.S_ISREG(state.st_mode) and state.st_size == 0 and stat.S_IMODE(state.st_mode) == 0
    return stat.S_ISSOCK(state.st_mode) or sealed


def _follow(
    protection: PathProtection, workspace: str, relative: str, *, hold: bool, first: int = 0, depth: int = 0
) -> None:
    """Go down to the first thing on the way that is no folder: that one has to stay as it is."""
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
            (protection.absent if hold else protection.guarded).append(here)
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
# Nodes that hold the names of absent protected paths while commands run, and are gone afterwards.
#
# A mount needs something to be mounted on, and a command must not be able to create what is absent. So an empty node
# is put there for as long as a command runs in the workspace. It is a socket that nobody listens on: git, tar and
# search tools pass over sockets, opening one fails, and one of these names can only be ours, so that whoever comes
# next removes what a killed process left behind.

_TRIES = 200
_PAUSE = 0.005


class Placeholders:
    """The placeholders of one launch. Several launches in one workspace share the nodes; the last removes them."""

    def __init__(self, workspace: str, paths: list[str], stale: list[str]) -> None:
        self._stale = stale
        self.held: list[str] = []
        """The paths that have a node now. The others are in folders that nobody can write to."""
        self._alone = False
        self._folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._alone = not self._lock(fcntl.LOCK_SH, tries=_TRIES)
            self.held += [path for path in paths if _put(path)]
        except BaseException:
            self.remove()
            raise

    def remove(self) -> tuple[str, ...]:
        """Remove the nodes, unless another launch still needs them."""
        if self._folder >= 0:
            try:
                if self._alone or self._lock(fcntl.LOCK_EX, tries=1):
                    for path in self.held + self._stale:
                        _take(path)
            finally:
                os.close(self._folder)
                self._folder = -1
        return ()

    def _lock(self, kind: int, *, tries: int) -> bool:
        """The lock is on the folder itself, so that it leaves nothing behind either. False: there are no locks here."""
        for attempt in range(tries):
            time.sleep(_PAUSE if attempt else 0)
            try:
                fcntl.flock(self._folder, kind | fcntl.LOCK_NB)
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
            # Where we may not create anything, the command may not either.
            is_last = kind == stat.S_IFREG
            if error.errno in (errno.EACCES, errno.EROFS) or (is_last and error.errno == errno.EPERM):
                return False
            if is_last:
                raise ConfigError(f"cannot protect {path}: {error.strerror}", hint="look at its folder") from None
    return False


def _take(path: str) -> None:
    with contextlib.suppress(OSError):
        if is_placeholder(os.lstat(path)):
            os.unlink(path)


# --------------------------------------------------------------------------------------------------------------------
# Protected paths that nothing else can hold: remembered before a command, and put back after it.
#
# Everything goes by the descriptor of a folder and follows no link, since the command may have put links in the way.

_MOST_BYTES = 8 * 1024 * 1024
_MOST_ENTRIES = 4000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _State(Struct, frozen=True):
    """What was found at a path: nothing, a link, a file, a folder, or something else that is only told apart."""

    kind: str = "nothing"
    mode: int = 0
    content: bytes | None = None
    """Of a file, or the target of a link; None of a file that was too large to be kept."""
    mark: tuple[int, ...] = ()
    """Tells such a file apart from any other."""
    entries: dict[str, _State] = {}


_NOTHING = _State()


class PathSnapshot:
    """The state of some paths of a workspace before a command ran in it."""

    def __init__(self, workspace: str, paths: list[str], aside: str | None = None) -> None:
        self._workspace = workspace
        self._aside = aside
        self._bytes = _MOST_BYTES
        self._count = _MOST_ENTRIES
        self._before: dict[str, _State] = {}
        if paths:
            with _opened(workspace) as folder:
                for path in paths:
                    relative = os.path.relpath(path, workspace)
                    self._before[relative] = self._look_at(folder, relative)

    def put_back(self) -> tuple[str, ...]:
        """Undo what was done to them; gives those that had changed, relative to the workspace.

        Nothing is lost: what had been made of them is kept elsewhere, since it may be somebody else's work and not the
        command's. The text says where, or that a path could not be put back.
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
                kept = f"the other version is in {self._aside}" if self._aside else "nothing else was there"
                changed.append(f"{relative} ({kept if whole else 'could not be put back'})")
        return tuple(changed)

    def _look_at(self, folder: int, relative: str) -> _State:
        *above, name = relative.split("/")
        with contextlib.ExitStack() as stack:
            for part in above:
                try:
                    folder = stack.enter_context(_opened(part, folder))
                except FileNotFoundError:
                    return _NOTHING
                except OSError:
                    # A link or a file where a folder was: something can be reached by this path that was not there.
                    return _State(kind="diverted")
            return self._look(folder, name)

    def _look(self, folder: int, name: str) -> _State:
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
            if stat.S_ISDIR(state.st_mode) and self._count > 0:
                with _opened(name, folder) as inner:
                    entries = {each: self._look(inner, each) for each in sorted(os.listdir(inner))}
                return _State(kind="folder", mode=mode, entries=entries)
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
            return _State(kind="file", mode=mode, content=file.read(state.st_size + 1))

    def _restore_at(self, folder: int, relative: str, before: _State) -> bool:
        *above, name = relative.split("/")
        with contextlib.ExitStack() as stack:
            for part in above:
                try:
                    inner = _opened(part, folder)
                except OSError as problem:
                    if not isinstance(problem, FileNotFoundError):
                        self._set_aside(folder, part)
                    elif before.kind == "nothing":
                        return True
                    os.mkdir(part, dir_fd=folder)
                    inner = _opened(part, folder)
                folder = stack.enter_context(inner)
            return self._restore(folder, name, before)

    def _restore(self, folder: int, name: str, before: _State) -> bool:
        now = self._look(folder, name)
        if now == before:
            return True
        if before.kind in ("other", "unreadable", "diverted") or (before.kind == "file" and before.content is None):
            return False
        if before.kind == now.kind == "folder":
            with _opened(name, folder) as inner:
                os.fchmod(inner, before.mode)
                whole = [self._restore(inner, each, _NOTHING) for each in now.entries if each not in before.entries]
                whole += [self._restore(inner, each, state) for each, state in before.entries.items()]
            return all(whole)
        if now.kind != "nothing":
            self._set_aside(folder, name)
        return _make(folder, name, before)

    def _set_aside(self, folder: int, name: str) -> None:
        """Move it out of the workspace, or beside where it was if that is on another disk and it is no small thing."""
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


def _make(folder: int, name: str, state: _State) -> bool:
    if state.kind == "link" and state.content is not None:
        os.symlink(os.fsdecode(state.content), name, dir_fd=folder)
    elif state.kind == "file" and state.content is not None:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(descriptor, "wb") as file:
            file.write(state.content)
            os.fchmod(descriptor, state.mode)
    elif state.kind == "folder":
        os.mkdir(name, dir_fd=folder)
        with _opened(name, folder) as inner:
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
    """A descriptor that is closed at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)
