"""The network of the judges: none. A request of the client is kept, and the answer is already there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec


class Line:
    """Gives one prepared answer to every request and keeps what was asked: `asked` holds (path, body) pairs."""

    def __init__(self, chunks: list[bytes], status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._chunks = chunks
        self._status = status
        self._headers = dict(headers or {})

    def client(self) -> httpx.Client:
        """An HTTP client at whose other end is this line. The caller closes it."""
        return httpx.Client(transport=httpx.MockTransport(self.answer), base_url="http://judge.invalid")

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.url.path, msgspec.json.decode(request.content)))
        return httpx.Response(self._status, headers=self._headers, content=iter(self._chunks))


def whole(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Line:
    """A line that answers with one JSON document."""
    return Line([msgspec.json.encode(body)], status, {"content-type": "application/json", **(headers or {})})
