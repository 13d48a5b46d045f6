"""Proxies, only when somebody asks for one: a fixed address, or those of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.client.http.addresses import Address, basic
from dragoman.errors import ConfigError


class Proxy(Struct, frozen=True):
    host: str
    port: int
    credentials: str = ""


class Proxies(Struct, frozen=True):
    """Which proxy a request takes: by its scheme, unless its host is on the list of exceptions."""

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
    """The proxies of a setting: None for none, `env` for those of the environment, else the address of one."""
    if setting is None or not setting.strip():
        return None
    if setting != "env":
        proxy = read_proxy(setting)
        return Proxies({"http": proxy, "https": proxy})
    found = {}
    for scheme in ("http", "https"):
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
            if name == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
                # In a CGI script it is a header of whoever sent the request.
                continue
            if environment.get(name, "").strip():
                found[scheme] = read_proxy(environment[name])
                break
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = tuple(entry.strip().lower() for entry in exceptions.split(",") if entry.strip())
    return Proxies(found, names) if found else None


def read_proxy(url: str) -> Proxy:
    """A proxy from its address."""
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError("the proxy is not of a kind that can be used", hint="write it as http://host:port")
    return Proxy(parts.hostname, port, basic(parts.username, parts.password))
