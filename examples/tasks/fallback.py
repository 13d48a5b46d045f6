"""A model that is down is replaced by the next one, and the conversation goes on with a third provider."""

import dragoman
from dragoman.client import Retries
from dragoman.testing import ScriptedModel, call


@dragoman.tool(read_only=True)
def population(city: str) -> int:
    """The population of a city."""
    return {"Oslo": 717_710}[city]


# Nothing listens at the first address. The others are scripts that speak the wires of two providers.
# With real ones: Agent("ollama:qwen3", fallbacks=["openai:gpt-4o"], connection=Connection(keys={"openai": "..."}))
first = ScriptedModel([call("population", city="Oslo"), "717,710 people live in Oslo."], name="spare", wire="gemini")
second = ScriptedModel(["Yes, more than half a million."], name="other", wire="anthropic")

agent = dragoman.Agent(
    "ollama:qwen3",
    tools=[population],
    base_url="http://127.0.0.1:9",
    fallbacks=[first],
    connection=dragoman.Connection(retries=Retries(attempts=1)),
)
result = agent.run("How many people live in Oslo?")
print(result.text)
print([problem.message for problem in result.problems if problem.kind == "model_replaced"])

# The messages are the same for every provider: another agent continues them.
again = dragoman.Agent(second).run([*result.messages, dragoman.Message.user("Is that a large city?")])
print(again.text)
print([message["role"] for message in second.bodies[0]["messages"]])
