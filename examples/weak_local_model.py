"""A weak local model made useful: tools as text, a grammar, and the repair of what it writes without one.

python examples/weak_local_model.py            (the embedded model, 135 million parameters: 98 MB, fetched once)
MODEL=ollama:llama3.2:1b python examples/weak_local_model.py "What time is it in Rome?"
"""

import os
import sys

import dragoman
from dragoman import formats
from dragoman.local import Store


@dragoman.tool(read_only=True)
def get_time(city: str) -> str:
    """The local time in a city."""
    return f"09:41 in {city}"


@dragoman.tool(read_only=True)
def weather(city: str, days: int = 1) -> str:
    """The weather in a city for some days."""
    return f"sunny in {city} for {days} days"


def main() -> None:
    model, base_url = os.environ.get("MODEL", "local"), os.environ.get("BASE_URL", "")
    question = " ".join(sys.argv[1:]) or "What time is it in Oslo?"
    if model == "local":
        Store().add()  # does nothing if the model is there

    # Without tools, a small model makes an answer up.
    print("alone:     ", dragoman.ask(model, question, base_url=base_url, max_tokens=60).text)

    # In text mode the prompt describes the tools, and the embedded model writes within a grammar of valid calls.
    agent = dragoman.Agent(model, [get_time, weather], base_url=base_url, tool_mode="text")
    result = agent.run(question)
    for made, ran in zip(result.calls, result.results, strict=True):
        if isinstance(made, dragoman.ToolCall):
            print("called:    ", made.name, made.arguments, "->", ran.content)
    print("with tools:", result.text)

    # A server without grammars lets it write anything. These are mistakes of small models; each repair has a name.
    written = "Sure!\n<tool_call>\n{'name': 'weather', 'arguments': {'city': 'Paris', 'days': '3',}}\n"
    (call,) = formats.parse(written, tools=[weather]).calls
    changes = [f"{change.path} {change.rule}" for change in call.changes]
    print("repaired:  ", call.name, call.arguments, call.repairs, changes)


if __name__ == "__main__":
    main()
