"""Who is at an address: the server recognised by what it says when it is asked for its models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from dragoman.doctor.metadata import Listed, read_models
from dragoman.errors import ConfigError
from dragoman.providers import normalise_base_url

Look = Callable[[str], Awaitable[Any]]
"""The JSON at an address; None where there is none."""

_OWNERS = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang", "library": "ollama", "lm-studio": "lmstudio"}
"""What servers write in `owned_by`, and which row they are."""


class Recognised(Struct, frozen=True):
    """A server at an address: its row, its wire where that is not the row's first, its base URL, its models."""

    provider: str
    base_url: str
    wire: str = ""
    models: tuple[Listed, ...] = ()


async def recognise(url: str, look: Look) -> Recognised:
    """The server at an address, by a few lookups that cost nothing. Raises ConfigError where nobody is known."""
    given = normalise_base_url(url)
    root = given.partition("?")[0].removesuffix("/v1").removesuffix("/api")
    listed = await look(f"{root}/v1/models")
    models = read_models(listed)
    found = await _by_server(root, models, look)
    if found is not None:
        return found
    if models is not None:
        if isinstance(listed, dict) and "has_more" in listed:
            return Recognised("custom", f"{root}/v1", "anthropic", tuple(models))
        return Recognised("custom", f"{root}/v1", "", tuple(models))
    models = read_models(await look(f"{given}/models"))
    if models is not None:
        return Recognised("custom", given, "", tuple(models))
    models = read_models(await look(f"{root}/v1beta/models"))
    if models is not None:
        return Recognised("custom", f"{root}/v1beta", "gemini", tuple(models))
    raise ConfigError(
        f"nobody at {url} lists models as an endpoint of a known kind does",
        hint="is the server running, and does it want a key (--key-env NAME)? else name the provider: "
        "dragoman doctor PROVIDER:MODEL --base-url URL",
    )


async def _by_server(root: str, models: list[Listed] | None, look: Look) -> Recognised | None:
    """The servers that tell who they are."""
    # llama.cpp answers /api/tags as well, so it is asked first.
    props = await look(f"{root}/props")
    if isinstance(props, dict) and "default_generation_settings" in props:
        return Recognised("llamacpp", f"{root}/v1", "", tuple(models or ()))
    tags = await look(f"{root}/api/tags")
    local = read_models(tags) if isinstance(tags, dict) and "models" in tags else None
    if local is not None:
        return Recognised("ollama", root, "ollama", tuple(local))
    owners = {_OWNERS[entry.owner] for entry in models or () if entry.owner in _OWNERS}
    if len(owners) == 1:
        return Recognised(owners.pop(), f"{root}/v1", "", tuple(models or ()))
    return None
