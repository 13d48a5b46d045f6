"""Functions as tools: what `Tool.run` holds, and how a tool is made from a function."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from dragoman.errors import InvalidArguments, InvalidTool
from dragoman.tools.docstrings import described
from dragoman.tools.forms import Reading, copy_json
from dragoman.tools.hints import signature_of
from dragoman.tools.signatures import Signature, context_or_empty, read_signature
from dragoman.types import JsonObject, Tool

Filled = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments."""


class Traits(TypedDict, total=False):
    """What may be said of a tool beside its name, its schema and its function; see `dragoman.tool`."""

    description: str | None
    parallel_safe: bool
    read_only: bool
    repeatable: bool | None
    timeout: float | None
    max_output: int | None
    requires_approval: bool
    exec: bool
    context: str | None
    metadata: Mapping[str, Any] | None


class Options(Traits, total=False):
    """What `dragoman.tool` takes."""

    name: str | None
    schema: JsonObject | None


class Runner:
    """What stands in `Tool.run`: it knows its function, and how JSON arguments reach it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def fill(self, arguments: Any, context: Any, reading: Reading) -> Filled:
        """What to call the function with: here all arguments as one dict, and the context."""
        return (copy_json(arguments), context_or_empty(context)), {}

    def __call__(self, arguments: Any, context: Any = None) -> Any:
        """Fill and call, for whoever has a `Tool` and no use for `bind`."""
        reading = Reading()
        positional, named = self.fill(arguments, context, reading)
        if reading.faults:
            raise InvalidArguments(name_of(self.function), reading.faults)
        return self.function(*positional, **named)


class FunctionRunner(Runner):
    """Runs a function by its signature, with arguments converted into the types of its annotations."""

    __slots__ = ("_first", "_signature")

    def __init__(self, function: Callable[..., Any], signature: Signature, first: tuple[Any, ...] = ()) -> None:
        super().__init__(function)
        self._signature = signature
        self._first = first

    def fill(self, arguments: Any, context: Any, reading: Reading) -> Filled:
        positional, named = self._signature.fill(arguments, context, reading)
        return self._first + positional, named

    def bound_to(self, owner: object) -> FunctionRunner:
        """The same for a method of this object."""
        return FunctionRunner(self.function, self._signature, (owner,))


class KeywordRunner(Runner):
    """Runs a function with the JSON arguments by name, as they are."""

    __slots__ = ("_context_parameter", "_first", "_signature")

    def __init__(
        self, function: Callable[..., Any], context_parameter: str | None = None, first: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(function)
        self._context_parameter = context_parameter
        self._first = first
        self._signature = _signature_or_none(function)

    def fill(self, arguments: Any, context: Any, reading: Reading) -> Filled:
        if not isinstance(arguments, dict):
            reading.expected("object", arguments, "$")
            return (), {}
        named = copy_json(arguments)
        if self._context_parameter is not None:
            named[self._context_parameter] = context_or_empty(context)
        try:
            if self._signature is not None:
                self._signature.bind(*self._first, **named)
        except TypeError as problem:
            reading.fault("$", str(problem))
        return self._first, named

    def bound_to(self, owner: object) -> KeywordRunner:
        return KeywordRunner(self.function, self._context_parameter, (owner,))


class MappingRunner(Runner):
    """Runs a function that takes all JSON arguments as one dict, and the context if it has room for it."""

    __slots__ = ("_takes",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._takes = _places_of(function)

    def fill(self, arguments: Any, context: Any, reading: Reading) -> Filled:
        return (copy_json(arguments), context_or_empty(context))[: self._takes], {}


def _signature_or_none(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return signature_of(function)
    except InvalidTool:  # Built-in functions may have none; then Python compares for itself.
        return None


def _places_of(function: Callable[..., Any]) -> int:
    """How many of arguments and context a function has room for."""
    signature = _signature_or_none(function)
    if signature is None:
        return 1
    parameters = signature.parameters.values()
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return 2
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)


class UnboundRunner(Runner):
    """Stands in for a method that was given without its object: there is nothing it could be run on."""

    __slots__ = ()

    def fill(self, arguments: Any, context: Any, reading: Reading) -> Filled:
        raise InvalidTool(
            f"{self.function.__qualname__} is a method and was given without its object",
            hint="give the method of an object (tools=[thing.method]); above @classmethod, put @tool first",
        )


# ---- tools from functions ------------------------------------------------------------------------------------------


def tool_from_function(
    function: Callable[..., Any], options: Options | None = None, *, names: Mapping[str, Any] | None = None
) -> Tool:
    """A tool from a function: its schema from the annotations, its words from the docstring.

    `names` are local names that annotations written as strings may use.
    """
    return build(function, options or {}, names or {}, bound=False)[0]


def build(
    function: Callable[..., Any], options: Options, names: Mapping[str, Any], *, bound: bool
) -> tuple[Tool, FunctionRunner | KeywordRunner]:
    """The tool and its runner; `bound` for methods, whose first parameter is their object."""
    name = options.get("name") or name_of(function)
    schema, context = options.get("schema"), options.get("context")
    runner: FunctionRunner | KeywordRunner
    if schema is None:
        signature = read_signature(function, name, context=context, names=names, bound=bound)
        schema, context = signature.schema, signature.context_parameter
        runner = FunctionRunner(function, signature)
    else:
        runner = KeywordRunner(function, context)
    description = options.get("description")
    if description is None:
        description = described(function).summary
    return with_options(Tool(name, description, schema, run=runner, context_parameter=context), options), runner


def with_options(tool: Tool, options: Traits) -> Tool:
    """The tool with everything that was said of it; InvalidTool for what makes no sense."""
    for key in ("timeout", "max_output"):
        limit = options.get(key)
        if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool) or limit <= 0):
            raise InvalidTool(f"tool {tool.name!r}: {key}={limit!r}", hint="give a number above zero, or leave it out")
    metadata = {**tool.metadata, **(options.get("metadata") or {})}
    if options.get("exec"):
        metadata["class"] = "exec"
    read_only = bool(options.get("read_only", tool.read_only))
    repeatable = options.get("repeatable")
    if repeatable is None:
        # What changes nothing may be done again.
        repeatable = tool.repeatable or read_only
    return Tool(
        tool.name,
        tool.description,
        tool.parameters,
        run=tool.run,
        parallel_safe=bool(options.get("parallel_safe", tool.parallel_safe)),
        read_only=read_only,
        metadata=metadata,
        repeatable=bool(repeatable),
        timeout=options.get("timeout", tool.timeout),
        max_output=options.get("max_output", tool.max_output),
        requires_approval=bool(options.get("requires_approval", tool.requires_approval)),
        context_parameter=tool.context_parameter,
    )


def name_of(function: Callable[..., Any]) -> str:
    """The name that a function goes by; a callable object goes by that of its class, in a function's spelling."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", None)
    if name is None:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(inner).__name__).lower()
    if not name.isidentifier():
        raise InvalidTool(f"{function!r} has no name that a model could call", hint='give it one: tool(name="...")')
    return str(name)
