"""Requests that are not translated: other paths, such as embeddings, and routes whose bytes stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from dragoman.client.client import Client
from dragoman.client.transport import HttpRequest, HttpResponse, TransportFault
from dragoman.pipeline import Report
from dragoman.replies import fold
from dragoman.server.answers import EXCHANGE_HEADER, answer_failure
from dragoman.server.asgi import HttpCall, run_until_disconnect
from dragoman.server.router import Chosen, Router, Target
from dragoman.types import Failure
from dragoman.wire.codec import Codec

_SENT = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""The headers of a client that an endpoint receives. Its key is not among them."""
_RETURNED = ("content-type", "retry-after", "content-disposition")
_SAME = {"openai_chat": ("openai_chat", "openai_responses"), "openai_responses": ("openai_responses", "openai_chat")}


def find_login(headers: Mapping[str, str]) -> str | None:
    """Return the key that a client sent, in the header of any wire."""
    bearer = headers.get("authorization", "")
    if bearer[:7].lower() == "bearer ":
        return bearer[7:].strip() or None
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or None


async def pass_through(call: HttpCall, body: bytes, wire: str, router: Router) -> bool:
    """Pass a request to the first endpoint that speaks its wire. Return False if there is none."""
    target = find_target(wire, router)
    if target is None:
        return False
    client = target.client_for("", find_login(call.headers))
    await run_until_disconnect(call, _copy(call, body, client))
    return True


async def _copy(call: HttpCall, body: bytes, client: Client) -> None:
    response = await _send(call, body, client)
    if response is None:
        return
    try:
        await _begin(call, response, {})
        async for piece in response.pieces():
            await call.send(piece)
        await call.send(b"", more=False)
    finally:
        await response.close()


def find_target(wire: str, router: Router) -> Target | None:
    """Return the first endpoint that speaks a wire, over HTTP."""
    spoken = _SAME.get(wire, (wire,))
    return next((target for target in router.targets.values() if _speaks(target, spoken)), None)


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
        response = await _send(call, body, client)
        if response is None:
            report.failure = "the endpoint did not answer"
            return
        try:
            await _begin(call, response, {EXCHANGE_HEADER: report.id})
            await _observe(call, response, codec, report)
        finally:
            await response.close()
    except TransportFault as fault:
        failure = Failure(fault.kind, fault.message, code=fault.code)
        report.fail(failure)
        raise
    finally:
        target.ended(failure)


async def _observe(call: HttpCall, response: HttpResponse, codec: Codec, report: Report) -> None:
    """Send the pieces of an answer, and note the calls in it."""
    is_stream = "json" not in response.headers.get("content-type", "") or "ndjson" in response.headers["content-type"]
    report.streamed = is_stream
    stream, pieces, events = codec.reply_stream(), [], []
    async for piece in response.pieces():
        await call.send(piece)
        if is_stream:
            events += stream.feed(piece)
        else:
            pieces.append(piece)
    await call.send(b"", more=False)
    reply = fold([*events, *stream.close()]) if is_stream else codec.decode_reply(b"".join(pieces))
    report.stop, report.usage = reply.stop, reply.usage
    for made in reply.calls:
        report.add_call(made)
    if reply.failure is not None:
        report.fail(reply.failure)


async def _send(call: HttpCall, body: bytes, client: Client) -> HttpResponse | None:
    """Send a request of a client to an endpoint; None if it could not be sent, and the client was told."""
    headers = {name: call.headers[name] for name in _SENT if name in call.headers}
    # The path was decoded; a line break or a question mark in it must not become one of the request line.
    url = _join(client.endpoint.base_url, quote(call.path, safe="/:@!$&'()*+,;=~")) + (
        f"?{call.query}" if call.query else ""
    )
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
    prefix = urlsplit(base).path.rstrip("/")
    for version in ("/v1beta", "/v1"):
        if prefix.endswith(version) and path.startswith(version + "/"):
            return base.rstrip("/") + path[len(version) :]
    return base.rstrip("/") + path
