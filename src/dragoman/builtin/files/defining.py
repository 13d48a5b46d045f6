"""How the file tools are made: the house's own decorator, and what rules and approvals need to know besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from dragoman.builtin.files.inspecting import operands_at
from dragoman.builtin.files.workspace import Workspace
from dragoman.tools import ToolContext, tool_from_function
from dragoman.types import Access, JsonObject, Operand, Tool

Inspect = Callable[[JsonObject, ToolContext], Iterable[Operand]]


def file_tool(
    name: str, function: Callable[..., Any], family: Literal["read", "write"], inspect: Inspect | None = None
) -> Tool:
    """A tool that reads files, or one that changes them; both know their operands."""
    reads = family == "read"
    metadata: dict[str, Any] = {"class": family, "family": family, "origin": "builtin"}
    if not reads:
        # They act on the system, and secrets that were hidden from the model are put back into what they write.
        metadata |= {"exec": True, "restores": True}
    made = tool_from_function(
        function, {"name": name, "parallel_safe": reads, "read_only": reads, "repeatable": reads, "metadata": metadata}
    )
    return msgspec.structs.replace(made, inspect=inspect or inspect_path("read" if reads else "write"))


def inspect_path(access: Access, default: str | None = None) -> Inspect:
    """The operands of a tool that works on one path, in its argument `path`."""

    def inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
        path = arguments.get("path", default)
        if not isinstance(path, str):
            return []  # Such a call does not run.
        with Workspace.of(context) as workspace:
            return operands_at(workspace, path, access)

    return inspect
