"""The MCP client: the tools of Model Context Protocol servers, trusted only as far as the user approved them.

- `StdioServer`, `HttpServer`: a program to start, or a URL; `read_servers` reads them from settings
- `connect`, `aconnect`: return a `Toolbox` with the tools of all servers, and the problems
- `approve_pin`, `list_pins`, `Pins`: the definitions that servers sent, and which of them a user approved
"""

from __future__ import annotations

from dragoman.mcp.definitions import Pin, Pins, PinState, SeenDefinition, approve_pin, list_pins
from dragoman.mcp.protocol import Limits
from dragoman.mcp.servers import HttpServer, Server, StdioServer, read_servers
from dragoman.mcp.toolbox import Toolbox, aconnect, connect, rule_name, wire_names

__all__ = [
    "HttpServer",
    "Limits",
    "Pin",
    "PinState",
    "Pins",
    "SeenDefinition",
    "Server",
    "StdioServer",
    "Toolbox",
    "aconnect",
    "approve_pin",
    "connect",
    "list_pins",
    "read_servers",
    "rule_name",
    "wire_names",
]
