"""What strangers wrote before anything was said: the definitions of tools that come from servers."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.agent.binding import canonical
from dragoman.types import Message, Tool, ToolResult

_FOREIGN = "mcp:"


def read_strangers(tools: Iterable[Tool]) -> list[Message]:
    """Definitions of strangers as content of the conversation, so that a call that stands in one is an echo of it."""
    return [
        Message("tool", [ToolResult("", f"the definition of {tool.name}", text)])
        for tool in tools
        if str(tool.metadata.get("origin", "")).startswith(_FOREIGN)
        for text in (tool.description, canonical(tool.parameters).decode("utf-8", "replace"))
    ]
