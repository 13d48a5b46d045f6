"""A custom format: a model that was trained on its own markup for tool calls, described by one template.

python examples/custom_format.py                                           (a scripted model that writes this markup)
MODEL=ollama:our-model python examples/custom_format.py "Find old maps."
"""

import os
import sys

import dragoman
from dragoman import formats
from dragoman.events import CallEnded, TextDelta
from dragoman.testing import ScriptedModel

# Write a call as the model does, with holes where it varies. docs/guides/add-a-format.md lists the holes.
LEDGER = formats.Format("ledger", template="[[{name}]]\n{*[{key}]{value}[/]\n*}[[end]]")
REPLY = "I will look.\n[[search]]\n[query]old maps[/]\n[limit]3[/]\n[[end]]"


@dragoman.tool(read_only=True)
def search(query: str, limit: int = 5) -> str:
    """Search the archive."""
    return f"{limit} results for {query}"


def read_as_stream(text: str) -> None:
    """The parser takes pieces of any size; no part of the markup is shown as text."""
    parser = formats.parser("ledger", tools=[search])
    events = [event for character in text for event in parser.feed(character)] + parser.close()
    print("text:", "".join(event.text for event in events if isinstance(event, TextDelta)).strip())
    for event in events:
        if isinstance(event, CallEnded):
            print("call:", event.call.name, event.call.arguments)


def main() -> None:
    formats.register(LEDGER)
    print(formats.instructions([search], "ledger", compact=True), "\n")
    read_as_stream(REPLY)

    # The same row renders calls, teaches the format in the prompt, and makes a grammar for servers that accept one.
    made = dragoman.ToolCall("1", "search", {"query": "maps", "limit": 2})
    print("round trip:", formats.parse(formats.render(made, "ledger"), "ledger", [search]).calls[0].arguments)
    print("grammar:", len(formats.grammar([search], "ledger").splitlines()), "lines")

    model = os.environ.get("MODEL") or ScriptedModel([REPLY, "I found three maps."], native=False)
    context = dragoman.ContextSettings(tool_prompt=dragoman.ToolPrompt(format="ledger"))
    base_url = os.environ.get("BASE_URL", "")
    agent = dragoman.Agent(model, [search], base_url=base_url, tool_mode="text", context=context)
    result = agent.run(" ".join(sys.argv[1:]) or "Find old maps.")
    print("agent:", [ran.content for ran in result.results], result.text)


if __name__ == "__main__":
    main()
