"""A program with the openai SDK, in front of Ollama: a call that the model writes as text arrives as a tool call.

dragoman serve --config examples/gateway_ollama/gateway.toml      (in another terminal; without Ollama: serve -m local)
python examples/gateway_ollama/client.py ["Is it warm in Paris?"]
"""

import json
import os
import sys
from typing import Any

from openai import OpenAI

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def weather(city: str) -> str:
    return f"sunny in {city}, 21 degrees"


def main() -> None:
    # The gateway needs no key until you make one: dragoman serve keys add NAME
    client = OpenAI(
        base_url=os.environ.get("BASE_URL", "http://127.0.0.1:4000/v1"),
        api_key=os.environ.get("GATEWAY_KEY", "none"),
    )
    messages: list[Any] = [{"role": "user", "content": " ".join(sys.argv[1:]) or "Is it warm in Paris?"}]
    for _ in range(5):
        reply = client.chat.completions.create(model="any", messages=messages, tools=[WEATHER])
        choice = reply.choices[0]
        messages.append(choice.message)
        if not choice.message.tool_calls:
            print(choice.message.content)
            break
        for call in choice.message.tool_calls:
            if call.type == "function":
                result = weather(**json.loads(call.function.arguments))
                print(call.function.name, call.function.arguments, "->", result)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


if __name__ == "__main__":
    main()
