"""Which transport carries the requests of an endpoint: HTTP, unless its provider brings one of its own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.providers import Endpoint

if TYPE_CHECKING:
    from dragoman.client.transport import Transport


def open_transport(endpoint: Endpoint) -> Transport:
    """A transport of its own for whoever speaks to this endpoint; he closes it."""
    if not endpoint.provider.transport:
        from dragoman.client.http import HttpTransport

        return HttpTransport()
    module, _, name = endpoint.provider.transport.partition(":")
    try:
        # By name, because a provider may live in a room that this one must not see.
        opened: Transport = getattr(import_module(module), name)(endpoint)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the transport of {endpoint.provider.name} cannot be loaded: {error}",
            hint="a provider names it as module:name",
        ) from None
    return opened


def fits(transport: Transport, endpoint: Endpoint) -> bool:
    """Whether a transport reaches the endpoint: HTTP does not lead to one that is no server."""
    if not endpoint.provider.transport:
        return True
    from dragoman.client.http import HttpTransport

    return not isinstance(transport, HttpTransport)


def shared_transport(endpoint: Endpoint) -> Transport:
    """One for the whole process, so that connections are kept between questions; each event loop has its own."""
    return _own(endpoint) if endpoint.provider.transport else _http()


@cache
def _http() -> Transport:
    from dragoman.client.http import HttpTransport

    return HttpTransport()


_owned: dict[tuple[str, str], Transport] = {}


def _own(endpoint: Endpoint) -> Transport:
    place = (endpoint.provider.transport, endpoint.model)
    if place not in _owned:
        _owned[place] = open_transport(endpoint)
    return _owned[place]
