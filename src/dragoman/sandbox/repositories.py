"""Repositories inside a workspace beside the one at its top: each has hooks and settings that git runs by itself."""

from __future__ import annotations

import os
from collections import deque

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
