"""The processes of the benchmark of the gateway: an endpoint with fixed answers, and proxies that only re-serialise.

    python gateway_parts.py endpoint            answers every request from memory
    python gateway_parts.py proxy ADDRESS       reads JSON and writes it again, with Starlette on uvicorn and uvloop
    python gateway_parts.py bare ADDRESS        the same without a framework: the least that a proxy can cost

Each prints its port. Both proxies send with the HTTP client of the gateway.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

CHUNKS = 60
PIECE = "twenty characters ok"
_MODEL = {"id": "r", "object": "chat.completion", "created": 1, "model": "m"}
_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
WHOLE = msgspec.json.encode(
    {
        **_MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "I look.", "tool_calls": [_CALL]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420},
    }
)


def _write_events() -> list[bytes]:
    head = {**_MODEL, "object": "chat.completion.chunk"}

    def frame(delta: dict[str, Any], reason: str | None = None) -> bytes:
        body = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        return b"data: " + msgspec.json.encode(body) + b"\n\n"

    texts = [frame({"content": PIECE + " "}) for _ in range(CHUNKS)]
    return [frame({"role": "assistant", "content": ""}), *texts, frame({}, "stop"), b"data: [DONE]\n\n"]


_ANSWER = (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(WHOLE)) + WHOLE
_BEGIN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENTS = [b"%x\r\n%b\r\n" % (len(event), event) for event in _write_events()]
_find_length = re.compile(rb"(?i)\r\ncontent-length: *(\d+)").search
_asks_for_stream = re.compile(rb'"stream": ?true').search
# Gateways pass this field on, so a client can say with it how many milliseconds lie between two chunks.
_find_pause = re.compile(rb'"seed": ?(\d+)').search


class Endpoint(asyncio.Protocol):
    """Answers requests with fixed bytes. Each event of a stream is a write of its own, as a model's server does it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._waiting = b""

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while (end := self._waiting.find(b"\r\n\r\n") + 4) > 3:
            found = _find_length(self._waiting[:end])
            size = end + (int(found[1]) if found else 0)
            if len(self._waiting) < size:
                return
            body = self._waiting[end:size]
            self._waiting = self._waiting[size:]
            if _asks_for_stream(body):
                pause = _find_pause(body)
                self._task = asyncio.ensure_future(self._stream(int(pause[1]) / 1000 if pause else 0.0))
            else:
                self._transport.write(_ANSWER)

    async def _stream(self, pause: float) -> None:
        self._transport.write(_BEGIN)
        for event in _EVENTS:
            self._transport.write(event)
            # At least the next turn of the loop, so that every event is a packet of its own.
            await asyncio.sleep(pause)
        self._transport.write(b"0\r\n\r\n")


async def run_endpoint() -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


def serialise(data: bytes | str) -> bytes:
    """Read JSON and write it again."""
    return msgspec.json.encode(msgspec.json.decode(data))


class Upstream:
    """Sends requests to the endpoint. The JSON of every request, answer and event is read and written again."""

    def __init__(self, address: str) -> None:
        from dragoman.client.http import HttpTransport

        self._url = f"{address}/v1/chat/completions"
        self._transport = HttpTransport()

    async def send(self, body: bytes) -> Any:
        from dragoman.client.transport import HttpRequest, Timeouts

        headers = {"content-type": "application/json"}
        return await self._transport.send(HttpRequest("POST", self._url, headers, serialise(body)), Timeouts())

    async def read_whole(self, response: Any) -> bytes:
        whole = b"".join([piece async for piece in response.pieces()])
        await response.close()
        return serialise(whole)

    async def read_events(self, response: Any) -> AsyncIterator[bytes]:
        from dragoman.wire.framing import SseDecoder

        decoder = SseDecoder()
        async for piece in response.pieces():
            for event in decoder.feed(piece):
                text: str = getattr(event, "data", "")
                yield b"data: " + (text.encode() if text == "[DONE]" else serialise(text)) + b"\n\n"
        await response.close()


def make_starlette_proxy(address: str) -> Any:
    """A proxy as one writes it: it repairs and translates nothing."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    upstream = Upstream(address)

    async def forward(request: Request) -> Response:
        response = await upstream.send(await request.body())
        kind = response.headers.get("content-type", "")
        if kind == "text/event-stream":
            return StreamingResponse(upstream.read_events(response), response.status, media_type=kind)
        return Response(await upstream.read_whole(response), response.status, media_type=kind)

    return Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])])


class BareProxy:
    """The same proxy as a plain ASGI application."""

    def __init__(self, address: str) -> None:
        self._upstream = Upstream(address)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        response = await self._upstream.send(body)
        kind = response.headers.get("content-type", "").encode()
        await send({"type": "http.response.start", "status": response.status, "headers": [(b"content-type", kind)]})
        if kind == b"text/event-stream":
            async for data in self._upstream.read_events(response):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.body", "body": await self._upstream.read_whole(response)})


def run_proxy(application: Any) -> None:
    import uvicorn

    from dragoman.server.process import open_socket

    listener = open_socket("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "endpoint":
        import uvloop

        uvloop.run(run_endpoint())
    else:
        run_proxy(BareProxy(sys.argv[2]) if sys.argv[1] == "bare" else make_starlette_proxy(sys.argv[2]))
