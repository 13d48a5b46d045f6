"""A server on the loopback in a process of its own, so that its CPU time is not that of the client.

`/whole` answers with one JSON body, `/stream` with 500 server-sent events in chunks of their own.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

CHUNKS = 500
WHOLE = (
    b'{"id":"r","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"The tide is coming in."},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":6,"total_tokens":18}}'
)
EVENT = b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":" tide"},"finish_reason":null}]}\n\n'
_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 02 Mar 2026 10:00:00 GMT\r\nserver: loopback\r\ncontent-type: %b\r\n"
    b"x-request-id: 6f1c2d3e\r\n"
)
_ANSWER = _HEAD % b"application/json" + b"content-length: %d\r\n\r\n" % len(WHOLE) + WHOLE
_BEGIN = _HEAD % b"text/event-stream" + b"transfer-encoding: chunked\r\n\r\n"
_CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
_find_length = re.compile(rb"(?i)\r\ncontent-length: *(\d+)").search


class TransportServer:
    """The server, as long as the block lasts."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    waiting = b""
    while data := connection.recv(65536):
        waiting += data
        end = waiting.find(b"\r\n\r\n") + 4
        found = _find_length(waiting[:end]) if end > 3 else None
        size = end + (int(found[1]) if found else 0)
        if end < 4 or len(waiting) < size:
            continue
        streams = b" /stream " in waiting[:40]
        waiting = waiting[size:]
        if not streams:
            connection.sendall(_ANSWER)
            continue
        connection.sendall(_BEGIN)
        for _ in range(CHUNKS):
            connection.sendall(_CHUNK)
        connection.sendall(b"0\r\n\r\n")


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
