"""The clients of an agent: one for each endpoint that it speaks to."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.client.client import Client
from dragoman.client.retry import Retries
from dragoman.client.transport import Timeouts, Transport
from dragoman.providers import Endpoint


class Speakers:
    """Makes clients when they are needed and keeps them, so that connections are used again."""

    def __init__(
        self,
        *,
        transport: Transport | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport
        self._key = key
        self._timeouts = timeouts
        self._retries = retries
        self._environment = environment
        self._clients: dict[tuple[str, str, str], Client] = {}
        self._key_of: tuple[str, str] | None = None

    def of(self, endpoint: Endpoint) -> Client:
        """The client of an endpoint."""
        where = (endpoint.provider.name, endpoint.base_url, endpoint.wire)
        client = self._clients.get(where)
        if client is None:
            # A key that was given by hand is the first endpoint's; others find their own.
            if self._key_of is None:
                self._key_of = where[:2]
            key = self._key if where[:2] == self._key_of else None
            client = Client(
                endpoint,
                transport=self._transport,
                key=key,
                timeouts=self._timeouts,
                retries=self._retries,
                environment=self._environment,
            )
            self._clients[where] = client
        return client

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()
