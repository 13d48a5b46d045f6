"""A small MCP server, written with the official SDK of the protocol: `mcp_tools.py` starts it."""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("clock")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def opening_hours(shop: str) -> str:
    """The opening hours of a shop."""
    return f"{shop} is open from 9 to 17"


if __name__ == "__main__":
    server.run("stdio")
