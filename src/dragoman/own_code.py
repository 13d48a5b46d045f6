"""Which code runs on dragoman's own behalf, and where it may come from.

Tools change files in the workspace. So nothing that lies there is started or imported for dragoman itself: helper
programs and the interpreter of helper scripts come from elsewhere, the scripts are kept in memory, and modules are not
looked for there. Code in the workspace that dragoman has to run from (a virtual environment, the package, the program
itself, tool files and servers that the user named) is listed by `own_paths`: sandboxes keep it unchanged, and file
tools ask before they write to it.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from dragoman.errors import ConfigError

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for when no PATH is given."""


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def absolute_entries(path: str) -> list[str]:
    """The folders of a search path; one that is relative, or empty, means another folder after every `cd`."""
    return [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]


def places_of(path: str) -> tuple[str, str, str]:
    """A path as it is named, as it is named in its real folder, and without any link."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.normpath(path), os.path.join(os.path.realpath(folder), name), os.path.realpath(path)


def is_outside(path: str, folders: Iterable[str]) -> bool:
    """Whether a path lies in none of the folders, by any of its names. The whole file system counts as none."""
    tops = {top for folder in folders for top in (os.path.abspath(folder), os.path.realpath(folder))} - {"/"}
    return not any(is_below(place, top) for place in places_of(path) for top in tops)


# --------------------------------------------------------------------------------------------------------------------
# Programs that are started: none that lies in a folder that tools may change.


def find_program(name: str, *writable: str) -> str | None:
    """The full path of a program on PATH that lies in none of the folders that tools may change."""
    return _find_on(os.environ.get("PATH", os.defpath), name, writable)


@functools.lru_cache(maxsize=32)
def _find_on(path: str, name: str, writable: tuple[str, ...]) -> str | None:
    for folder in absolute_entries(path):
        program = os.path.join(folder, name)
        if os.path.isfile(program) and os.access(program, os.X_OK) and is_outside(program, writable):
            return program
    return None


def find_interpreter(*writable: str) -> str:
    """A Python for helper scripts, which need the standard library only.

    The interpreter below a virtual environment does: it lies elsewhere as a rule. A program that holds its own Python
    inside is none.
    """
    base: str = getattr(sys, "_base_executable", "")
    own = [] if getattr(sys, "frozen", False) else [base, sys.executable]
    for program in filter(None, own):
        real = os.path.realpath(program)
        if os.access(real, os.X_OK) and is_outside(real, writable):
            return real
    found = find_program("python3", *writable)
    if found is None:
        raise ConfigError(
            "there is no Python outside the workspace, and one inside may have been changed by a tool",
            hint="install python3, or choose a workspace that does not hold the interpreter",
        )
    return found


def script_command(source: str, *writable: str) -> tuple[str, ...]:
    """The command line that runs a helper script, apart from its arguments."""
    return (find_interpreter(*writable), "-I", "-S", "-X", "utf8", "-c", source)


def read_script(beside: str, name: str) -> str:
    """The source of a helper script beside a module. Read it when the module is imported: no tool has run yet."""
    return (pkgutil.get_data(beside.rpartition(".")[0], name) or b"").decode("utf-8")


def loader_environment(*writable: str) -> dict[str, str]:
    """What an interpreter may need in its environment to be loaded, without folders that tools may change."""
    found: dict[str, str] = {}
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        kept = [each for each in absolute_entries(os.environ.get(name, "")) if is_outside(each, writable)]
        found |= {name: os.pathsep.join(kept)} if kept else {}
    return found


# --------------------------------------------------------------------------------------------------------------------
# Code in the workspace that dragoman runs from: it stays as it is.

_OF_AN_ENVIRONMENT = ("bin", "lib", "lib64", "Lib", "Scripts", "pyvenv.cfg")
_DEPENDENCIES = ("msgspec", "jsonschema_rs", "docstring_parser")
_OPTIONAL = ("typer", "rich", "xllamacpp", "opentelemetry", "google", "azure")
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".sh", ".jar")
_named: dict[str, None] = {}


def note_code(*paths: str) -> None:
    """Remember files that the user named to be run: tool files, and the programs of servers. Data is passed over."""
    for path in paths:
        if os.path.isfile(path) and (path.endswith(_SCRIPTS) or os.access(path, os.X_OK)):
            _named[os.path.abspath(path)] = None


def environment_paths(workspace: str) -> tuple[str, ...]:
    """The Python installation and the virtual environment that we run in, as far as they lie in the workspace."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    top = os.path.realpath(workspace)
    found = list(prefixes)
    if top in map(os.path.realpath, prefixes):
        found += [path for name in _OF_AN_ENVIRONMENT if os.path.lexists(path := os.path.join(top, name))]
    return _inside(top, found)


def own_paths(workspace: str) -> tuple[str, ...]:
    """All paths of a workspace, relative to it, that hold code which dragoman runs from."""
    modules = [sys.modules.get(name) for name in ("dragoman", *_DEPENDENCIES, *_OPTIONAL)]
    packages = [os.path.dirname(file) for module in modules if (file := _file_of(module))]
    top = os.path.realpath(workspace)
    # A module that lies in the top itself would name all of the workspace.
    program = _file_of(sys.modules.get("__main__"))
    files = [*packages, *_named, *([program] if program else [])]
    environment = environment_paths(top)
    above = [os.path.join(top, path) for path in environment]
    return (*environment, *_inside(top, [each for each in files if is_outside(each, above)]))


def _file_of(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return os.path.abspath(file) if file and os.path.isfile(file) else ""


def _inside(top: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Those that lie strictly inside a folder, relative to it: by their own name, and by that of their target."""
    places = (place for path in paths for place in places_of(path)[1:])
    return tuple(dict.fromkeys(os.path.relpath(each, top) for each in places if each != top and is_below(each, top)))


def is_own_code(path: str, workspace: str) -> bool:
    """Whether a full path of the workspace belongs to code that dragoman runs from."""
    top = os.path.realpath(workspace)
    return any(is_below(path, os.path.join(top, own)) for own in own_paths(top))


# --------------------------------------------------------------------------------------------------------------------
# Modules that are imported late: a tool may have left one of the same name in a folder of `sys.path`.

_NOT_LOADED = frozenset({"cli", "doctor", "local", "samples", "testing", "__main__"})
"""Parts of this package that a run needs only where they are loaded already."""


def shield_imports(workspace: str | None) -> None:
    """Keep late imports from taking modules that tools leave in the workspace. Call it before the first tool runs.

    `sys.path` stays as it is, and so do the imports of the user's own modules. The names of the standard library, of
    dragoman and of what it depends on are found outside the workspace, or in an environment that tools cannot change
    without asking. Where dragoman itself lies in the workspace, it is loaded as a whole now.
    """
    try:
        here = os.getcwd()
    except OSError:  # The current folder was removed: nothing can be imported from it.
        here = "/"
    _protect(os.path.join(here, workspace or ""), here, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _protect(workspace: str, here: str, entries: tuple[str, ...]) -> None:
    """Cached, because a run asks for it before each batch of calls, and the answer changes with the arguments only."""
    top = os.path.realpath(workspace)
    is_exposed = any(is_below(os.path.realpath(os.path.join(here, entry)), top) for entry in entries)
    # The whole file system as a workspace leaves no place to import from.
    if top == "/" or _shield.knows(top) or not is_exposed:
        return
    _shield.add(top)
    if not is_outside(__file__, (top,)):
        _load_package()
    for name in _DEPENDENCIES:
        importlib.import_module(name)


def _load_package() -> None:
    package = sys.modules["dragoman"]
    loaded = {name.split(".")[1] for name in sys.modules if name.startswith("dragoman.")}
    for module in pkgutil.walk_packages(package.__path__, "dragoman.", onerror=lambda name: None):
        part = module.name.split(".")[1]
        if part not in _NOT_LOADED or (part in loaded and part != "__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # It needs a package that is not installed.


class _Shield:
    """A finder that takes the names that we rely on from safe folders only."""

    def __init__(self) -> None:
        self._tops: tuple[str, ...] = ()
        self._names = frozenset((*sys.stdlib_module_names, "dragoman", *_DEPENDENCIES, *_OPTIONAL))

    def knows(self, top: str) -> bool:
        return top in self._tops

    def add(self, top: str) -> None:
        self._tops += (top,)
        # An optional package of which the user has one in the workspace already is the user's own.
        own = {name for name in _OPTIONAL if PathFinder.find_spec(name) and not self._find(name)}
        self._names -= own
        if self not in sys.meta_path:
            # Behind the finders of built-in modules and of whoever rewrites modules, before that of `sys.path`.
            at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
            sys.meta_path.insert(at, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name not in self._names:
            return None
        spec = self._find(name, target)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r} outside the workspace", name=name)
        return spec

    def _find(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [entry for entry in sys.path if self._is_safe(entry)], target)

    def _is_safe(self, entry: str) -> bool:
        if not os.path.isabs(entry):
            return False
        real = os.path.realpath(entry)
        return all(not is_below(real, top) or self._is_kept(real, top) for top in self._tops)

    def _is_kept(self, real: str, top: str) -> bool:
        return any(is_below(real, os.path.join(top, own)) for own in environment_paths(top))


_shield = _Shield()
