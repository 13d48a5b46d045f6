"""The keys that a user's file names: read only when they are needed, and never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.config.effective import Config
from dragoman.config.files import is_private, read_text
from dragoman.errors import ConfigError, MissingKey
from dragoman.providers import Registry


def read_key(config: Config, provider: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The key that the configuration gives for a provider; None if it says nothing about it.

    The usual variables of a provider (`OPENAI_API_KEY`) are not looked at here: they count where this says nothing.
    """
    sources = config["keys"]
    if provider not in sources:
        return None
    source = sources[provider]
    if isinstance(source, str):
        return source
    around = os.environ if environment is None else environment
    if "env" in source:
        found = around.get(source["env"], "").strip()
        if not found:
            raise MissingKey(f"{config.origin('keys')}: the key of {provider} is in ${source['env']}, which is not set")
        return found
    return _read_key_file(Path(source["file"]), provider)


def read_keys(
    config: Config, environment: Mapping[str, str] | None = None, problems: list[str] | None = None
) -> dict[str, str]:
    """Every key that can be read, by provider; the values are also what logs are to be scrubbed of.

    One that cannot be read costs only its own provider; `problems` gets the reason.
    """
    found = {}
    for provider in config["keys"]:
        try:
            key = read_key(config, provider, environment)
        except ConfigError as error:
            if problems is not None:
                problems.append(str(error))
            continue
        if key:
            found[provider] = key
    return found


def _read_key_file(path: Path, provider: str) -> str:
    text = read_text(path).strip()
    if not text:
        raise MissingKey(f"{path}, the file with the key of {provider}, is empty", hint="write the key into it")
    if len(text.splitlines()) > 1:
        raise ConfigError(f"{path}, the file with the key of {provider}, has several lines", hint="one key, one line")
    if not is_private(path):
        raise ConfigError(
            f"{path} holds the key of {provider} and others can read it; it is not used", hint=f"chmod 600 {path}"
        )
    return text


def keys_by_variable(
    config: Config,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
    problems: list[str] | None = None,
) -> dict[str, str]:
    """The keys of the configuration under the variables in which the client looks for them."""
    known = config.registry() if registry is None else registry
    found = {}
    for provider, key in read_keys(config, environment, problems).items():
        names = known.get(provider).key_names if provider in known else ()
        if not names:
            raise ConfigError(
                f"{config.origin('keys')}: {provider!r} is no provider that takes a key",
                hint="`dragoman providers` lists them; a row of your own names its variable with `key`",
            )
        found[names[0]] = key
    return found
