"""Several endpoints, asked one after the other until one of them answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from msgspec import structs

from dragoman.client.client import Client
from dragoman.client.events import NOTICES, ClientEvent, ModelReplaced
from dragoman.errors import ConfigError
from dragoman.events import ReplyEnded, ReplyFailed, ReplyStarted
from dragoman.providers import Endpoint
from dragoman.replies import Folding
from dragoman.types import Failure, Reply, Request

_OURS = frozenset({"bad_request", "unauthorized", "refused", "context_too_long"})
"""Failures that say something about the request or the key, and not about the model."""

Adapt = Callable[[Request, Endpoint], Request]


class FallbackClient:
    """The first client is asked; where it gives up before anything was delivered, the next one.

    `on_every_failure` also goes on where the request itself or the key was refused. `adapt` writes the request for
    another endpoint, where more than the name of the model has to change.
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
        """The endpoint that is asked first."""
        return self.clients[0].endpoint

    @property
    def model(self) -> str:
        return self.clients[0].model

    async def stream(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncIterator[ClientEvent]:
        """As the stream of one client, with a ModelReplaced before each further one."""
        for position, client in enumerate(self.clients):
            last = position + 1 == len(self.clients)
            held: list[ClientEvent] = []
            failure: Failure | None = None
            delivered = False
            async for event in client.stream(self._write(request, client, position), whole=whole, deadline=deadline):
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

    async def ask(self, request: Request, *, whole: bool = True, deadline: float | None = None) -> Reply:
        """The whole reply of the first endpoint that gave one, or the failure of the last."""
        folding = Folding()
        async for event in self.stream(request, whole=whole, deadline=deadline):
            if not isinstance(event, NOTICES):
                folding.add(event)
        return folding.reply()

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _write(self, request: Request, client: Client, position: int) -> Request:
        if position == 0:
            return request
        if self._adapt is not None:
            return self._adapt(request, client.endpoint)
        return structs.replace(request, model=client.endpoint.model)

    def _goes_on(self, failure: Failure) -> bool:
        return self._on_every_failure or failure.kind not in _OURS
