"""Load a user's tools from a Python file, a module, or an installed package.

A bad file affects only its own tools: it is reported with the failing line, and the other files are loaded.
"""

from __future__ import annotations

import fnmatch
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

from dragoman.entry_points import EntryPoint, find_entry_points
from dragoman.errors import ConfigError, DragomanError, InvalidTool, did_you_mean
from dragoman.own_code import note_code
from dragoman.policy import covers, read_rule
from dragoman.policy.patterns import matches_name
from dragoman.types import Tool

if TYPE_CHECKING:
    from dragoman.agent import Agent

ENTRY_POINTS = "dragoman.tools"
AGENTS = "dragoman.agents"
LIST = "TOOLS"
CASES = "CASES"
"""The list in a file of tools that `dragoman doctor --tools` reads: tasks, and the calls that are right for them."""
ENTRY = "entry:"
_Made = TypeVar("_Made")
_AGENT_HINT = "name package.module:agent, file.py:agent, or the name of an entry point of dragoman.agents"


class Toolbox(Struct, frozen=True):
    """The loaded tools, and the problems of the sources that could not be loaded."""

    tools: list[Tool]
    problems: tuple[str, ...] = ()
    errors: tuple[DragomanError, ...] = ()
    """The errors among the problems."""

    def require(self) -> list[Tool]:
        """Return the tools, or raise an error with every problem: for tools that the user named."""
        if len(self.errors) == len(self.problems) == 1:
            raise self.errors[0]
        if self.problems:
            raise ConfigError("\n".join(self.problems), hint="correct these sources of tools, or leave them out")
        return self.tools


def is_file(source: str) -> bool:
    """Whether a source of tools is the path of a file, or a name in a file."""
    place, _ = _split(source)
    return not source.startswith(ENTRY) and (place.endswith(".py") or "/" in place or "\\" in place)


def _split(source: str) -> tuple[str, str]:
    """The path of a file and the name behind its colon, which is empty for all tools of the file."""
    place, colon, inner = source.rpartition(":")
    return (place, inner) if colon and place.endswith(".py") else (source, "")


def load_tools(sources: Iterable[str], entry_points: Iterable[EntryPoint] | None = None) -> Toolbox:
    """Load the tools of several sources, in order. Of two tools with the same name the first one counts."""
    return _gather((source, partial(load_source, source, entry_points)) for source in dict.fromkeys(sources))


def load_installed(entry_points: Iterable[EntryPoint] | None = None, *, ask: bool = True) -> Toolbox:
    """Load the tools of every installed package that has some.

    The user did not name them, so with `ask` each of their calls needs approval; a name in `tools` removes that.
    """
    found = _gather((f"{ENTRY}{point.name}", partial(_from_point, point)) for point in _points(entry_points))
    asking = [structs.replace(each, requires_approval=True) for each in found.tools]
    return structs.replace(found, tools=asking) if ask else found


def _gather(places: Iterable[tuple[str, Callable[[], list[Tool]]]]) -> Toolbox:
    first: dict[str, tuple[str, Tool]] = {}
    problems: list[str] = []
    errors: list[DragomanError] = []
    twins: list[str] = []
    for source, load in places:
        try:
            tools = load()
        except DragomanError as error:
            problems.append(f"{error}" + (f" ({error.next_step})" if error.next_step else ""))
            errors.append(error)
            continue
        for each in tools:
            if each.name in first:
                twins.append(f"tool {each.name!r} of {source} is ignored: {first[each.name][0]} has one of that name")
            else:
                first[each.name] = (source, each)
    return Toolbox([each for _, each in first.values()], (*problems, *twins), tuple(errors))


def load_source(source: str, entry_points: Iterable[EntryPoint] | None = None) -> list[Tool]:
    """Load the tools of one source: a file, a module, a name in a module, or an entry point. Raises ConfigError."""
    if source.startswith(ENTRY):
        return _from_entry(source.removeprefix(ENTRY), _points(entry_points))
    if not source.strip("./\\") or (is_file(source) and Path(source).expanduser().is_dir()):
        raise ConfigError(
            f"{source!r} is a folder", hint="name each file in it that has tools, such as tools/weather.py"
        )
    if is_file(source):
        place, inner = _split(source)
        path = Path(place).expanduser()
        note_code(str(path))
        module = _run_file(path)
        return _many(_look_up(module, inner, source), source) if inner else _tools_of(module, str(path))
    name, colon, inner = source.partition(":")
    module = _guarded(lambda: importlib.import_module(name), source)
    note_code(getattr(module, "__file__", None) or "")
    if not colon:
        return _tools_of(module, source)
    return _many(_look_up(module, inner, source), source)


def load_agents(sources: Iterable[str], entry_points: Iterable[EntryPoint] | None = None) -> dict[str, Agent[Any]]:
    """Load agents, by their names. An agent without a name has that of its variable or of its entry point."""
    found: dict[str, Agent[Any]] = {}
    for source in dict.fromkeys(sources):
        inner, agent = _load_agent(source, entry_points)
        name = agent.name or inner
        if name in found:
            raise ConfigError(f"two agents are named {name!r}", hint="give them different names: Agent(..., name=...)")
        found[name] = agent
    return found


def _load_agent(source: str, entry_points: Iterable[EntryPoint] | None) -> tuple[str, Agent[Any]]:
    from dragoman.agent import Agent

    place, colon, inner = source.rpartition(":")
    if not colon:
        points = find_entry_points(AGENTS) if entry_points is None else list(entry_points)
        found = next((point for point in points if point.name == source), None)
        if found is None:
            guess = did_you_mean(source, [point.name for point in points])
            raise ConfigError(f"no installed package has an agent named {source!r}{guess}", hint=_AGENT_HINT)
        inner, value = source, _guarded(found.load, source)
    else:
        path = Path(place).expanduser()
        if is_file(place) and not path.is_file():
            raise ConfigError(f"there is no file {path}", hint="check the path")
        note_code(str(path) if is_file(place) else "")
        module = _run_file(path) if is_file(place) else _guarded(lambda: importlib.import_module(place), source)
        value = _look_up(module, inner, source)
    if inspect.isfunction(value) and not inspect.signature(value).parameters:
        value = _guarded(value, source)
    if not isinstance(value, Agent):
        raise ConfigError(f"{source!r} is no agent, but {type(value).__name__}", hint=_AGENT_HINT)
    return inner, value


def listed_cases(sources: Iterable[str]) -> tuple[str, list[Any]]:
    """Return the first source with a list `CASES`, and the list. The sources are loaded already; empty without one."""
    for source in sources:
        name = _module_name(Path(_split(source)[0]).expanduser()) if is_file(source) else source.partition(":")[0]
        listed = getattr(sys.modules.get(name), CASES, None)
        if isinstance(listed, list | tuple):
            return f"{source}, {CASES}", list(listed)
    return "", []


def restrict(tools: Iterable[Tool], deny: Sequence[str]) -> list[Tool]:
    """Return the tools without the forbidden ones.

    Only rules about whole tools count; a rule with brackets has to be checked for each call.
    """
    forbidden = [rule for text in deny if (rule := read_rule(text, "deny")).pattern is None]
    return [each for each in tools if not any(covers(rule, each) for rule in forbidden)]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches a tool's name, without regard to case."""
    return any(matches_name(pattern, name) for pattern in patterns)


# ---- sources -------------------------------------------------------------------------------------------------------


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file of tools {path}", hint="check the path")
    name = _module_name(path)
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))  # type: ignore[arg-type]
    # Dataclasses and annotations look their module up by name while the file runs.
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        _guarded(lambda: loader.exec_module(module), str(path))
    except ConfigError:
        sys.modules.pop(name, None)
        raise
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def _module_name(path: Path) -> str:
    return f"_dragoman_tools_{path.stem}_{abs(hash(str(path.resolve()))):x}"


def _look_up(module: ModuleType, inner: str, source: str) -> Any:
    value: Any = module
    for name in inner.split("."):
        if not hasattr(value, name):
            guess = did_you_mean(name, dir(value))
            raise ConfigError(f"{source!r}: there is no {name!r}{guess}", hint="check the name behind the colon")
        value = getattr(value, name)
    return value


def _from_entry(name: str, points: list[EntryPoint]) -> list[Tool]:
    chosen = [point for point in points if fnmatch.fnmatchcase(point.name, name)]
    if not chosen and name != "*":
        known = [point.name for point in points]
        raise ConfigError(
            f"no installed package has tools named {name!r}{did_you_mean(name, known)}",
            hint=f"installed are {', '.join(known)}" if known else "install the package that contains them",
        )
    return [each for point in chosen for each in _from_point(point)]


def _from_point(point: EntryPoint) -> list[Tool]:
    source = f"{ENTRY}{point.name}"
    value = _guarded(point.load, source)
    return _tools_of(value, source) if isinstance(value, ModuleType) else _many(value, source)


def _points(given: Iterable[EntryPoint] | None) -> list[EntryPoint]:
    if given is not None:
        return list(given)
    # To search all installed packages is slow, so it is done only if needed.
    return find_entry_points(ENTRY_POINTS)


# ---- tools of a source ---------------------------------------------------------------------------------------------


def _tools_of(module: ModuleType, source: str) -> list[Tool]:
    """Return the decorated functions of a module, or the entries of its list `TOOLS`, if it has one."""
    listed = vars(module).get(LIST)
    if listed is not None:
        return _many(listed, f"{source}, {LIST}")
    from dragoman.tools import tools_in

    found = _guarded(lambda: tools_in(vars(module)), source)
    if not found:
        raise ConfigError(
            f"there are no tools in {source}", hint=f"mark functions with @dragoman.tool, or list them: {LIST}"
        )
    return found


def _many(value: Any, source: str) -> list[Tool]:
    """Return the tools of a value: one tool, a list of tools, or a function without arguments that returns either."""
    if isinstance(value, list | tuple):
        return [_one(each, source) for each in value]
    if (
        inspect.isfunction(value)
        and not hasattr(value, "__dragoman_tool__")
        and not inspect.signature(value).parameters
    ):
        made = _guarded(value, source)
        if isinstance(made, list | tuple):
            return [_one(each, source) for each in made]
    return [_one(value, source)]


def _one(value: Any, source: str) -> Tool:
    from dragoman.tools import tool_from

    made = _guarded(lambda: tool_from(value), source)
    if isinstance(value, Mapping) and made.run is None:
        raise InvalidTool(f"{source}: tool {made.name!r} has nothing to run", hint="give the dict a `run`")
    return made


# ---- errors --------------------------------------------------------------------------------------------------------


def _guarded(action: Callable[[], _Made], source: str) -> _Made:
    """Run code of the user. An exception becomes a one-line error with the place where it happened."""
    try:
        return action()
    except DragomanError as error:
        place = _place_of(error, source)
        raise ConfigError(f"{place}: {error}", hint=error.next_step) from None
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        if isinstance(error, SyntaxError) and error.filename:
            what = f"{type(error).__name__}: {error.msg}"
        raise ConfigError(f"{_place_of(error, source)}: {what}", hint=_hint_for(error, source)) from None


def _hint_for(error: BaseException, source: str) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return "fix the code at that place"
    file = f"{source}.py"
    is_file = error.name == source and Path(file).is_file()
    if is_file:
        return f"write {file} for the file in this folder"
    return "install the module, or check its name; the name of a file ends with .py"


def _place_of(error: BaseException, source: str) -> str:
    """Return the innermost line outside the standard library and this package: the one that the user can fix."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    ours = str(Path(__file__).resolve().parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((ours, "<frozen")) and "importlib" not in Path(frame.filename).parts
    ]
    own = [frame for frame in frames if Path(source).name == Path(frame.filename).name] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else f"tools {source!r}"
