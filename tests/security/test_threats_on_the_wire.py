"""Threats 19 and 20, as far as they concern a client: where keys go, and what can be smuggled into HTTP.

The tests of the gateway itself are in `tests/server`; `docs/security-guarantees.md` names them.
"""

from __future__ import annotations

import asyncio
import base64
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import dragoman
from dragoman.agent import Agent, Connection, RunFailed
from dragoman.agent.result import RunResult
from dragoman.client.http import HttpTransport
from dragoman.client.retry import Retries
from dragoman.client.transport import HttpRequest, Timeouts, TransportFault
from dragoman.errors import DragomanError

KEY = "sk-wire-0123456789abcdef"
CALL = (
    '{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": '
    '[{"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}]}}]}'
)


class Peer:
    """A server that answers every request with the same bytes, and records the requests."""

    def __init__(self, answer: Callable[[], bytes]) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self._answer = answer

    async def __aenter__(self) -> Peer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            writer.write(self._answer())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class PaymentTool:
    def __init__(self) -> None:
        self.paid = 0

        @dragoman.tool
        def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        self.pay = pay


async def ask(port: int, payment: PaymentTool, key: str = KEY, host: str = "127.0.0.1") -> RunResult:
    made = Agent(
        "openai:gpt-5",
        [payment.pay],
        base_url=f"http://{host}:{port}/v1",
        key=key,
        connection=Connection(retries=Retries(attempts=1)),
    )
    try:
        return await asyncio.wait_for(made.arun("Pay.", check=False), 30)
    finally:
        await made.aclose()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_threat_19_a_redirect_does_not_carry_the_key_to_another_address(status: str) -> None:
    async def scenario() -> tuple[RunResult, Peer, Peer]:
        async with Peer(lambda: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as thief:
            place = f"http://127.0.0.1:{thief.port}/v1/chat/completions"
            head = f"HTTP/1.1 {status}\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
            async with Peer(lambda: head) as first:
                return await ask(first.port, PaymentTool()), first, thief

    result, first, thief = asyncio.run(scenario())
    assert (first.connections, thief.connections) == (1, 0)
    assert f"Bearer {KEY}" in first.heads[0]
    assert result.outcome.kind == "provider_failed" and "redirects to" in result.outcome.reason
    assert KEY not in str(result)


def test_threat_19_an_error_that_repeats_the_key_does_not_show_it() -> None:
    body = f'{{"error": {{"message": "no such key: {KEY}"}}}}'.encode()
    head = f"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    events: list[Any] = []

    async def scenario() -> None:
        async with Peer(lambda: head.encode() + body) as peer:
            made = Agent("openai:gpt-5", base_url=f"http://127.0.0.1:{peer.port}/v1", key=KEY)
            try:
                await made.arun("Hi.", on_event=events.append)
            finally:
                await made.aclose()

    with pytest.raises(RunFailed) as caught:
        asyncio.run(scenario())
    assert events and KEY not in "".join(map(str, events))
    assert KEY not in "".join(traceback.format_exception(caught.value))


ENCODED: dict[str, Callable[[str], str]] = {
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of the header": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "base64 behind a name": lambda key: base64.b64encode(f"x:{key}".encode()).decode(),
    "base64 for links": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "hexadecimal": lambda key: key.encode().hex(),
    "capital hexadecimal": lambda key: key.encode().hex().upper(),
    "percent codes": lambda key: "".join(f"%{byte:02x}" for byte in key.encode()),
    "backwards": lambda key: key[::-1],
    "escapes": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
    "entities": lambda key: "".join(f"&#{ord(char)};" for char in key),
}


@pytest.mark.parametrize("place", ["a status", "an event", "a body that is not JSON", "an answer that is not HTTP"])
def test_threat_19_an_error_does_not_show_the_key_in_an_encoding(place: str) -> None:
    async def scenario(text: str) -> RunResult:
        error = f'{{"error": {{"message": "no such key: {text}", "code": "{text}", "seen": ["{text}"]}}}}'
        data = {"an event": f"data: {error}\n\n", "a body that is not JSON": f"<p>{text}"}.get(place, error).encode()
        status = "401 Unauthorized" if place == "a status" else "200 OK"
        kind = "text/event-stream" if place == "an event" else "application/json"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
        if place == "an answer that is not HTTP":
            head, data = f"NONSENSE {text}\r\nX {text}: 1\r\n\r\n", b""
        async with Peer(lambda: head.encode() + data) as peer:
            return await ask(peer.port, PaymentTool())

    for name, encode in ENCODED.items():
        text = encode(KEY)
        if place == "an answer that is not HTTP" and len(text) > 50:
            continue  # Only its beginning is quoted, and that is no form of the key.
        result = asyncio.run(scenario(text))
        shown = repr(result)
        assert result.outcome.kind != "done", name
        assert "***" in shown, (name, shown)
        assert text.strip("=")[4:-4] not in shown and KEY[4:-4] not in shown, (name, shown)


# ---- 20 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evil", ["sk-1\r\nX-Evil: 1", "sk-1\nX-Evil: 1", "sk-1\r\n\r\nGET / HTTP/1.1", "sk-\x00"])
def test_threat_20_a_key_or_a_header_with_the_end_of_a_line_in_it_is_not_sent(evil: str) -> None:
    async def scenario() -> Peer:
        async with Peer(lambda: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as peer:
            transport = HttpTransport()
            for name, value in (("Authorization", evil), (f"X-{evil}", "1")):
                request = HttpRequest("POST", f"http://127.0.0.1:{peer.port}/", {name: value}, b"{}")
                with pytest.raises((TransportFault, DragomanError)):
                    await transport.send(request, Timeouts())
            await transport.close()
            try:
                result = await ask(peer.port, PaymentTool(), key=evil)
                assert not result.outcome.is_success
            except DragomanError:
                pass
            return peer

    peer = asyncio.run(scenario())
    assert not any("evil" in head.lower() or "GET / " in head for head in peer.heads)


_LENGTH = f"Content-Length: {len(CALL)}\r\n"
_CHUNK = f"{len(CALL):x}\r\n{CALL}\r\n0\r\n\r\n"
SMUGGLED = {
    "a length and chunks": f"HTTP/1.1 200 OK\r\n{_LENGTH}Transfer-Encoding: chunked\r\n\r\n{_CHUNK}",
    "two lengths": f"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{_LENGTH}\r\n{CALL}",
    "a length with a sign": f"HTTP/1.1 200 OK\r\nContent-Length: +{len(CALL)}\r\n\r\n{CALL}",
    "a folded header": f"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n{_LENGTH}\r\n{CALL}",
    "lines without a return": f"HTTP/1.1 200 OK\n{_LENGTH}\n{CALL}",
    "a blank before the colon": f"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n{_LENGTH}\r\n{CALL}",
    "a chunk of no size": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{CALL}\r\n0\r\n\r\n",
    "half of it": f"HTTP/1.1 200 OK\r\n{_LENGTH}\r\n{CALL[:-20]}",
}


@pytest.mark.parametrize("answer", SMUGGLED.values(), ids=SMUGGLED)
def test_threat_20_an_answer_that_can_be_read_in_two_ways_runs_nothing(answer: str) -> None:
    payment = PaymentTool()
    head, _, body = answer.partition("\r\n")
    typed = f"{head}\r\nContent-Type: application/json\r\n{body}" if body else answer

    async def scenario() -> RunResult:
        async with Peer(lambda: typed.encode()) as peer:
            return await ask(peer.port, payment)

    result = asyncio.run(scenario())
    assert payment.paid == 0
    assert result.outcome.kind == "provider_failed"
