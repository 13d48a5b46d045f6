"""The OpenAI Agents SDK with a model that writes its calls as text."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from dragoman.integrations import Repair
from dragoman.testing import Upstream


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


set_tracing_disabled(True)
written = '<tool_call>{"name": "weather", "arguments": {"city": "Paris",}}</tool_call>'
# A server on this machine. With a real one, give its base_url and api_key.
with Upstream([written, "It is sunny."]) as server:
    http = Repair(on_report=lambda report: print(report.summarise())).async_client()
    client = AsyncOpenAI(base_url=server.url, api_key="none", http_client=http)
    model = OpenAIChatCompletionsModel("scripted", client)
    print(Runner.run_sync(Agent("guide", model=model, tools=[weather]), "Is it warm in Paris?").final_output)
