"""A client sends requests to one endpoint and reads the replies as events."""

from __future__ import annotations

import asyncio
import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from msgspec import structs

from dragoman import __version__, providers
from dragoman.client.auth import Auth, choose_auth
from dragoman.client.exchange import Attempt, Debugger, Exchange, Plan, Writer, choose_writer
from dragoman.client.keys import Secret, find_key, url_variables
from dragoman.client.rate_limit import RateLimiter
from dragoman.client.retry import (
    NOTICES,
    Breakers,
    ClientEvent,
    ModelReplaced,
    RequestPrepared,
    RequestRetried,
    Retries,
    decide,
)
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport
from dragoman.errors import ConfigError
from dragoman.events import Event, ReplyEnded, ReplyFailed, ReplyStarted, UsageReported
from dragoman.logs import get_log
from dragoman.providers import Endpoint
from dragoman.providers.endpoint import codec_of
from dragoman.providers.provider import fill_holes, holes_of
from dragoman.replies import ReplyFolder
from dragoman.secrets.exchanges import RequestRedactors, strip_login
from dragoman.types import FAILURE_CAUSES, Failure, Reply, Request
from dragoman.wire.codec import Codec
from dragoman.wire.values import write_bytes, write_model

# --------------------------------------------------------------------------------------------------------------------
# The URL of a request: the base URL with its placeholders filled, and the path of the wire.


def base_of(endpoint: Endpoint, environment: Mapping[str, str]) -> str:
    """Return the complete base URL. Raises a ConfigError that names the missing variables."""
    base = fill_holes(endpoint.base_url, url_variables(endpoint, environment))
    if endpoint.wire in ("openai_chat", "openai_responses"):
        # The name of an Azure deployment is the model.
        base = fill_holes(base, {"deployment": endpoint.model})
    missing = holes_of(base)
    if missing:
        known = endpoint.provider.variables
        says = "; ".join(f"{hole}: set {' or '.join(known[hole])}" for hole in missing if hole in known)
        raise ConfigError(
            f"the base URL of {endpoint.provider.name} is incomplete: {base}", hint=says or "give the base URL"
        )
    if not base:
        raise ConfigError(f"{endpoint.provider.name} has no base URL", hint="give the base URL")
    # The only location of Vertex that is not part of the host name.
    return base.replace("//global-aiplatform.", "//aiplatform.")


def is_vertex_claude(endpoint: Endpoint) -> bool:
    """Whether this is Claude on Vertex, which has the anthropic wire, but the model in the path."""
    return endpoint.provider.auth == "gcp" and endpoint.wire == "anthropic"


def address_of(base: str, endpoint: Endpoint, codec: Codec, model: str, *, stream: bool) -> str:
    """Return the URL of one request."""
    if is_vertex_claude(endpoint):
        path = f"/models/{write_model(model, safe='@')}:{'streamRawPredict' if stream else 'rawPredict'}"
    else:
        path = codec.endpoint(model, stream=stream)
    parts = urlsplit(base)
    if not parts.query:
        return base + path
    # `?api-version=` comes after the path.
    target, _, query = path.partition("?")
    return urlunsplit((*parts[:2], parts.path + target, "&".join(filter(None, (parts.query, query))), ""))


# --------------------------------------------------------------------------------------------------------------------
# The transport of an endpoint: HTTP, unless its provider has its own.


def open_transport(endpoint: Endpoint, environment: Mapping[str, str] | None = None) -> Transport:
    """Open a new transport for an endpoint, with the proxies of the environment. The caller closes it."""
    if not endpoint.provider.transport:
        from dragoman.client.http import HttpTransport

        return HttpTransport(proxy="env", environment=environment)
    module, _, name = endpoint.provider.transport.partition(":")
    try:
        # By name, because this package must not import the package of the provider.
        opened: Transport = getattr(import_module(module), name)(endpoint)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"cannot load the transport of {endpoint.provider.name}: {error}",
            hint="write it as module:name in the provider",
        ) from None
    return opened


def fits(transport: Transport, endpoint: Endpoint) -> bool:
    """Whether a transport can reach the endpoint: HTTP cannot reach an embedded model."""
    if not endpoint.provider.transport:
        return True
    from dragoman.client.http import HttpTransport

    return not isinstance(transport, HttpTransport)


def shared_transport(endpoint: Endpoint) -> Transport:
    """Return the transport of the process, which keeps connections between requests. Each event loop has its own."""
    own = endpoint.provider.transport
    place = (own, endpoint.model) if own else ("", "")
    if place not in _shared:
        _shared[place] = open_transport(endpoint)
    return _shared[place]


_shared: dict[tuple[str, str], Transport] = {}
"""By the transport of a provider and the model; all models share the HTTP transport."""


# --------------------------------------------------------------------------------------------------------------------
# A Client sends requests to one endpoint and reads the replies as events.
#
# An error of the network or the provider is not raised: it ends the reply with a failure, so that the parts before it
# are kept. Only errors that the caller has to fix are raised: a missing key, an incomplete URL.

USER_AGENT = f"dragoman/{__version__}"
_log = get_log("client")


class _Asker(ABC):
    """The common part of clients of one endpoint and of several."""

    @abstractmethod
    def stream(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncGenerator[ClientEvent]: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def ask(self, request: Request, *, whole: bool = True, deadline: float | None = None) -> Reply:
        """Return the whole reply. A failure (of the last endpoint, if there are several) is in `reply.failure`."""
        folding = ReplyFolder()
        async for event in self.stream(request, whole=whole, deadline=deadline):
            if not isinstance(event, NOTICES):
                folding.add(event)
        return folding.reply()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended: object) -> None:
        await self.close()


class Client(_Asker):
    """The client of one endpoint. It handles any number of concurrent requests, also from several event loops."""

    def __init__(
        self,
        endpoint: Endpoint | str,
        *,
        transport: Transport | None = None,
        key: str | Secret | None = None,
        keys: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        headers: Mapping[str, str] | None = None,
        debug: bool | str | Path | Writer | None = None,
        breakers: Breakers | None = None,
        limiter: RateLimiter | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`key` overrides `keys` (by variable name, from a configuration), which override the environment.

        Clients that share a `limiter` share its limits.
        """
        self._environment = os.environ if environment is None else environment
        self.endpoint = providers.resolve(endpoint) if isinstance(endpoint, str) else endpoint
        self.codec = codec_of(self.endpoint)
        self.codec.is_shared = True
        self.timeouts = timeouts or Timeouts()
        self.retries = retries or Retries()
        self._transport = transport if transport is None or fits(transport, self.endpoint) else None
        self._owns_transport = self._transport is None
        self._key, self._keys = key, keys
        self._headers = {str(name): str(value) for name, value in (headers or {}).items()}
        self._breakers = breakers or Breakers()
        self._auth: Auth | None = None
        self._limiter = limiter
        self._scrubbers = RequestRedactors()
        writer = choose_writer(debug, self._environment)
        self._debugger = Debugger(writer) if writer is not None else None
        self._clock, self._calendar, self._sleep, self._random = clock, calendar, sleep, random
        self._base = ""
        self._address: tuple[tuple[str, bool], tuple[str, str]] = (("", False), ("", ""))

    def __repr__(self) -> str:
        return f"<client of {self.model}>"

    @property
    def model(self) -> str:
        """The name of the endpoint: `provider:model`."""
        return f"{self.endpoint.provider.name}:{self.endpoint.model}"

    # ---- asking -----------------------------------------------------------------------------------------------------

    async def stream(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncGenerator[ClientEvent]:
        """Yield the events of the reply, and the events of the client, such as retries.

        `whole` requests the reply in one piece. `deadline` is a time of the client's clock (`time.monotonic`), after
        which the reply ends with the failure `timed_out`.
        """
        async with aclosing(self.stream_batches(request, whole=whole, deadline=deadline)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def stream_batches(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncGenerator[Sequence[ClientEvent]]:
        """Like `stream`, but the events that arrived together come as one list."""
        plan = self._plan(request, whole)
        yield [RequestPrepared(plan.prepared.losses, len(plan.request.body), plan.model)]
        attempt = 0
        while True:
            attempt += 1
            delivered = False
            held: list[Event] = []
            _log.debug("%s: attempt %d, %d bytes to %s", plan.model, attempt, len(plan.request.body), plan.origin)
            exchange = self._open(plan, deadline)
            try:
                while (events := await exchange.next()) is not None:
                    if not delivered and not _delivers(events):
                        # Start and end events have no content that a second attempt could contradict.
                        held += events
                        continue
                    delivered = True
                    if held:
                        events = [*held, *events]
                        held = []
                    yield events
            finally:
                await exchange.close()
            failure = next((event.failure for event in held if isinstance(event, ReplyFailed)), None)
            if delivered or failure is None:
                return
            again = self._plan_retry(plan, failure, attempt, deadline)
            if isinstance(again, str):
                yield _explain(held, again)
                return
            yield [again]
            await self._sleep(again.wait)

    async def fetch(
        self, request: Request, *, deadline: float | None = None
    ) -> tuple[list[RequestPrepared | RequestRetried], list[Event]]:
        """Return what `stream` yields for a whole reply: the events of the client, and those of the reply."""
        plan = self._plan(request, whole=True)
        notices: list[RequestPrepared | RequestRetried] = [
            RequestPrepared(plan.prepared.losses, len(plan.request.body), plan.model)
        ]
        attempt = 0
        while True:
            attempt += 1
            received: list[Event] = []
            _log.debug("%s: attempt %d, %d bytes to %s", plan.model, attempt, len(plan.request.body), plan.origin)
            exchange = self._open(plan, deadline)
            try:
                while (events := await exchange.next()) is not None:
                    received += events
            finally:
                await exchange.close()
            failed = [event.failure for event in received if type(event) is ReplyFailed]
            if not failed or _delivers(received):
                return notices, received
            failure = failed[0]
            again = self._plan_retry(plan, failure, attempt, deadline)
            if isinstance(again, str):
                return notices, _explain(received, again)
            notices.append(again)
            await self._sleep(again.wait)

    async def send_raw(self, request: HttpRequest) -> HttpResponse:
        """Send a request to the endpoint with its key, unchanged otherwise. The caller reads and closes the answer.

        Raises TransportFault.
        """
        self._settle()
        assert self._auth is not None and self._transport is not None
        return await self._transport.send(await self._auth.sign(request), self.timeouts)

    def hide_keys(self, data: bytes) -> bytes:
        """Return an answer to a raw request without the keys that it was sent with."""
        return self._scrubbers.knowing(self._auth.secrets).data(data) if self._auth is not None else data

    async def close(self) -> None:
        """Close the connections, if this client owns them."""
        if self._owns_transport and self._transport is not None:
            await self._transport.close()

    def check(self) -> None:
        """Raise the error of a request that cannot be sent: a missing key or local model, an incomplete base URL."""
        self._settle_access()
        if self._transport is None and self.endpoint.provider.transport:
            # It opens no connection, and only it knows which models there are.
            self._transport = open_transport(self.endpoint, self._environment)

    def load(self) -> None:
        """Import what a request needs. It opens no connection and looks for no key."""
        if self._transport is None and not self.endpoint.provider.transport:
            import_module("dragoman.client.http")

    # ---- before -----------------------------------------------------------------------------------------------------

    def _plan(self, request: Request, whole: bool) -> Plan:
        self._settle()
        model = request.model or self.endpoint.model
        whole = whole or not self.endpoint.capabilities.streaming
        if request.model != model or bool(request.options.get("stream")) is whole:
            request = structs.replace(request, model=model, options={**request.options, "stream": not whole})
        prepared = self.codec.prepare(request)
        body = {**self.endpoint.body, **prepared.body} if self.endpoint.body else prepared.body
        if is_vertex_claude(self.endpoint):
            body = {name: value for name, value in body.items() if name != "model"}
        headers = {
            "Content-Type": "application/json",
            # Every buffer on the way delays a compressed stream.
            "Accept-Encoding": "gzip, deflate" if whole else "identity",
            "User-Agent": USER_AGENT,
            **self._headers,
        }
        url, origin = self._find_address(model, whole)
        http = HttpRequest("POST", url, headers, write_bytes(body))
        return Plan(http, prepared, whole, f"{self.endpoint.provider.name}:{model}", origin)

    def _find_address(self, model: str, whole: bool) -> tuple[str, str]:
        """Return the URL of a request and its origin. Nearly all requests of a client have the same."""
        asked = (model, whole)
        if self._address[0] != asked:
            url = address_of(self._base, self.endpoint, self.codec, model, stream=not whole)
            self._address = (asked, (url, "/".join(strip_login(url).split("/", 3)[:3])))
        return self._address[1]

    def _settle(self) -> None:
        """Determine the URL, the key and the transport, once. Raises errors that the caller has to fix."""
        self._settle_access()
        if self._transport is None:
            self._transport = open_transport(self.endpoint, self._environment)

    def _settle_access(self) -> None:
        if not self._base:
            self._base = base_of(self.endpoint, self._environment)
        if self._auth is None:
            key = find_key(self.endpoint, self._key, self._keys, self._environment)
            self._auth = choose_auth(self.endpoint, key, self._environment)

    # ---- one attempt ------------------------------------------------------------------------------------------------

    def _open(self, plan: Plan, deadline: float | None) -> Attempt:
        assert self._auth is not None and self._transport is not None
        if self.timeouts.total is not None:
            limit = self._clock() + self.timeouts.total
            deadline = limit if deadline is None else min(deadline, limit)
        exchange = Exchange(self._transport, self.timeouts, self._clock, deadline, self._debugger)
        breaker = self._breakers.of(plan.origin)
        attempt = Attempt(plan, exchange, self._auth, breaker, self._scrubbers, self.codec, self._clock, self._calendar)
        attempt.limiter = self._limiter
        return attempt

    def _plan_retry(self, plan: Plan, failure: Failure, attempt: int, deadline: float | None) -> RequestRetried | str:
        """Return the notice of the next attempt, or why there is none. The reason may be empty."""
        now, draw = self._clock(), self._random()
        decision = decide(self.retries, failure, attempt, delivered=False, now=now, deadline=deadline, draw=draw)
        told = _describe(failure)
        if decision.wait is None:
            _log.info("%s: failed after %d attempts: %s", plan.model, attempt, told)
            return decision.why
        _log.warning("%s: attempt %d failed: %s; the next in %.1f s", plan.model, attempt, told, decision.wait)
        return RequestRetried(attempt, decision.wait, failure, plan.model)


_FRAME = frozenset({ReplyStarted, UsageReported, ReplyFailed, ReplyEnded})


def _delivers(events: list[Event]) -> bool:
    """Whether the events contain output that another attempt would repeat."""
    kinds = set(map(type, events))
    return not kinds <= _FRAME or (ReplyEnded in kinds and ReplyFailed not in kinds)


def _describe(failure: Failure) -> str:
    """Return a failure for the log. The text of a server may repeat secrets that only the agent knows."""
    words = failure.message if failure.kind in ("unreachable", "timed_out", "insecure") else ""
    status = f"HTTP {failure.status}" if failure.status else ""
    return " ".join(filter(None, (failure.kind, status, words)))


def _explain(events: list[Event], why: str) -> list[Event]:
    """Return the events of a failure, with the reason why there was no further attempt."""
    if not why:
        return events
    return [
        ReplyFailed(structs.replace(event.failure, message=f"{event.failure.message} ({why})"))
        if isinstance(event, ReplyFailed)
        else event
        for event in events
    ]


# --------------------------------------------------------------------------------------------------------------------
# Several endpoints, used one after the other until one answers.

Adapt = Callable[[Request, Endpoint], Request]


class FallbackClient(_Asker):
    """A client that uses the next endpoint if one fails before any output was delivered.

    It is for programs that send requests without an agent, such as a gateway. A run has its own fallbacks.
    `on_every_failure` also continues if the request itself or the key was rejected. `adapt` rewrites the request for
    another endpoint, if more than the name of the model has to change.
    """

    def __init__(
        self, clients: Sequence[Client], *, on_every_failure: bool = False, adapt: Adapt | None = None
    ) -> None:
        if not clients:
            raise ConfigError("a list of fallbacks needs at least one client")
        self.clients = tuple(clients)
        self._on_every_failure = on_every_failure
        self._adapt = adapt

    @property
    def endpoint(self) -> Endpoint:
        """The first endpoint."""
        return self.clients[0].endpoint

    @property
    def model(self) -> str:
        """The model of the first endpoint."""
        return self.clients[0].model

    async def stream(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncGenerator[ClientEvent]:
        """Like `stream` of one client, with a ModelReplaced event before each further client."""
        for position, client in enumerate(self.clients):
            last = position + 1 == len(self.clients)
            held: list[ClientEvent] = []
            failure: Failure | None = None
            delivered = False
            events = client.stream(self._write(request, client, position), whole=whole, deadline=deadline)
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, NOTICES):
                        yield event
                        continue
                    if isinstance(event, ReplyFailed):
                        failure = event.failure
                    if not delivered and not last and isinstance(event, ReplyStarted | ReplyFailed | ReplyEnded):
                        held.append(event)
                        continue
                    delivered = True
                    for earlier in held:
                        yield earlier
                    held = []
                    yield event
            if failure is None or delivered or last or not self._goes_on(failure):
                for event in held:
                    yield event
                return
            yield ModelReplaced(client.model, self.clients[position + 1].model, failure)

    async def close(self) -> None:
        """Close the clients of all endpoints."""
        for client in self.clients:
            await client.close()

    def _write(self, request: Request, client: Client, position: int) -> Request:
        if position == 0:
            return request
        if self._adapt is not None:
            return self._adapt(request, client.endpoint)
        return structs.replace(request, model=client.endpoint.model)

    def _goes_on(self, failure: Failure) -> bool:
        return self._on_every_failure or FAILURE_CAUSES.get(failure.kind) != "request"
