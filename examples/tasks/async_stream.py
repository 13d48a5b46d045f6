"""Stream the events of a run in async code: text as it arrives, and each call."""

import asyncio

import dragoman
from dragoman.agent.events import RunEnded, ToolEnded, ToolStarted
from dragoman.events import TextDelta
from dragoman.testing import ScriptedModel, call


@dragoman.tool
async def look_up(word: str) -> str:
    """Look up a word in the dictionary."""
    await asyncio.sleep(0)  # a request to a server
    return f"{word}: an interpreter between Arabic, Turkish and European languages"


async def main() -> None:
    model = ScriptedModel([call("look_up", word="dragoman"), "A dragoman is an interpreter."])  # or "ollama:qwen3"
    agent = dragoman.Agent(model, tools=[look_up])
    async for event in agent.stream("What is a dragoman?"):
        match event:
            case ToolStarted(call=started):
                print("->", started.name, started.arguments)
            case ToolEnded(result=given):
                print("<-", given.content)
            case TextDelta(text=text):
                print(text, end="", flush=True)
            case RunEnded(result=result):
                print(f"\n[{result.outcome.kind} after {result.turns} turns]")


asyncio.run(main())
