"""ask, stream and their asynchronous forms; fallback models; addresses of requests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import pytest
from tests.client.servers import ASKED, FIRST, HELLO, STREAM, Handler, Server, always, answer, once, serve

from dragoman import providers
from dragoman.agent import Agent, Connection
from dragoman.client.api import aask, ask, astream, stream
from dragoman.client.client import Client, FallbackClient, address_of, base_of
from dragoman.client.retry import NOTICES, ModelReplaced, Retries
from dragoman.client.transport import HttpRequest, PassedResponse, Timeouts
from dragoman.errors import BadRequest, ConfigError, ConnectFailed, MissingKey, StreamCut, TimedOut, Unauthorized
from dragoman.events import ReplyEnded, TextDelta
from dragoman.providers.definitions import codec_for
from dragoman.replies import fold
from dragoman.testing import Answer, ScriptedModel
from dragoman.types import Message, Text

SSE = answer(STREAM, kind="text/event-stream")
PING = [{"name": "ping", "description": "Ping a host", "parameters": {"type": "object", "properties": {}}}]


@contextmanager
def running(handler: Handler) -> Iterator[Server]:
    """A server in a thread of its own, for tests of blocking code."""
    ready: list[Server] = []
    started = threading.Event()
    stop: list[Any] = []

    async def main() -> None:
        async with serve(handler) as server:
            end = asyncio.Event()
            stop.append((asyncio.get_running_loop(), end))
            ready.append(server)
            started.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(10)
    try:
        yield ready[0]
    finally:
        loop, end = stop[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(10)


def given(server: Server, **more: Any) -> dict[str, Any]:
    return {"base_url": f"{server.url}/v1", "key": "sk-loopback-0123456789", **more}


def test_a_question_and_its_answer() -> None:
    seen: list[bytes] = []
    with running(always(answer(), seen)) as server:
        for _ in range(2):
            reply = ask("openai_chat:m", "hi", system="be brief", temperature=0.5, **given(server))
            assert reply.text == "hello"
        assert server.connections == 1
    assert b'"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]' in seen[0]
    assert b'"temperature":0.5' in seen[0]


def test_a_question_inside_a_running_loop() -> None:
    with running(always(answer())) as server:

        async def notebook() -> str:
            return ask("openai_chat:m", "hi", **given(server)).text

        assert asyncio.run(notebook()) == "hello"


def test_messages_of_any_form() -> None:
    seen: list[bytes] = []
    with running(always(answer(), seen)) as server:
        for prompt in (
            Message("user", [Text("hi")]),
            [Message("user", [Text("hi")])],
            [{"role": "user", "content": "hi"}],
        ):
            ask("openai_chat:m", prompt, **given(server))
    assert len({request.partition(b"\r\n\r\n")[2] for request in seen}) == 1


def test_a_streamed_answer() -> None:
    with running(always(SSE)) as server:
        events = list(stream("openai_chat:m", "hi", **given(server)))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["hel", "lo"]
    assert isinstance(events[-1], ReplyEnded)
    assert not any(isinstance(event, NOTICES) for event in events)
    assert fold(events).text == "hello"


def test_the_asynchronous_forms() -> None:
    async def scenario() -> None:
        async with serve(always(answer())) as server:
            assert (await aask("openai_chat:m", "hi", **given(server))).text == "hello"
            words = [e.text async for e in astream("openai_chat:m", "hi", **given(server)) if isinstance(e, TextDelta)]
            assert words == ["hello"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(answer(b'{"error":{"message":"no"}}', "401 No"), Unauthorized, id="unauthorized"),
        pytest.param(answer(b'{"error":{"message":"no"}}', "400 No"), BadRequest, id="bad_request"),
        pytest.param(answer(FIRST, kind="text/event-stream"), StreamCut, id="cut"),
    ],
)
def test_a_failure_is_a_typed_error(data: bytes, error: type[Exception]) -> None:
    with running(always(data)) as server:
        with pytest.raises(error):
            ask("openai_chat:m", "hi", **given(server))
        with pytest.raises(error):
            list(stream("openai_chat:m", "hi", **given(server)))


def test_a_timeout_ends_the_question() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    with running(hang) as server, pytest.raises(TimedOut, match="deadline"):
        ask("openai_chat:m", "hi", timeout=0.05, **given(server))


def test_errors_of_the_caller_are_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        ask("openai:gpt-5", "hi")
    with pytest.raises(ConfigError, match="unknown provider"):
        ask("opnai:gpt-5", "hi")


def test_a_native_call_is_read() -> None:
    call = (
        b'{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,'
        b'"tool_calls":[{"id":"c1","type":"function","function":{"name":"ping","arguments":"{}"}}]}}]}'
    )
    seen: list[bytes] = []
    with running(always(answer(call), seen)) as server:
        reply = ask("openai_chat:gpt-4o", "hi", tools=PING, **given(server))
    assert [(part.name, part.id) for part in reply.calls] == [("ping", "c1")]
    assert b'"tools":[' in seen[0]


def test_a_call_in_the_text_is_read_where_tools_travel_as_text() -> None:
    body = HELLO.replace(
        b"hello", b'On it.\\n<tool_call>\\n{\\"name\\": \\"ping\\", \\"arguments\\": {}}\\n</tool_call>'
    )
    seen: list[bytes] = []
    with running(always(answer(body), seen)) as server:
        reply = ask("openai_chat:m", "hi", tools=PING, tool_mode="text", **given(server))
        events = list(stream("openai_chat:m", "hi", tools=PING, tool_mode="text", **given(server)))
    assert [part.name for part in reply.calls] == ["ping"]
    assert reply.text.strip() == "On it."
    assert reply.stop == "tool_calls"
    assert b'"tools":[' not in seen[0]
    assert b"Ping a host" in seen[0]
    assert isinstance(events[-1], ReplyEnded)
    assert fold(events).calls[0].name == "ping"


# ---- fallbacks -------------------------------------------------------------------------------------------------------


def fall_back(first: Handler, second: Handler, **settings: Any) -> list[Any]:
    async def scenario() -> list[Any]:
        async with serve(first) as one, serve(second) as two:
            clients = []
            for server, name in ((one, "first"), (two, "second")):
                endpoint = providers.resolve(f"openai_chat:{name}", base_url=f"{server.url}/v1")
                clients.append(Client(endpoint, key="k" * 9, environment={}, retries=Retries(attempts=1)))
            async with FallbackClient(clients, **settings) as client:
                return [event async for event in client.stream(ASKED)]

    return asyncio.run(scenario())


def reply_of(events: list[Any]) -> Any:
    return fold([event for event in events if not isinstance(event, NOTICES)])


@pytest.mark.parametrize("status", [429, 500, 503, 404])
def test_the_next_model_is_asked_where_the_first_gives_up(status: int) -> None:
    events = fall_back(always(answer(b"{}", f"{status} X")), always(SSE))
    (replaced,) = [event for event in events if isinstance(event, ModelReplaced)]
    assert (replaced.from_model, replaced.to_model) == ("openai:first", "openai:second")
    assert replaced.failure.status == status
    assert (reply_of(events).text, reply_of(events).failure) == ("hello", None)


@pytest.mark.parametrize("status", [400, 401])
def test_a_rejected_request_is_sent_to_no_fallback_by_default(status: int) -> None:
    bad = always(answer(b"{}", f"{status} X"))
    assert reply_of(fall_back(bad, always(SSE))).failure.status == status
    assert reply_of(fall_back(bad, always(SSE), on_every_failure=True)).text == "hello"


def test_no_fallback_is_used_after_the_first_text() -> None:
    events = fall_back(once(answer(FIRST, kind="text/event-stream")), always(SSE))
    assert not any(isinstance(event, ModelReplaced) for event in events)
    assert (reply_of(events).text, reply_of(events).failure.kind) == ("hel", "stream_cut")


def test_the_failure_of_the_last_one_is_the_failure() -> None:
    events = fall_back(always(answer(b"{}", "500 X")), always(answer(b"{}", "503 X")))
    assert reply_of(events).failure.status == 503
    with pytest.raises(ConfigError, match="at least one"):
        FallbackClient([])


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ConnectFailed, match="nothing listens"):
        ask("openai_chat:m", "hi", base_url=f"http://127.0.0.1:{port}/v1", key="k" * 9, retries=Retries(attempts=1))


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "environment", "stream_", "address"),
    [
        ("ollama:qwen3", {}, True, "http://localhost:11434/api/chat"),
        (
            "gemini:gemini-3-pro",
            {},
            True,
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
        ),
        (
            "bedrock:anthropic.claude-v1:0",
            {"AWS_REGION": "eu-west-1"},
            False,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v1%3A0/converse",
        ),
        (
            "vertex:claude-opus-4@1",
            {"GOOGLE_CLOUD_LOCATION": "global", "GOOGLE_CLOUD_PROJECT": "p"},
            True,
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic"
            "/models/claude-opus-4@1:streamRawPredict",
        ),
        (
            "azure@deployment:gpt-4o",
            {"AZURE_OPENAI_RESOURCE": "r"},
            True,
            "https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions",
        ),
    ],
    ids=["ollama", "gemini", "bedrock", "vertex_claude", "azure_deployment"],
)
def test_addresses_of_requests(model: str, environment: dict[str, str], stream_: bool, address: str) -> None:
    endpoint = providers.resolve(model)
    base = base_of(endpoint, environment)
    assert address_of(base, endpoint, codec_for(endpoint), endpoint.model, stream=stream_) == address


def test_a_query_of_the_address_stays_after_the_path() -> None:
    endpoint = providers.resolve("openai_chat:m", base_url="https://h/openai?api-version=1")
    base = base_of(endpoint, {})
    assert address_of(base, endpoint, codec_for(endpoint), "m", stream=True) == (
        "https://h/openai/chat/completions?api-version=1"
    )


def test_claude_on_vertex_names_its_model_in_the_path_alone() -> None:
    seen: list[bytes] = []
    body = b'{"type":"message","role":"assistant","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}'

    async def scenario() -> None:
        async with serve(always(answer(body), seen)) as server:
            endpoint = providers.resolve("vertex:claude-opus-4", base_url=f"{server.url}/v1/publishers/anthropic")
            async with Client(endpoint, key="token-0123", environment={}) as client:
                assert (await client.ask(ASKED)).text == "hello"

    asyncio.run(scenario())
    assert seen[0].startswith(b"POST /v1/publishers/anthropic/models/m:rawPredict HTTP/1.1\r\n")
    assert b'"model"' not in seen[0]
    assert b'"anthropic_version":"vertex-2023-10-16"' in seen[0]


def test_a_model_of_the_caller_receives_the_request_of_an_agent() -> None:
    model = ScriptedModel(["Because."], loop=True)
    assert ask(model, "Why?").text == fold(list(stream(model, "Why?"))).text == "Because."
    with pytest.raises(ConfigError, match="an Endpoint or an OwnModel, not object"):
        ask(object(), "Why?")  # type: ignore[arg-type]


class CountingTransport:
    """A transport of a scripted model that counts its open responses."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self.open = 0

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> CountedResponse:
        self.open += 1
        return CountedResponse(await self._model.send(request, timeouts), self)

    async def close(self) -> None:
        await self._model.close()


class CountedResponse(PassedResponse):
    def __init__(self, inner: Any, transport: CountingTransport) -> None:
        super().__init__(inner)
        self._transport: CountingTransport | None = transport

    def pieces(self) -> AsyncIterator[bytes]:
        return self._inner.pieces()

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.open -= 1
            self._transport = None
        await self._inner.close()


def _partial_call(arguments: str) -> dict[str, Any]:
    function = {"name": "final_answer", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


_PARTIAL = [
    b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    for delta in ({"content": "Well, "}, _partial_call('{"answer": ["one", "tw'))
]


@pytest.mark.parametrize("how", ["astream", "fallbacks", "text of a run", "answer of a run"])
def test_a_stream_that_is_closed_early_has_closed_its_response(how: str) -> None:
    """Not later, when the garbage collection finds the inner generators."""
    stalling = Answer(headers={"content-type": "text/event-stream"}, pieces=_PARTIAL, stalls=True)
    model = ScriptedModel([stalling])
    transport = CountingTransport(model)
    connection = Connection(transport=transport)

    def open_stream() -> Any:
        if how == "astream":
            return astream(model.endpoint(), "hi", transport=transport)
        if how == "fallbacks":
            return FallbackClient([Client(model.endpoint(), transport=transport)] * 2).stream(ASKED)
        run = Agent(model.endpoint(), connection=connection).stream("hi", answer=list[str])
        return aiter(run.text_stream() if how == "text of a run" else run.answer_stream())

    async def scenario() -> None:
        async with aclosing(open_stream()) as events:
            async for _ in events:
                if transport.open:
                    break
        assert transport.open == 0

    asyncio.run(asyncio.wait_for(scenario(), 20))
