"""The load on gateways: requests over a few connections, and the CPU time and memory of what stands in between."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.support.gateway_parts import PIECE

PARTS = Path(__file__).with_name("gateway_parts.py")
_FIRST_WORD = PIECE.split()[0].encode()
_FILLER = "Answer as briefly as you can, and use the tools. " * 20


def write_request(wire: str, stream: bool, pause: int = 0) -> tuple[str, bytes]:
    """The path and the body of a request of 2 kB with two tools.

    `pause` are the milliseconds between two chunks of a stream.
    """
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "A city."}}}
    names = [("weather", "The weather in a city, now."), ("population", "The number of people in a city.")]
    messages = [{"role": "user", "content": "What is the weather in Paris? " + _FILLER}]
    body: dict[str, Any] = {"model": "m", "messages": messages, "stream": stream} | ({"seed": pause} if pause else {})
    if wire == "anthropic":
        body |= {"max_tokens": 500, "tools": [{"name": n, "description": d, "input_schema": schema} for n, d in names]}
        return "/v1/messages", json.dumps(body).encode()
    functions = [{"name": name, "description": said, "parameters": schema} for name, said in names]
    body["tools"] = [{"type": "function", "function": function} for function in functions]
    return "/v1/chat/completions", json.dumps(body).encode()


class Connection(asyncio.Protocol):
    """One connection of the load: it sends a request and waits for the whole answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._data = bytearray()
        self._done: asyncio.Future[bytes] | None = None
        self._sent = 0.0
        self.first = 0.0
        """The seconds until the first text of a stream."""

    def data_received(self, data: bytes) -> None:
        # Not the first bytes: some send a chunk without text at once.
        if not self.first and _FIRST_WORD in data:
            self.first = time.perf_counter() - self._sent
        self._data += data
        if self._is_whole() and self._done is not None and not self._done.done():
            self._done.set_result(bytes(self._data))

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))

    def _is_whole(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return False
        found = re.search(rb"(?i)content-length: *(\d+)", self._data[:end])
        if found:
            return len(self._data) >= end + 4 + int(found[1])
        return self._data.endswith(b"0\r\n\r\n")

    async def ask(self, request: bytes) -> bytes:
        self._data.clear()
        self._done = asyncio.get_running_loop().create_future()
        self._sent, self.first = time.perf_counter(), 0.0
        self._transport.write(request)
        return await self._done

    def close(self) -> None:
        self._transport.close()


async def load(
    port: int, path: str, body: bytes, count: int, connections: int, key: str = "", firsts: list[float] | None = None
) -> tuple[list[float], bytes]:
    """Send requests over some connections. Return the seconds of each, and the last answer.

    `firsts` receives the seconds until the first text of each stream.
    """
    said = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    said += f"\r\nauthorization: Bearer {key}" if key else ""
    head = f"POST {path} HTTP/1.1\r\n{said}\r\n\r\n"
    request = head.encode() + body
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(connections)]
    taken: list[float] = []
    left = count
    last = b""

    async def work(connection: Connection) -> None:
        nonlocal left, last
        while left > 0:
            left -= 1
            start = time.perf_counter()
            last = await connection.ask(request)
            taken.append(time.perf_counter() - start)
            if firsts is not None:
                firsts.append(connection.first)

    await asyncio.gather(*(work(connection) for connection in opened))
    for connection in opened:
        connection.close()
    return taken, last


def cpu_of(pid: int) -> float:
    """The seconds of CPU that all threads of a process have used."""
    total = 0
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # The thread has ended.
            total += int(each.read_text(encoding="utf-8").split()[0])
    return total / 1e9


def memory_of(pid: int) -> float:
    """The most memory that a process has used, in megabytes."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(found[1]) / 1024 if found else 0.0


@contextmanager
def started(command: list[str]) -> Iterator[tuple[int, int, float]]:
    """Start a process that prints its port. Yields the pid, the port and the seconds until it listened."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} did not start")
        port = json.loads(line)
        if isinstance(port, dict):
            port = int(port["url"].rpartition(":")[2])
        yield process.pid, port, time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def settings_file(folder: Path, upstream: int) -> Path:
    path = folder / "gateway.toml"
    url = f"http://127.0.0.1:{upstream}/v1"
    row = f'[endpoints.e]\nurl = "{url}"\nwire = "openai_chat"\nmodel = "m"\ntool_mode = "native"'
    path.write_text(f'{row}\n\n[[routes]]\nto = "e"\n', encoding="utf-8")
    return path
