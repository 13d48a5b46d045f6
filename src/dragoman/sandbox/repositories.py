"""The repositories of a workspace, and the files that their settings name: git runs those automatically.

Git is never asked: it would already do what the settings say.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct

from dragoman.sandbox.protected_names import words

# --------------------------------------------------------------------------------------------------------------------
# The settings of git. In doubt a value is read, since a path that is protected without need does little harm.

_LARGEST = 1 << 20
_MOST_FILES = 100
_HEADER = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


class Setting(Struct, frozen=True):
    """One setting, as `section.key`, without the name between them; git compares both without case."""

    name: str
    value: str


def parse_settings(text: str) -> Iterator[Setting]:
    """Read the text of a settings file as git does; a line that git would refuse is skipped."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    section, position = "", 0
    while position < len(text):
        if text[position] in " \t\n":
            position += 1
        elif header := _HEADER.match(text, position):
            section = header[1].lower().partition(".")[0]
            position = header.end()
        elif key := _KEY.match(text, position):
            position = key.end()
            value = "true"
            if text[position : position + 1] == "=":
                value, position = _read_value(text, position + 1)
            yield Setting(f"{section}.{key[1].lower()}", value)
        else:
            position = _end_of_line(text, position)


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _read_value(text: str, position: int) -> tuple[str, int]:
    """Return a value without its quotes and comment, and the position after it."""
    value: list[str] = []
    kept = 0  # Blanks at the end do not count, unless they are quoted.
    quoted = False
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\n":
            break
        if letter in "#;" and not quoted:
            position = _end_of_line(text, position)
            break
        if letter == '"':
            quoted = not quoted
            kept = len(value)
            continue
        if letter == "\\":
            following = text[position : position + 1]
            position += 1
            if following == "\n":
                continue
            letter = _ESCAPES.get(following, following)
        if value or quoted or letter not in " \t":
            value.append(letter)
        if quoted or letter not in " \t":
            kept = len(value)
    return "".join(value[:kept]), position


def _read_text(path: str) -> str:
    """The text of a file; empty if there is none, or if it is no regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.fsdecode(file.read(_LARGEST))


def _settings_in(paths: list[str], home: str) -> tuple[list[Setting], list[str]]:
    """Return the settings in these files and in those that they include, and the paths of the included files."""
    settings: list[Setting] = []
    included: list[str] = []
    seen: set[str] = set()
    waiting = deque(paths)
    while waiting and len(seen) < _MOST_FILES:
        path = waiting.popleft()
        if path in seen:
            continue
        seen.add(path)
        for each in parse_settings(_read_text(path)):
            settings.append(each)
            # Whether a condition holds may change later.
            if each.name in ("include.path", "includeif.path"):
                included.append(os.path.join(os.path.dirname(path), _expand(each.value, home)))
                waiting.append(included[-1])
    return settings, included


def _expand(path: str, home: str) -> str:
    return os.path.join(home, path[2:]) if path.startswith("~/") else os.path.expanduser(path)


def _files_of_user(environment: Mapping[str, str]) -> list[str]:
    home = environment.get("HOME", "")
    settings = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    named = [environment.get(name, "") for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")]
    known = ("/etc/gitconfig", os.path.join(settings, "git", "config"), os.path.join(home, ".gitconfig"))
    return [*filter(None, named), *known]


def _settings_in_environment(environment: Mapping[str, str]) -> Iterator[Setting]:
    for name, value in environment.items():
        if name.startswith("GIT_CONFIG_KEY_"):
            section, _, key = value.lower().partition(".")
            number = name.removeprefix("GIT_CONFIG_KEY_")
            yield Setting(f"{section}.{key.rpartition('.')[2]}", environment.get(f"GIT_CONFIG_VALUE_{number}", ""))


# --------------------------------------------------------------------------------------------------------------------
# The repositories: the one around the workspace, nested ones, submodules and worktrees.

_MOST_FOLDERS = 200
_DEEPEST = 4
_PASSED_OVER = frozenset({"node_modules", ".venv", "venv", "target", "__pycache__", ".tox", ".mypy_cache", "objects"})


class Repository(Struct, frozen=True):
    """One repository, or one worktree of it, as full paths."""

    folder: str
    """Where its settings, hooks and state are."""
    top: str
    """Where its files are; for a bare repository the folder itself."""

    @property
    def common(self) -> str:
        """The folder of the settings and hooks, which several worktrees share."""
        named = _read_text(os.path.join(self.folder, "commondir")).rstrip("\r\n")
        return os.path.join(self.folder, named) if named else self.folder


def find_repositories(workspace: str) -> tuple[Repository, ...]:
    """Return the repositories that a workspace is part of, and those in it.

    The search in the workspace is bounded: a few levels deep and two hundred folders, breadth first.
    """
    found = [*repositories_above(workspace)]
    waiting = deque([("", 0)])
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            break
        folder, depth = waiting.popleft()
        path = os.path.join(workspace, folder) if folder else workspace
        names = _names(path)
        if folder and ".git" in names and (nested := _repository_at(path)) is not None:
            found.append(nested)
        if {"HEAD", "config", "objects"} <= names.keys() and folder != ".git":
            found.append(Repository(path, path))
        for name, is_folder in names.items():
            below = f"{folder}/{name}" if folder else name
            if is_folder and depth < _DEEPEST and name not in _PASSED_OVER and _may_hold_repositories(below):
                waiting.append((below, depth + 1))
    return tuple(dict.fromkeys(found))


def repositories_above(folder: str) -> Iterator[Repository]:
    """Yield the repositories that a folder is part of."""
    while True:
        if (found := _repository_at(folder)) is not None:
            yield found
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _repository_at(top: str) -> Repository | None:
    path = os.path.join(top, ".git")
    if os.path.isdir(path):
        return Repository(path, top)
    named = _read_text(path)
    if not named.startswith("gitdir: "):
        return None
    return Repository(os.path.normpath(os.path.join(top, named.removeprefix("gitdir: ").rstrip("\r\n"))), top)


def _may_hold_repositories(folder: str) -> bool:
    """Whether to search a folder; inside `.git` only the submodules matter."""
    parts = folder.split("/")
    if ".git" not in parts:
        return True
    inside = parts[parts.index(".git") + 1 :]
    return not inside or inside[0] == "modules"


def _names(folder: str) -> dict[str, bool]:
    """Return the names in a folder, and whether each is a folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return {}


# --------------------------------------------------------------------------------------------------------------------
# The files that settings name, and the commands in the list of an interrupted rebase.

HOOKS = words(
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg "
    "post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update "
    "reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman "
    "p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change"
)
_WORD = re.compile(r"""[^\s"'=;|&()!<>$`]+""")
_ONLY_DATA = words(
    "core.excludesfile core.attributesfile core.worktree commit.template blame.ignorerevsfile mailmap.file"
)
_EXECUTING = re.compile(r"^[ \t]*(?:exec|x)[ \t].*$", re.MULTILINE)


def find_named_paths(
    workspace: str, repositories: tuple[Repository, ...], environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return what settings of git name in a workspace, relative to it: hooks, programs and further settings.

    Folders for hooks are returned even if they do not exist: git would run what appears there.
    """
    home = environment.get("HOME", "")
    of_user, included_by_user = _settings_in(_files_of_user(environment), home)
    of_user += _settings_in_environment(environment)
    found: dict[str, None] = {}
    for repository in repositories:
        files = [os.path.join(repository.common, "config"), os.path.join(repository.folder, "config.worktree")]
        settings, included = _settings_in(files, home)
        candidates = [*included, *included_by_user]
        for setting in (*settings, *of_user):
            candidates += _named_by(setting, repository, home)
        for path in candidates:
            found.update(dict.fromkeys(_inside(path, workspace)))
    return tuple(found)


def _named_by(setting: Setting, repository: Repository, home: str) -> Iterator[str]:
    """The paths that a setting names. A relative one may start at the files or at the repository."""
    starts = (repository.top, repository.folder, repository.common)
    if setting.name == "core.hookspath":
        yield from (os.path.join(start, _expand(setting.value, home)) for start in starts if setting.value)
    elif setting.name not in _ONLY_DATA:
        for word in _WORD.findall(setting.value):
            path = os.path.join(repository.top, _expand(word, home))
            if "\0" not in path and os.path.isfile(path):
                yield path


def _inside(path: str, workspace: str) -> Iterator[str]:
    """Yield a path relative to the workspace, if it is there, as it is written and without links."""
    if "\0" in path:
        return
    for each in (os.path.normpath(path), os.path.realpath(path)):
        relative = os.path.relpath(each, workspace)
        if relative == ".":
            # Everything would be protected; only the hooks themselves matter.
            yield from HOOKS
        elif relative.split("/")[0] != "..":
            yield relative


def find_worktrees(repository: Repository) -> list[str]:
    """Return the folders in which a repository keeps the state of its other worktrees."""
    folder = os.path.join(repository.folder, "worktrees")
    return [os.path.join(folder, name) for name in _names(folder)]


def find_rebase_lists(workspace: str, repositories: tuple[Repository, ...]) -> dict[str, frozenset[str]]:
    """Return the lists of interrupted rebases in a workspace, relative to it, with the commands that git would run."""
    found: dict[str, frozenset[str]] = {}
    for folder in (each for one in repositories for each in (one.folder, *find_worktrees(one))):
        path = os.path.join(folder, "rebase-merge", "git-rebase-todo")
        relative = os.path.relpath(path, workspace)
        if relative.split("/")[0] != ".." and os.path.lexists(path):
            # Behind a link it could still change.
            is_link = os.path.realpath(path) != os.path.join(
                os.path.realpath(folder), "rebase-merge", "git-rebase-todo"
            )
            commands = _EXECUTING.findall(_read_text(path))
            found[relative] = frozenset([*commands, "a link"] if is_link else commands)
    return found
