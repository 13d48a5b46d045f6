"""From a call's arguments to the function's answer.

`bind` converts arguments that `dragoman.args.load` has accepted, and the bound call can be run by any driver. Nothing
here starts a thread or an event loop: a driver in async code moves a call that is not `is_async` to a thread itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct

from dragoman.errors import InvalidArguments, InvalidTool, ToolFailed
from dragoman.tools.drawing import adraw, draw
from dragoman.tools.forms import Reading
from dragoman.tools.functions import MappingRunner, Runner
from dragoman.tools.objects import tool_from
from dragoman.types import JsonObject, Tool

Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""How a driver without an event loop waits for a coroutine; `asyncio.run` is one."""


class BoundCall(Struct, frozen=True):
    """A function with everything it needs; calling it is the call."""

    tool: Tool
    function: Callable[..., Any]
    positional: tuple[Any, ...]
    named: dict[str, Any]
    is_async: bool
    """Whether the call gives something to be awaited."""

    def __call__(self) -> Any:
        return self.function(*self.positional, **self.named)


def bind(tool: Any, arguments: JsonObject | None, context: Any = None) -> BoundCall:
    """The call of a tool with these arguments, in the types that its function wants.

    Raises InvalidArguments with every fault by its path, and InvalidTool for a tool that cannot be run.
    """
    made = tool_from(tool)
    if made.run is None:
        raise InvalidTool(
            f"tool {made.name!r} is only a description", hint="tool_from_schema(name, schema, function) gives it a body"
        )
    runner = made.run if isinstance(made.run, Runner) else MappingRunner(made.run)
    reading = Reading()
    try:
        positional, named = runner.fill({} if arguments is None else arguments, context, reading)
    except RecursionError:
        reading.fault("$", "nested too deep")
    if reading.faults:
        raise InvalidArguments(made.name, reading.faults)
    return BoundCall(made, runner.function, positional, named, is_async(runner.function))


def is_async(function: Any) -> bool:
    """Whether a callable is written with `async`."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def run_sync(call: BoundCall, wait: Wait | None = None) -> Any:
    """The answer of the function, in code without an event loop; `wait` is needed for async tools."""
    value = call()
    if inspect.isgenerator(value):
        return _join(draw(value))
    if not inspect.isawaitable(value) and not inspect.isasyncgen(value):
        return value
    if wait is None:
        if inspect.iscoroutine(value):
            value.close()
        raise ToolFailed(f"{call.tool.name} is async and was called where nothing can wait for it")
    return wait(_settle(value))


async def run_async(call: BoundCall) -> Any:
    """The answer of the function, in async code. A sync function blocks the event loop while it runs."""
    value = call()
    return await _settle(value)


async def _settle(value: Any) -> Any:
    if inspect.isawaitable(value):
        return await _value_of(value)
    if inspect.isasyncgen(value):
        return _join(await adraw(value))
    return _join(draw(value)) if inspect.isgenerator(value) else value


async def _value_of(value: Awaitable[Any]) -> Any:
    return await value


def _join(items: list[Any]) -> Any:
    """What a generator gave, one after another: pieces of text are one text."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
