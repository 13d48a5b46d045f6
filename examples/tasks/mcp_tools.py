"""The tools of an MCP server, together with your own."""

import sys
from pathlib import Path

import dragoman
from dragoman import mcp
from dragoman.testing import ScriptedModel, call


@dragoman.tool(read_only=True)
def now() -> str:
    """The time."""
    return "16:30"


program = Path(__file__).with_name("servers") / "clock.py"
with mcp.connect([mcp.StdioServer("clock", [sys.executable, str(program)])]) as toolbox:
    print([tool.name for tool in toolbox.tools], toolbox.problems)
    model = ScriptedModel(  # or "ollama:qwen3"
        [
            [call("now"), call("mcp__clock__opening_hours", shop="The bakery")],
            "Yes, the bakery is open until 17.",
        ]
    )
    # A tool of a server asks before it runs, until a person approves its definition or a rule allows it.
    agent = dragoman.Agent(model, tools=[now, toolbox], allow=["mcp:clock/opening_hours"])
    result = agent.run("Is the bakery still open?")
    print([given.content for given in result.results])
    print(result.text)
