"""Asking whoever may approve a call. No answer, a failing one and one that makes no sense are a denial."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.agent.inputs import Approved, Denied
from dragoman.types import JsonObject, Tool, ToolCall

Approver = Callable[[ToolCall, Tool, str], Any]
"""`approve(call, tool, why)`, sync or async: True or False, an `Approval`, or the reason of a denial as text."""


class Approval(Struct, frozen=True):
    """An answer to the question whether a call may run."""

    approved: bool
    reason: str = ""
    arguments: JsonObject | None = None
    """Other arguments than the model's; they are checked like its own."""
    by: str = "the user"


async def ask_approver(
    approver: Approver | None, call: ToolCall, tool: Tool, why: str, seconds: float | None
) -> Approved | Denied:
    """The answer of the approver."""
    if approver is None:
        return Denied(call.id, "nobody is there to approve it", "the settings of this run")
    try:
        async with asyncio.timeout(seconds):
            given = approver(call, tool, why)
            if inspect.isawaitable(given):
                given = await given
    except TimeoutError:
        return Denied(call.id, "nobody answered in time", "default")
    except Exception as problem:
        return Denied(call.id, f"asking for approval failed ({type(problem).__name__})", "default")
    return _read(given, call)


def _read(given: Any, call: ToolCall) -> Approved | Denied:
    if isinstance(given, Approval):
        if given.approved:
            return Approved(call.id, given.arguments, given.by)
        return Denied(call.id, given.reason, given.by)
    if given is True:
        return Approved(call.id, by="the user")
    if given is False or isinstance(given, str):
        return Denied(call.id, given or "", "the user")
    return Denied(call.id, f"the approver gave {type(given).__name__} instead of an answer", "default")
