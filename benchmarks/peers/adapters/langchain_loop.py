"""LangChain's `create_agent` with `ChatOpenAI`, with their default settings."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.protocol import TASK, Loop, cities, serve_loops, weather


def make(url: str, stream: bool) -> Loop:
    model = import_module("langchain_openai").ChatOpenAI(model="m", base_url=url, api_key="none")
    agent: Any = import_module("langchain.agents").create_agent(model, tools=[weather, cities])
    asked = {"messages": [{"role": "user", "content": TASK}]}

    def streamed() -> str:
        state: Any = {}
        for mode, given in agent.stream(asked, stream_mode=["messages", "values"]):
            state = given if mode == "values" else state
        return str(state["messages"][-1].text)

    return streamed if stream else lambda: str(agent.invoke(asked)["messages"][-1].text)


if __name__ == "__main__":
    serve_loops(["langchain", "langchain-openai", "openai"], make)
