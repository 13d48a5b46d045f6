"""Tools: functions, classes, schemas and MCP definitions, offered to a model, called, and answered.

`tool` makes a function one; `bind` converts the arguments of a call into its types; `to_answer` makes a result of
whatever it gave back. Nothing here decides whether a call may run, waits, or starts a thread: a driver does that.
"""

from __future__ import annotations

from dragoman.tools.calls import BoundCall, bind, run_async, run_sync
from dragoman.tools.functions import Context, Options, ToolContext, tool_from_function
from dragoman.tools.objects import gather, tool, tool_from, tool_from_mcp, tool_from_object, tool_from_schema, tools_in
from dragoman.tools.results import MAX_OUTPUT, Answer, Error, Halt, Ok, answer_async, answer_sync, to_answer, to_result

__all__ = [
    "MAX_OUTPUT",
    "Answer",
    "BoundCall",
    "Context",
    "Error",
    "Halt",
    "Ok",
    "Options",
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
