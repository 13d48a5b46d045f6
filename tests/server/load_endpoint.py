"""An endpoint under load, as a process: it repeats the canary of each request, and fails where it is told to.

Every stream waits after its first piece until all streams of its round have begun, so that all of them are open at the
same time. The last message of a request says what to do: `round=1 of=1000 fault=reset canary-0007-5f3c`.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

import uvloop

PIECES = 5
COMMAND = [sys.executable, str(Path(__file__))]
_read_orders = re.compile(rb"round=(\d+) of=(\d+) fault=(\w*) (canary-\d+-[0-9a-f]+)").search
_read_length = re.compile(rb"(?i)content-length: *(\d+)").search
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def write_orders(canary: str, *, round: int, of: int, fault: str = "") -> str:
    """The message that tells the endpoint what to do."""
    return f"round={round} of={of} fault={fault} {canary}"


async def release(port: int, round: int, of: int) -> None:
    """Let the streams of a round go on, by a request that is the last one of the round."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = write_orders("canary-9999-ff", round=round, of=of).encode()
    writer.write(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    await reader.readline()
    writer.close()


def frame(value: Any) -> bytes:
    data = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return f"data: {data}\n\n".encode()


def delta(fields: dict[str, Any], stop: str | None = None) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": stop}
    return frame({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def write_text(canary: str) -> list[str]:
    """The pieces of the text that every stream begins with."""
    return [f"{canary} piece {number}. " for number in range(PIECES)]


def write_call(canary: str, *, as_text: bool) -> list[bytes]:
    """The frames of the call."""
    arguments = json.dumps({"note": f"argument-{canary}", "copies": 2})
    if as_text:
        said = f'<tool_call>\n{{"name": "save", "arguments": {arguments}}}\n</tool_call>'
        return [delta({"content": said[place : place + 40]}) for place in range(0, len(said), 40)]
    first = {"index": 0, "id": f"call_{canary}", "type": "function", "function": {"name": "save", "arguments": ""}}
    rest = [{"index": 0, "function": {"arguments": arguments[p : p + 15]}} for p in range(0, len(arguments), 15)]
    return [delta({"tool_calls": [call]}) for call in [first, *rest]]


class Endpoint(asyncio.Protocol):
    """One connection. It answers one request after another."""

    begun: ClassVar[defaultdict[bytes, set[bytes]]] = defaultdict(set)
    full: ClassVar[defaultdict[bytes, asyncio.Event]] = defaultdict(asyncio.Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._data = b""
        self._task: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        found = _read_length(self._data, 0, end) if end >= 0 else None
        if found and len(self._data) >= end + 4 + int(found[1]):
            body, self._data = self._data[end + 4 :], b""
            self._task = asyncio.ensure_future(self._answer(body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _answer(self, body: bytes) -> None:
        orders = _read_orders(body)
        assert orders is not None, body
        round, of, fault, canary = orders.groups()
        text = write_text(canary.decode())
        self._transport.write(HEAD + chunk(delta({"role": "assistant", "content": text[0]})))
        self.begun[round].add(canary)
        if len(self.begun[round]) == int(of):
            self.full[round].set()
        await self.full[round].wait()
        call = write_call(canary.decode(), as_text=canary[-1] in b"02468ace")
        for piece in text[1:]:
            self._transport.write(chunk(delta({"content": piece})))
            await asyncio.sleep(0)
        if fault and fault != b"slow":
            self._fail(fault.decode(), call[: len(call) // 2])
            return
        stop = "tool_calls" if b"tool_calls" in call[0] else "stop"
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        rest = [*call, delta({}, stop), frame({"id": "c", "choices": [], "usage": usage}), frame("[DONE]")]
        for data in (bytes([byte]) for byte in b"".join(rest)) if fault else rest:
            self._transport.write(chunk(data))
            await asyncio.sleep(0)
        self._transport.write(chunk(b""))

    def _fail(self, fault: str, half: list[bytes]) -> None:
        """Fail in the middle of a call."""
        write = self._transport.write
        for data in half:
            write(chunk(data))
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()
        elif fault == "cut":
            write(b"40\r\ndata: {")
            self._transport.close()
        elif fault == "error":
            write(chunk(frame({"error": {"message": "the model is overloaded", "type": "server_error"}})))
            write(chunk(b""))
        elif fault == "silent":
            write(chunk(b""))
        elif fault == "malformed":
            write(b"zz\r\n" + half[0] + b"\r\n")
            self._transport.close()
        else:
            raise ValueError(fault)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Endpoint, "127.0.0.1", 0, backlog=2048)
    print(json.dumps(server.sockets[0].getsockname()[1]), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
