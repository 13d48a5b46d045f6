"""Which tool a model means by a name: the offered spelling, a namespace less, or an alias that the user declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from dragoman.toolset import Toolset
from dragoman.types import Tool, ToolCall


class NameBook:
    """The offered tools and the user's aliases. Nothing is mapped that nobody declared: there are no built-in aliases.

    Aliases are offered to the parsers too, so that bare calls under them are recognised; they come back under the
    name of the tool.
    """

    def __init__(self, tools: Toolset | Iterable[object] | None, aliases: Mapping[str, str] | None = None) -> None:
        self.offered = Toolset.of(tools)
        self._aliases: dict[str, Tool] = {}
        for alias, name in (aliases or {}).items():
            tool = self.offered.find(name) if self.offered is not None else None
            if tool is not None and (self.offered is None or self.offered.find(alias) is None):
                self._aliases[alias] = tool
        extra = [replace(tool, name=alias) for alias, tool in self._aliases.items()]
        self.tools = Toolset([*self.offered, *extra]) if extra and self.offered is not None else self.offered

    def find(self, name: str) -> Tool | None:
        """The offered tool that a name means."""
        if name in self._aliases:
            return self._aliases[name]
        return self.offered.find(name) if self.offered is not None else None

    def rename(self, call: ToolCall) -> ToolCall:
        """The call under the offered spelling of its name."""
        if self.offered is None:
            return call
        tool = self.find(call.name)
        if tool is None:
            return call if call.known_tool is False else replace(call, known_tool=False)
        return call if call.name == tool.name and call.known_tool else replace(call, name=tool.name, known_tool=True)
