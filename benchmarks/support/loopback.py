"""A bare upstream for benchmarks, in a process of its own: a call first, an answer once it is given a result.

It reads no more of HTTP than it must, so that what is measured is the client. `python loopback.py` prints its port.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_ARGUMENTS = {"city": "Paris"}
ANSWER = "It is sunny in Paris."


def _completion(message: dict[str, Any], reason: str) -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60},
        }
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


_FUNCTION = {"name": "weather", "arguments": json.dumps(_ARGUMENTS)}
CALL = _completion(
    {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": _FUNCTION}]}, "tool_calls"
)
TEXT = _completion({"content": ANSWER}, "stop")


class _Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            found = head.find(b"content-length:")
            length = int(head[found + 15 :].split(b"\r\n", 1)[0]) if found >= 0 else 0
            if len(self._received) < end + 4 + length:
                return
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            self._transport.write(TEXT if b"tool_call_id" in body else CALL)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Loopback:
    """The upstream as a context: `.url` is what clients take as the base."""

    def __enter__(self) -> Loopback:
        self._process = subprocess.Popen([sys.executable, Path(__file__)], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *ended: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve())
