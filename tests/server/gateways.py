"""A gateway on loopback for tests, and the official clients that talk to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import anthropic
import msgspec
import ollama
import openai
from google import genai
from openai.lib.streaming.chat import ChatCompletionStreamState

from dragoman.client.http import HttpTransport
from dragoman.providers import Endpoint
from dragoman.server.gateway import Gateway
from dragoman.server.process import GatewayServer, address_of, open_socket
from dragoman.server.router import Router
from dragoman.server.settings import EndpointSettings, GatewaySettings, RouteSettings, ServerSettings

WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SEARCH = {
    "name": "search",
    "description": "Search the web.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}
TOOLS = [WEATHER, SEARCH]


class FixedServer:
    """Stands for a detected server: it always has the same endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.provider = endpoint.provider.name
        self.models = ()

    def endpoint(self, model: str = "", **settings: Any) -> Endpoint:
        return self._endpoint


def settings_for(**route: Any) -> GatewaySettings:
    """The settings of a gateway with one endpoint."""
    rows = {"only": EndpointSettings(url="http://there.invalid/v1")}
    return GatewaySettings(ServerSettings(port=0), rows, [RouteSettings(to="only", **route)])


@contextmanager
def gateway_to(endpoint: Endpoint, settings: GatewaySettings | None = None) -> Iterator[RunningGateway]:
    """Run a gateway with one endpoint in a thread."""
    settings = settings or settings_for()
    with run_gateway(
        lambda transport: Router(settings, servers={"only": FixedServer(endpoint)}, transport=transport)
    ) as it:  # type: ignore[dict-item]
        yield it


class RunningGateway(NamedTuple):
    url: str
    gateway: Gateway
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def reports(self) -> list[dict[str, Any]]:
        """The reports as a client receives them, the newest first."""
        found: list[dict[str, Any]] = msgspec.to_builtins(self.gateway.records.list())
        return found


@contextmanager
def run_gateway(
    open_router: Callable[[HttpTransport], Router], make: Callable[[Router], Gateway] | None = None
) -> Iterator[RunningGateway]:
    """Run a gateway in a thread with an event loop of its own."""
    started = threading.Event()
    listener = open_socket("127.0.0.1", 0)
    state: dict[str, Any] = {}

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            # A start that failed has ended, so nobody has to wait for it.
            started.set()

    async def serve() -> None:
        transport = HttpTransport()
        router = open_router(transport)
        gateway = Gateway(router, secret=b"secret of the tests") if make is None else make(router)
        server = GatewayServer(gateway, listener)
        state.update(loop=asyncio.get_running_loop(), gateway=gateway, server=server)
        try:
            async with server.running():
                state["stopped"] = asyncio.Event()
                started.set()
                await state["stopped"].wait()
        finally:
            await transport.close()

    thread = threading.Thread(target=run, name="gateway", daemon=True)
    thread.start()
    assert started.wait(20) and "stopped" in state, "the gateway did not start"
    try:
        yield RunningGateway(address_of(listener), state["gateway"], state["loop"])
    finally:
        state["loop"].call_soon_threadsafe(state["stopped"].set)
        thread.join(20)
        listener.close()


# ---- the official clients --------------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """What a client made of a reply."""

    text: str
    calls: list[tuple[str, dict[str, Any]]]
    stop: str
    thinking: str = ""
    ids: tuple[str, ...] = ()


def open_openai(url: str) -> openai.OpenAI:
    # The certificates that a client loads take longer than the test.
    http = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http)


def _load(text: str) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(text or "{}")
    return value


def ask_chat(url: str, stream: bool, **more: Any) -> Heard:
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    with open_openai(url) as client:
        fields: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "Go."}], "tools": tools}
        if stream:
            chunks = ChatCompletionStreamState()
            for chunk in client.chat.completions.create(**fields, **more, stream=True):
                with suppress(openai.LengthFinishReasonError):
                    chunks.handle_chunk(chunk)
            choice = chunks.current_completion_snapshot.choices[0]
        else:
            choice = client.chat.completions.create(**fields, **more).choices[0]
    made = choice.message.tool_calls or []
    calls = [(call.function.name, _load(call.function.arguments)) for call in made]
    thinking = getattr(choice.message, "reasoning_content", None) or ""
    return Heard(choice.message.content or "", calls, choice.finish_reason, thinking, tuple(call.id for call in made))


def ask_responses(url: str, stream: bool, **more: Any) -> Heard:
    tools = [{"type": "function", **tool, "strict": False} for tool in TOOLS]
    with open_openai(url) as client:
        fields: dict[str, Any] = {"model": "any", "input": "Go.", "tools": tools}
        if stream:
            events = list(client.responses.create(**fields, **more, stream=True))
            response = events[-1].response
        else:
            response = client.responses.create(**fields, **more)
    made = [item for item in response.output if item.type == "function_call"]
    calls = [(item.name, _load(item.arguments)) for item in made]
    return Heard(response.output_text, calls, response.status or "", "", tuple(item.call_id for item in made))


def ask_anthropic(url: str, stream: bool, **more: Any) -> Heard:
    tools: Any = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]} for tool in TOOLS
    ]
    with anthropic.Anthropic(
        base_url=url, api_key="k", max_retries=0, http_client=anthropic.DefaultHttpxClient(verify=False)
    ) as client:
        fields: dict[str, Any] = {
            "model": "any",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Go."}],
            "tools": tools,
        }
        if stream:
            with client.messages.stream(**fields, **more) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**fields, **more)
    calls = [(block.name, dict(block.input)) for block in message.content if block.type == "tool_use"]
    text = "".join(block.text for block in message.content if block.type == "text")
    thinking = "".join(block.thinking for block in message.content if block.type == "thinking")
    ids = tuple(block.id for block in message.content if block.type == "tool_use")
    return Heard(text, calls, message.stop_reason or "", thinking, ids)


def ask_gemini(url: str, stream: bool, **more: Any) -> Heard:
    from google.genai import types

    declared = [
        types.FunctionDeclaration(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["parameters"]
        )
        for tool in TOOLS
    ]  # type: ignore[arg-type]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        **more,
    )
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, client_args={"verify": False}))
    with client:
        if stream:
            replies = list(client.models.generate_content_stream(model="any", contents="Go.", config=config))
        else:
            replies = [client.models.generate_content(model="any", contents="Go.", config=config)]
    parts = [
        part
        for reply in replies
        for candidate in reply.candidates or []
        for part in (candidate.content.parts if candidate.content else None) or []
    ]
    made = [part.function_call for part in parts if part.function_call]
    stops = [c.finish_reason for reply in replies for c in reply.candidates or [] if c.finish_reason]
    text = "".join(part.text or "" for part in parts if not part.thought)
    thinking = "".join(part.text or "" for part in parts if part.thought)
    return Heard(text, [(c.name or "", dict(c.args or {})) for c in made], stops[-1].name if stops else "", thinking)


def ask_ollama(url: str, stream: bool, **more: Any) -> Heard:
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    client = ollama.Client(host=url, verify=False)
    messages = [{"role": "user", "content": "Go."}]
    try:
        if stream:
            replies = list(client.chat(model="any", messages=messages, tools=tools, stream=True, **more))
        else:
            replies = [client.chat(model="any", messages=messages, tools=tools, **more)]
    finally:
        client._client.close()
    made = [call for reply in replies for call in reply.message.tool_calls or []]
    calls = [(call.function.name, dict(call.function.arguments)) for call in made]
    thinking = "".join(reply.message.thinking or "" for reply in replies)
    text = "".join(reply.message.content or "" for reply in replies)
    return Heard(text, calls, replies[-1].done_reason or "", thinking)


CLIENTS: dict[str, Callable[..., Heard]] = {
    "openai_chat": ask_chat,
    "openai_responses": ask_responses,
    "anthropic": ask_anthropic,
    "gemini": ask_gemini,
    "ollama": ask_ollama,
}
CALLED = {
    "openai_chat": "tool_calls",
    "openai_responses": "completed",
    "anthropic": "tool_use",
    "gemini": "STOP",
    "ollama": "stop",
}
"""How each wire says that the model stopped to call a tool."""
ENDED = {**CALLED, "openai_chat": "stop", "anthropic": "end_turn"}
"""How each wire says that the model has finished."""
