"""What a call is about, as its tool tells it: asked before a decision, and again right before the call runs."""

from __future__ import annotations

import copy
from itertools import islice

from dragoman.tools import ToolContext
from dragoman.types import Operand, Tool, ToolCall

_MOST = 1000
"""Operands of one call; nobody could look at more."""


def inspect_call(call: ToolCall, tool: Tool, context: ToolContext) -> tuple[tuple[Operand, ...], str]:
    """The operands of a call, and why they could not be found out, where that failed."""
    if tool.inspect is None:
        return (), ""
    try:
        # What it does to its arguments is not what will run, and it may go on for ever.
        found = tuple(islice(tool.inspect(copy.deepcopy(call.arguments), context), _MOST + 1))
    except Exception as problem:  # The tool's own code; what it cannot say has to be asked about.
        return (), f"{type(problem).__name__}: {problem}"[:300]
    if not all(isinstance(each, Operand) for each in found):
        return (), "the tool told something else than operands"
    if len(found) > _MOST:
        return found[:_MOST], f"the call is about more than {_MOST} things, which nobody can look through"
    return found, ""
