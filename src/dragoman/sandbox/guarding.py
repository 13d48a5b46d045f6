"""Protected paths that nothing else can hold: remembered before a command, and put back after it.

Everything goes by the descriptor of a folder and follows no link, since the command may have put links in the way.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile

from msgspec import Struct

from dragoman.sandbox.shields import is_placeholder

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


class Guard:
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
                except FileNotFoundError:
                    if before.kind == "nothing":
                        return True
                    os.mkdir(part, dir_fd=folder)
                    inner = _opened(part, folder)
                except OSError:
                    self._set_aside(folder, part)
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


class _opened(contextlib.AbstractContextManager[int]):
    """The descriptor of a folder, closed at the end."""

    def __init__(self, path: str, above: int | None = None) -> None:
        self._descriptor = os.open(path, _FOLDER, dir_fd=above)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
