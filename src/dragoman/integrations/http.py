"""Clients and transports of httpx2 and httpx that repair tool calls.

Both libraries have the same names and share no classes, and neither is a dependency: an SDK brings one of them. So the
classes are made for the library that is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.integrations.relay import Answer, Body
    from dragoman.integrations.repair import Repair

LIBRARIES = ("httpx2", "httpx")
_SECONDS = 600.0
_SECONDS_TO_CONNECT = 5.0
T = TypeVar("T")


def open_client(repair: Repair, inner: Any, library: str | None, *, is_async: bool) -> Any:
    """Return a client whose transport repairs tool calls."""
    module = find_library(inner, library)
    transport = open_transport(repair, inner, library, is_async=is_async)
    kind = module.AsyncClient if is_async else module.Client
    if isinstance(inner, kind):
        # The SDK adds its own fields to those of the client that it is given.
        given = {name: getattr(inner, name) for name in ("base_url", "headers", "cookies", "params", "timeout")}
        return kind(transport=transport, follow_redirects=inner.follow_redirects, **given)
    # The defaults of SDKs for clients of their own: models are slow.
    timeout = module.Timeout(_SECONDS, connect=_SECONDS_TO_CONNECT)
    return kind(transport=transport, timeout=timeout, follow_redirects=True)


def open_transport(repair: Repair, inner: Any, library: str | None, *, is_async: bool) -> Any:
    """Return a transport that sends with `inner`, a client or another transport."""
    module = find_library(inner, library)
    kind, base = (module.AsyncClient, module.AsyncBaseTransport) if is_async else (module.Client, module.BaseTransport)
    if inner is None:
        inner = kind()
    elif isinstance(inner, base):
        inner = kind(transport=inner)
    elif not isinstance(inner, kind):
        what = "an asynchronous" if is_async else "a blocking"
        raise ConfigError(
            f"{type(inner).__module__}.{type(inner).__name__} is not {what} client or transport",
            hint=f"give {module.__name__}.{kind.__name__}(...) or {module.__name__}.{base.__name__}",
        )
    return _make_class(module, is_async)(repair, inner)


def find_library(inner: Any = None, library: str | None = None) -> Any:
    """Return the module of an HTTP library: the one of `inner`, the named one, or the first that is installed."""
    if library is not None and library not in LIBRARIES:
        raise ConfigError(f"{library!r} is not a library that SDKs send with", hint=f"use {' or '.join(LIBRARIES)}")
    for base in type(inner).__mro__ if library is None else ():
        if (name := base.__module__.partition(".")[0]) in LIBRARIES:
            library = name
            break
    for name in (library,) if library is not None else LIBRARIES:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    missing = library or " or ".join(LIBRARIES)
    raise ConfigError(f"{missing} is not installed", hint="install the SDK that you use, which brings one of them")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, because everything that it calls blocks. It needs no event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("a blocking transport has waited for an event loop")


class _Response:
    """The answer of an endpoint, for the codecs."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self.status: int = response.status_code
        self.pairs: list[tuple[str, str]] = response.headers.multi_items()
        self.headers = {name.lower(): value for name, value in self.pairs}
        if response.http_version == "HTTP/2":
            # The protocol itself says where a body ends.
            self.headers.setdefault("transfer-encoding", "chunked")


class _BlockingResponse(_Response):
    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self._response.iter_bytes():
            yield piece

    async def close(self) -> None:
        self._response.close()


class _AsyncResponse(_Response):
    def pieces(self) -> AsyncIterator[bytes]:
        pieces: AsyncIterator[bytes] = self._response.aiter_bytes()
        return pieces

    async def close(self) -> None:
        await self._response.aclose()


def _replace_body(module: Any, request: Any, body: bytes | None) -> Any:
    """Return a request of an SDK with another body, and everything else as it came."""
    if body is None:
        return request
    headers = [each for each in request.headers.multi_items() if each[0].lower() != "content-length"]
    return module.Request(
        request.method, request.url, headers=headers, content=body, extensions=dict(request.extensions)
    )


class _BlockingBody:
    """The body of an answer, for a blocking client."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        pieces = aiter(self._body)
        while (piece := run(_next(pieces))) is not None:
            yield piece

    def close(self) -> None:
        run(self._body.close())


class _AsyncBody:
    """The body of an answer, for an asynchronous client."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._body)

    async def aclose(self) -> None:
        await self._body.close()


class _Transport:
    """What both transports share. A class for a library has its module, and its kind of bodies."""

    library: ClassVar[Any]
    body: ClassVar[type[Any]]

    def __init__(self, repair: Repair, client: Any) -> None:
        self._repair = repair
        self._client = client

    def _find_wire(self, request: Any) -> str:
        return self._repair.find_wire(request.method, str(request.url), request.headers)

    def _respond(self, answer: Answer) -> Any:
        pairs, body = answer.pairs, answer.body
        if not isinstance(body, bytes):
            return self.library.Response(answer.status, headers=pairs, stream=self.body(body))
        if not any(name.lower() == "content-length" for name, _ in pairs):
            pairs = [*pairs, ("content-length", str(len(body)))]
        # The client measures the time until a stream is read. It does not read a body that is given as a whole.
        return self.library.Response(answer.status, headers=pairs, stream=self.library.ByteStream(body))


class RepairTransport(_Transport):
    """A blocking transport that repairs tool calls, and sends with another client."""

    def handle_request(self, request: Any) -> Any:
        async def send(body: bytes | None) -> _BlockingResponse:
            return _BlockingResponse(self._send(_replace_body(self.library, request, body)))

        wire = self._find_wire(request)
        relay = self._repair.open(wire, str(request.url), request.headers, request.read(), send) if wire else None
        return self._respond(run(relay.answer())) if relay is not None else self._send(request)

    def _send(self, request: Any) -> Any:
        return self._client.send(request, stream=True, follow_redirects=False)

    def close(self) -> None:
        self._client.close()


class AsyncRepairTransport(_Transport):
    """An asynchronous transport that repairs tool calls, and sends with another client."""

    async def handle_async_request(self, request: Any) -> Any:
        async def send(body: bytes | None) -> _AsyncResponse:
            return _AsyncResponse(await self._send(_replace_body(self.library, request, body)))

        wire = self._find_wire(request)
        body = await request.aread() if wire else b""
        relay = self._repair.open(wire, str(request.url), request.headers, body, send) if wire else None
        return self._respond(await relay.answer()) if relay is not None else await self._send(request)

    async def _send(self, request: Any) -> Any:
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        await self._client.aclose()


@cache
def _make_class(module: Any, is_async: bool) -> type[Any]:
    """Return the transport for a library. It is also an instance of the library's own base classes."""
    ours, theirs = (
        (AsyncRepairTransport, module.AsyncBaseTransport) if is_async else (RepairTransport, module.BaseTransport)
    )
    body, stream = (_AsyncBody, module.AsyncByteStream) if is_async else (_BlockingBody, module.SyncByteStream)
    members = {"library": module, "body": type("RepairedBody", (body, stream), {})}
    return type(ours.__name__, (ours, theirs), members)


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    try:
        return await anext(pieces)
    except StopAsyncIteration:
        return None
