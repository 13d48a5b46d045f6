"""URLs of requests, parsed once, and proxies."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from dragoman.errors import ConfigError

# --------------------------------------------------------------------------------------------------------------------
# URLs of requests, parsed once and cached.

# The characters that a request target may contain unescaped.
_SAFE = "%/:=&?~#+!$,;'@()*[]|"
_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """The destination of a request. `authority` is the value of the Host header."""

    scheme: str
    host: str
    port: int
    target: str
    authority: str
    credentials: str = ""
    """The value of an Authorization header, if the URL contains a user and a password."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"


@lru_cache(maxsize=512)
def read_address(url: str) -> Address:
    """Parse an absolute http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ConfigError(
            f"{_without_user(url)!r} is not the URL of a server", hint="write it as https://host/v1"
        ) from None
    if not parts.hostname:
        raise ConfigError(f"{_without_user(url)!r} has no host", hint="write it as https://host/v1")
    host = _to_ascii(parts.hostname)
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
    target = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        target += "?" + quote(parts.query, safe=_SAFE)
    return Address(parts.scheme, host, port, target, authority, basic(parts.username, parts.password))


def basic(user: str | None, password: str | None) -> str:
    """Return the value of a header with a user and a password; empty without a user."""
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
        raise ConfigError(f"{host!r} is not a host name", hint="check the URL") from None


def _without_user(url: str) -> str:
    head, at, rest = url.partition("@")
    return f"{head.partition('://')[0]}://***@{rest}"[:200] if at else url[:200]


# --------------------------------------------------------------------------------------------------------------------
# Proxies are used only on request: a fixed URL, or those of the environment.


class Proxy(Struct, frozen=True):
    host: str
    port: int
    credentials: str = ""


class Proxies(Struct, frozen=True):
    """The proxies by scheme, and the hosts that use none."""

    by_scheme: dict[str, Proxy]
    exceptions: tuple[str, ...] = ()

    def find(self, address: Address) -> Proxy | None:
        proxy = self.by_scheme.get(address.scheme)
        return None if proxy is None or self._is_exempt(address) else proxy

    def _is_exempt(self, address: Address) -> bool:
        host = address.host.lower()
        for entry in self.exceptions:
            name, _, port = entry.partition(":")
            if port.isdigit() and int(port) != address.port:
                continue
            name = name.lstrip(".") if port.isdigit() else entry.lstrip(".")
            if name == "*" or host == name or host.endswith("." + name):
                return True
        return False


def read_proxies(setting: str | None, environment: Mapping[str, str]) -> Proxies | None:
    """Return the proxies of a setting: None for none, `env` for those of the environment, else the URL of one."""
    if setting is None or not setting.strip():
        return None
    if setting != "env":
        proxy = read_proxy(setting)
        return Proxies({"http": proxy, "https": proxy})
    found = {}
    for scheme in ("http", "https"):
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
            if name == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
                # In a CGI script, the sender of a request controls this variable.
                continue
            if environment.get(name, "").strip():
                found[scheme] = read_proxy(environment[name])
                break
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = tuple(entry.strip().lower() for entry in exceptions.split(",") if entry.strip())
    return Proxies(found, names) if found else None


def read_proxy(url: str) -> Proxy:
    """Return a proxy from its URL."""
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError("this kind of proxy is not supported", hint="write it as http://host:port")
    return Proxy(parts.hostname, port, basic(parts.username, parts.password))
