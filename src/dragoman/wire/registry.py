"""The wires by name. A codec is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module

from dragoman.errors import UnknownProvider
from dragoman.wire.codec import Codec
from dragoman.wire.quirks import DEFAULTS, Quirks

_HOMES = {
    "openai_chat": "OpenAIChat",
    "openai_responses": "OpenAIResponses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "ollama": "Ollama",
    "bedrock": "Bedrock",
    "mistral": "Mistral",
    "cohere": "Cohere",
}
_ALIASES = {"openai": "openai_chat", "responses": "openai_responses"}


def names() -> list[str]:
    """The names of all wires."""
    return list(_HOMES)


def knows(name: str) -> bool:
    """Whether a wire goes by that name."""
    return name in _HOMES or name in _ALIASES


def get(name: str, quirks: Quirks = DEFAULTS) -> Codec:
    """The codec of a wire, for an endpoint with these quirks."""
    key = _ALIASES.get(name, name)
    if key not in _HOMES:
        raise UnknownProvider(name, names(), hint=f"the wires are {', '.join(names())}")
    codec: type[Codec] = getattr(import_module(f"dragoman.wire.{key}"), _HOMES[key])
    return codec(quirks)
