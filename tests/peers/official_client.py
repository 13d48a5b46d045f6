"""What the official client of MCP sees of a server. Run as a program: it prints the tools and one result as JSON.

python official_client.py '{"command": [...]}' '["echo", {"message": "x"}]'
python official_client.py '{"url": "http://127.0.0.1:1/mcp"}' '["echo", {"message": "x"}]'
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from mcp import ClientSession, StdioServerParameters


async def decline(context: Any, params: Any) -> Any:
    """Answer questions of servers. A client that cannot is not shown the tools that ask some."""
    return ElicitResult(action="decline")


async def look(server: dict[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if "url" in server:
        opened: Any = streamable_http_client(server["url"])
    else:
        program, *words = server["command"]
        opened = stdio_client(StdioServerParameters(command=program, args=words, cwd=server.get("cwd")))
    async with opened as streams, ClientSession(streams[0], streams[1], elicitation_callback=decline) as session:
        await session.initialize()
        tools: list[Any] = []
        cursor = None
        while True:
            page = await session.list_tools(cursor=cursor) if cursor else await session.list_tools()
            tools += page.tools
            cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
            if not cursor:
                break
        result = await session.call_tool(name, arguments)
    dump = {"mode": "json", "by_alias": True, "exclude_none": True}
    return {
        "tools": [tool.model_dump(**dump) for tool in tools],
        "texts": [block.text for block in result.content if block.type == "text"],
    }


if __name__ == "__main__":
    given, call = map(json.loads, sys.argv[1:3])
    print(json.dumps(asyncio.run(look(given, *call))))
