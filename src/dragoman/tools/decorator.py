"""`@dragoman.tool`: a function stays what it was, and is a tool besides."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, overload

import msgspec

from dragoman.errors import InvalidTool
from dragoman.tools.functions import FunctionRunner, KeywordRunner, Options, UnboundRunner, build, with_options
from dragoman.tools.objects import tool_from_object
from dragoman.types import Tool

_Function = TypeVar("_Function", bound=Callable[..., Any])
MARK = "__dragoman_tool__"


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[_Function], _Function]: ...
def tool(function: Any = None, /, **options: Unpack[Options]) -> Any:
    """Make a function a tool: `@tool`, or `@tool(parallel_safe=True, ...)`.

    The function is returned as it was, with a `Tool` in its attribute `__dragoman_tool__`. Parameters and their schema
    come from the annotations, descriptions from the docstring. Options:

    - `name`, `description`: instead of the function's own
    - `parallel_safe`: it may run beside other calls (default: no)
    - `read_only`: it changes nothing; `repeatable`: running it again does no harm (default: as `read_only`)
    - `timeout`: seconds for one call; `max_output`: characters of a result that the model is shown
    - `requires_approval`: somebody has to allow each call; `exec`: it acts on the system (more calls are asked for)
    - `context`: the parameter that takes the context, where the annotation does not say so
    - `schema`: a JSON Schema instead of the annotations; arguments are then passed as they come
    - `metadata`: anything else
    """
    names = _names_around(sys._getframe(1))
    if function is not None:
        return _decorate(function, options, names)
    return lambda given: _decorate(given, options, names)


def _names_around(frame: Any) -> Mapping[str, Any]:
    """The local names at the place of the decorator, for annotations of functions inside functions."""
    found: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        found = {**frame.f_locals, **found}
        if "__qualname__" not in frame.f_locals:
            break
        frame = frame.f_back  # The body of a class: the names of the function around it count as well.
    return found


def _decorate(given: Any, options: Options, names: Mapping[str, Any]) -> Any:
    if isinstance(given, staticmethod):
        return staticmethod(_decorate(given.__func__, options, names))
    if isinstance(given, classmethod):
        return ToolMethod(given.__func__, options, names, of_class=True)
    if isinstance(given, type):
        return _decorate_class(given, options)
    if not callable(given):
        raise InvalidTool(f"not something that can be called: {given!r}", hint="put @tool above a function")
    if _is_method(given):
        return ToolMethod(given, options, names)
    made, _ = build(given, options, names, bound=False)
    try:
        setattr(given, MARK, made)
        return given
    except AttributeError:  # Bound methods and built-in functions take no attributes.
        return _carrier(given, made)


def _carrier(function: Callable[..., Any], made: Tool, *first: Any) -> Callable[..., Any]:
    """A callable that does the same and carries the tool."""
    carrier = functools.partial(function, *first)
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(function, name):
            setattr(carrier, name, getattr(function, name))
    setattr(carrier, MARK, made)
    return carrier


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function stands in the body of a class and takes its object first."""
    if not inspect.isfunction(function):
        return False
    around = function.__qualname__.rpartition(".")[0]
    first = function.__code__.co_varnames[:1] if function.__code__.co_argcount else ()
    return bool(around) and not around.endswith("<locals>") and first in (("self",), ("cls",))


class ToolMethod:
    """A method that is a tool: taken from an object it is a tool of that object, taken from the class a function."""

    def __init__(
        self, function: Callable[..., Any], options: Options, names: Mapping[str, Any], *, of_class: bool = False
    ) -> None:
        self._function = function
        self._of_class = of_class
        self._tool, self._runner = build(function, options, names, bound=True)
        functools.update_wrapper(self, function)
        unbound = msgspec.structs.replace(self._tool, run=UnboundRunner(function))
        setattr(self, MARK, unbound)
        setattr(function, MARK, unbound)

    def __get__(self, owner: object, kind: type | None = None) -> Callable[..., Any]:
        first = kind if self._of_class else owner
        if first is None:
            return self._function
        runner: FunctionRunner | KeywordRunner = self._runner.bound_to(first)
        carrier = _carrier(self._function, msgspec.structs.replace(self._tool, run=runner), first)
        carrier.__self__, carrier.__func__ = first, self._function  # type: ignore[attr-defined]
        return carrier

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._function(*positional, **named)


class _ObjectTool:
    """The mark of a tool class: an instance is described as itself, the class as an instance without arguments."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __get__(self, owner: object, kind: type) -> Tool:
        return with_options(tool_from_object(kind if owner is None else owner), self._options)


def _decorate_class(kind: type, options: Options) -> type:
    if options.get("name") or options.get("schema") or options.get("description") is not None:
        raise InvalidTool(f"{kind.__qualname__} says its name, description and schema itself", hint="leave them out")
    mark = _ObjectTool(options)
    mark.__get__(None, kind)  # What is wrong with it is said here, and not at its first use.
    setattr(kind, MARK, mark)
    return kind
