"""The transport, with an engine that says what a test wants: every answer has the form that HTTP would give it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.local.wheelhouse import CONTENT

from dragoman.client import Client, HttpRequest, HttpTransport, Timeouts, TransportFault
from dragoman.client.client import open_transport
from dragoman.errors import ConfigError
from dragoman.local import EmbeddedTransport, Store
from dragoman.local.engine import Receive
from dragoman.providers import Provider, Registry, resolve, shipped
from dragoman.types import Message, Request, Text

ADDRESS = "http://embedded.invalid/v1/chat/completions"
Say = Callable[[Receive], None]


class FakeEngine:
    """Gives the pieces that a test names, and remembers what it was asked."""

    name = "fake"

    def __init__(self, say: Say) -> None:
        self.say = say
        self.asked: list[dict[str, Any]] = []
        self.ended = threading.Event()

    def complete(self, body: str, receive: Receive) -> None:
        self.asked.append(msgspec.json.decode(body))
        try:
            self.say(receive)
        finally:
            self.ended.set()


def chunk(content: str | None = None, finish: str | None = None, **fields: Any) -> str:
    delta = {"content": content} if content is not None else {}
    body = {"model": "fake", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}
    return msgspec.json.encode(body).decode()


def hello(receive: Receive) -> None:
    for piece in (chunk(prompt_progress={"total": 3}), chunk("Hel"), chunk("lo"), chunk(finish="stop")):
        receive(piece)


@pytest.fixture
def speak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Say], tuple[EmbeddedTransport, FakeEngine]]:
    file = tmp_path / "fake.gguf"
    file.write_bytes(CONTENT)
    store = Store(tmp_path / "models")
    store.add(str(file))

    def make(say: Say) -> tuple[EmbeddedTransport, FakeEngine]:
        engine = FakeEngine(say)
        monkeypatch.setattr("dragoman.local.transport.borrow", lambda path, **settings: engine)
        monkeypatch.setattr("dragoman.local.transport.give_back", lambda engine: None)
        return EmbeddedTransport(store), engine

    return make


def post(body: Any, url: str = ADDRESS) -> HttpRequest:
    return HttpRequest("POST", url, {}, body if isinstance(body, bytes) else msgspec.json.encode(body))


async def exchange(transport: EmbeddedTransport, request: HttpRequest) -> tuple[int, str, bytes]:
    response = await transport.send(request, Timeouts())
    pieces = [piece async for piece in response.pieces()]
    await response.close()
    return response.status, response.headers["content-type"], b"".join(pieces)


def test_a_stream_is_given_as_server_sent_events(speak) -> None:
    transport, engine = speak(hello)
    status, kind, body = asyncio.run(exchange(transport, post({"model": "fake", "stream": True})))
    assert (status, kind) == (200, "text/event-stream")
    frames = body.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert [msgspec.json.decode(frame[6:])["choices"][0]["delta"] for frame in frames[:2]] == [
        {"content": "Hel"},
        {"content": "lo"},
    ]
    assert engine.asked[0]["return_progress"] is True


def test_a_whole_answer_is_one_object(speak) -> None:
    transport, _ = speak(hello)
    status, kind, body = asyncio.run(exchange(transport, post({"model": "fake"})))
    assert (status, kind) == (200, "application/json")
    assert msgspec.json.decode(body)["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (post(b"{"), 400, "not a JSON object"),
        (post([]), 400, "not a JSON object"),
        (post({"model": "fake"}, "http://embedded.invalid/v1/embeddings"), 404, "has no http://"),
        (post({"model": "nowhere"}), 404, "unknown model 'nowhere'"),
    ],
    ids=["broken", "a list", "another path", "another model"],
)
def test_what_cannot_be_answered_has_a_status(speak, request_: HttpRequest, status: int, words: str) -> None:
    transport, _ = speak(hello)
    given, kind, body = asyncio.run(exchange(transport, request_))
    assert (given, kind) == (status, "application/json")
    assert words in msgspec.json.decode(body)["error"]["message"]


def test_an_error_of_the_engine_keeps_its_status(speak) -> None:
    def refuse(receive: Receive) -> None:
        receive('{"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}}')

    transport, _ = speak(refuse)
    status, _, body = asyncio.run(exchange(transport, post({"model": "fake"})))
    assert (status, msgspec.json.decode(body)["error"]["type"]) == (400, "exceed_context_size_error")


def test_an_exception_of_the_engine_is_a_bad_request(speak) -> None:
    def fail(receive: Receive) -> None:
        raise ValueError("Expected 'messages' to be an array")

    transport, _ = speak(fail)
    status, _, body = asyncio.run(exchange(transport, post({"model": "fake"})))
    assert (status, "messages" in body.decode()) == (400, True)


def test_an_error_in_the_middle_cuts_the_stream(speak) -> None:
    def break_off(receive: Receive) -> None:
        receive(chunk("Hel"))
        receive('{"error": {"code": 500, "message": "out of memory"}}')

    transport, _ = speak(break_off)
    with pytest.raises(TransportFault, match="out of memory"):
        asyncio.run(exchange(transport, post({"model": "fake", "stream": True})))


def test_closing_the_response_stops_the_generation(speak) -> None:
    def go_on(receive: Receive) -> None:
        while not receive(chunk("and ")):
            pass

    transport, engine = speak(go_on)

    async def leave() -> None:
        response = await transport.send(post({"model": "fake", "stream": True}), Timeouts())
        await response.close()

    asyncio.run(leave())
    assert engine.ended.wait(10)


def test_cancelling_before_the_first_word_stops_it_as_well(speak) -> None:
    asked = threading.Event()

    def read_long_prompt(receive: Receive) -> None:
        asked.set()
        while not receive(chunk(prompt_progress={"total": 9})):
            pass

    transport, engine = speak(read_long_prompt)

    async def leave() -> None:
        task = asyncio.ensure_future(transport.send(post({"model": "fake"}), Timeouts()))
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert engine.ended.wait(10)


def test_silence_is_a_timeout(speak) -> None:
    release = threading.Event()

    def say_nothing(receive: Receive) -> None:
        release.wait(10)

    transport, _ = speak(say_nothing)

    async def ask() -> None:
        try:
            await transport.send(post({"model": "fake"}), Timeouts(first_byte=0.0))
        finally:
            release.set()

    with pytest.raises(TransportFault) as raised:
        asyncio.run(ask())
    assert (raised.value.kind, raised.value.code) == ("timed_out", "first_byte")


# ---- which transport -------------------------------------------------------------------------------------------------


def test_a_provider_may_bring_its_own_transport(speak) -> None:
    transport, _ = speak(hello)
    endpoint = resolve("local:fake")

    async def ask() -> str:
        async with Client(endpoint, transport=transport) as client:
            return (await client.ask(Request("fake", [Message("user", [Text("Hi")])]))).text

    assert asyncio.run(ask()) == "Hello"


def test_the_row_is_opened_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("dragoman.local.open_transport", lambda endpoint: opened.append(endpoint.model) or object())
    client = Client("local", transport=HttpTransport())  # no address leads to it, so this one is not used
    client._settle()
    assert opened == ["smollm2"]


def test_a_transport_that_cannot_be_loaded_is_a_mistake_of_the_row() -> None:
    provider = Provider("odd", transport="dragoman.local:nothing")
    with pytest.raises(ConfigError, match="cannot load the transport"):
        open_transport(shipped().with_provider(provider).resolve("odd:m"))


def test_a_file_of_settings_cannot_bring_code() -> None:
    registry: Registry = shipped()
    with pytest.raises(ConfigError, match="cannot name the transport"):
        registry.with_rows('[providers.evil]\ntransport = "os:system"\n')
    mine = registry.with_rows('[providers.mine]\nlike = "local"\nmodel = "fake"\n')
    assert mine.resolve("mine").model == "fake"


def test_a_model_that_is_not_in_the_store_is_told_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.local.Store", lambda: Store(tmp_path))
    monkeypatch.setattr("dragoman.local.transport.import_llama", lambda: None)
    with pytest.raises(ConfigError, match="unknown model 'nope'"):
        Client("local:nope").check()


def test_a_model_in_this_process_takes_no_address() -> None:
    with pytest.raises(ConfigError, match="runs in this process and has no address"):
        resolve("local", base_url="http://127.0.0.1:8080/v1")
    assert resolve("local", base_url=resolve("local").base_url).model == "smollm2"
