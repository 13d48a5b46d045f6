"""An agent of dragoman at the address of a compatible server, with its default settings."""

from __future__ import annotations

from benchmarks.peers.adapters.protocol import TASK, Loop, cities, serve_loops, weather

import dragoman

TOOLS = [dragoman.tool(weather), dragoman.tool(cities)]


def make(url: str, stream: bool) -> Loop:
    agent = dragoman.Agent("custom:m", TOOLS, base_url=url, key="none")

    if stream:
        return lambda: "".join(agent.stream(TASK).text_stream())
    return lambda: agent.run(TASK).text


if __name__ == "__main__":
    serve_loops([], make)
