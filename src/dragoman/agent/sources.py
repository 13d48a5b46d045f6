"""The tools that an agent was given: tools, toolboxes whose tools may change between runs, and MCP servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dragoman.tools import gather
from dragoman.toolset import Toolset

if TYPE_CHECKING:
    from dragoman.mcp import Toolbox


class ToolSources:
    """What an agent was given as its tools.

    MCP servers become one toolbox. They start in the first run, all at once, and end with the agent. If a toolbox gets
    other tools, the next run has them.
    """

    def __init__(self, given: Any) -> None:
        is_list = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
        values = list(given) if is_list and not hasattr(given, "revision") else given
        self._own = _connect_later([each for each in values if _is_server(each)]) if values is not given else None
        if self._own is not None:
            values = [*(each for each in values if not _is_server(each)), self._own]
        self._values = values
        listed = values if isinstance(values, list) else [values]
        self._changing = [each for each in listed if isinstance(getattr(each, "revision", None), int)]
        self._seen = self._revision
        self.tools = Toolset(gather(self._values))

    @property
    def is_ready(self) -> bool:
        """Whether the tools are known; before the first run, those of servers are not."""
        return self._own is None or self._own.is_ready

    async def start(self) -> None:
        """Start the servers. Raises ConfigError if one cannot be used."""
        if self._own is not None:
            await self._own.aready()

    def refresh(self) -> Toolset:
        """Return the tools as they are now: the same value if nothing has changed."""
        revision = self._revision
        if revision != self._seen:
            self.tools = Toolset(gather(self._values))
            self._seen = revision
        return self.tools

    async def close(self) -> None:
        """End the servers that were given as tools. A toolbox is closed by the code that connected it."""
        if self._own is not None:
            await self._own.aclose()

    @property
    def _revision(self) -> tuple[int, ...]:
        return tuple(each.revision for each in self._changing)


def _is_server(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "identity") and hasattr(value, "secrets")


def _connect_later(servers: list[Any]) -> Toolbox | None:
    if not servers:
        return None
    from dragoman.mcp.toolbox import unopened

    return unopened(servers)
