"""The MCP client: the tools of Model Context Protocol servers, trusted only as far as the user approved them.

- `StdioServer`, `HttpServer`: a program to start, or a URL; `read_servers` reads them from settings
- `connect`, `aconnect`: return a `Toolbox` with the tools, resources and prompts of all servers, and the problems
- `approve_pin`, `list_pins`, `Pins`: the definitions that servers sent, and which of them a user approved
- `BrowserLogin`, `log_in`, `TokenStore`: logins at servers with OAuth, and their tokens
"""

from __future__ import annotations

from dragoman.mcp.content import PromptArgument, Resource, ServerPrompt
from dragoman.mcp.definitions import Pin, Pins, PinState, SeenDefinition, approve_pin, list_pins
from dragoman.mcp.login import BrowserLogin, LoginRequest, log_in
from dragoman.mcp.protocol import Limits
from dragoman.mcp.servers import HttpServer, OAuth, Server, StdioServer, read_servers
from dragoman.mcp.tokens import TokenStore
from dragoman.mcp.toolbox import MCPError, Toolbox, aconnect, connect, rule_name, wire_names

__all__ = [
    "BrowserLogin",
    "HttpServer",
    "Limits",
    "LoginRequest",
    "MCPError",
    "OAuth",
    "Pin",
    "PinState",
    "Pins",
    "PromptArgument",
    "Resource",
    "SeenDefinition",
    "Server",
    "ServerPrompt",
    "StdioServer",
    "TokenStore",
    "Toolbox",
    "aconnect",
    "approve_pin",
    "connect",
    "list_pins",
    "log_in",
    "read_servers",
    "rule_name",
    "wire_names",
]
