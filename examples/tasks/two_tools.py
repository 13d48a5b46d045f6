"""An agent with two tools."""

import dragoman
from dragoman.testing import ScriptedModel, call


@dragoman.tool(read_only=True)
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}, 21 degrees"


@dragoman.tool
def reserve(city: str, nights: int = 1) -> str:
    """Reserve a room."""
    if nights < 1:
        raise dragoman.Retry("nights is at least 1")
    return f"room reserved in {city} for {nights} nights"


# The script stands in for a model, so that this program runs anywhere. A real one: model = "ollama:qwen3"
model = ScriptedModel(
    [
        [call("weather", city="Nice"), call("weather", city="Rome")],
        call("reserve", city="Nice", nights=0),
        call("reserve", city="Nice", nights=3),
        "It is warm in Nice. I reserved a room for three nights.",
    ]
)
agent = dragoman.Agent(model, tools=[weather, reserve], limits=dragoman.Limits(turns=6, seconds=60))

result = agent.run("Is it warm in Nice or in Rome? Reserve three nights where it is.")
for given in result.results:
    print(given.name, "->", given.content)
print(result.text)
