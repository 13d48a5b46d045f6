"""An agent as a tool of another: it never has more rights than the run that calls it, and spends from its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from dragoman.agent.driver import Driver
from dragoman.tools import Error, Ok, ToolContext, tool_from_function
from dragoman.types import Tool

if TYPE_CHECKING:
    from dragoman.agent.agent import Agent
    from dragoman.tools import Options


def delegate_to(agent: Agent, name: str, description: str, options: dict[str, Any]) -> Tool:
    """A tool that hands a task to an agent and gives back its answer."""

    async def delegate(task: str, context: ToolContext) -> Any:
        above = context.scope if isinstance(context.scope, Driver) else None
        limits = agent.limits
        if above is not None and context.deadline is not None:
            left = max(0.001, context.deadline - above.clock())
            limits = replace(limits, seconds=left if limits.seconds is None else min(left, limits.seconds))
        result = await agent.arun(task, limits=limits, above=above)
        outcome = result.outcome
        if outcome.is_success:
            return Ok(result.text, data=result)
        words = f"{outcome.kind}: {outcome.reason}" if outcome.reason else outcome.kind
        return Error(f"{words}\n\nIts last words: {result.text}" if result.text else words, data=result)

    traits = cast("Options", {**options, "name": name, "description": description})
    return tool_from_function(delegate, traits)
