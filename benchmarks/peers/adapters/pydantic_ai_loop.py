"""An agent of pydantic-ai over the chat API, with its default settings."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.protocol import TASK, Loop, cities, serve_loops, weather


def make(url: str, stream: bool) -> Loop:
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider(base_url=url, api_key="none")
    model = import_module("pydantic_ai.models.openai").OpenAIChatModel("m", provider=provider)
    agent: Any = import_module("pydantic_ai").Agent(model, tools=[weather, cities])

    async def streamed() -> str:
        answer = ""
        async with agent.run_stream_events(TASK) as events:
            async for event in events:
                if type(event).__name__ == "AgentRunResultEvent":
                    answer = event.result.output
        return answer

    if stream:
        return lambda: asyncio.run(streamed())
    return lambda: str(agent.run_sync(TASK).output)


if __name__ == "__main__":
    serve_loops(["pydantic-ai-slim", "openai"], make)
