"""Encode tool definitions, decode calls and encode results for a provider, without a client.

`provider` is the name of a wire (`anthropic`), one of `openai`, `anthropic`, `ollama`, `gemini`, the name of a row of
the provider table (`groq`, `groq:llama-3.3-70b`), a `Provider`, an `Endpoint`, or a codec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman import providers, wire
from dragoman.providers import Endpoint, Provider
from dragoman.providers.endpoint import codec_of
from dragoman.types import JsonObject, ToolCall, ToolResult
from dragoman.wire.codec import Codec
from dragoman.wire.registry import knows

Target = str | Provider | Endpoint | Codec


def codec_for(provider: Target) -> Codec:
    """Return the codec for a provider, with the provider's quirks."""
    if isinstance(provider, Codec):
        return provider
    if isinstance(provider, str):
        if knows(provider):
            return wire.get(provider)
        named = any(sign in provider for sign in ":/")
        provider = providers.resolve(*providers.split(provider)) if named else providers.get(provider)
    return codec_of(providers.resolve(provider, "") if isinstance(provider, Provider) else provider)


def encode_definitions(tools: Iterable[object], provider: Target) -> list[JsonObject]:
    """Return the definitions of tools in the form of this provider."""
    return codec_for(provider).encode_definitions(tools)


def decode_tool_calls(body: Any, provider: Target) -> list[ToolCall]:
    """Return the calls in a reply of this provider: a body, a message or a list of calls. Empty without calls."""
    return codec_for(provider).decode_tool_calls(body)


def encode_result(result: ToolResult | Mapping[str, Any], provider: Target) -> JsonObject:
    """Return the result of one call as a message for this provider."""
    return codec_for(provider).encode_result(result)
