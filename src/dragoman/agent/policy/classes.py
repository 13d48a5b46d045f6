"""What kind of tool a call is for. The metadata of a tool tell; one without them is the developer's own function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dragoman.agent.policy.decisions import DecisionContext
from dragoman.agent.policy.rules import MCP
from dragoman.types import Operand, OperandKind, Tool

ToolClass = Literal["own", "session", "read", "write", "exec", "fetch", "mcp", "unknown"]
_CLASSES: dict[str, ToolClass] = {
    "session": "session",
    "read": "read",
    "write": "write",
    "exec": "exec",
    "fetch": "fetch",
}
_MATTERS: dict[ToolClass, OperandKind] = {"read": "path", "write": "path", "exec": "command", "fetch": "url"}


def class_of(tool: Tool) -> ToolClass:
    """The class of a tool; a word that means nothing here is `unknown`, which is asked about."""
    origin = tool.metadata.get("origin")
    if isinstance(origin, str) and origin.startswith(MCP):
        return "mcp"
    told = tool.metadata.get("class")
    if told is None:
        return "own"
    return _CLASSES.get(told, "unknown") if isinstance(told, str) else "unknown"


def operands_that_matter(context: DecisionContext) -> Sequence[Operand]:
    """The operands that the pattern of a rule is held against: of a command line the line, not the files it names."""
    kind = _MATTERS.get(class_of(context.tool))
    return [operand for operand in context.operands if kind is None or operand.kind == kind]


def searches(tool: Tool) -> bool:
    """Whether a tool shows what is in the files beneath a folder, and not only the one that is named."""
    return tool.metadata.get("searches") is True or (class_of(tool) == "read" and tool.name == "grep")
