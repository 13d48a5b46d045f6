"""Tools from decorated functions, classes, objects, JSON Schemas and MCP definitions."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, Unpack, overload

import msgspec

from dragoman.errors import InvalidTool, nearest
from dragoman.keywords import UnknownKeyword
from dragoman.tools.functions import (
    FunctionRunner,
    KeywordRunner,
    MappingRunner,
    Options,
    Runner,
    Traits,
    UnboundRunner,
    build,
    read_signature,
    tool_from_function,
    unbound_method,
    with_options,
)
from dragoman.tools.introspection import signature_of
from dragoman.toolset import as_tool
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# Tools that are not functions: classes and objects, JSON Schemas, MCP definitions.

_SCHEMAS = ("parameters", "schema", "input_schema", "inputSchema")
_VERBS = ("execute", "run", "__call__")
_OPTIONS = ("parallel_safe", "read_only", "repeatable", "timeout", "max_output", "requires_approval", "metadata")
_FOREIGN = frozenset(("_meta",))
"""Keys of other SDKs that resemble an option."""


def tool_from_schema(
    name: str,
    schema: JsonObject,
    function: Callable[..., Any],
    *,
    unpack: bool = True,
    **options: Unpack[Traits],
) -> Tool:
    """Make a tool from a JSON Schema and a function: `function(**arguments)`, or `function(arguments)` if not `unpack`.

    The arguments are passed as JSON values. With `unpack=False`, a second parameter takes the context.
    """
    if not isinstance(schema, dict):
        raise InvalidTool(f"the schema of tool {name!r} is not a dict", hint='for example {"type": "object"}')
    if not name:
        raise InvalidTool("a tool without a name", hint="pass a name; the model uses it to call the tool")
    context = options.get("context")
    runner: Runner = KeywordRunner(function, context) if unpack else MappingRunner(function)
    description = options.get("description") or ""
    return with_options(Tool(name, description, schema, run=runner, context_parameter=context), options)


def tool_from_mcp(definition: Any, function: Callable[..., Any], **options: Unpack[Options]) -> Tool:
    """Make a tool from an MCP definition (a dict or an object) and the function that calls it: `function(arguments)`.

    The hints of the server are in `metadata["annotations"]`. A tool without `readOnlyHint` is in the class `exec`,
    because nothing is known about it.
    """
    name = first_of(definition, "name")
    if not isinstance(name, str) or not name:
        raise InvalidTool(f"an MCP tool without a name: {definition!r}"[:200])
    schema = first_of(definition, "inputSchema", "input_schema")
    hints = _hints_of(first_of(definition, "annotations"))
    read_only = hints.get("readOnlyHint") is True
    metadata: dict[str, Any] = {"source": "mcp", **({"annotations": hints} if hints else {})}
    if not read_only:
        metadata["class"] = "exec"
    made = Tool(
        str(options.get("name") or name),
        str(options.get("description") or first_of(definition, "description") or ""),
        schema if isinstance(schema, dict) else {"type": "object"},
        run=MappingRunner(function),
        read_only=read_only,
        metadata=metadata,
    )
    return with_options(made, options)


def first_of(source: Any, *names: str) -> Any:
    """Return the first of these members that a mapping or an object has; None if it has none."""
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is not None:
            return value
    return None


def _hints_of(annotations: Any) -> dict[str, Any]:
    names = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    found = {}
    for name in names:
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        value = first_of(annotations, name, snake)
        if isinstance(value, bool | str):
            found[name] = value
    return found


# ---- classes and objects -------------------------------------------------------------------------------------------


def tool_from_object(thing: Any) -> Tool:
    """Make a tool from an object, or from a class, which is instantiated: `name`, `description`, `schema`, `execute`.

    Each of them may be a value or a method. `execute(arguments, context)` takes the arguments as one dict; `run` or
    `__call__` may also take them by name. Without a schema, their annotations define it.
    """
    if isinstance(thing, type):
        thing = _instance_of(thing)
    name = _said(thing, "name")
    if not isinstance(name, str) or not name:
        raise InvalidTool(
            f"not a tool: {thing!r} has no name"[:200],
            hint="a tool object needs a name, a description, a schema and execute()",
        )
    verb, method = _verb_of(thing, name)
    schema = next((found for key in _SCHEMAS if isinstance(found := _said(thing, key), Mapping)), None)
    context: str | None = None
    runner: Runner
    if schema is None:
        signature = read_signature(method, name)
        schema, context = signature.schema, signature.context_parameter
        runner = FunctionRunner(method, signature)
    elif verb != "execute" and _takes_by_name(method, schema):
        runner = KeywordRunner(method)
    else:
        runner = MappingRunner(method)
    schema = schema if isinstance(schema, dict) else dict(schema)
    description = str(_said(thing, "description") or "")
    made = Tool(name, description, schema, run=runner, context_parameter=context)
    return with_options(made, _options_of(thing))


def _instance_of(kind: type) -> Any:
    try:
        return kind()
    except Exception as problem:  # A constructor may raise any exception.
        raise InvalidTool(
            f"cannot create an object of {kind.__qualname__}: {problem}", hint="pass an object instead of the class"
        ) from problem


def _said(thing: Any, key: str) -> Any:
    """Return a property of an object, which is a value or a method."""
    value = getattr(thing, key, None)
    if not callable(value) or isinstance(value, type):
        return value
    try:
        return value()
    except Exception as problem:
        raise InvalidTool(
            f"{key}() of {type(thing).__qualname__} failed: {problem}", hint="make it a value"
        ) from problem


def _verb_of(thing: Any, name: str) -> tuple[str, Callable[..., Any]]:
    for verb in _VERBS:
        method = getattr(thing, verb, None)
        if callable(method):
            return verb, method
    raise InvalidTool(f"tool {name!r} has no function to run", hint="give it execute(arguments, context)")


def _takes_by_name(method: Callable[..., Any], schema: Mapping[str, Any]) -> bool:
    parameters = signature_of(method).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return True
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and bool(properties) and all(name in parameters for name in properties)


def _options_of(thing: Any) -> Traits:
    # Other attributes are the object's own business, but such a one decides whether a person is asked.
    asked = [key for key in dir(thing) if "approval" in key.lower() and not key.startswith("_")]
    wrong = next((key for key in asked if key != "requires_approval" and getattr(thing, key, None)), None)
    if wrong is not None and "requires_approval" not in asked:
        raise UnknownKeyword("tool", wrong, _OPTIONS)
    found: dict[str, Any] = {}
    for key in _OPTIONS:
        value = _said(thing, key)
        if value is not None:
            found[key] = value
    return found  # type: ignore[return-value]


# ---- any kind of tool ----------------------------------------------------------------------------------------------


def tool_from(value: Any) -> Tool:
    """Make a Tool from a decorated or plain function, a tool class or object, a Tool, or a dict.

    A dict may contain its function as `run` or `execute`, and options such as `requires_approval`; without a function,
    the tool is offered but cannot run.
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(value)
    made = getattr(value, "__dragoman_tool__", None)
    if isinstance(made, Tool):
        return made
    if inspect.isroutine(value) or not hasattr(value, "name"):
        if _is_method(value):
            # The model would see the parameter `self`.
            raise unbound_method(value)
        if callable(value) and not isinstance(value, type):
            return tool_from_function(value)
        raise InvalidTool(f"not a tool: {value!r}"[:200], hint="pass a function, a tool object, a Tool or a dict")
    return tool_from_object(value)


def _from_mapping(value: Mapping[str, Any]) -> Tool:
    made = as_tool(value)
    run = value.get("run") or value.get("execute")
    if not callable(run):
        return made
    inner = value.get("function")
    given = {**inner, **value} if isinstance(inner, Mapping) else value
    _refuse_misspelled(given)
    options: Any = {key: given[key] for key in _OPTIONS if given.get(key) is not None}
    return with_options(msgspec.structs.replace(made, run=MappingRunner(run)), options)


def _refuse_misspelled(keys: Iterable[str]) -> None:
    """Raise UnknownKeyword for a key that resembles an option. Other keys belong to the SDK that the dict is for."""
    for key in keys:
        if key not in _OPTIONS and key not in _FOREIGN and nearest(str(key), _OPTIONS):
            raise UnknownKeyword("tool", str(key), _OPTIONS)


def gather(values: Iterable[Any]) -> list[Tool]:
    """Return the tools of a run, also those of a toolbox. Raises InvalidTool for two tools with the same name."""
    found: dict[str, Tool] = {}
    for value in _unpack(values):
        made = tool_from(value)
        if isinstance(made.run, UnboundRunner):
            raise unbound_method(made.run.function)
        if made.name in found:
            raise InvalidTool(f"two tools are named {made.name!r}", hint='rename one of them: tool(name="...")')
        found[made.name] = made
    return list(found.values())


def _unpack(values: Any) -> Iterator[Any]:
    """Return the values of a list, and the tools of each toolbox: an object with a list `tools`, such as of MCP."""
    if _is_toolbox(values):
        values = values.tools
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidTool(f"tools is a list, not {type(values).__name__}", hint="write tools=[...], also for one tool")
    for value in values:
        if _is_toolbox(value):
            yield from value.tools
        elif not isinstance(value, type) and hasattr(value, "identity") and hasattr(value, "secrets"):
            hint = "give it to the agent: Agent(..., tools=[server]); or connect first: dragoman.mcp.connect([server])"
            raise InvalidTool(f"{value!r} is an MCP server, and no tool"[:200], hint=hint)
        else:
            yield value


def _is_toolbox(value: Any) -> bool:
    return not isinstance(value, Mapping | type) and isinstance(getattr(value, "tools", None), list)


def tools_in(namespace: Mapping[str, Any]) -> list[Tool]:
    """Return the decorated tools of a module, in their order."""
    marked = [value for value in namespace.values() if isinstance(getattr(value, "__dragoman_tool__", None), Tool)]
    unique = {id(value): value for value in marked}
    return gather(unique.values())


# --------------------------------------------------------------------------------------------------------------------
# `@dragoman.tool`: the function stays unchanged and is also a tool.

_Function = TypeVar("_Function", bound=Callable[..., Any])
MARK = "__dragoman_tool__"


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[_Function], _Function]: ...
def tool(function: Any = None, /, **options: Unpack[Options]) -> Any:
    """Make a function a tool: `@tool`, or `@tool(parallel_safe=True, ...)`.

    The decorator returns the function unchanged, with a `Tool` in its attribute `__dragoman_tool__`. The schema comes
    from the annotations, the descriptions from the docstring. Options:

    - `name`, `description`: instead of the function's own
    - `read_only`: it changes nothing
    - `parallel_safe`: it may run in parallel with other calls (default: as `read_only`)
    - `repeatable`: a second run does no harm (default: as `read_only`)
    - `timeout`: seconds for one call; `max_output`: the limit of a result for the model, in characters
    - `requires_approval`: each call needs an approval; `exec`: it acts on the system (more calls need an approval)
    - `context`: the parameter that takes the context, if its annotation does not say so
    - `schema`: a JSON Schema instead of the annotations; the arguments are then passed without conversion
    - `metadata`: any other data
    """
    names = _names_around(sys._getframe(1))
    if function is not None:
        return _decorate(function, options, names)
    return lambda given: _decorate(given, options, names)


def _names_around(frame: Any) -> Mapping[str, Any]:
    """Return the local names at the decorator, for the annotations of nested functions."""
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
        raise InvalidTool(f"not a callable: {given!r}", hint="put @tool above a function")
    if _is_method(given):
        return ToolMethod(given, options, names)
    made, _ = build(given, options, names, bound=False)
    try:
        setattr(given, MARK, made)
        return given
    except AttributeError:  # Bound methods and built-in functions do not accept attributes.
        return _carrier(given, made)


def _carrier(function: Callable[..., Any], made: Tool, *first: Any) -> Callable[..., Any]:
    """Return a callable that does the same and has the attribute."""
    carrier = functools.partial(function, *first)
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(function, name):
            setattr(carrier, name, getattr(function, name))
    setattr(carrier, MARK, made)
    return carrier


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is in the body of a class and takes its object first."""
    if not inspect.isfunction(function):
        return False
    around = function.__qualname__.rpartition(".")[0]
    first = function.__code__.co_varnames[:1] if function.__code__.co_argcount else ()
    return bool(around) and not around.endswith("<locals>") and first in (("self",), ("cls",))


class ToolMethod:
    """A method that is a tool: accessed on an object, it is a tool of that object; on the class, a function."""

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
    """The descriptor of a tool class: on an instance, its tool; on the class, the tool of `Class()`."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __get__(self, owner: object, kind: type) -> Tool:
        return with_options(tool_from_object(kind if owner is None else owner), self._options)


def _decorate_class(kind: type, options: Options) -> type:
    if options.get("name") or options.get("schema") or options.get("description") is not None:
        raise InvalidTool(
            f"{kind.__qualname__} defines its name, description and schema itself", hint="remove these options"
        )
    mark = _ObjectTool(options)
    mark.__get__(None, kind)  # Raise for a faulty class here, and not at its first use.
    setattr(kind, MARK, mark)
    return kind
