"""Paths that are not translated, such as embeddings, are passed to an endpoint of the same wire unchanged."""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.server.answers import answer_failure
from dragoman.server.asgi import HttpCall
from dragoman.server.router import Router, Target
from dragoman.types import Failure

_SENT = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""The headers of a client that an endpoint receives. Its key is not among them."""
_RETURNED = ("content-type", "retry-after", "content-disposition")
_SAME = {"openai_chat": ("openai_chat", "openai_responses"), "openai_responses": ("openai_responses", "openai_chat")}


async def pass_through(call: HttpCall, body: bytes, wire: str, router: Router) -> bool:
    """Pass a request to the first endpoint that speaks its wire. Return False if there is none."""
    target = find_target(wire, router)
    if target is None:
        return False
    client = target.client_for("")
    headers = {name: call.headers[name] for name in _SENT if name in call.headers}
    base = client.endpoint.base_url
    url = _join(base, call.path) + (f"?{call.query}" if call.query else "")
    try:
        response = await client.send_raw(HttpRequest(call.method, url, headers, body))
    except TransportFault as fault:
        await answer_failure(call, client.codec, Failure(fault.kind, fault.message, 502, fault.code))
        return True
    try:
        given = {name: response.headers[name] for name in _RETURNED if name in response.headers}
        await call.begin(response.status, given)
        async for piece in response.pieces():
            await call.send(piece)
        await call.send(b"", more=False)
    finally:
        await response.close()
    return True


def find_target(wire: str, router: Router) -> Target | None:
    """Return the first endpoint that speaks a wire, over HTTP."""
    spoken = _SAME.get(wire, (wire,))
    return next(
        (
            target
            for target in router.targets.values()
            if target.endpoint.wire in spoken and not target.endpoint.provider.transport
        ),
        None,
    )


def _join(base: str, path: str) -> str:
    """Return the URL of a path at an endpoint. Both may begin with the version of the interface."""
    prefix = urlsplit(base).path.rstrip("/")
    for version in ("/v1beta", "/v1"):
        if prefix.endswith(version) and path.startswith(version + "/"):
            return base.rstrip("/") + path[len(version) :]
    return base.rstrip("/") + path
