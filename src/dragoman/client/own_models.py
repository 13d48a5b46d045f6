"""Models that the caller defines: an agent, `ask` and `stream` accept them like a name or an Endpoint."""

from __future__ import annotations

from typing import Any, Protocol

from dragoman.client.transport import Transport
from dragoman.errors import ConfigError
from dragoman.providers import Endpoint


class OwnModel(Transport, Protocol):
    """A model of your own: a transport that answers requests, and names the endpoint that it stands for."""

    def endpoint(self) -> Endpoint:
        """Return the endpoint that the model stands for: its wire, name and capabilities."""
        ...


Model = str | Endpoint | OwnModel


def as_endpoint(model: Any) -> tuple[str | Endpoint, Transport | None]:
    """Return the name or the endpoint of a model, and its transport if it is a model of the caller's own."""
    if isinstance(model, str | Endpoint):
        return model, None
    made = model.endpoint() if callable(getattr(model, "endpoint", None)) and hasattr(model, "send") else None
    if not isinstance(made, Endpoint):
        raise ConfigError(
            f"a model is a text such as 'ollama:qwen3', an Endpoint or an OwnModel, not {type(model).__name__}",
            hint="an OwnModel has endpoint(), send() and close(), as dragoman.testing.ScriptedModel does, which also"
            " takes a function; pass your own HTTP client in connection=Connection(transport=...)",
        )
    return made, model
