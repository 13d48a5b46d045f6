"""An agent of the OpenAI Agents SDK over the chat API. Its tracing, which sends to OpenAI, is off."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.protocol import TASK, Loop, cities, serve_loops, weather


def make(url: str, stream: bool) -> Loop:
    agents = import_module("agents")
    agents.set_tracing_disabled(True)
    client = import_module("openai").AsyncOpenAI(base_url=url, api_key="none")
    model = agents.OpenAIChatCompletionsModel("m", client)
    tools = [agents.function_tool(weather), agents.function_tool(cities)]
    agent: Any = agents.Agent("guide", model=model, tools=tools)
    loop = asyncio.new_event_loop()

    async def once() -> str:
        if not stream:
            return str((await agents.Runner.run(agent, TASK)).final_output)
        result = agents.Runner.run_streamed(agent, TASK)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return lambda: loop.run_until_complete(once())


if __name__ == "__main__":
    serve_loops(["openai-agents", "openai"], make)
