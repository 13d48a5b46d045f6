"""An agent of pydantic-ai with a model that writes its calls as text."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from dragoman.integrations import Repair
from dragoman.testing import Upstream


def weather(city: str) -> str:
    """The weather in a city."""
    print(f"weather was called with {city}")
    return f"sunny in {city}"


written = '<tool_call>{"name": "weather", "arguments": {"city": "Paris",}}</tool_call>'
# A server on this machine. With a real one, give its base_url and api_key.
with Upstream([written, "It is sunny."]) as server:
    http = Repair(on_report=lambda report: print(report.summarise())).async_client()
    provider = OpenAIProvider(base_url=server.url, api_key="none", http_client=http)
    agent = Agent(OpenAIChatModel("scripted", provider=provider), tools=[weather])
    print(agent.run_sync("Is it warm in Paris?").output)
