"""The repositories that the git commands of a line would work in, and the files by which those run programs.

Git runs what the settings of a repository name, and a repository may come from anybody. Nothing is run here: folders
are searched as git searches them, and more of them where it is not certain which one git would take.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from dragoman.builtin.commands.git_index import OddIndex, find_links
from dragoman.builtin.commands.git_settings import Settings, read_settings, read_start
from dragoman.policy.shell import Visit

UNKNOWN = "?"
"""Stands for settings in a folder that is not known, or for more of them than are looked at."""
_PROGRAMS = ("git", "gh")
_MOST_FOLDERS = 200
_MOST_REPOSITORIES = 100
_LARGEST_INDEX = 64 << 20
_HOOKS = ("post-index-change", "reference-transaction")
"""The hooks that git may run in commands that only read: they renew the index."""
_HEAD = re.compile(rb"ref:[ \t]*refs/|[0-9a-f]{40}")


def find_settings(visits: Iterable[Visit], top: str, environment: Mapping[str, str]) -> list[str]:
    """The files by which git would run programs, for the commands of a line; UNKNOWN for folders that are not known."""
    search = _Search(_hooks_of_user(environment))
    for visit in visits:
        if visit.words[0].rsplit("/", 1)[-1] not in _PROGRAMS:
            continue
        if not visit.is_certain:
            search.found[UNKNOWN] = None
        changes, named = _read_options(visit.words)
        named += [value for name, _, value in (each.partition("=") for each in visit.assignments) if name == "GIT_DIR"]
        named += [environment["GIT_DIR"]] if "GIT_DIR" in environment else []
        for folder in visit.folders:
            if "\0" in "".join((folder, *changes, *named)):
                continue
            search.start(_follow(top, (folder, *changes)), named)
    return list(search.found)


def _hooks_of_user(environment: Mapping[str, str]) -> list[str]:
    """The folder for hooks in the user's own settings: it may be one in each repository."""
    home = environment.get("HOME", "")
    paths = ("/etc/gitconfig", os.path.join(home, ".gitconfig"), os.path.join(home, ".config", "git", "config"))
    return [each for found in map(read_settings, paths) if found is not None for each in found.hooks]


def _read_options(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The folders that `git -C` changes to, one after another, and the repositories that `--git-dir` names."""
    changes: list[str] = []
    named: list[str] = []
    for index, word in enumerate(words[1:-1], 1):
        if word == "-C":
            changes.append(words[index + 1])
        elif word == "--git-dir":
            named.append(words[index + 1])
    named += [word.partition("=")[2] for word in words if word.startswith("--git-dir=")]
    return changes, named


def _follow(top: str, steps: Iterable[str]) -> set[str]:
    """Where these steps lead: bash and git differ in what `..` after a link means, so both are taken."""
    written = top
    for step in steps:
        written = os.path.join(written, os.path.expanduser(step))
    return {os.path.realpath(written), os.path.realpath(os.path.normpath(written))}


class _Search:
    """Goes from folders to repositories, and from those to the ones inside them."""

    def __init__(self, hooks: list[str]) -> None:
        self.found: dict[str, None] = {}
        self._hooks = hooks
        self._started: set[str] = set()
        self._repositories: set[tuple[str, str]] = set()

    def start(self, folders: Iterable[str], named: Iterable[str]) -> None:
        """Look for what git would take in these folders, and for what the line names besides."""
        for folder in folders:
            for each in named:
                self._look_at(os.path.join(folder, os.path.expanduser(each)), folder)
            if folder in self._started:
                continue
            if len(self._started) >= _MOST_FOLDERS:
                self.found[UNKNOWN] = None
                return
            self._started.add(folder)
            self._walk_up(folder)

    def _walk_up(self, folder: str) -> None:
        while True:
            is_certain = self._look_at(os.path.join(folder, ".git"), folder)
            # A folder may be a repository itself.
            is_certain = is_certain or (
                os.path.lexists(os.path.join(folder, "HEAD")) and self._look_at(folder, os.path.dirname(folder))
            )
            above = os.path.dirname(folder)
            if is_certain or above == folder:
                return
            folder = above

    def _look_at(self, path: str, top: str) -> bool:
        """Look at a repository, or at the file that says where it is; True where git surely takes it."""
        repository = _read_pointer(path)
        if repository is None or not os.path.isdir(repository):
            return False
        repository = os.path.realpath(repository)
        common = _read_common(repository)
        if (repository, top) not in self._repositories:
            if len(self._repositories) >= _MOST_REPOSITORIES:
                self.found[UNKNOWN] = None
                return False
            self._repositories.add((repository, top))
            self._read(repository, common, top)
        return _is_repository(repository, common)

    def _read(self, repository: str, common: str, top: str) -> None:
        settings = [
            *self._read_file(os.path.join(common, "config")),
            *self._read_file(os.path.join(repository, "config.worktree")),
        ]
        named = [*self._hooks, *(each for one in settings for each in one.hooks)]
        folders = [os.path.join(common, "hooks"), os.path.join(repository, "hooks")]
        folders += [os.path.join(start, each) for each in named for start in (top, repository)]
        hooks = [os.path.join(folder, name) for folder in folders for name in _HOOKS]
        self.found.update(dict.fromkeys(hook for hook in hooks if os.path.isfile(hook)))
        for one in settings:
            for written in one.worktrees:
                # A submodule says where its files are; whoever says something else sends git to other places.
                if os.path.realpath(os.path.join(repository, written)) != os.path.realpath(top):
                    self.found[os.path.join(common, "config")] = None
        self._enter_submodules(repository, top)

    def _read_file(self, path: str) -> Iterator[Settings]:
        """The settings in a file, and in those that it includes."""
        waiting = [path]
        seen: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path in seen or len(seen) >= _MOST_REPOSITORIES:
                continue
            seen.add(path)
            settings = read_settings(path)
            if settings is None:
                continue
            if settings.names_programs:
                self.found[path] = None
            for each in settings.included:
                included = os.path.join(os.path.dirname(path), os.path.expanduser(each))
                self.found[included] = None
                waiting.append(included)
            yield settings

    def _enter_submodules(self, repository: str, top: str) -> None:
        """Git starts itself in every submodule, to tell whether something has changed there."""
        try:
            names = [name for name in os.listdir(repository) if name == "index" or name.startswith("sharedindex.")]
        except OSError:
            return
        for name in names:
            path = os.path.join(repository, name)
            try:
                content = read_start(path, _LARGEST_INDEX + 1)
                links = find_links(content) if len(content) <= _LARGEST_INDEX else None
            except (OSError, OddIndex):
                links = None
            if links is None:
                self.found[path] = None
                continue
            for link in links:
                folder = os.path.join(top, link)
                self._look_at(os.path.join(folder, ".git"), os.path.realpath(folder))


def _read_pointer(path: str) -> str | None:
    """The folder of a repository: the path itself, or what the file there names."""
    try:
        written = read_start(path, 4096)
    except OSError:
        return path if os.path.isdir(path) else None
    if not written.startswith(b"gitdir: "):
        return None
    return os.path.join(os.path.dirname(path), _path_in(written.removeprefix(b"gitdir: ")))


def _path_in(written: bytes) -> str:
    """A path as git reads it from a file: without line ends, with every blank, up to a NUL."""
    return os.fsdecode(written.rstrip(b"\r\n").partition(b"\0")[0])


def _read_common(repository: str) -> str:
    """Where the settings and hooks of a repository are: elsewhere, if it is one of several worktrees."""
    try:
        named = _path_in(read_start(os.path.join(repository, "commondir"), 4096))
    except OSError:
        return repository
    return os.path.realpath(os.path.join(repository, named))


def _is_repository(repository: str, common: str) -> bool:
    try:
        head = read_start(os.path.join(repository, "HEAD"), 256)
    except OSError:
        return False
    parts = (os.path.join(common, name) for name in ("objects", "refs"))
    return _HEAD.match(head) is not None and all(map(os.path.isdir, parts))
