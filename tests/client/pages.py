"""A transport that answers from tables of pages: a server of metadata without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, TransportFault

Post = Callable[[Any], Any]
Answered = tuple[int, Any] | TransportFault


NOT_FOUND: Answered = (404, {"detail": "Not Found"})


class Page:
    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        is_text = isinstance(body, str)
        self.headers: Mapping[str, str] = {"content-type": "text/html" if is_text else "application/json"}
        self._data = body.encode() if is_text else b"" if body is None else json.dumps(body).encode()

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._data:
            yield self._data

    async def close(self) -> None:
        pass


class Pages:
    """`pages` are answers to GET by URL; `posts` are answers to POST: a body, a tuple of status and body, or None."""

    def __init__(self, pages: Mapping[str, Any], otherwise: Answered = NOT_FOUND) -> None:
        self.pages = dict(pages)
        self.posts: dict[str, Post] = {}
        self.otherwise = otherwise
        self.requests: list[HttpRequest] = []

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(request.method, request.url) for request in self.requests]

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        self.requests.append(request)
        found: Any = None
        if request.method == "GET":
            found = self.pages.get(request.url)
        elif request.url in self.posts:
            found = self.posts[request.url](json.loads(request.body))
        if found is None:
            found = self.otherwise
        if isinstance(found, TransportFault):
            raise found
        status, body = found if isinstance(found, tuple) else (200, found)
        return Page(status, body)

    async def close(self) -> None:
        pass
