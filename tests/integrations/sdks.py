"""The SDKs of vendors with a repairing HTTP client, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import anthropic
import cohere
import mistralai.client
import ollama
import openai
from google import genai
from google.genai import types
from openai.lib.streaming.chat import ChatCompletionStreamState

from dragoman.integrations import Repair

TOOL: dict[str, Any] = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
NESTED: Any = [{"type": "function", "function": TOOL}]
ASKED: Any = [{"role": "user", "content": "Is it warm in Paris?"}]


class ReadReply(NamedTuple):
    """A reply as an SDK returned it."""

    text: str
    calls: list[tuple[str, dict[str, Any]]]
    stop: str


class Sdk(NamedTuple):
    """How an SDK is opened with a client or a transport of ours, asked, and read."""

    wire: str
    open: Callable[[str, Any, bool], Any]
    ask: Callable[[Any, bool], Any]
    read: Callable[[Any, bool], ReadReply]
    """Takes the reply, or the list of its pieces."""
    called: str
    """The word for a reply that ended with a call."""
    library: str = "httpx2"
    takes: str = "client"


@contextmanager
def opened(sdk: Sdk, url: str, repair: Repair, **settings: Any) -> Iterator[Any]:
    """A blocking SDK, whose connections are closed at the end."""
    with make_http(sdk, repair, is_async=False, **settings) as http:
        yield sdk.open(url, http, False)


def make_http(sdk: Sdk, repair: Repair, *, is_async: bool, **settings: Any) -> Any:
    """Return what the SDK is given. The certificates that a client loads take longer than a test."""
    kind = import_module(sdk.library).AsyncClient if is_async else import_module(sdk.library).Client
    return getattr(repair, f"{'async_' if is_async else ''}{sdk.takes}")(kind(verify=False, **settings))


def ask_sdk(sdk: Sdk, url: str, repair: Repair, *, stream: bool, is_async: bool) -> ReadReply:
    """Ask once, and read the whole reply."""
    if is_async:
        return asyncio.run(_ask_sdk_async(sdk, url, repair, stream))
    with opened(sdk, url, repair) as client:
        got = sdk.ask(client, stream)
        return sdk.read(list(got) if stream else got, stream)


async def _ask_sdk_async(sdk: Sdk, url: str, repair: Repair, stream: bool) -> ReadReply:
    async with make_http(sdk, repair, is_async=True) as http:
        got = sdk.ask(sdk.open(url, http, True), stream)
        got = await got if asyncio.iscoroutine(got) else got
        return sdk.read([piece async for piece in got] if stream else got, stream)


# ---- OpenAI ----------------------------------------------------------------------------------------------------------


def open_openai(url: str, http: Any, is_async: bool) -> Any:
    kind = openai.AsyncOpenAI if is_async else openai.OpenAI
    return kind(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http)


def read_chat(got: Any, stream: bool) -> ReadReply:
    if stream:
        state = ChatCompletionStreamState()
        for chunk in got:
            state.handle_chunk(chunk)
        got = state.current_completion_snapshot
    choice = got.choices[0]
    return ReadReply(choice.message.content or "", _functions(choice.message.tool_calls), choice.finish_reason)


def _functions(made: Iterable[Any] | None) -> list[tuple[str, dict[str, Any]]]:
    return [(call.function.name, _load(call.function.arguments)) for call in made or ()]


def _load(arguments: Any) -> dict[str, Any]:
    return dict(json.loads(arguments)) if isinstance(arguments, str) else dict(arguments)


def ask_responses(client: Any, stream: bool) -> Any:
    return client.responses.create(
        model="any", input="Go.", tools=[{"type": "function", **TOOL, "strict": False}], stream=stream
    )


def read_responses(got: Any, stream: bool) -> ReadReply:
    response = got[-1].response if stream else got
    made = [item for item in response.output if item.type == "function_call"]
    return ReadReply(response.output_text, [(item.name, _load(item.arguments)) for item in made], response.status)


# ---- Anthropic -------------------------------------------------------------------------------------------------------


def open_anthropic(url: str, http: Any, is_async: bool) -> Any:
    kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return kind(base_url=url, api_key="k", max_retries=0, http_client=http)


def ask_anthropic(client: Any, stream: bool) -> Any:
    tools = [{"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}]
    return client.messages.create(model="any", max_tokens=1000, messages=ASKED, tools=tools, stream=stream)


def read_anthropic(got: Any, stream: bool) -> ReadReply:
    if not stream:
        calls = [(block.name, dict(block.input)) for block in got.content if block.type == "tool_use"]
        text = "".join(block.text for block in got.content if block.type == "text")
        return ReadReply(text, calls, got.stop_reason)
    text, names, written, stop = "", [], [], ""
    for event in got:
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            names.append(event.content_block.name)
            written.append("")
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            written[-1] += event.delta.partial_json
        elif event.type == "content_block_delta":
            text += event.delta.text
        elif event.type == "message_delta":
            stop = event.delta.stop_reason
    return ReadReply(text, list(zip(names, map(_load, written), strict=True)), stop)


# ---- Google ----------------------------------------------------------------------------------------------------------


class _Gemini(NamedTuple):
    client: genai.Client
    models: Any


def open_gemini(url: str, http: Any, is_async: bool) -> Any:
    name = "httpx_async_client" if is_async else "httpx_client"
    options = types.HttpOptions(base_url=url, client_args={"verify": False}, **{name: http})
    client = genai.Client(api_key="k", http_options=options)
    return _Gemini(client, client.aio.models if is_async else client.models)


def ask_gemini(client: Any, stream: bool) -> Any:
    declared = types.FunctionDeclaration(name=TOOL["name"], parameters_json_schema=TOOL["parameters"])
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    ask = client.models.generate_content_stream if stream else client.models.generate_content
    return ask(model="any", contents="Go.", config=config)


def read_gemini(got: Any, stream: bool) -> ReadReply:
    replies = got if stream else [got]
    candidates = [candidate for reply in replies for candidate in reply.candidates or []]
    parts = [part for each in candidates for part in (each.content.parts if each.content else None) or []]
    made = [part.function_call for part in parts if part.function_call]
    stops = [each.finish_reason for each in candidates if each.finish_reason]
    return ReadReply("".join(part.text or "" for part in parts), [(c.name, dict(c.args)) for c in made], stops[-1].name)


# ---- Mistral, Cohere and Ollama --------------------------------------------------------------------------------------


def open_mistral(url: str, http: Any, is_async: bool) -> Any:
    given = {"async_client" if is_async else "client": http}
    client = mistralai.client.Mistral(api_key="k", server_url=url, **given)
    return (client, is_async)


def ask_mistral(client: Any, stream: bool) -> Any:
    chat, is_async = client[0].chat, client[1]
    name = f"{'stream' if stream else 'complete'}{'_async' if is_async else ''}"
    return getattr(chat, name)(model="any", messages=ASKED, tools=NESTED)


def read_mistral(got: Any, stream: bool) -> ReadReply:
    if not stream:
        message = got.choices[0].message
        return ReadReply(message.content or "", _functions(message.tool_calls), got.choices[0].finish_reason)
    choices = [event.data.choices[0] for event in got if event.data.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    calls = [call for choice in choices for call in _functions(choice.delta.tool_calls)]
    return ReadReply(text, calls, [choice.finish_reason for choice in choices if choice.finish_reason][-1])


def open_cohere(url: str, http: Any, is_async: bool) -> Any:
    kind = cohere.AsyncClientV2 if is_async else cohere.ClientV2
    return kind(api_key="k", base_url=url, httpx_client=http)


def ask_cohere(client: Any, stream: bool) -> Any:
    ask = client.chat_stream if stream else client.chat
    return ask(model="any", messages=ASKED, tools=NESTED)


def read_cohere(got: Any, stream: bool) -> ReadReply:
    if not stream:
        text = "".join(part.text for part in got.message.content or [])
        return ReadReply(text, _functions(got.message.tool_calls), got.finish_reason)
    text, names, written, stop = "", [], [], ""
    for event in got:
        if event.type == "content-delta":
            text += event.delta.message.content.text
        elif event.type == "tool-call-start":
            names.append(event.delta.message.tool_calls.function.name)
            written.append(event.delta.message.tool_calls.function.arguments or "")
        elif event.type == "tool-call-delta":
            written[-1] += event.delta.message.tool_calls.function.arguments
        elif event.type == "message-end":
            stop = event.delta.finish_reason
    return ReadReply(text, list(zip(names, map(_load, written), strict=True)), stop)


def open_ollama(url: str, http: Any, is_async: bool) -> Any:
    kind = ollama.AsyncClient if is_async else ollama.Client
    return kind(host=url, transport=http)


def read_ollama(got: Any, stream: bool) -> ReadReply:
    replies = got if stream else [got]
    calls = [call for reply in replies for call in _functions(reply.message.tool_calls)]
    return ReadReply("".join(reply.message.content or "" for reply in replies), calls, replies[-1].done_reason)


def _ask_chat(client: Any, stream: bool) -> Any:
    return client.chat.completions.create(model="any", messages=ASKED, tools=NESTED, stream=stream)


def _ask_ollama(client: Any, stream: bool) -> Any:
    return client.chat(model="any", messages=ASKED, tools=NESTED, stream=stream)


SDKS: dict[str, Sdk] = {
    "openai": Sdk("openai_chat", open_openai, _ask_chat, read_chat, "tool_calls"),
    "openai, Responses": Sdk("openai_responses", open_openai, ask_responses, read_responses, "completed"),
    "anthropic": Sdk("anthropic", open_anthropic, ask_anthropic, read_anthropic, "tool_use"),
    "google-genai": Sdk("gemini", open_gemini, ask_gemini, read_gemini, "STOP"),
    "mistralai": Sdk("mistral", open_mistral, ask_mistral, read_mistral, "tool_calls"),
    "cohere": Sdk("cohere", open_cohere, ask_cohere, read_cohere, "TOOL_CALL", "httpx"),
    "ollama": Sdk("ollama", open_ollama, _ask_ollama, read_ollama, "stop", "httpx", "transport"),
}
