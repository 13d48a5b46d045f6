"""A model writes its calls in a format that nobody has described: read them without a row, or add the row."""

import dragoman
from dragoman import formats
from dragoman.testing import ScriptedModel


@dragoman.tool
def search(query: str, limit: int = 5) -> str:
    """Search the archive."""
    return f"{limit} results for {query}"


# Markup that resembles a call of an offered tool is read without any preparation.
reply = "Let me look.\n[[invoke: search]]\nquery: old maps\nlimit: 3\n[[/invoke]]"
for found in formats.parse(reply, tools=[search], loose=True).calls:
    print("loose:", found.name, found.arguments)

# A row describes the format exactly: parse, render, prompt and grammar all follow from it.
acme = formats.Format("acme", template="<<call {name}>>\n{args}\n<</call>>")
formats.register(acme)
text = formats.render([dragoman.ToolCall("1", "search", {"query": "old maps"})], "acme")
print("acme:", [(made.name, made.arguments) for made in formats.parse(f"Sure.\n{text}", "acme", [search]).calls])

# An agent uses it for a model without native calls: the prompt teaches the format, and the reply is read with it.
model = ScriptedModel([f"I will search.\n{text}", "I found five maps."], native=False, format="acme")
result = dragoman.Agent(model, tools=[search]).run("Find old maps.")
print("agent:", result.results[0].content, "|", result.text)
formats.unregister("acme")
