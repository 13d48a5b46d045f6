"""Providers, model profiles, and their capabilities.

A `Provider` is a row of `table.toml`, a `Profile` a row of `profiles.toml`. From both, `resolve("ollama:qwen3")`
determines the wire, the quirks, the URL, and whether tools are native. To add your own provider, use a value in code
(`Registry.with_provider`), a row in a configuration file (`Registry.with_rows`), or an entry point of the group
`dragoman.providers`.
"""

from __future__ import annotations

from typing import Any

from dragoman.errors import UnknownProvider
from dragoman.providers.endpoint import Endpoint, PromptGuided, ToolsPayload
from dragoman.providers.facts import Fact, Facts, MemoryFacts, learn_from_error, learn_from_show, learn_from_usage
from dragoman.providers.provider import WIRES, Capabilities, Profile, Provider, normalise_base_url, plain_name
from dragoman.providers.registry import Registry, shipped
from dragoman.providers.registry import installed as default

__all__ = [
    "WIRES",
    "Capabilities",
    "Endpoint",
    "Fact",
    "Facts",
    "MemoryFacts",
    "Profile",
    "PromptGuided",
    "Provider",
    "Registry",
    "ToolsPayload",
    "UnknownProvider",
    "default",
    "get",
    "learn_from_error",
    "learn_from_show",
    "learn_from_usage",
    "names",
    "normalise_base_url",
    "plain_name",
    "profile",
    "resolve",
    "split",
]


def names() -> list[str]:
    """Return the names of all providers, followed by their aliases."""
    return default().names()


def get(name: str) -> Provider:
    """Return the provider of that name, alias or wire. Raises UnknownProvider, which lists the known ones."""
    ours = shipped()
    return ours.get(name) if name in ours else default().get(name)


def profile(model: str) -> Profile:
    """Return the profile of a model."""
    return shipped().profile(model)


def resolve(provider: str | Provider, model: str | None = None, **settings: Any) -> Endpoint:
    """Return the endpoint for `provider:model`; the settings are those of `Registry.resolve`."""
    return (_registry_for(provider) if isinstance(provider, str) else shipped()).resolve(provider, model, **settings)


def split(name: str, base_url: str = "") -> tuple[str, str]:
    """Split the name of a model into provider and model, as `Registry.split` does."""
    return _registry_for(name).split(name, base_url)


def _registry_for(name: str) -> Registry:
    """The shipped rows if the name begins with one of them. Otherwise it may be a provider of an installed package."""
    is_shipped = any(name.partition(sign)[0].partition("@")[0] in shipped() for sign in ":/")
    return shipped() if is_shipped else default()
