"""One call, run within its limits: converted, started, waited for, and answered whatever happens."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from msgspec import Struct

from dragoman.agent import threads
from dragoman.agent.turns import UNKNOWN_OUTCOME
from dragoman.errors import InvalidArguments
from dragoman.tools import Answer, BoundCall, Error, ToolContext, answer_sync, bind, run_async, to_answer
from dragoman.types import Tool, ToolCall

_GRACE = 1.0
"""Seconds that a tool has to clean up after it was cancelled."""
_TIMED_OUT = "The tool did not answer within {seconds:g} seconds and was stopped."


class Ran(Struct, frozen=True):
    """What became of a call."""

    answer: Answer
    is_mistake: bool = False
    abandoned: bool = False
    """The tool did not stop when it was told to, and may still be at work."""


class Cancelling:
    """Whether a call was given up; tools in threads can only ask."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()


def prepare(tool: Tool, call: ToolCall, context: ToolContext) -> BoundCall | Ran:
    """The call in the types of its function, or the answer that says why that cannot be."""
    try:
        return bind(tool, call.arguments, context)
    except InvalidArguments as mistake:
        return Ran(to_answer(mistake, call, tool), is_mistake=True)
    except Exception as problem:  # A class of the developer's may refuse its members in any way it likes.
        return Ran(to_answer(problem, call, tool))


async def run_call(
    bound: BoundCall, call: ToolCall, cancelling: Cancelling, seconds: float, *, max_output: int | None = None
) -> Ran:
    """Run a bound call for so many seconds at most. If this is cancelled, the tool is cancelled too, and waited for."""
    work = _start(bound, call, max_output)
    try:
        await asyncio.wait((work,), timeout=max(0.0, seconds))
        if work.done():
            return Ran(_take(work, call, bound.tool))
        abandoned = await _stop(work, cancelling)
    except asyncio.CancelledError:
        await _stop(work, cancelling)
        raise
    if work.done() and not work.cancelled() and work.exception() is None:
        # It was done in the very last moment; what it did is not to be lost.
        return Ran(_take(work, call, bound.tool))
    words = _TIMED_OUT.format(seconds=round(seconds, 1))
    if not (bound.tool.repeatable or bound.tool.read_only):
        words = f"{words} {UNKNOWN_OUTCOME}"
    return Ran(to_answer(Error(words), call, bound.tool), abandoned=abandoned)


def _start(bound: BoundCall, call: ToolCall, max_output: int | None) -> asyncio.Future[Answer]:
    if bound.is_async:
        return asyncio.ensure_future(_answer(bound, call, max_output))
    return threads.shared.submit(lambda: answer_sync(bound, call, wait=asyncio.run, max_output=max_output))


async def _answer(bound: BoundCall, call: ToolCall, max_output: int | None) -> Answer:
    value: Any
    try:
        value = await run_async(bound)
    except asyncio.CancelledError:
        raise
    except BaseException as problem:  # An exit or an interrupt that a tool raises is the tool's, not the program's.
        value = problem
    return to_answer(value, call, bound.tool, max_output=max_output)


def _take(work: asyncio.Future[Answer], call: ToolCall, tool: Tool) -> Answer:
    if work.cancelled():
        return to_answer(Error("the tool cancelled itself"), call, tool)
    problem = work.exception()
    return work.result() if problem is None else to_answer(problem, call, tool)


async def _stop(work: asyncio.Future[Answer], cancelling: Cancelling) -> bool:
    """Cancel the work and give it a moment; whether it had to be left alone."""
    cancelling.set()
    work.cancel()
    if isinstance(work, asyncio.Task):
        await asyncio.wait((work,), timeout=_GRACE)
        return not work.done()
    return True
