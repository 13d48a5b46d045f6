"""The client: one request to a model, sent, retried while nothing was delivered, and read as events.

Names are loaded when they are first used: whoever only needs an event does not load the network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.client.api import aask, ask, astream, stream
    from dragoman.client.client import Client, FallbackClient
    from dragoman.client.http import HttpTransport, Limits
    from dragoman.client.keys import Secret
    from dragoman.client.retry import Breakers, ClientEvent, ModelReplaced, RequestPrepared, RequestRetried, Retries
    from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault

_HOMES = {
    "Breakers": "retry",
    "Client": "client",
    "ClientEvent": "retry",
    "FallbackClient": "client",
    "HttpRequest": "transport",
    "HttpResponse": "transport",
    "HttpTransport": "http",
    "Limits": "http",
    "ModelReplaced": "retry",
    "RequestPrepared": "retry",
    "RequestRetried": "retry",
    "Retries": "retry",
    "Secret": "keys",
    "Timeouts": "transport",
    "Transport": "transport",
    "TransportFault": "transport",
    "aask": "api",
    "ask": "api",
    "astream": "api",
    "stream": "api",
}

__all__ = [
    "Breakers",
    "Client",
    "ClientEvent",
    "FallbackClient",
    "HttpRequest",
    "HttpResponse",
    "HttpTransport",
    "Limits",
    "ModelReplaced",
    "RequestPrepared",
    "RequestRetried",
    "Retries",
    "Secret",
    "Timeouts",
    "Transport",
    "TransportFault",
    "aask",
    "ask",
    "astream",
    "stream",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dragoman.client' has no attribute {name!r}")
    value: object = getattr(import_module(f"dragoman.client.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
