"""Helpers of these tests: servers, short limits, and calls."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.mcp import Limits, Server, StdioServer, Toolbox, connect
from dragoman.tools import ToolContext, answer_sync, bind
from dragoman.types import Tool, ToolCall, ToolResult

HERE = Path(__file__).parent
QUICK = Limits(
    probe_seconds=10.0, close_seconds=5.0, restart_delays=(0.0, 0.0), message_bytes=1_000_000, noise_lines=20
)
"""No test waits for one of these limits, unless it says so."""


def faulty(fault: str, log: Path | None = None, name: str = "echo") -> StdioServer:
    """A server that misbehaves; without the modules of the site, which it does not need, it starts quickly."""
    command = [sys.executable, "-I", "-S", str(HERE / "fault_server.py"), fault]
    return StdioServer(name, [*command, *([str(log)] if log is not None else [])])


def official(how: str = "stdio") -> StdioServer:
    return StdioServer("weather", [sys.executable, str(HERE / "sdk_server.py"), how])


def open_toolbox(*servers: Server, limits: Limits = QUICK, **options: Any) -> Toolbox:
    return connect(servers, limits=limits, **options)


def find(toolbox: Toolbox, name: str) -> Tool:
    """Return a tool by the name that its server uses."""
    (tool,) = (each for each in toolbox.tools if each.metadata["mcp_tool"] == name)
    return tool


def call(toolbox: Toolbox, name: str, context: ToolContext | None = None, **arguments: Any) -> ToolResult:
    """Call a tool in blocking code."""
    tool = find(toolbox, name)
    return answer_sync(bind(tool, arguments, context), ToolCall("1", tool.name, arguments), wait=asyncio.run).result


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true, at most a minute: a failed test says more than one that hangs."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        os.sched_yield()
