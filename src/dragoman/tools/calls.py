"""`bind` and the functions that run a bound call."""

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
# The items of a generator, up to a limit: an infinite one would use all memory.

MOST_CHARACTERS = 4_000_000
"""The limits for one generator; the model gets far less in any case."""
MOST_ITEMS = 100_000


def take_bounded(items: Any) -> list[Any]:
    """Return the items of a generator, up to a limit; then close it."""
    drawn = _Taken()
    for item in items:
        if drawn.add(item):
            items.close()
            break
    return drawn.items


async def atake_bounded(items: Any) -> list[Any]:
    """The same for an async generator."""
    drawn = _Taken()
    async for item in items:
        if drawn.add(item):
            await items.aclose()
            break
    return drawn.items


class _Taken:
    """The items so far."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._size = 0

    def add(self, item: Any) -> bool:
        """Add an item; return whether the limit is reached. A note says that the rest was left out."""
        self.items.append(item)
        self._size += len(item) if isinstance(item, str | bytes | bytearray) else 1
        if self._size < MOST_CHARACTERS and len(self.items) < MOST_ITEMS:
            return False
        if all(isinstance(each, str) for each in self.items):
            self.items.append(f"\n[the rest of the output was left out: the limit is {self._size} characters]")
        return True


# --------------------------------------------------------------------------------------------------------------------
# Bound calls.
#
# `bind` converts arguments that `dragoman.args.load` has accepted, and any driver can run the bound call. This module
# starts no thread and no event loop: a driver in async code moves a call that is not `is_async` to a thread itself.

Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""How a driver without an event loop waits for a coroutine; `asyncio.run` is one."""


class BoundCall(Struct, frozen=True):
    """A function with its arguments, ready to be called."""

    tool: Tool
    function: Callable[..., Any]
    positional: tuple[Any, ...]
    named: dict[str, Any]
    is_async: bool
    """Whether the call returns an awaitable."""

    def __call__(self) -> Any:
        return self.function(*self.positional, **self.named)


def bind(tool: Any, arguments: JsonObject | None, context: Any = None) -> BoundCall:
    """Bind a tool to these arguments, converted to the types of its function.

    Raises InvalidArguments with every fault and its path, and InvalidTool for a tool that cannot run.
    """
    made = tool_from(tool)
    if made.run is None:
        raise InvalidTool(
            f"tool {made.name!r} has no function to run",
            hint="tool_from_schema(name, schema, function) gives it a body",
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
    """Whether a callable is an async function."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def run_sync(call: BoundCall, wait: Wait | None = None) -> Any:
    """Run the function in code without an event loop; async tools need `wait`."""
    value = call()
    if inspect.isgenerator(value):
        return _join(take_bounded(value))
    if not inspect.isawaitable(value) and not inspect.isasyncgen(value):
        return value
    if wait is None:
        if inspect.iscoroutine(value):
            value.close()
        raise ToolFailed(f"{call.tool.name} is async, but there is no event loop to run it")
    return wait(_settle(value))


async def run_async(call: BoundCall) -> Any:
    """Run the function in async code. A sync function blocks the event loop while it runs."""
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
    """Join the items of a generator; pieces of text become one text."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
