"""What a tool may know about the call that it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.types import Operand


def _never() -> bool:
    return False


def _ignore(message: str, fraction: float | None = None) -> None:
    """Progress that nobody asked for."""


class ToolContext(Struct, frozen=True):
    """The surroundings of one call. A new one is made for every call, so that tools need no state of their own."""

    run_id: str = ""
    turn: int = 0
    call_id: str = ""
    session: str | None = None
    workspace: str | None = None
    """The folder that the run works in."""
    deadline: float | None = None
    """When the call has to be done, on the monotonic clock of whoever runs it."""
    mode: str = ""
    """The mode of the policy, for example one in which nothing may be changed."""
    data: Any = None
    """Whatever the caller handed to the run for its own tools."""
    cancelled: Callable[[], bool] = _never
    """Whether the run has been given up; a long tool asks now and then, and stops."""
    progress: Callable[..., None] = _ignore
    """`progress(message, fraction=None)` tells a watching person how far the tool is."""
    operands: tuple[Operand, ...] = ()
    """What was decided on, and approved where that was needed. A tool that finds something else there stops."""
    sandbox: Any = None
    """The sandbox for commands; None leaves the choice to the tool."""
    ask: Callable[..., Any] | None = None
    """`await ask(question, choices)` gives what a person answered; None where nobody is there."""
    scope: Any = None
    """The run itself, for tools that start runs of their own: these stay within its rights and its budget."""


Context = ToolContext
"""The short name, for annotations."""
