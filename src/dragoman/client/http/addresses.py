"""Addresses of requests, taken apart once and remembered."""

from __future__ import annotations

import base64
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from dragoman.errors import ConfigError

# Everything that may stand in a target as it is; the rest is escaped.
_SAFE = "%/:=&?~#+!$,;'@()*[]|"
_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """Where a request goes. `authority` is what the Host header says."""

    scheme: str
    host: str
    port: int
    target: str
    authority: str
    credentials: str = ""
    """The value of an Authorization header, where the address names a user and a password."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"


@lru_cache(maxsize=512)
def read_address(url: str) -> Address:
    """The parts of an absolute http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ConfigError(
            f"{_without_user(url)!r} is no address of a server", hint="write it as https://host/v1"
        ) from None
    if not parts.hostname:
        raise ConfigError(f"{_without_user(url)!r} names no host", hint="write it as https://host/v1")
    host = _to_ascii(parts.hostname)
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
    target = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        target += "?" + quote(parts.query, safe=_SAFE)
    return Address(parts.scheme, host, port, target, authority, basic(parts.username, parts.password))


def basic(user: str | None, password: str | None) -> str:
    """The value of a header with a user and a password; empty without a user."""
    if not user:
        return ""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _to_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ConfigError(f"{host!r} is no name of a host", hint="check the address") from None


def _without_user(url: str) -> str:
    head, at, rest = url.partition("@")
    return f"{head.partition('://')[0]}://***@{rest}"[:200] if at else url[:200]
