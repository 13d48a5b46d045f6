"""Whole replies and the start: short cuts that save time, and that nobody may notice otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec
from tests.formats import work

from dragoman.client.client import Client
from dragoman.events import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Event,
    PartEnded,
    ReplyEnded,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.extraction.responses import ConversationContext
from dragoman.extraction.tool_mode import choose_tool_mode, compose
from dragoman.pipeline import Backend, Exchange, ReplyTranslator, Report
from dragoman.replies import fold
from dragoman.server.gateway import Gateway
from dragoman.server.process import load_pipeline
from dragoman.server.protocol import JoinedWrites
from dragoman.server.router import Router, find_endpoint
from dragoman.server.settings import EndpointSettings, GatewaySettings, RouteSettings
from dragoman.toolset import SharedTools, Toolset
from dragoman.types import Message, Provenance, Request, Text, Thinking, Tool, ToolCall, Usage

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK = Tool("look", "Looks at a city.", CITY)
CALLED = '<tool_call>{"name": "look", "arguments": {"city": "Rome"}}</tool_call>'
ROW = EndpointSettings(url="http://127.0.0.1:9/v1", wire="openai_chat", model="m")

TEXTS = [
    ("I look.", "I look.", ""),
    ("", "", ""),
    ("Two lines:\n\nI look `there`, {so}.", "Two lines:\n\nI look `there`, {so}.", ""),
    ("<think>Where?</think>I look.", "I look.", "Where?"),
    ("I look.<think>Where?</think>", "I look.", "Where?"),
    ("<think>Where?</think>", "", "Where?"),
    (f"As in {CALLED} I look.", f"As in {CALLED} I look.", ""),
    ("look(city='Rome')", "look(city='Rome')", ""),
    ("Grüße aus Köln", "Grüße aus Köln", ""),
]


def write_events(text: str, *, pieces: int) -> list[Event]:
    """A reply with text and a native call; the text in pieces of some characters."""
    call = ToolCall("c1", "look", {"city": "Oslo"}, True, True, provenance=Provenance("native", "openai_chat"))
    texts = [TextDelta(text[start : start + pieces]) for start in range(0, len(text), pieces)]
    events: list[Event] = [ReplyStarted("m", "r"), ThinkingDelta("First."), PartEnded("thinking"), *texts]
    events += [CallStarted(0, "look", "c1"), ArgumentsDelta(0, '{"city":"Oslo"}'), CallEnded(0, call)]
    return [*events, UsageReported(Usage(3, 2)), ReplyEnded("end", {"openai_chat": {"reason": "stop"}})]


def open_translator() -> ReplyTranslator:
    mode = choose_tool_mode(find_endpoint(ROW, "m"), Toolset([LOOK]), "native", trust="compat")
    messages = [Message.user("Look at Oslo.")]
    return ReplyTranslator(compose(messages, mode), ConversationContext(messages, mode.tools))


def test_the_work_for_calls_of_unknown_tools_grows_with_their_number() -> None:
    def translate(number: int) -> None:
        events: list[Event] = [ReplyStarted("m", "r")]
        for place in range(number):
            name, id = f"unknown{place}", f"c{place}"
            events += [CallStarted(place, name, id), CallEnded(place, ToolCall(id, name, {}, True, False))]
        _, verdict = open_translator().translate([*events, ReplyEnded("tool_calls")])
        assert len(verdict.calls) == number

    translate(10)
    small, large = (sum(work.work_of_call(lambda n=n: translate(n))) for n in (200, 800))  # type: ignore[misc]
    assert large < 5 * small


def test_text_beside_a_native_call_arrives_once_whole_and_in_pieces() -> None:
    for text, expected, thought in TEXTS:
        for pieces in (1000, 5, 1):
            events, translator = write_events(text, pieces=pieces), open_translator()
            if pieces == 1000:
                ready, verdict = translator.translate(events)
            else:
                ready = [passed for event in events for passed in translator.feed(event)]
                verdict = translator.close()
            parts = fold([*ready, *verdict.events]).message.parts
            assert "".join(part.text for part in parts if isinstance(part, Text)) == expected, (text, pieces)
            assert "".join(part.text for part in parts if isinstance(part, Thinking)) == f"First.{thought}", text
            assert [call.arguments for call in parts if isinstance(call, ToolCall)] == [{"city": "Oslo"}], text
            assert (verdict.stop, verdict.extra, verdict.usage) == ("tool_calls", {"openai_chat": {}}, Usage(3, 2))
            assert verdict.message.parts[0].text == "First.", "the history of a repair turn has the whole reply"


def test_requests_with_the_same_tools_are_composed_like_all_others() -> None:
    many = [Tool(f"tool_{number}", "Does something. " * 30, CITY) for number in range(60)]
    rows = [(ROW, "native"), (ROW, "text"), (msgspec.structs.replace(ROW, context_window=2000), "native")]
    for tools in ([LOOK], [LOOK, *many]):
        shared = SharedTools(tools)
        for _ in range(2):
            for row, mode in rows:
                client = Client(find_endpoint(row, "m"), key="k")
                sent = []
                for given in (shared, list(tools)):
                    request = Request("", [Message.user("Look.")], given)
                    exchange = Exchange(request, [Backend(client, mode)], Report("ex_1"), secret=b"s")  # type: ignore[arg-type]
                    composed = exchange._prepare(request.messages)
                    assert not isinstance(composed, list)
                    described = [(tool.name, tool.description, tool.parameters) for tool in composed.request.tools]
                    sent.append((described, composed.request.messages, composed.request.options, exchange.report))
                assert sent[0] == sent[1], (len(tools), mode, row.context_window)
    assert len(shared.derived) <= 16


class Call:
    """A request to an ASGI application."""

    def __init__(self, method: str, path: str, body: bytes = b"") -> None:
        self._scope = {"type": "http", "method": method, "path": path, "headers": [(b"host", b"localhost")]}
        self._body = body
        self.sent: list[MutableMapping[str, Any]] = []

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None  # type: ignore[assignment]
        return {"type": "http.request", "body": body}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    async def run(self, gateway: Gateway) -> tuple[int, Any]:
        await gateway(self._scope, self._receive, self._send)
        return self.sent[0]["status"], msgspec.json.decode(self.sent[1]["body"])


def test_a_gateway_that_loads_its_parsers_says_so_and_lets_exchanges_wait() -> None:
    body = msgspec.json.encode({"model": "unknown", "messages": []})
    settings = GatewaySettings(endpoints={"e": ROW}, routes=[RouteSettings(match="m", to="e")])

    async def check() -> None:
        gateway = Gateway(Router(settings))
        assert (await Call("GET", "/readyz").run(gateway))[0] == 200, "nothing has to be loaded without a server"
        gateway.loading = asyncio.get_running_loop().create_future()
        assert await Call("GET", "/readyz").run(gateway) == (503, {"status": "starting", "resting": []})
        assert (await Call("GET", "/healthz").run(gateway))[0] == 200
        exchange = asyncio.ensure_future(Call("POST", "/v1/chat/completions", body).run(gateway))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not exchange.done()
        gateway.loading.set_result(None)
        status, said = await exchange
        assert (status, said["error"]["code"]) == (404, "model_not_found")

    asyncio.run(check())
    load_pipeline()


class Written:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.packets.append(data)

    def close(self) -> None:
        self.packets.append(b"closed")

    def is_closing(self) -> bool:
        return self.packets[-1:] == [b"closed"]


def test_the_head_and_the_body_of_a_whole_answer_are_one_packet() -> None:
    below = Written()
    transport = JoinedWrites(below)
    for data in (b"head", b"first", b"last"):
        transport.write(data)
    assert below.packets == [b"head", b"first", b"last"], "a stream is written as it comes"
    transport.hold()
    transport.write(b"head")
    assert below.packets[3:] == []
    transport.write(b"body")
    transport.write(b"next")
    assert below.packets[3:] == [b"headbody", b"next"]
    transport.hold()
    transport.write(b"head")
    transport.close()
    assert below.packets[5:] == [b"head", b"closed"] and transport.is_closing(), "a body that never came"
