"""LiteLLM's proxy between our client and a scripted upstream: calls arrive as they were sent, in both directions."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.support.environments import Environments, free_port, running
from tests.peers.report import Report

import dragoman
from dragoman.client import Client
from dragoman.providers import Endpoint, resolve
from dragoman.testing import Upstream, call, calls
from dragoman.types import Message, Reply, Request, Text, Tool, ToolCall, ToolResult

PEER = "LiteLLM proxy"
WIRES = {"openai_chat": "/v1", "anthropic": "/v1", "openai_responses": "/v1", "gemini": "/v1beta"}
"""The wires that the proxy offers, with the path of each."""
BEHIND = {"by-chat": "openai", "by-anthropic": "anthropic"}
"""The models of the proxy, and the protocol that it uses for each."""
CONFIGURATION = """
model_list:
  - model_name: by-chat
    litellm_params: {{model: openai/scripted, api_base: "{url}/v1", api_key: sk-upstream}}
  - model_name: by-anthropic
    litellm_params: {{model: anthropic/scripted, api_base: "{url}", api_key: sk-upstream}}
litellm_settings: {{telemetry: false, num_retries: 0, request_timeout: 60}}
general_settings: {{master_key: "{key}"}}
"""
PROPERTIES = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "units": {"type": "array", "items": {"type": "string", "enum": ["c", "f"]}},
    "place": {"type": "object", "properties": {"lat": {"type": "number"}}},
}
WEATHER = Tool("get_weather", description="Tell the weather.", parameters={"type": "object", "properties": PROPERTIES})
NOW = Tool("now", description="Tell the time.", parameters={"type": "object", "properties": {}})
REPLIES: dict[str, list[Any]] = {
    "one call": [call("get_weather", city="Paris")],
    "hard arguments": [
        call("get_weather", city='Zü"rich\\ \n\t☃ 🌍 </tool_call>', days=2**53, place={"lat": -0.5}, units=["c", "f"])
    ],
    "no arguments": [call("now")],
    "two calls": [call("get_weather", city="Oslo"), call("get_weather", city="Rome", days=3)],
    "text and a call": ["Let me look.", call("get_weather", city="Paris")],
}


class Proxy:
    """A running proxy and the upstream behind it."""

    def __init__(self, url: str, key: str, upstream: Upstream, said: list[Any]) -> None:
        self._url, self._key = url, key
        self.upstream = upstream
        self.said = said
        """The next reply of the upstream."""

    def endpoint(self, wire: str, model: str) -> Endpoint:
        return resolve(f"litellm:{model}", base_url=self._url + WIRES[wire], wire=wire)

    def ask(self, wire: str, model: str, messages: list[Message], *, whole: bool) -> Reply:
        request = Request(model, messages, [WEATHER, NOW], {"max_tokens": 500})

        async def once() -> Reply:
            async with Client(self.endpoint(wire, model), key=self._key) as client:
                return await client.ask(request, whole=whole)

        return asyncio.run(once())

    def run_agent(self, wire: str, model: str) -> tuple[Any, list[Any]]:
        ran: list[Any] = []

        @dragoman.tool
        def get_weather(city: str) -> str:
            """Tell the weather."""
            ran.append(city)
            return f"sunny in {city}"

        turns = iter([calls(call("get_weather", city="Paris")), "It is sunny."])
        self.said[:] = [lambda request: next(turns)]
        agent = dragoman.Agent(
            self.endpoint(wire, model),
            [get_weather],
            tool_mode="native",
            connection=dragoman.Connection(environment={"LITELLM_API_KEY": self._key}),
        )
        try:
            return agent.run("Is it warm in Paris?"), ran
        finally:
            agent.close()


@contextmanager
def open_proxy(environments: Environments) -> Iterator[Proxy]:
    programs = environments.python("litellm", "litellm[proxy]")
    said: list[Any] = []

    def answer(request: Request) -> Any:
        return said[0](request) if callable(said[0]) else said[0]

    key, port = f"sk-{secrets.token_hex(24)}", free_port()
    with Upstream(answer, loop=True) as upstream:
        configuration = environments.folder / "litellm.yaml"
        configuration.write_text(CONFIGURATION.format(url=upstream.url.removesuffix("/v1"), key=key), encoding="utf-8")
        command = [
            str(programs / "litellm"),
            "--config",
            str(configuration),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        # Without the first variable, it fetches a list of prices.
        variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
        log = environments.folder / "litellm.log"
        with running(command, log, f"http://127.0.0.1:{port}/health/liveliness", variables):
            yield Proxy(f"http://127.0.0.1:{port}", key, upstream, said)


def check(environments: Environments, report: Report) -> None:
    """Run all checks of this peer."""
    with open_proxy(environments) as proxy:
        for model, behind in BEHIND.items():
            for wire in WIRES:
                for whole in (True, False):
                    how = "whole" if whole else "streamed"
                    with report.check(PEER, f"{wire} to {behind}, {how}: calls arrive"):
                        check_calls(proxy, wire, model, whole)
                with report.check(PEER, f"{wire} to {behind}: history arrives"):
                    check_history(proxy, wire, model)
                with report.check(PEER, f"{wire} to {behind}: an agent runs"):
                    check_agent(proxy, wire, model)


def check_calls(proxy: Proxy, wire: str, model: str, whole: bool) -> None:
    for name, parts in REPLIES.items():
        proxy.said[:] = [calls(*parts) if all(isinstance(part, ToolCall) for part in parts) else parts]
        reply = proxy.ask(wire, model, [Message("user", [Text("Is it warm?")])], whole=whole)
        assert reply.failure is None, f"{name}: {reply.failure}"
        found = [(part.name, part.arguments) for part in reply.message.parts if isinstance(part, ToolCall)]
        sent = [(part.name, part.arguments) for part in parts if isinstance(part, ToolCall)]
        assert found == sent, f"{name}: {found} != {sent}"
        words = "".join(part for part in parts if isinstance(part, str))
        assert reply.text.strip() == words, f"{name}: {reply.text!r} != {words!r}"
        assert reply.stop == "tool_calls", f"{name}: {reply.stop}"


def check_history(proxy: Proxy, wire: str, model: str) -> None:
    """A call and its result go through the proxy, and the upstream reads what our client was given."""
    made = ToolCall("call_abc123", "get_weather", {"city": "Zürich", "days": 2})
    history = [
        Message("user", [Text("Is it warm?")]),
        Message("assistant", [made]),
        Message("tool", [ToolResult("call_abc123", "get_weather", "sunny \u2603")]),
    ]
    proxy.said[:] = ["Yes."]
    reply = proxy.ask(wire, model, history, whole=True)
    assert (reply.failure, reply.text.strip()) == (None, "Yes.")
    received = proxy.upstream.requests[-1]
    arrived = [part for message in received.messages for part in message.parts]
    found = [(part.name, part.arguments) for part in arrived if isinstance(part, ToolCall)]
    assert found == [("get_weather", {"city": "Zürich", "days": 2})], found
    results = [str(part.content) for part in arrived if isinstance(part, ToolResult)]
    if wire == "gemini":  # A result is an object on this wire, and the proxy passes it on as JSON.
        results = [json.loads(result)["output"] for result in results]
    assert results == ["sunny \u2603"], results
    assert [tool.name for tool in received.tools] == ["get_weather", "now"]
    properties = received.tools[0].parameters.get("properties", {})
    assert set(properties) == set(PROPERTIES), properties


def check_agent(proxy: Proxy, wire: str, model: str) -> None:
    result, ran = proxy.run_agent(wire, model)
    assert (result.outcome.kind, ran, result.text) == ("answered", ["Paris"], "It is sunny."), result.outcome
