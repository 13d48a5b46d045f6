"""One conversation over several providers: each question goes to the next one, which sees all calls and results so far.

python examples/multi_provider.py                                    (three scripted models, each with another wire)
python examples/multi_provider.py ollama:qwen3 anthropic:claude-sonnet-5-5 gemini:gemini-2.5-flash
"""

import sys
from typing import Any

import msgspec

import dragoman
from dragoman.testing import ScriptedModel, call

QUESTIONS = ["How many people live in Oslo?", "And in Bergen?", "Which of the two is larger?"]


@dragoman.tool(read_only=True)
def population(city: str) -> int:
    """The population of a city."""
    return {"Oslo": 717_710, "Bergen": 291_940}[city]


def make_models() -> list[Any]:
    """The models of the command line; otherwise scripts that speak the wires of three providers."""
    if sys.argv[1:]:
        return sys.argv[1:]
    return [
        ScriptedModel([call("population", city="Oslo"), "717,710 people."], name="first", wire="anthropic"),
        ScriptedModel([call("population", city="Bergen"), "291,940 people."], name="second", wire="gemini"),
        ScriptedModel(["Oslo is larger."], name="third", wire="ollama"),
    ]


def main() -> None:
    models = make_models()
    agents = [dragoman.Agent(model, tools=[population]) for model in models]
    messages: list[dragoman.Message] = []
    for number, question in enumerate(QUESTIONS):
        agent = agents[number % len(agents)]
        result = agent.run([*messages, dragoman.Message.user(question)])
        messages = result.messages
        print(f"{agent.endpoint.model} ({agent.endpoint.wire}): {result.text}")

    # The messages belong to no provider. As JSON, they fit into a file or a database.
    stored = msgspec.json.encode(messages)
    again = msgspec.json.decode(stored, type=list[dragoman.Message])
    print(len(again), "messages stored and read again:", again == messages)
    if isinstance(models[-1], ScriptedModel):
        print("the third one was sent", [message["role"] for message in models[-1].bodies[0]["messages"]])


if __name__ == "__main__":
    main()
