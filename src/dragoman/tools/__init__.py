"""Tools from functions, classes, schemas and MCP definitions, the conversion of their arguments, and their results.

`tool` makes a function a tool, `bind` converts the arguments of a call to the types of the function, and `to_answer`
converts the return value to a result. This package does not decide whether a call may run, does not wait, and starts
no thread: the driver does.
"""

from __future__ import annotations

from dragoman.tools.calls import BoundCall, bind, run_async, run_sync
from dragoman.tools.functions import Context, Options, ToolContext, tool_from_function
from dragoman.tools.objects import gather, tool, tool_from, tool_from_mcp, tool_from_object, tool_from_schema, tools_in
from dragoman.tools.results import (
    MAX_OUTPUT,
    Answer,
    Error,
    Halt,
    Ok,
    Retry,
    answer_async,
    answer_sync,
    to_answer,
    to_result,
)

__all__ = [
    "MAX_OUTPUT",
    "Answer",
    "BoundCall",
    "Context",
    "Error",
    "Halt",
    "Ok",
    "Options",
    "Retry",
    "ToolContext",
    "answer_async",
    "answer_sync",
    "bind",
    "gather",
    "run_async",
    "run_sync",
    "to_answer",
    "to_result",
    "tool",
    "tool_from",
    "tool_from_function",
    "tool_from_mcp",
    "tool_from_object",
    "tool_from_schema",
    "tools_in",
]
