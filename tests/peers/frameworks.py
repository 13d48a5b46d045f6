"""Frameworks that accept an HTTP client of ours: a call that a model writes as text arrives as their tool call."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

from benchmarks.support.environments import Environments, Unavailable
from tests.peers.report import Report

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 120.0
_BEFORE = """
import asyncio
from dragoman.integrations import Repair
from dragoman.testing import Upstream

WRITTEN = 'I look. <tool_call>{"name": "weather", "arguments": {"city": "Paris",}}</tool_call>'
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
ASKED = [{"role": "user", "content": "Is it warm in Paris?"}]
repair = Repair()
upstream = Upstream([WRITTEN], loop=True).__enter__()
"""

LANGCHAIN = """
from langchain_openai import ChatOpenAI

async def astream(model):
    return [chunk async for chunk in model.astream("Go.")]

def join(chunks):
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole

for responses in (False, True):
    model = ChatOpenAI(model="scripted", base_url=upstream.url, api_key="none", use_responses_api=responses,
        http_client=repair.client(), http_async_client=repair.async_client()).bind_tools(TOOLS)
    async def check():
        return [await model.ainvoke("Go."), join(await astream(model))]
    for reply in (model.invoke("Go."), join(list(model.stream("Go."))), *asyncio.run(check())):
        assert [(call["name"], call["args"]) for call in reply.tool_calls] == [("weather", {"city": "Paris"})], reply
"""

OPENAI_AGENTS = """
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

ran = []

@function_tool
def weather(city: str) -> str:
    ran.append(city)
    return "sunny"

set_tracing_disabled(True)

async def main():
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        for streams in (False, True):
            with Upstream([WRITTEN, "It is sunny."]) as server:
                client = AsyncOpenAI(base_url=server.url, api_key="none", http_client=repair.async_client())
                agent = Agent("guide", model=kind("scripted", client), tools=[weather])
                if streams:
                    result = Runner.run_streamed(agent, "Is it warm?")
                    [event async for event in result.stream_events()]
                else:
                    result = await Runner.run(agent, "Is it warm?")
                assert result.final_output == "It is sunny.", result

asyncio.run(main())
assert ran == ["Paris"] * 4, ran
"""

PYDANTIC_AI = """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

ran = []

def weather(city: str) -> str:
    ran.append(city)
    return "sunny"

async def main():
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        for streams in (False, True):
            with Upstream([WRITTEN, "It is sunny."]) as server:
                provider = OpenAIProvider(base_url=server.url, api_key="none", http_client=repair.async_client())
                agent = Agent(kind("scripted", provider=provider), tools=[weather])
                if streams:
                    async with agent.run_stream("Is it warm?") as result:
                        output = await result.get_output()
                else:
                    output = (await agent.run("Is it warm?")).output
                # A stream of pydantic-ai may end with the first text.
                assert output in ("It is sunny.", "I look. "), output

asyncio.run(main())
assert set(ran) == {"Paris"} and len(ran) >= 2, ran
"""

INSTRUCTOR = """
import instructor
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

class weather(BaseModel):
    city: str

ask = {"model": "scripted", "messages": ASKED, "response_model": weather, "max_retries": 0}
client = OpenAI(base_url=upstream.url, api_key="none", http_client=repair.client())
assert instructor.from_openai(client).chat.completions.create(**ask).city == "Paris"
client = AsyncOpenAI(base_url=upstream.url, api_key="none", http_client=repair.async_client())
assert asyncio.run(instructor.from_openai(client).chat.completions.create(**ask)).city == "Paris"
"""

LITELLM = """
import litellm, openai

def read(reply):
    return [(call.function.name, call.function.arguments) for call in reply.choices[0].message.tool_calls]

ask = {"model": "openai/scripted", "messages": ASKED, "tools": TOOLS}
expected = [("weather", '{"city":"Paris"}')]
client = openai.OpenAI(base_url=upstream.url, api_key="none", http_client=repair.client())
assert read(litellm.completion(**ask, client=client)) == expected
chunks = list(litellm.completion(**ask, client=client, stream=True))
assert read(litellm.stream_chunk_builder(chunks)) == expected
client = openai.AsyncOpenAI(base_url=upstream.url, api_key="none", http_client=repair.async_client())
assert read(asyncio.run(litellm.acompletion(**ask, client=client))) == expected
litellm.client_session = repair.client(library="httpx")
assert read(litellm.completion(**ask, api_base=upstream.url, api_key="none")) == expected
"""


class Framework(NamedTuple):
    """What is installed, a program that uses it in all ways, and a program in `examples/integrations`."""

    packages: tuple[str, ...]
    program: str
    example: str = ""
    printed: str = ""


FRAMEWORKS: dict[str, Framework] = {
    "LangChain": Framework(
        ("langchain-openai",), LANGCHAIN, "langchain_model", "weather {'city': 'Paris'} -> sunny in Paris"
    ),
    "OpenAI Agents": Framework(("openai-agents",), OPENAI_AGENTS, "openai_agents_run", "It is sunny."),
    "pydantic-ai": Framework(
        ("pydantic-ai-slim[openai]",), PYDANTIC_AI, "pydantic_ai_agent", "weather was called with Paris\n"
    ),
    "instructor": Framework(("instructor",), INSTRUCTOR),
    "LiteLLM": Framework(("litellm", "mcp"), LITELLM),
}


def check(environments: Environments, report: Report) -> None:
    """Run all checks of these peers."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    for name, framework in FRAMEWORKS.items():
        folder = f"framework-{name.lower().replace(' ', '-')}"
        try:
            python = environments.python(folder, *framework.packages, *needed) / "python"
        except Unavailable as reason:
            report.leave_out(name, str(reason))
            continue
        with report.check(name, "a call in text becomes a tool call"):
            _run(
                environments, [str(python), "-c", _BEFORE + framework.program + "\nupstream.__exit__(None, None, None)"]
            )
        if framework.example:
            with report.check(name, "the example runs"):
                example = ROOT / "examples/integrations" / f"{framework.example}.py"
                said = _run(environments, [str(python), str(example)])
                assert framework.printed in said, said


def _run(environments: Environments, command: list[str]) -> str:
    """Run a program of a framework without network access to anything but this machine, and return what it prints."""
    own = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(environments.folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    basic = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(command, env={**basic, **own}, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return done.stdout
