"""The programs and modules that dragoman runs for itself, and the folders that they may come from.

Tools can change files in the workspace. So dragoman starts no program and imports no module from there for its own use.
It takes helper programs, and the interpreter of its helper scripts, from other folders. It keeps the source of helper
scripts in memory. It does not search the workspace for modules.

Some code of dragoman may have to be in the workspace: a virtual environment, the package, the program that uses it, and
tool files and servers that the user named. `own_paths` lists this code. Sandboxes make it read-only, and file tools ask
before they write to it.
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
"""The search path for programs if the environment has no PATH."""


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder`, or is inside it. Both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def absolute_entries(path: str) -> list[str]:
    """Return the absolute folders of a search path. A relative or empty entry changes its meaning with every `cd`."""
    return [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]


def places_of(path: str) -> tuple[str, str, str]:
    """Return three names of a path: as given, in its real folder, and with all links resolved."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.normpath(path), os.path.join(os.path.realpath(folder), name), os.path.realpath(path)


def is_outside(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is in none of the folders, by any of its names. The folder `/` is ignored."""
    tops = {top for folder in folders for top in (os.path.abspath(folder), os.path.realpath(folder))} - {"/"}
    return not any(is_below(place, top) for place in places_of(path) for top in tops)


# --------------------------------------------------------------------------------------------------------------------
# Programs. dragoman starts none from a folder that tools may change.


def find_program(name: str, *writable: str) -> str | None:
    """Return the full path of a program on PATH that is outside the folders that tools may change."""
    return _find_on(os.environ.get("PATH", os.defpath), name, writable)


@functools.lru_cache(maxsize=32)
def _find_on(path: str, name: str, writable: tuple[str, ...]) -> str | None:
    for folder in absolute_entries(path):
        program = os.path.join(folder, name)
        if os.path.isfile(program) and os.access(program, os.X_OK) and is_outside(program, writable):
            return program
    return None


def resolve_once(name: str, path: str) -> str:
    """Return the full path of a program that the user named, or the name if there is no such program.

    The first answer stays valid: a tool may create another program of this name later, in an earlier folder of the
    path. The program counts as code of dragoman, so tools cannot change it unnoticed either.
    """
    if "/" in name or os.name != "posix":
        return name
    if (name, path) not in _resolved:
        found = _find_on(path, name, ())
        if found is None:
            return name
        _resolved[name, path] = found
        note_code(found)
    return _resolved[name, path]


def find_interpreter(*writable: str) -> str:
    """Return a Python interpreter for helper scripts. They need only the standard library.

    The base interpreter of a virtual environment is enough, and it is usually in another folder. A frozen program
    contains no interpreter that can run a script.
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
            "there is no Python outside the workspace, and a tool may have changed the one inside",
            hint="install python3, or choose a workspace that does not contain the interpreter",
        )
    return found


def script_command(source: str, *writable: str) -> tuple[str, ...]:
    """Return the command line that runs a helper script, without the arguments of the script."""
    return (find_interpreter(*writable), "-I", "-S", "-X", "utf8", "-c", source)


def read_script(beside: str, name: str) -> str:
    """Return the source of a helper script. Call it while the module is imported, before the first tool runs."""
    return (pkgutil.get_data(beside.rpartition(".")[0], name) or b"").decode("utf-8")


def loader_environment(*writable: str) -> dict[str, str]:
    """Return the library paths that an interpreter may need, without folders that tools may change."""
    found: dict[str, str] = {}
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        kept = [each for each in absolute_entries(os.environ.get(name, "")) if is_outside(each, writable)]
        found |= {name: os.pathsep.join(kept)} if kept else {}
    return found


# --------------------------------------------------------------------------------------------------------------------
# Code of dragoman in the workspace. Tools must not change it.

_OF_AN_ENVIRONMENT = ("bin", "lib", "lib64", "Lib", "Scripts", "pyvenv.cfg")
_DEPENDENCIES = ("msgspec", "jsonschema_rs", "docstring_parser")
_OPTIONAL = (
    *("typer", "rich", "prompt_toolkit", "markdown_it", "mdurl", "pygments", "wcwidth"),
    *("xllamacpp", "opentelemetry", "google", "azure"),
)
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".sh", ".jar")
_named: dict[str, None] = {}
_resolved: dict[tuple[str, str], str] = {}


def note_code(*paths: str) -> None:
    """Register files that the user told dragoman to run: tool files and programs of servers. Data files are ignored."""
    for path in paths:
        if os.path.isfile(path) and (path.endswith(_SCRIPTS) or os.access(path, os.X_OK)):
            _named[os.path.abspath(path)] = None


def environment_paths(workspace: str) -> tuple[str, ...]:
    """Return the parts of our Python installation and virtual environment that are in the workspace."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    top = os.path.realpath(workspace)
    found = list(prefixes)
    if top in map(os.path.realpath, prefixes):
        found += [path for name in _OF_AN_ENVIRONMENT if os.path.lexists(path := os.path.join(top, name))]
    return _inside(top, found)


def own_paths(workspace: str) -> tuple[str, ...]:
    """Return the paths in a workspace, relative to it, that contain code of dragoman."""
    modules = [sys.modules.get(name) for name in ("dragoman", *_DEPENDENCIES, *_OPTIONAL)]
    packages = [os.path.dirname(file) for module in modules if (file := _file_of(module))]
    top = os.path.realpath(workspace)
    # A program directly in the workspace is listed as a file: its folder is the whole workspace.
    program = _file_of(sys.modules.get("__main__"))
    files = [*packages, *_named, *([program] if program else [])]
    environment = environment_paths(top)
    above = [os.path.join(top, path) for path in environment]
    return (*environment, *_inside(top, [each for each in files if is_outside(each, above)]))


def _file_of(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return os.path.abspath(file) if file and os.path.isfile(file) else ""


def _inside(top: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths below a folder, relative to it. A link counts by its own name and by its target."""
    places = (place for path in paths for place in places_of(path)[1:])
    return tuple(dict.fromkeys(os.path.relpath(each, top) for each in places if each != top and is_below(each, top)))


def is_own_code(path: str, workspace: str) -> bool:
    """Whether a full path in the workspace belongs to code of dragoman."""
    top = os.path.realpath(workspace)
    return any(is_below(path, os.path.join(top, own)) for own in own_paths(top))


# --------------------------------------------------------------------------------------------------------------------
# Late imports. A tool may have created a module of the same name in a folder of `sys.path`.

_NOT_LOADED = frozenset({"cli", "doctor", "local", "samples", "testing", "__main__"})
"""Parts of this package that a run does not need, unless they are already loaded."""


def shield_imports(workspace: str | None) -> None:
    """Prevent late imports from loading modules that tools create in the workspace. Call it before the first tool runs.

    `sys.path` and the imports of the user's own modules do not change. Modules of the standard library, of dragoman and
    of its dependencies are loaded from outside the workspace, or from an environment that tools cannot change without
    an approval. If dragoman itself is in the workspace, this function imports all of it now.
    """
    place = _place_of(workspace)
    _protect(*place)
    _protected.add(place)


def is_shielded(workspace: str | None) -> bool:
    """Whether `shield_imports` has nothing to do any more. The first time it may take a second."""
    return _place_of(workspace) in _protected


def _place_of(workspace: str | None) -> tuple[str, str, tuple[str, ...]]:
    try:
        here = os.getcwd()
    except OSError:  # The current folder was removed: nothing can be imported from it.
        here = "/"
    return os.path.join(here, workspace or ""), here, tuple(sys.path)


_protected: set[tuple[str, str, tuple[str, ...]]] = set()


@functools.lru_cache(maxsize=64)
def _protect(workspace: str, here: str, entries: tuple[str, ...]) -> None:
    """Install the finder for one workspace, once."""
    top = os.path.realpath(workspace)
    is_exposed = any(is_below(os.path.realpath(os.path.join(here, entry)), top) for entry in entries)
    # If the workspace is the whole file system, no folder is outside it.
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
    """A finder that loads the modules that dragoman needs from safe folders only."""

    def __init__(self) -> None:
        self._tops: tuple[str, ...] = ()
        self._names = frozenset((*sys.stdlib_module_names, "dragoman", *_DEPENDENCIES, *_OPTIONAL))

    def knows(self, top: str) -> bool:
        return top in self._tops

    def add(self, top: str) -> None:
        self._tops += (top,)
        # An optional package that is already in the workspace belongs to the user.
        own = {name for name in _OPTIONAL if PathFinder.find_spec(name) and not self._find(name)}
        self._names -= own
        if self not in sys.meta_path:
            # After the finders of built-in modules and of import hooks, before the finder of `sys.path`.
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
