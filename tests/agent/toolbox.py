"""The tools of these tests. In playbooks they do not run: the script contains their results."""

from __future__ import annotations

import dragoman
from dragoman.policy import Decision, Policy, Verdict
from dragoman.policy.patterns import matches_name
from dragoman.types import Tool, ToolCall


@dragoman.tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"sunny in {city}"


@dragoman.tool(parallel_safe=True)
def look(where: str) -> str:
    """Look somewhere. It may run concurrently with others."""
    return f"nothing at {where}"


@dragoman.tool(parallel_safe=True, read_only=True, repeatable=True)
def read(path: str) -> str:
    """Read a file, as often as you like."""
    return f"content of {path}"


@dragoman.tool
def write(path: str, text: str = "") -> str:
    """Write a file. It runs alone."""
    return f"wrote {path}"


@dragoman.tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@dragoman.tool(requires_approval=True, parallel_safe=True)
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@dragoman.tool(metadata={"polling": True})
def poll(job: int) -> str:
    """Ask how a job is doing."""
    return f"job {job} is running"


@dragoman.tool(metadata={"duplicates": True})
def roll(sides: int = 6) -> int:
    """Roll a die; two rolls are two rolls."""
    return sides


# ---- policies --------------------------------------------------------------------------------------------------------


def decides(verdict: Verdict, pattern: str) -> Policy:
    """Return a policy that gives one verdict on the tools with these names, and allows the others."""

    def policy(call: ToolCall, tool: Tool) -> Decision:
        if not matches_name(pattern, tool.name):
            return Decision("allow")
        return Decision(verdict, f"{tool.name} is decided by the developer", pattern, "policy")

    return policy
