"""LangChain with a model that writes its calls as text: they arrive as tool calls."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from dragoman.integrations import Repair
from dragoman.testing import Upstream


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


# A server on this machine. With a real one, give its base_url and api_key.
with Upstream(['<tool_call>{"name": "weather", "arguments": {"city": "Paris",}}</tool_call>']) as server:
    repair = Repair(on_report=lambda report: print(report.summarise()))
    clients = {"http_client": repair.client(), "http_async_client": repair.async_client()}
    model = ChatOpenAI(model="scripted", base_url=server.url, api_key="none", **clients)
    for call in model.bind_tools([weather]).invoke("Is it warm in Paris?").tool_calls:
        print(call["name"], call["args"], "->", weather.invoke(call["args"]))
