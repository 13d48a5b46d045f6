"""Requests that are not translated: other paths, such as embeddings, and routes whose bytes stay as they are."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.client.client import Client
from dragoman.client.rate_limit import Slot
from dragoman.client.transport import HttpRequest, HttpResponse, TransportFault
from dragoman.pipeline.report import Report
from dragoman.pipeline.writers import EXCHANGE_HEADER
from dragoman.replies import fold
from dragoman.server.answers import answer_failure
from dragoman.server.asgi import HttpCall, run_until_disconnect
from dragoman.server.keys import find_login
from dragoman.server.paths import find_gemini, is_plain
from dragoman.server.router import Chosen, Router, Target
from dragoman.types import Failure
from dragoman.wire.codec import Codec
from dragoman.wire.values import parse

_SENT = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""The headers of a client that an endpoint receives. Its key is not among them."""
_RETURNED = ("content-type", "retry-after", "content-disposition")
_version = re.compile(r"/v1(?:beta|alpha)?(?=/)").match
_ends_with_version = re.compile(r"/v1(?:beta|alpha)?\Z").search
_is_object = re.compile(rb"[ \t\r\n]*\{").match
_FIRST_ERROR = 400
_MOST_OF_AN_ERROR = 1 << 20
_SAME = {"openai_chat": ("openai_chat", "openai_responses"), "openai_responses": ("openai_responses", "openai_chat")}


async def pass_through(call: HttpCall, body: bytes, wire: str, router: Router) -> bool:
    """Pass a request to an endpoint that speaks its wire. Return False if there is none."""
    target = find_target(wire, router, _read_model(call.path, body))
    if target is None:
        return False
    client = target.client_for("", find_login(call.headers))
    await run_until_disconnect(call, _copy(call, body, target, client))
    return True


async def _copy(call: HttpCall, body: bytes, target: Target, client: Client) -> None:
    async with _within_limits(target, body):
        response = await _send(call, body, target, client)
        if response is None:
            return
        try:
            await _begin(call, response, {})
            async for piece in _pieces_of(response, client):
                await call.send(piece)
            await call.send(b"", more=False)
        finally:
            await response.close()


@asynccontextmanager
async def _within_limits(target: Target, body: bytes) -> AsyncIterator[Slot | None]:
    """Wait until an endpoint may get a request, and limit the time of its answer."""
    seconds = target.settings.total_timeout
    try:
        async with asyncio.timeout(seconds), target.slot(len(body)) as slot:
            yield slot
    except TimeoutError:
        message = f"the endpoint did not end its answer within {seconds:g} s"
        raise TransportFault("timed_out", message, code="deadline") from None


def find_target(wire: str, router: Router, model: str) -> Target | None:
    """Return the endpoint for a model that speaks a wire, over HTTP; else the first one that does."""
    spoken = _SAME.get(wire, (wire,))
    route = next((route for route in router.routes if model and route.matches(router.name_model(model))), None)
    first = list(route.targets.values()) if route is not None else []
    return next((target for target in [*first, *router.targets.values()] if _speaks(target, spoken)), None)


def _read_model(path: str, body: bytes) -> str:
    """Return the model that a request names. Forms with files name one too, which is not looked for."""
    found = find_gemini(path)
    if found is not None:
        return found["model"]
    given = parse(body) if _is_object(body) else None
    model = given.get("model") if isinstance(given, dict) else None
    return model if isinstance(model, str) else ""


def _speaks(target: Target, wires: tuple[str, ...]) -> bool:
    return target.endpoint.wire in wires and not target.endpoint.provider.transport


async def relay(call: HttpCall, body: bytes, codec: Codec, chosen: Chosen, report: Report) -> None:
    """Pass a request to an endpoint of the same wire, and its answer back, without a change. It is only observed."""
    target = next((target for target in chosen.targets if _speaks(target, (codec.name,))), None)
    if target is None:
        message = f"the route of {chosen.model!r} changes nothing, and its endpoint does not speak {codec.name}"
        report.failure = message
        await answer_failure(call, codec, Failure("not_found", message, 404))
        return
    client = target.client_for(chosen.model, find_login(call.headers))
    report.model = client.model
    target.started()
    failure: Failure | None = None
    try:
        async with _within_limits(target, body) as slot:
            response = await _send(call, body, target, client)
            if response is None:
                report.failure = "the endpoint did not answer"
                return
            try:
                await _begin(call, response, {EXCHANGE_HEADER: report.id})
                await _observe(call, response, codec, report, client)
            finally:
                await response.close()
            if slot is not None:
                slot.report(report.usage.input_tokens + report.usage.output_tokens)
    except TransportFault as fault:
        failure = Failure(fault.kind, fault.message, code=fault.code)
        report.fail(failure)
        raise
    finally:
        target.ended(failure)


async def _observe(call: HttpCall, response: HttpResponse, codec: Codec, report: Report, client: Client) -> None:
    """Send the pieces of an answer, and note the calls in it."""
    is_stream = "json" not in response.headers.get("content-type", "") or "ndjson" in response.headers["content-type"]
    report.streamed = is_stream
    stream, pieces, events = codec.reply_stream(), [], []
    async for piece in _pieces_of(response, client):
        await call.send(piece)
        if is_stream:
            events += stream.feed(piece)
        else:
            pieces.append(piece)
    await call.send(b"", more=False)
    report.add_reply(fold([*events, *stream.close()]) if is_stream else codec.decode_reply(b"".join(pieces)))


async def _pieces_of(response: HttpResponse, client: Client) -> AsyncIterator[bytes]:
    """Yield the body of an answer. Errors of endpoints can contain the key that they refuse, which is hidden."""
    if response.status < _FIRST_ERROR:
        async for piece in response.pieces():
            yield piece
        return
    data = b""
    async for piece in response.pieces():
        data += piece
        if len(data) > _MOST_OF_AN_ERROR:
            break
    yield client.hide_keys(data[:_MOST_OF_AN_ERROR])


async def _send(call: HttpCall, body: bytes, target: Target, client: Client) -> HttpResponse | None:
    """Send a request of a client to an endpoint; None if it could not be sent, and the client was told."""
    if not is_plain(call.path):
        failure = Failure("not_found", "a path that goes to an endpoint has plain segments only", 404)
        await answer_failure(call, client.codec, failure)
        return None
    given = {name: call.headers[name] for name in _SENT if name in call.headers}
    headers = {**given, **target.settings.headers}
    url = _join(client.endpoint.base_url, call.path) + (f"?{call.query}" if call.query else "")
    try:
        return await client.send_raw(HttpRequest(call.method, url, headers, body))
    except TransportFault as fault:
        await answer_failure(call, client.codec, Failure(fault.kind, fault.message, 502, fault.code))
        return None


async def _begin(call: HttpCall, response: HttpResponse, headers: dict[str, str]) -> None:
    given = {name: response.headers[name] for name in _RETURNED if name in response.headers}
    await call.begin(response.status, {**given, **headers})


def _join(base: str, path: str) -> str:
    """Return the URL of a path at an endpoint. Both may begin with the version of the interface."""
    base = base.rstrip("/")
    if _ends_with_version(base) and (found := _version(path)) is not None:
        path = path[found.end() :]
    return base + path
