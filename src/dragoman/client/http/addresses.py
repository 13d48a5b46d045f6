"""URLs of requests, parsed once, and proxies."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
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
# Proxies: one for every request, or those of the environment, which have exceptions.

NO_PROXY = "none"
"""The setting that uses no proxy."""
_separators = re.compile(r"[,\s]+").split


class Proxy(Struct, frozen=True):
    host: str
    port: int
    credentials: str = ""


class Proxies(Struct, frozen=True):
    """The proxies by scheme, and the hosts that use none."""

    by_scheme: dict[str, Proxy]
    exceptions: tuple[str, ...] = ()
    unsupported: dict[str, str] = {}
    """By scheme: the variable with a proxy of a kind that is not supported."""
    spares_loopback: bool = False

    def find(self, address: Address) -> Proxy | None:
        """Return the proxy for an address. Raises ConfigError if its kind is not supported."""
        proxy, variable = self.by_scheme.get(address.scheme), self.unsupported.get(address.scheme)
        if (proxy is None and variable is None) or self._is_exempt(address):
            return None
        if variable is not None:
            raise ConfigError(
                f"the proxy in {variable} is of a kind that is not supported",
                hint=f"write it as http://host:port, or name {address.host} in NO_PROXY",
            )
        return proxy

    def _is_exempt(self, address: Address) -> bool:
        number = _read_number(address.host)
        if self.spares_loopback and _is_loopback(address.host, number):
            return True
        return any(_covers(entry, address, number) for entry in self.exceptions)


def _read_number(host: str) -> IPv4Address | IPv6Address | None:
    try:
        number = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (number.ipv4_mapped or number) if isinstance(number, IPv6Address) else number


def _is_loopback(host: str, number: IPv4Address | IPv6Address | None) -> bool:
    if number is not None:
        return number.is_loopback or number.is_unspecified
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost")


def _covers(entry: str, address: Address, number: IPv4Address | IPv6Address | None) -> bool:
    """Whether an entry of NO_PROXY covers an address: `*`, a domain, a number or a network, all but `*` with a port."""
    if entry == "*":
        return True
    name, port = _split_port(entry)
    if port is not None and port != address.port:
        return False
    if number is not None:
        try:
            return number in ip_network(name, strict=False)
        except (ValueError, TypeError):
            return False
    domain = name.removeprefix("*").lstrip(".").rstrip(".")
    host = address.host.lower().rstrip(".")
    return bool(domain) and (host == domain or host.endswith("." + domain))


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        return name, int(port[1:]) if port[1:].isdigit() else None
    name, sign, port = entry.rpartition(":")
    # More than one colon without brackets is a number of IPv6.
    return (name, int(port)) if sign and port.isdigit() and ":" not in name else (entry, None)


def read_proxies(setting: str | None, environment: Mapping[str, str]) -> Proxies | None:
    """Return the proxies of a setting: `env` for those of the environment, `none` for none, else the URL of one.

    Those of the environment are not used for this machine: a model on the loopback is not behind a proxy.
    """
    chosen = (setting or "").strip()
    if not chosen or chosen == NO_PROXY:
        return None
    if chosen != "env":
        proxy = read_proxy(chosen)
        return Proxies({"http": proxy, "https": proxy})
    found, unsupported = {}, {}
    for scheme in ("http", "https"):
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
            if name == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
                # In a CGI script, the sender of a request controls this variable.
                continue
            if environment.get(name, "").strip():
                try:
                    found[scheme] = read_proxy(environment[name])
                except ConfigError:
                    # Only a request that needs it fails.
                    unsupported[scheme] = name
                break
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = tuple(entry.lower() for entry in _separators(exceptions) if entry)
    return Proxies(found, names, unsupported, spares_loopback=True) if found or unsupported else None


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
