"""Your own loop: ask a model, run its calls, and send the results back, without `Agent`."""

import asyncio

import dragoman
from dragoman.client import Client
from dragoman.extraction import explain_invalid
from dragoman.testing import ScriptedModel, call
from dragoman.tools import answer_async, bind
from dragoman.types import ToolResult


@dragoman.tool
def add(one: float, other: float) -> float:
    """Add two numbers."""
    return one + other


async def main() -> None:
    model = ScriptedModel([call("add", one=17), call("add", one=17, other="25"), "It is 42."])
    client = Client(model.endpoint(), transport=model)  # or Client("ollama:qwen3")
    tools = dragoman.Toolset([add])
    messages = [dragoman.Message.user("How much is 17 and 25?")]
    for _ in range(5):
        reply = await client.ask(dragoman.Request(client.endpoint.model, messages, list(tools)))
        found = dragoman.extract(reply, tools=tools, conversation=messages)
        messages.append(dragoman.Message.assistant(found.text, *found.calls, *found.invalid))
        if not found.calls and not found.invalid:
            print(found.text)
            break
        results = [ToolResult(bad.id, bad.name, explain_invalid(bad, tools), is_error=True) for bad in found.invalid]
        for made in found.calls:
            answer = await answer_async(bind(tools.find(made.name), made.arguments), made)
            print(made.name, made.arguments, [change.rule for change in made.changes], "->", answer.result.content)
            results.append(answer.result)
        messages.append(dragoman.Message("tool", [*results]))


asyncio.run(main())
