"""A gateway as a process of its own, and raw clients of every wire that talk to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from dragoman import wire as wires
from dragoman.replies import fold
from dragoman.testing.faults import chunk
from dragoman.testing.upstream import Incoming
from dragoman.types import Reply

SAVE = {
    "name": "save",
    "description": "Save a note.",
    "parameters": {"type": "object", "properties": {"note": {"type": "string"}, "copies": {"type": "integer"}}},
}
CLIENTS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")


# ---- processes -------------------------------------------------------------------------------------------------------


class Running(NamedTuple):
    """A process that listens, with what the system knows about it."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    said: Any = None
    """Its first line."""

    @property
    def memory(self) -> float:
        """The memory that it uses now, in MB."""
        return self._status("VmRSS") / 1024

    @property
    def most_memory(self) -> float:
        """The most memory that it has used since its start, or since `forget_memory`, in MB."""
        return self._status("VmHWM") / 1024

    def forget_memory(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def _status(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8"))
        assert found is not None
        return int(found[1])

    @property
    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def started(command: list[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[Running]:
    """Start a process whose first line is its port, or a JSON object with its URL."""
    with log.open("w", encoding="utf-8") as errors:
        variables = {**os.environ, **(environment or {})}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text(encoding="utf-8")
        said = json.loads(line)
        yield Running(process, int(said["url"].rpartition(":")[2]) if isinstance(said, dict) else said, log, said)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def serving(
    folder: Path,
    url: str,
    *arguments: str,
    gateway: str = "",
    endpoint: str = "",
    wrapper: tuple[str, ...] = (),
    port: int = 0,
) -> Iterator[Running]:
    """Run `dragoman serve` with one endpoint. `gateway` and `endpoint` are further lines of these tables."""
    path = folder / "gateway.toml"
    row = f'[endpoints.e]\nurl = "{url}"\nwire = "openai_chat"\nmodel = "m"\ntool_mode = "native"\n{endpoint}'
    path.write_text(f'[gateway]\n{gateway}\n{row}\n[[routes]]\nto = "e"\n', encoding="utf-8")
    command = [
        *wrapper,
        sys.executable,
        "-m",
        "dragoman",
        "serve",
        "--config",
        str(path),
        "--port",
        str(port),
        "--json",
    ]
    state = {"XDG_STATE_HOME": str(folder), "DRAGOMAN_FACTS": "off", "TMPDIR": str(folder / "temporary")}
    with started([*command, "--json", *arguments], folder / "gateway.log", state) as running:
        yield running


# ---- clients ---------------------------------------------------------------------------------------------------------


def write_request(wire: str, text: str, *, stream: bool = True, headers: str = "", keep: bool = False) -> bytes:
    """A request of a client, with a tool."""
    messages = [{"role": "user", "content": text}]
    function = {"type": "function", "function": SAVE}
    body: dict[str, Any]
    path, body = {
        "openai_chat": ("/v1/chat/completions", {"messages": messages, "tools": [function]}),
        "openai_responses": ("/v1/responses", {"input": text, "tools": [{"type": "function", **SAVE}]}),
        "anthropic": (
            "/v1/messages",
            {
                "max_tokens": 500,
                "messages": messages,
                "tools": [{"name": "save", "input_schema": SAVE["parameters"]}],
            },
        ),
        "gemini": (
            f"/v1beta/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}",
            {
                "contents": [{"role": "user", "parts": [{"text": text}]}],
                "tools": [{"functionDeclarations": [SAVE]}],
            },
        ),
        "ollama": ("/api/chat", {"messages": messages, "tools": [function]}),
    }[wire]
    data = json.dumps(body if wire == "gemini" else {"model": "m", "stream": stream, **body}).encode()
    close = "" if keep else "Connection: close\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{close}{headers}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


class Answer(NamedTuple):
    """An HTTP answer. `is_whole` says whether its end has arrived."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool


def read_answer(data: bytes) -> Answer:
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split(" ")[1]) if first.startswith("HTTP/1.1 ") else 0
    if headers.get("transfer-encoding") != "chunked":
        return Answer(status, headers, rest, status > 0 and len(rest) == int(headers.get("content-length", "0")))
    pieces = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(rest[:length])
        if not length:
            return Answer(status, headers, b"".join(pieces), True)
        rest = rest[length + 2 :]
    return Answer(status, headers, b"".join(pieces), False)


def read_stream(wire: str, body: bytes) -> Reply:
    """What a client of a wire makes of a stream."""
    stream = wires.get(wire).reply_stream()
    return fold([*stream.feed(body), *stream.close()])


class RawClient(asyncio.Protocol):
    """Sends bytes, and collects what comes until the gateway closes the connection."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.received = bytearray()
        self.ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.transport.write(self._data)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.first.done():
            self.first.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.first, self.ended):
            if not future.done():
                future.set_result(None if future is self.first else bytes(self.received))  # type: ignore[arg-type]


async def connect(port: int, data: bytes) -> RawClient:
    _, client = await asyncio.get_running_loop().create_connection(lambda: RawClient(data), "127.0.0.1", port)
    return client


async def exchange(port: int, data: bytes) -> Answer:
    """Send a request, and return the whole answer."""
    return read_answer(await (await connect(port, data)).ended)


def get(port: int, path: str) -> Answer:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return asyncio.run(exchange(port, request.encode()))


# ---- an endpoint without end -----------------------------------------------------------------------------------------


class Flood:
    """An endpoint that sends a stream without end, as fast as it is read, and counts what it has sent."""

    def __init__(self) -> None:
        self.url = ""
        self.sent = 0
        self.left = threading.Event()
        """The client has disconnected."""
        self._started = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        assert self._started.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self.left.set()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._started.set()
        await asyncio.to_thread(self.left.wait, 120)
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = chunk(b'data: {"choices":[{"delta":{"content":"' + b"word " * 200 + b'"}}]}\n\n')
        try:
            await Incoming(reader).read()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            while not reader.at_eof():
                writer.write(frame * 20)
                await writer.drain()
                self.sent += 20 * len(frame)
        except ConnectionError:
            pass
        finally:
            self.left.set()
            writer.close()
