"""What the loose scanner hands out, and what it keeps while it looks."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from dragoman.toolset import Toolset
from dragoman.types import Change, JsonObject, Tool

TYPE_NAMES = frozenset(
    ("str", "string", "int", "integer", "float", "number", "bool", "boolean", "list", "array", "dict", "object", "any")
)
"""A value that is the name of a type belongs to a signature or a definition."""

_NAME = re.compile(r"[^\W\d](?:[\w.\-/:]|\\_)*")


class Found(Struct, frozen=True, gc=False):
    """A call found in plain text: where it stands, what it says, and everything that was done to read it."""

    start: int
    end: int
    """Code-point offsets [start, end): the call with the brackets, quotes or fence that hold nothing else."""
    name: str
    arguments: JsonObject
    region: str
    """`message`, `list`, `line`, `prose`, `quoted`, or `fence:` with the label of the fence, as in `fence:python`."""
    repairs: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    known_tool: bool | None = None


class Candidate(Struct, gc=False):
    """A place that reads like a call; whether it is one is judged when all of them are known."""

    start: int
    end: int
    tool: Tool
    arguments: JsonObject
    shape: str
    """`python` for name(...), `json` for an object that names its tool, `pair` for a name and then an object,
    `items` for the two as items of a list."""
    repairs: list[str]
    changes: tuple[Change, ...] = ()
    template: bool = False
    """The call stands in an f-string and takes values from elsewhere: f"name(base={base})"."""


class Offered:
    """Looks up names as they are written in the text; every spelling is worked out once."""

    __slots__ = ("_seen", "open", "tools")

    def __init__(self, tools: Toolset | None) -> None:
        self.tools = tools
        self.open = tools is None
        """No tools were given: any identifier names a tool, and only the shape decides."""
        self._seen: dict[str, Tool | None] = {}

    def find(self, written: str) -> Tool | None:
        if written in self._seen:
            return self._seen[written]
        if self.tools is not None:
            tool = self.tools.find(written)
        else:
            tool = Tool(written.replace("\\", "")) if _NAME.fullmatch(written) else None
        self._seen[written] = tool
        return tool


def properties_of(tool: Tool) -> dict[str, Any]:
    """The declared parameters of a tool by name, in their order; empty when its schema declares none."""
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, dict) else {}


def required_of(tool: Tool) -> list[str]:
    required = tool.parameters.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
