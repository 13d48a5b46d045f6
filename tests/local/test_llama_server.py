"""llama.cpp's own HTTP server, with the embedded model: three wires, judged by the official clients.

The server comes from the wheel of the extra `local`. It offers OpenAI chat completions, OpenAI Responses and Anthropic
Messages. It also has plain completions, for which dragoman has no wire.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import Agent, Limits
from dragoman.client import Client
from dragoman.errors import DragomanError
from dragoman.local import Store
from dragoman.local.engine import import_llama
from dragoman.providers import Endpoint, resolve
from dragoman.replies import fold
from dragoman.types import Message, Request, Text, Tool, ToolCall, ToolResult

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("local"), pytest.mark.timeout(300)]

HERE = Path(__file__).parent
WIRES = ("openai_chat", "openai_responses", "anthropic")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", description="Tell the weather of a city.", parameters=SCHEMA)
QUESTION = "What is the weather in Paris?"
TOKENS = 96
"""Enough for a call, and few enough for a test: the free answer of this model has no end."""


@contextmanager
def serve(*template: str) -> Iterator[str]:
    try:
        import_llama()
        path = Store().add().path
    except DragomanError as error:
        pytest.skip(f"the embedded model is not at hand ({error}): run `dragoman local add`")
    command = [sys.executable, str(HERE / "llama_server.py"), path, *template]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            yield address
        finally:
            process.stdin.close()
            process.wait(60)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server whose template has tools: calls are native."""
    with serve(str(HERE / "calls.jinja")) as found:
        yield found


@pytest.fixture(scope="module")
def plain_address() -> Iterator[str]:
    """A server with the model's own template, which knows no tools."""
    with serve() as found:
        yield found


def endpoint_at(address: str, wire: str, **settings: Any) -> Endpoint:
    return resolve("llamacpp:smollm2", base_url=f"{address}/v1", wire=wire, **settings)


def request(*messages: Message, tokens: int = TOKENS, tools: Any = (WEATHER,)) -> Request:
    asked = messages or (Message("user", [Text(QUESTION)]),)
    return Request("smollm2", list(asked), list(tools), {"max_tokens": tokens, "temperature": 0.0})


def ask(endpoint: Endpoint, asked: Request, *, whole: bool) -> Any:
    async def once() -> Any:
        async with Client(endpoint) as client:
            return await client.ask(asked, whole=whole)

    return asyncio.run(once())


# ---- what the official clients read ----------------------------------------------------------------------------------


def judge_chat(address: str) -> tuple[str, Any, bool]:
    import openai

    function = {"name": WEATHER.name, "description": WEATHER.description, "parameters": SCHEMA}
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
        reply: Any = client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": QUESTION}],
            tools=[{"type": "function", "function": function}],  # type: ignore[typeddict-item]
            max_tokens=TOKENS,
            temperature=0,
        )
    (call,) = reply.choices[0].message.tool_calls
    return call.function.name, json.loads(call.function.arguments), bool(call.id)


def judge_responses(address: str) -> tuple[str, Any, bool]:
    import openai

    tool: Any = {"type": "function", "name": WEATHER.name, "description": WEATHER.description, "parameters": SCHEMA}
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
        reply: Any = client.responses.create(
            model="smollm2", input=QUESTION, tools=[tool], max_output_tokens=TOKENS, temperature=0
        )
    (call,) = (item for item in reply.output if item.type == "function_call")
    return call.name, json.loads(call.arguments), bool(call.call_id)


def judge_messages(address: str) -> tuple[str, Any, bool]:
    import anthropic

    tool: Any = {"name": WEATHER.name, "description": WEATHER.description, "input_schema": SCHEMA}
    with anthropic.Anthropic(base_url=address, api_key="none") as client:
        reply: Any = client.messages.create(
            model="smollm2", messages=[{"role": "user", "content": QUESTION}], tools=[tool], max_tokens=TOKENS
        )
    (call,) = (block for block in reply.content if block.type == "tool_use")
    return call.name, call.input, bool(call.id)


JUDGES: dict[str, Callable[[str], tuple[str, Any, bool]]] = {
    "openai_chat": judge_chat,
    "openai_responses": judge_responses,
    "anthropic": judge_messages,
}


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_call_is_the_one_that_the_official_client_reads(address: str, wire: str, whole: bool) -> None:
    reply = ask(endpoint_at(address, wire), request(), whole=whole)
    assert reply.failure is None
    calls = [part for part in reply.message.parts if isinstance(part, ToolCall)]
    assert [(call.name, call.arguments, bool(call.id)) for call in calls] == [JUDGES[wire](address)]
    assert calls[0].arguments == {"city": "Paris"}
    assert reply.stop == "tool_calls"
    assert reply.usage.input_tokens > 50 and reply.usage.output_tokens > 10


@pytest.mark.parametrize("wire", WIRES)
def test_the_events_of_a_stream_are_the_whole_reply(address: str, wire: str) -> None:
    async def both() -> tuple[Any, Any]:
        async with Client(endpoint_at(address, wire)) as client:
            events = [event async for event in client.stream(request())]
            return fold(events), await client.ask(request(), whole=True)

    streamed, whole = asyncio.run(both())
    assert [type(part) for part in streamed.message.parts] == [type(part) for part in whole.message.parts]
    assert streamed.message.parts[-1].arguments == whole.message.parts[-1].arguments == {"city": "Paris"}
    assert streamed.stop == whole.stop


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_result_is_accepted_and_the_model_answers_in_words(address: str, wire: str, whole: bool) -> None:
    call = ToolCall("call_7", "get_weather", {"city": "Paris"})
    history = (
        Message("user", [Text(QUESTION)]),
        Message("assistant", [call]),
        Message("tool", [ToolResult("call_7", "get_weather", "It is sunny in Paris.")]),
    )
    reply = ask(endpoint_at(address, wire), request(*history), whole=whole)
    assert reply.failure is None
    assert not [part for part in reply.message.parts if isinstance(part, ToolCall)]
    assert "sunny" in reply.text


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_the_token_limit_cuts_is_no_call(address: str, wire: str, whole: bool) -> None:
    reply = ask(endpoint_at(address, wire), request(tokens=22), whole=whole)
    assert not [part for part in reply.message.parts if isinstance(part, ToolCall)]


@pytest.mark.parametrize("wire", WIRES)
def test_too_long_a_prompt_is_a_failure_with_a_name(address: str, wire: str) -> None:
    reply = ask(endpoint_at(address, wire), request(Message("user", [Text("word " * 20_000)])), whole=True)
    assert reply.failure is not None
    assert reply.failure.kind == "context_too_long"


# ---- agent and doctor ------------------------------------------------------------------------------------------------


def run_agent(endpoint: Endpoint, **settings: Any) -> tuple[Any, list[str]]:
    asked: list[str] = []

    @dragoman.tool
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        asked.append(city)
        return f"It is sunny in {city}."

    options = {"max_tokens": TOKENS, "temperature": 0.0}
    agent = Agent(endpoint, [get_weather], limits=Limits(turns=4), options=options, **settings)
    try:
        return agent.run(QUESTION), asked
    finally:
        agent.close()


@pytest.mark.parametrize("wire", WIRES)
def test_an_agent_calls_the_tool_and_answers_on_every_wire(address: str, wire: str) -> None:
    result, asked = run_agent(endpoint_at(address, wire), tool_mode="native")
    assert result.outcome.kind == "answered"
    assert asked == ["Paris"]
    assert [answer.content for answer in result.results] == ["It is sunny in Paris."]
    assert "sunny" in result.text
    assert result.usage.output_tokens > 0


def test_an_agent_without_native_calls_is_held_by_a_grammar(plain_address: str) -> None:
    result, asked = run_agent(endpoint_at(plain_address, "openai_chat"), tool_mode="text")
    assert result.outcome.kind == "answered"
    assert asked
    assert [call.name for call in result.calls] == ["get_weather"] * len(asked)


def examine(address: str, wire: str) -> dict[str, str]:
    words = ["doctor", address, "--wire", wire, "--json", "--no-save", "--quick", "--tokens", str(TOKENS)]
    code = "import sys; from dragoman.__main__ import main; sys.exit(main())"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, timeout=250
    )
    report = json.loads(done.stdout)
    verdicts = {finding["probe"]: finding["verdict"] for finding in report["findings"]}
    assert done.returncode == (1 if "broken" in verdicts.values() else 0), done.stderr
    return verdicts


@pytest.mark.parametrize("wire", WIRES)
def test_the_doctor_finds_that_native_calls_work(address: str, wire: str) -> None:
    found = examine(address, wire)
    names = (
        "models context reachable native_calls streaming stream_end finish_reason usage call_ids stream_calls results"
    )
    assert {name: found.get(name) for name in names.split()} == dict.fromkeys(names.split(), "works")
    assert found["grammar"] == ("works" if wire == "openai_chat" else "absent")


@pytest.mark.parametrize("wire", WIRES)
def test_the_doctor_finds_that_the_models_own_template_has_no_calls(plain_address: str, wire: str) -> None:
    found = examine(plain_address, wire)
    # Unknown, if its free answer in place of a call has no end within the limit.
    assert found["native_calls"] in ("broken", "absent", "unknown")
    assert found["text_formats"] == "works"
    assert found["streaming"] == found["usage"] == "works"
