"""Tools: functions, classes, schemas and MCP definitions, offered to a model, called, and answered.

`tool` makes a function one; `bind` converts the arguments of a call into its types; `to_answer` makes a result of
whatever it gave back. Nothing here decides whether a call may run, waits, or starts a thread: a driver does that.
"""

from __future__ import annotations

from dragoman.tools.answers import Answer, answer_async, answer_sync, to_answer, to_result
from dragoman.tools.calling import BoundCall, bind, run_async, run_sync
from dragoman.tools.context import Context, ToolContext
from dragoman.tools.cutting import MAX_OUTPUT
from dragoman.tools.decorator import tool
from dragoman.tools.functions import Options, tool_from_function
from dragoman.tools.objects import gather, tool_from, tool_from_mcp, tool_from_object, tool_from_schema, tools_in
from dragoman.tools.outcomes import Error, Halt, Ok

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
