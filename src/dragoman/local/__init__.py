"""The embedded model: llama.cpp in this process, a store of GGUF files, and a transport that makes it an endpoint.

    pip install "dragoman[local]"
    dragoman local add            download the default model, once
    Agent("local")                use it like any other model

`local:NAME` is a model of the store, `local:PATH.gguf` is any file. No data leaves the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.local.download import CATALOGUE as CATALOGUE, DEFAULT as DEFAULT, Entry as Entry
    from dragoman.local.engine import Engine as Engine
    from dragoman.local.store import Model as Model, Store as Store, UnknownLocalModel as UnknownLocalModel
    from dragoman.local.transport import EmbeddedTransport as EmbeddedTransport
    from dragoman.providers import Endpoint
else:
    from dragoman import export_lazily

    __all__, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman.local.download": "CATALOGUE DEFAULT Entry",
            "dragoman.local.engine": "Engine",
            "dragoman.local.store": "Model Store UnknownLocalModel",
            "dragoman.local.transport": "EmbeddedTransport",
        },
    )
    __all__ += ["open_transport"]


def open_transport(endpoint: Endpoint) -> EmbeddedTransport:
    """Open the transport of the provider `local`. Raises ConfigError if llama.cpp or the model is missing."""
    from dragoman.local.transport import EmbeddedTransport

    transport = EmbeddedTransport(context=endpoint.quirks.context_window)
    transport.check(endpoint.model)
    return transport
