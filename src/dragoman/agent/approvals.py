"""The question whether a call may run, and the answers that there are to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.types import JsonObject, Operand, Tool, ToolCall


class ApprovalRequest(Struct, frozen=True):
    """The question whether a call may run. An answer holds for exactly what stands here, once, and for a while."""

    id: str
    run_id: str
    call: ToolCall
    """As it will run; show `arguments` to people."""
    tool: Tool
    why: str
    arguments: JsonObject
    """The arguments with their secrets hidden."""
    hidden: tuple[str, ...] = ()
    """The paths of the arguments in which something was hidden."""
    operands: tuple[Operand, ...] = ()
    digest: str = ""
    expires: float | None = None
    """In seconds since 1970."""
    suggestion: str = ""
    """The rule that would allow calls like this one."""
    session: str | None = None
    workspace: str | None = None
    """The folder that the run works in."""


class Approval(Struct, frozen=True):
    """An answer to the question whether a call may run."""

    approved: bool
    reason: str = ""
    arguments: JsonObject | None = None
    """Other arguments than the model's; they are checked and decided on like its own."""
    by: str = "the user"
    rule: str = ""
    """A rule that is to hold from now on, such as the request's `suggestion`."""
    result: str | None = None
    """What the model is to be told instead of running the call."""
    later: bool = False
    """Nobody can say now: the run is left as it is, and goes on when somebody has answered."""


LATER = Approval(False, later=True)
"""The answer of an approver who has passed the question on; it needs a journal."""

Approver = Callable[[ApprovalRequest], Any]
"""`approve(request)`, sync or async: True or False, an `Approval`, or the reason of a denial as text."""
