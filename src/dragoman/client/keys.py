"""Keys: where they are looked for, and how they stay out of everything that is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.errors import MissingKey
from dragoman.providers import Endpoint

HIDDEN = "***"
_REMEMBERED = 32
_tells = re.compile(r"authorization|cookie|api-?key|token|secret|password|signature", re.IGNORECASE).search
_in_query = re.compile(rb"([?&](?:key|api-key|api_key|token|access_token|sig)=)[^& \r\n]+", re.IGNORECASE)


class Secret:
    """A text that shows itself to nobody by accident: `reveal()` gives it."""

    __slots__ = ("_value", "name")

    def __init__(self, value: str, name: str = "") -> None:
        self._value = value
        self.name = name
        """Where it came from: the name of a variable, or empty for an argument."""

    def reveal(self) -> str:
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
        raise TypeError("a secret is not written down")


def find_key(
    endpoint: Endpoint,
    given: str | Secret | None,
    configured: Mapping[str, str] | None,
    environment: Mapping[str, str],
) -> Secret | None:
    """The key for an endpoint: the one given, else the configured one, else that of the environment."""
    if isinstance(given, Secret):
        return given
    if given is not None and given.strip():
        return Secret(given.strip())
    for source in (configured or {}, environment):
        for name in endpoint.key_names:
            # A key that was read from a file ends with a line break.
            value = source.get(name, "").strip()
            if value:
                return Secret(value, name)
    return None


def missing_key(endpoint: Endpoint, also: str = "") -> MissingKey:
    """The error that says which variables were looked at."""
    name = endpoint.provider.name
    names = " or ".join(endpoint.key_names)
    hint = f"set {names}, or pass key=" if names else "pass key="
    if also:
        hint = f"{hint}; {also}"
    where = f": {names} is not set" if names else ""
    return MissingKey(f"there is no key for {name}{where}", hint=hint)


class Scrubber:
    """Takes the client's own secrets out of what is shown."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one secret may be the beginning of another.
        self._texts = sorted({text for text in secrets if len(text) >= 4}, key=len, reverse=True)
        self._bytes = [text.encode() for text in self._texts]

    def grow(self, secrets: Iterable[str]) -> Scrubber:
        """This one, if it knows all of them; else one that does. Tokens change, and the old ones stay secret."""
        fresh = {text for text in secrets if len(text) >= 4}.difference(self._texts)
        return Scrubber([*self._texts[-_REMEMBERED:], *fresh]) if fresh else self

    def text(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return text

    def data(self, data: bytes) -> bytes:
        for secret in self._bytes:
            data = data.replace(secret, HIDDEN.encode())
        return data

    def address(self, url: str) -> str:
        """An address without the secrets in it, those of its query and its user included."""
        plain = re.sub(r"//[^/@]*@", f"//{HIDDEN}@", url)
        return self.text(_in_query.sub(rb"\1***", plain.encode()).decode())

    def header(self, name: str, value: str) -> str:
        return HIDDEN if _tells(name) else self.text(value)


class Scrubbers:
    """The scrubber of a client, which learns new secrets and forgets none of the last ones."""

    def __init__(self) -> None:
        self.latest = Scrubber()

    def knowing(self, secrets: Iterable[str]) -> Scrubber:
        self.latest = self.latest.grow(secrets)
        return self.latest
