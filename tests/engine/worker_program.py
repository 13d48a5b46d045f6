"""A worker with one agent and three tools, for tests that kill it. Its tools append their effects to a file.

python worker_program.py ADDRESS EFFECTS
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import dragoman
from dragoman.agent import Connection
from dragoman.agent.agent import Agent
from dragoman.engine import PostgresEngine
from dragoman.testing import ScriptedModel
from dragoman.types import Request, ToolCall, ToolResult


def say(request: Request) -> Any:
    """The model. Its reply depends only on the results in the request, so it can be asked again after a crash."""
    results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
    name = next(message.text for message in request.messages if message.role == "user")
    if len(results) < 3:
        tool = ("look", "pay", "note")[len(results)]
        return [ToolCall(f"call_{len(results)}", tool, {"name": name})]
    return "Done."


def make_agent(effects_file: str) -> Agent[Any]:
    def write(what: str, name: str) -> str:
        with open(effects_file, "a", encoding="utf-8") as file:
            file.write(f"{what} {name} {os.getpid()}\n")
        return f"{what}ed"

    @dragoman.tool(read_only=True)
    async def look(name: str) -> str:
        """Look around."""
        return write("look", name)

    @dragoman.tool
    async def pay(name: str) -> str:
        """Pay a bill. It must not happen twice."""
        return write("pay", name)

    @dragoman.tool
    async def note(name: str) -> str:
        """Write a note. It must not happen twice."""
        return write("note", name)

    model = ScriptedModel(say, loop=True)
    return Agent(model.endpoint(), [look, pay, note], connection=Connection(transport=model))


async def main(url: str, effects_file: str) -> None:
    engine = PostgresEngine(url, lease_seconds=3.0)
    stop = asyncio.Event()
    task = asyncio.create_task(engine.work({"assistant": make_agent(effects_file)}, stop))
    loop = asyncio.get_running_loop()
    while not engine.is_working and not task.done():
        await asyncio.sleep(0.01)
    print(f"started {engine.worker}", flush=True)
    end = asyncio.ensure_future(loop.run_in_executor(None, sys.stdin.read))
    await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await task
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
