"""A model inside this process: llama.cpp, a store of GGUF files, and a transport that makes both a usual endpoint.

    pip install 'dragoman[local]'
    dragoman model add            fetch the default model, once
    Agent("local")                and from there on everything is as with any other model

`local:NAME` is a model of the store, `local:PATH.gguf` any file. Nothing is sent anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.local.download import CATALOGUE, DEFAULT, Entry
    from dragoman.local.engine import Engine
    from dragoman.local.store import Model, Store, UnknownLocalModel
    from dragoman.local.transport import EmbeddedTransport
    from dragoman.providers import Endpoint

_HOMES = {
    "CATALOGUE": "download",
    "DEFAULT": "download",
    "EmbeddedTransport": "transport",
    "Engine": "engine",
    "Entry": "download",
    "Model": "store",
    "Store": "store",
    "UnknownLocalModel": "store",
}

__all__ = [
    "CATALOGUE",
    "DEFAULT",
    "EmbeddedTransport",
    "Engine",
    "Entry",
    "Model",
    "Store",
    "UnknownLocalModel",
    "open_transport",
]


def open_transport(endpoint: Endpoint) -> EmbeddedTransport:
    """The transport of the provider `local`. Raises where llama.cpp or the model is missing, and says what to do."""
    from dragoman.local.transport import EmbeddedTransport

    transport = EmbeddedTransport(context=endpoint.quirks.context_window)
    transport.check(endpoint.model)
    return transport


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
