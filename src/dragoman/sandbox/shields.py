"""Where the protected paths of a workspace really are, and how each of them is kept as it is."""

from __future__ import annotations

import os
import stat

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.sandbox.protected import PROTECTED_FILES, PROTECTED_FOLDERS
from dragoman.sandbox.repositories import paths_of_repositories

PROTECTED: tuple[str, ...] = (
    ".git/hooks",
    ".git/config",
    ".dragoman",
    ".dragoman.toml",
    "dragoman.toml",
    ".mcp.json",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
)
"""What no command may create either: something runs or trusts it by itself, maybe while the command is still running.

They are few on purpose: while a command runs, each one that is absent is held by an empty node of its name.
"""

WATCHED: tuple[str, ...] = tuple(path for path in PROTECTED_FOLDERS + PROTECTED_FILES if path not in PROTECTED)
"""The other protected paths. Those that exist are read-only; those that a command creates are removed after it."""


class Shields(Struct):
    """How the protected paths of one workspace are kept, as full paths without a link in them."""

    fixed: list[str] = []
    """They exist, and become read-only."""
    anchors: list[str] = []
    """Folders above a protected path. They stay writable, but cannot be moved away with what they hold."""
    absent: list[str] = []
    """They do not exist, and are held by a placeholder."""
    guarded: list[str] = []
    """Links, and watched paths that do not exist: they are looked at when the command is over."""


def plan_shields(workspace: str, protected: tuple[str, ...], watched: tuple[str, ...] = ()) -> Shields:
    """Find the protected paths of a workspace. `workspace` is a real path; nothing is changed."""
    shields = Shields()
    for path in protected:
        _follow(shields, workspace, path, hold=True)
    for path in paths_of_repositories(workspace) if protected else ():
        # Only the repository itself is anchored: a mount on every folder above it would split the workspace up, and
        # files cannot be renamed from one mount to another.
        parts = path.split("/")
        _follow(shields, workspace, path, hold=True, first=parts.index(".git") if ".git" in parts else len(parts) - 2)
    for path in watched:
        _follow(shields, workspace, path, hold=False)
    for field in shields.__struct_fields__:
        setattr(shields, field, sorted(dict.fromkeys(getattr(shields, field))))
    return shields


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


def _follow(shields: Shields, workspace: str, relative: str, *, hold: bool, first: int = 0, depth: int = 0) -> None:
    """Go down to the first thing on the way that is no folder: that one has to stay as it is."""
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    here = workspace
    for index, part in enumerate(parts):
        if index > first:
            shields.anchors.append(here)
        here = os.path.join(here, part)
        try:
            state = os.lstat(here)
        except FileNotFoundError:
            (shields.absent if hold else shields.guarded).append(here)
            return
        if is_placeholder(state):
            (shields.absent if hold else shields.guarded).append(here)
            return
        if stat.S_ISLNK(state.st_mode):
            shields.guarded.append(here)
            real = os.path.relpath(os.path.realpath(os.path.join(here, *parts[index + 1 :])), workspace)
            if real.split("/")[0] not in ("..", ".") and depth < 8:
                _follow(shields, workspace, real, hold=hold, depth=depth + 1)
            return
        if not stat.S_ISDIR(state.st_mode):
            break
    shields.fixed.append(here)
