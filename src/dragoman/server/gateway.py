"""The gateway as an ASGI application: it reads requests of any wire, and answers with repaired replies."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman import wire as wires
from dragoman.errors import DragomanError
from dragoman.events import Event, ReplyFailed, ReplyStarted
from dragoman.pipeline import Backend, Exchange, Report
from dragoman.server.asgi import (
    BodyTooLarge,
    ClientDisconnected,
    HttpCall,
    KeepAlive,
    Receive,
    Scope,
    Send,
    run_until_disconnect,
)
from dragoman.types import Failure, Request
from dragoman.wire.codec import Codec
from dragoman.wire.registry import ROWS
from dragoman.wire.values import BROKEN, parse

log = logging.getLogger("dragoman.server")
EXCHANGE = "x-dragoman-exchange"

_PATHS = {
    "/v1/chat/completions": "openai_chat",
    "/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/responses": "openai_responses",
    "/v1/messages": "anthropic",
    "/messages": "anthropic",
    "/api/chat": "ollama",
}
_gemini = re.compile(r"/v1(?:beta|alpha)?/models/(?P<model>[^:]+):(?P<verb>generateContent|streamGenerateContent)\Z").match


class Settings(Struct, frozen=True):
    """The settings of a gateway that do not belong to a route."""

    keep_alive: float = 10.0
    """Seconds of silence after which a stream gets a sign of life."""
    most_of_a_body: int = 64 * 1024 * 1024


Choose = Callable[[Request, str], Backend]
"""Chooses the backend of a request; it raises UnknownModel."""


class Gateway:
    """An ASGI application."""

    def __init__(self, choose: Choose, settings: Settings | None = None, *, secret: bytes | None = None) -> None:
        self._choose = choose
        self._settings = settings or Settings()
        self._secret = secret or secrets.token_bytes(32)
        self.reports: dict[str, Report] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(HttpCall(scope, receive, send))

    async def _handle(self, call: HttpCall) -> None:
        wire = _PATHS.get(call.path)
        if wire is not None and call.method == "POST":
            await self._exchange(call, wire)
            return
        found = _gemini(call.path)
        if found is not None and call.method == "POST":
            await self._exchange(call, "gemini", found["model"], found["verb"].startswith("stream"))
            return
        if call.path in ("/", "/healthz", "/readyz"):
            await call.answer_json(200, {"status": "ok"})
            return
        await call.answer_json(404, {"error": {"message": f"there is no {call.path} here"}})

    async def _exchange(self, call: HttpCall, wire: str, model: str = "", stream: bool | None = None) -> None:
        codec = wires.get(wire)
        try:
            body = parse(await call.read_body(self._settings.most_of_a_body))
        except BodyTooLarge:
            await _answer_failure(call, codec, Failure("too_large", "the request is too large", 413))
            return
        except ClientDisconnected:
            return
        if not isinstance(body, dict):
            what = "is not JSON" if body is BROKEN else "is not a JSON object"
            await _answer_failure(call, codec, Failure("bad_request", f"the body {what}", 400))
            return
        request = codec.decode_request(body, model=model, stream=stream)
        if wire == "ollama" and "stream" not in body:
            request = replace(request, options={**request.options, "stream": True})
        report = Report(f"ex_{secrets.token_hex(8)}", wire, request.model)
        self.reports[report.id] = report
        try:
            backend = self._choose(request, wire)
        except DragomanError as error:
            await _answer_failure(call, codec, Failure("not_found", str(error), 404))
            return
        exchange = Exchange(replace(request, model=""), backend, report, secret=self._secret)
        answer = StreamAnswer if request.options.get("stream") else WholeAnswer
        try:
            await run_until_disconnect(call, answer(call, codec, request, exchange, self._settings).run())
        finally:
            log.info("%s %s", report.id, report.summarise())


async def _answer_failure(call: HttpCall, codec: Codec, failure: Failure, headers: dict[str, str] | None = None) -> None:
    status, body = codec.encode_failure(failure)
    await call.answer_json(status, body, headers)


async def _run_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


class _Answer:
    """The answer to one request."""

    def __init__(self, call: HttpCall, codec: Codec, request: Request, exchange: Exchange, settings: Settings) -> None:
        self._call = call
        self._codec = codec
        self._request = request
        self._exchange = exchange
        self._settings = settings
        self._headers = {EXCHANGE: exchange.report.id}
        self._id = _make_id(codec.name)

    @property
    def _options(self) -> dict[str, Any]:
        """The arguments of a writer that only one wire has."""
        if self._codec.name == "openai_responses":
            return {"tools": self._request.tools}
        return {}

    async def _fail(self, failure: Failure) -> None:
        await _answer_failure(self._call, self._codec, failure, self._headers)


class WholeAnswer(_Answer):
    """A reply in one piece."""

    async def run(self) -> None:
        reply = await self._exchange.ask()
        if reply.failure is not None:
            await self._fail(reply.failure)
            return
        reply = replace(reply, model=self._request.model, id=reply.id or self._id)
        body = self._codec.encode_reply(reply, created=int(time.time()), **self._options)
        await self._call.answer_json(200, body, self._headers)


class StreamAnswer(_Answer):
    """A reply as a stream. It begins with the first event, or with the first sign of life."""

    async def run(self) -> None:
        options = self._options
        if self._codec.name == "openai_chat":
            own = self._request.options.get("openai_chat") or {}
            asked = own.get("stream_options", {"include_usage": True})
            options["include_usage"] = bool(isinstance(asked, dict) and asked.get("include_usage"))
        self._writer = self._codec.event_stream(
            model=self._request.model, id=self._id, created=int(time.time()), **options
        )
        self._alive = KeepAlive(self._settings.keep_alive, self._beat)
        stream = self._exchange.stream()
        try:
            async for batch in stream:
                if not self._call.has_begun:
                    failure = _find_failure(batch)
                    if failure is not None:
                        await self._fail(failure)
                        return
                    await self._begin()
                await self._send(batch)
            last = b"".join(self._writer.close())
            await self._call.send(last, more=False)
        finally:
            await self._alive.close()
            await stream.aclose()  # type: ignore[attr-defined]

    async def _begin(self) -> None:
        kind = ROWS[self._codec.name].stream_type
        head = {"content-type": kind, "cache-control": "no-cache", "x-accel-buffering": "no", **self._headers}
        await self._call.begin(200, head)
        await self._send([ReplyStarted(self._request.model, self._id)])

    async def _send(self, batch: list[Event]) -> None:
        data = b"".join([frame for event in batch for frame in self._writer.feed(event)])
        if data:
            self._alive.sent()
            await self._call.send(data)

    async def _beat(self) -> None:
        if not self._call.has_begun:
            await self._begin()
        await self._call.send(self._codec.keep_alive())


def _find_failure(batch: list[Event]) -> Failure | None:
    """Return the failure of a reply that has no content before it."""
    return batch[0].failure if batch and isinstance(batch[0], ReplyFailed) else None


_IDS = {"openai_chat": "chatcmpl-", "openai_responses": "resp_", "anthropic": "msg_"}


def _make_id(wire: str) -> str:
    return _IDS.get(wire, "") + secrets.token_hex(12)
