"""Servers of the Model Context Protocol as tools, none of them trusted further than they were approved.

- `StdioServer`, `HttpServer`: a program to start, an address to speak to; `read_servers` takes them from settings
- `connect`, `aconnect`: a `Toolbox` with the tools of all servers, and what was wrong with the rest
- `approve_pin`, `list_pins`, `Pins`: definitions that were seen, and which of them a person approved
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
