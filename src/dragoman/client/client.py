"""A Client sends requests to one endpoint and reads the replies as events.

Nothing that the network or the provider does wrong is raised: it ends the reply with a failure, so that everything
that came before it is kept. What is raised is what the caller has to mend: a missing key, an incomplete address.
"""

from __future__ import annotations

import asyncio
import os
import random as lots
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from dragoman import __version__, providers
from dragoman.client.addressing import address_of, base_of, is_vertex_claude
from dragoman.client.attempts import Attempt, Plan
from dragoman.client.auth import Auth, choose_auth
from dragoman.client.breaker import Breakers
from dragoman.client.debugging import Debugger, Writer, choose_writer
from dragoman.client.events import NOTICES, ClientEvent, RequestPrepared, RequestRetried
from dragoman.client.keys import Secret, find_key
from dragoman.client.retrying import Decision, Retries, decide
from dragoman.client.sending import Exchange
from dragoman.client.transport import HttpRequest, Timeouts, Transport
from dragoman.client.transports import fits, open_transport
from dragoman.events import Event, ReplyEnded, ReplyFailed, ReplyStarted, UsageReported
from dragoman.providers import Endpoint
from dragoman.providers.definitions import codec_for
from dragoman.replies import Folding
from dragoman.secrets.exchanges import RequestRedactors
from dragoman.types import Failure, Reply, Request
from dragoman.wire.values import write

USER_AGENT = f"dragoman/{__version__}"


class Client:
    """Speaks to one endpoint. One client serves any number of requests at once, also from several event loops."""

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
        auth: Auth | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = lots.random,
    ) -> None:
        """`key` wins over `keys` (by variable name, from a configuration), which win over the environment."""
        self._environment = os.environ if environment is None else environment
        self.endpoint = providers.resolve(endpoint) if isinstance(endpoint, str) else endpoint
        self.codec = codec_for(self.endpoint)
        self.timeouts = timeouts or Timeouts()
        self.retries = retries or Retries()
        self._transport = transport if transport is None or fits(transport, self.endpoint) else None
        self._owns_transport = self._transport is None
        self._key, self._keys = key, keys
        self._headers = {str(name): str(value) for name, value in (headers or {}).items()}
        self._breakers = breakers or Breakers()
        self._auth = auth
        self._scrubbers = RequestRedactors()
        writer = choose_writer(debug, self._environment)
        self._debugger = Debugger(writer) if writer is not None else None
        self._clock, self._calendar, self._sleep, self._random = clock, calendar, sleep, random
        self._base = ""

    def __repr__(self) -> str:
        return f"<client of {self.model}>"

    @property
    def model(self) -> str:
        """The name that the endpoint goes by: `provider:model`."""
        return f"{self.endpoint.provider.name}:{self.endpoint.model}"

    # ---- asking -----------------------------------------------------------------------------------------------------

    async def stream(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncIterator[ClientEvent]:
        """The events of the reply, with what happened on the way to it.

        `whole` asks for the reply in one piece. `deadline` is a time of the client's clock (`time.monotonic`), after
        which the reply ends with the failure `timed_out`.
        """
        plan = self._plan(request, whole)
        yield RequestPrepared(plan.prepared.losses, len(plan.request.body), plan.model)
        attempt = 0
        while True:
            attempt += 1
            delivered = False
            held: list[Event] = []
            exchange = self._open(plan, deadline)
            try:
                while (events := await exchange.next()) is not None:
                    if not delivered and not _delivers(events):
                        # A beginning and an end alone are nothing that a second attempt could contradict.
                        held += events
                        continue
                    delivered = True
                    if held:
                        events = [*held, *events]
                        held = []
                    for event in events:
                        yield event
            finally:
                await exchange.close()
            failure = next((event.failure for event in held if isinstance(event, ReplyFailed)), None)
            if delivered or failure is None:
                return
            decision = self._decide(failure, attempt, deadline)
            if decision.wait is None:
                for event in _explain(held, decision.why):
                    yield event
                return
            yield RequestRetried(attempt, decision.wait, failure, plan.model)
            await self._sleep(decision.wait)

    async def ask(self, request: Request, *, whole: bool = True, deadline: float | None = None) -> Reply:
        """The whole reply. A failure is in `reply.failure`."""
        folding = Folding()
        async for event in self.stream(request, whole=whole, deadline=deadline):
            if not isinstance(event, NOTICES):
                folding.add(event)
        return folding.reply()

    async def close(self) -> None:
        """Close the connections, if they are this client's own."""
        if self._owns_transport and self._transport is not None:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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
            # A compressed stream is held back by every buffer on its way.
            "Accept-Encoding": "gzip, deflate" if whole else "identity",
            "User-Agent": USER_AGENT,
            **self._headers,
        }
        url = address_of(self._base, self.endpoint, self.codec, model, stream=not whole)
        origin = "/".join(url.split("/", 3)[:3])
        http = HttpRequest("POST", url, headers, write(body).encode())
        return Plan(http, prepared, whole, f"{self.endpoint.provider.name}:{model}", origin)

    def _settle(self) -> None:
        """Find the address, the key and the transport, once. Raises what the caller has to mend."""
        if not self._base:
            self._base = base_of(self.endpoint, self._environment)
        if self._auth is None:
            key = find_key(self.endpoint, self._key, self._keys, self._environment)
            self._auth = choose_auth(self.endpoint, key, self._environment)
        if self._transport is None:
            self._transport = open_transport(self.endpoint)

    # ---- one attempt ------------------------------------------------------------------------------------------------

    def _open(self, plan: Plan, deadline: float | None) -> Attempt:
        assert self._auth is not None and self._transport is not None
        exchange = Exchange(self._transport, self.timeouts, self._clock, deadline, self._debugger)
        breaker = self._breakers.of(plan.origin)
        return Attempt(plan, exchange, self._auth, breaker, self._scrubbers, self.codec, self._clock, self._calendar)

    def _decide(self, failure: Failure, attempt: int, deadline: float | None) -> Decision:
        now, draw = self._clock(), self._random()
        return decide(self.retries, failure, attempt, delivered=False, now=now, deadline=deadline, draw=draw)


_FRAME = (ReplyStarted, UsageReported, ReplyFailed, ReplyEnded)


def _delivers(events: list[Event]) -> bool:
    """Whether a reader has been given anything that another attempt would give again."""
    return any(not isinstance(event, _FRAME) for event in events) or (
        any(isinstance(event, ReplyEnded) for event in events)
        and not any(isinstance(event, ReplyFailed) for event in events)
    )


def _explain(events: list[Event], why: str) -> list[Event]:
    """The events of a failure, with the reason why nothing more was tried."""
    if not why:
        return events
    return [
        ReplyFailed(structs.replace(event.failure, message=f"{event.failure.message} ({why})"))
        if isinstance(event, ReplyFailed)
        else event
        for event in events
    ]
