"""Small servers on the loopback, whose answers a test defines byte by byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from dragoman import providers
from dragoman.client.client import Client
from dragoman.client.http import HttpTransport, Limits
from dragoman.client.retry import Retries
from dragoman.client.transport import HttpRequest, Timeouts
from dragoman.types import Message, Request, Text

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HELLO = (
    b'{"id":"r1","model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}'
)
STREAM = (
    b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"hel"}}]}\n\n'
    b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
FIRST = STREAM[: STREAM.index(b"\n\n") + 2]
REST = STREAM[len(FIRST) :]
ASKED = Request("m", [Message("user", [Text("hi")])])
QUICK = Timeouts(connect=5.0, first_byte=5.0, idle=5.0)


class Server:
    """The address of a running server, and what it has received."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.connections = 0
        self.open = 0
        self.requests: list[bytes] = []
        self.hung_up = asyncio.Event()

    def post(self, path: str = "/v1/x", body: bytes = b"{}", **headers: str) -> HttpRequest:
        return HttpRequest("POST", self.url + path, headers, body)

    def client(self, **settings: object) -> Client:
        endpoint = providers.resolve("openai_chat:m", base_url=f"{self.url}/v1")
        given = {"key": "sk-loopback-0123456789", "environment": {}, "retries": Retries(attempts=1), **settings}
        return Client(endpoint, **given)  # type: ignore[arg-type]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Return one request, head and body. It is empty at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def serve(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Run a server that passes each connection to `handler`. At the end, all connections are closed."""
    state: list[Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = state[0]
        server.connections += 1
        server.open += 1
        try:
            await handler(reader, writer)
        except ConnectionError:
            pass
        finally:
            server.open -= 1
            server.hung_up.set()
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(work(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=tls)
    state.append(Server(listener.sockets[0].getsockname()[1], "https" if tls else "http"))
    try:
        yield state[0]
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


def answer(
    body: bytes = HELLO, status: str = "200 OK", kind: str = "application/json", extra: Sequence[str] = ()
) -> bytes:
    """Return the bytes of an ordinary answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(pieces: Sequence[bytes], kind: str = "text/event-stream") -> bytes:
    """Return the bytes of an answer in chunks."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def scripted(*answers: bytes, server: list[bytes] | None = None) -> Handler:
    """Return a handler that sends these answers in order, over all connections, and then closes each connection."""
    waiting = list(answers)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while waiting:
            request = await read_request(reader)
            if not request:
                return
            if server is not None:
                server.append(request)
            writer.write(waiting.pop(0))
            await writer.drain()
        await read_request(reader)

    return handler


def always(data: bytes, seen: list[bytes] | None = None) -> Handler:
    """Return a handler that sends the same answer to every request."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await read_request(reader):
            if seen is not None:
                seen.append(request)
            writer.write(data)
            await writer.drain()

    return handler


def once(data: bytes) -> Handler:
    """Return a handler that answers the first request of a connection, and closes it."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        await writer.drain()

    return handler


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read, and send nothing until the client closes the connection."""
    while await reader.read(65536):
        pass


async def fetch(transport: HttpTransport, request: HttpRequest, timeouts: Timeouts = QUICK) -> tuple[int, bytes]:
    """Return the status and the whole body."""
    response = await transport.send(request, timeouts)
    try:
        return response.status, b"".join([piece async for piece in response.pieces()])
    finally:
        await response.close()


@asynccontextmanager
async def transport(**settings: object) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(**settings)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.close()


SMALL = Limits(body_bytes=100_000, head_bytes=4096, headers=20)
