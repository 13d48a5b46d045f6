"""API keys: how they are looked up, and a type that never prints its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.errors import MissingKey
from dragoman.providers import Endpoint

HIDDEN = "***"


class Secret:
    """A text whose `repr` and `str` hide it: `reveal()` returns it."""

    __slots__ = ("_value", "name")

    def __init__(self, value: str, name: str = "") -> None:
        self._value = value
        self.name = name
        """Its origin: the name of a variable, or empty for an argument."""

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> Any:
        raise TypeError("a secret cannot be pickled")


def find_key(
    endpoint: Endpoint,
    given: str | Secret | None,
    configured: Mapping[str, str] | None,
    environment: Mapping[str, str],
) -> Secret | None:
    """Return the key for an endpoint: the given one, else the configured one, else that of the environment."""
    if isinstance(given, Secret):
        return given
    if given is not None and given.strip():
        return Secret(given.strip())
    for source in (configured or {}, environment):
        for name in endpoint.key_names:
            # A key from a file may end with a line break.
            value = source.get(name, "").strip()
            if value:
                return Secret(value, name)
    return None


def pick_key(endpoint: Endpoint, keys: Mapping[str, str]) -> str | None:
    """Return the key for an endpoint from keys by model or by provider; None leaves it to the variables."""
    if not keys:
        return None
    provider = endpoint.provider.name
    return keys.get(f"{provider}:{endpoint.model}") or keys.get(provider)


def missing_key(endpoint: Endpoint, also: str = "") -> MissingKey:
    """Return the error that names the checked variables."""
    name = endpoint.provider.name
    names = " or ".join(endpoint.key_names)
    hint = f"set {names}, or pass key=" if names else "pass key="
    command_hint = f"set {names}, or give the key with --key @FILE" if names else "give the key with --key @FILE"
    if also:
        hint, command_hint = f"{hint}; {also}", f"{command_hint}; {also}"
    where = f": {names} is not set" if names else ""
    return MissingKey(f"there is no key for {name}{where}", hint=hint, command_hint=command_hint)


def url_variables(endpoint: Endpoint, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the placeholders of a URL from the environment."""
    found = {}
    for hole, names in endpoint.provider.variables.items():
        value = next((environment[name].strip() for name in names if environment.get(name, "").strip()), "")
        if value:
            found[hole] = value
    return found
