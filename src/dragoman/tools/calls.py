"""From the arguments of a call to the result of the function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct

from dragoman.errors import InvalidArguments, InvalidTool, ToolFailed
from dragoman.tools.forms import ReadState
from dragoman.tools.functions import MappingRunner, Runner
from dragoman.tools.objects import tool_from
from dragoman.types import JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# What a generator gives, up to a bound: one that never ends would take all the memory there is.

MOST_CHARACTERS = 4_000_000
"""Taken from one generator; the model is shown far fewer in any case."""
MOST_ITEMS = 100_000


def take_bounded(items: Any) -> list[Any]:
    """The items of a generator; one that goes on too long is ended."""
    drawn = _Taken()
    for item in items:
        if drawn.add(item):
            items.close()
            break
    return drawn.items


async def atake_bounded(items: Any) -> list[Any]:
    """The same for an async one."""
    drawn = _Taken()
    async for item in items:
        if drawn.add(item):
            await items.aclose()
            break
    return drawn.items


class _Taken:
    """What was given so far."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._size = 0

    def add(self, item: Any) -> bool:
        """Keep an item; whether it was the last one that is taken. That more was left out is said."""
        self.items.append(item)
        self._size += len(item) if isinstance(item, str | bytes | bytearray) else 1
        if self._size < MOST_CHARACTERS and len(self.items) < MOST_ITEMS:
            return False
        if all(isinstance(each, str) for each in self.items):
            self.items.append(f"\n[the tool went on, and the rest was left out: {self._size} characters are the most]")
        return True


# --------------------------------------------------------------------------------------------------------------------
# From a call's arguments to the function's answer.
#
# `bind` converts arguments that `dragoman.args.load` has accepted, and the bound call can be run by any driver.
# Nothing here starts a thread or an event loop: a driver in async code moves a call that is not `is_async` to a
# thread itself.

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
    reading = ReadState()
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
        return _join(take_bounded(value))
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
        return _join(await atake_bounded(value))
    return _join(take_bounded(value)) if inspect.isgenerator(value) else value


async def _value_of(value: Awaitable[Any]) -> Any:
    return await value


def _join(items: list[Any]) -> Any:
    """What a generator gave, one after another: pieces of text are one text."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
