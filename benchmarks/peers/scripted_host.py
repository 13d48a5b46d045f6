"""A host on the loopback that gives an odd output first, and an answer as soon as the model is sent something new."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from benchmarks.peers.odd_outputs import GOOD_REPLY, LAST_REPLY, Odd, news, stream_frames, whole_body

MOST_REQUESTS = 20


class ScriptedHost:
    """The host, as long as the block lasts. `play` sets the odd output; `requests` are the bodies since then."""

    def __enter__(self) -> Self:
        self.requests: list[dict[str, Any]] = []
        self._odd: Odd = GOOD_REPLY
        host = self

        class Handler(_Handler):
            def reply_to(self, body: dict[str, Any]) -> Odd:
                return host._choose(body)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def play(self, odd: Odd) -> None:
        self._odd, self.requests = odd, []

    def _choose(self, body: dict[str, Any]) -> Odd:
        self.requests.append(body)
        if news(body) or len(self.requests) > MOST_REQUESTS:
            return LAST_REPLY
        return GOOD_REPLY if self._odd.fault and len(self.requests) > 1 else self._odd


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # A client may close its connection whenever it likes.


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply_to(self, body: dict[str, Any]) -> Odd:
        raise NotImplementedError

    def log_message(self, format: str, *values: object) -> None:
        pass

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "nobody"}]}
        self._send(200 if self.path.endswith("/models") else 404, json.dumps(models).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/chat/completions"):
            self._send(404, b'{"error": {"message": "no such path", "type": "invalid_request_error"}}')
            return
        odd = self.reply_to(body)
        if not body.get("stream"):
            self._send(200, whole_body(odd))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for frame in stream_frames(odd):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
