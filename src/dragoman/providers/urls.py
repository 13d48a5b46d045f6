"""Addresses as people paste them, made into base URLs that a path can be appended to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from dragoman.errors import ConfigError

# People copy the whole address of a request; the path of the protocol is ours to append.
_request_path = re.compile(
    r"(?:/chat/completions|/completions|/messages|/responses|/api/chat|/api/generate"
    r"|/models/[^/]+:\w+|/model/[^/]+/converse(?:-stream)?)/*\Z"
).search
_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://").match
_hole = re.compile(r"\{(\w+)\}")
_near = re.compile(
    r"(?:localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.0\.0\.0|\[|[^./]+(?::\d+)?(?:/|$))"
).match

_OLLAMA_PORT = 11434


def normalise_base_url(url: str, *, default: str = "", wire: str = "") -> str:
    """A base URL from what a user gave: with a scheme, without the path of a request and the last slash.

    An address without any path gets the path of `default`, the provider's own address: `http://box:8000` becomes
    `http://box:8000/v1` for vLLM. Where nothing is known, only Ollama's port gives it away.
    """
    given = url.strip()
    if not given:
        return default
    if not _scheme(given):
        given = ("http://" if _near(given) else "https://") + given.lstrip("/")
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r} is no address: {error}", hint="write it as https://host/v1") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{url!r} is no address of a server", hint="write it as https://host/v1")
    path = parts.path.rstrip("/")
    found = _request_path(path)
    if found:
        path = path[: found.start()]
    if wire == "ollama":
        # Its own protocol lives beside /v1, where the address of its other wires ends.
        path = path.removesuffix("/v1").removesuffix("/api")
    elif not path:
        path = _path_of(default, port, wire)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))


def _path_of(default: str, port: int | None, wire: str) -> str:
    if default:
        return urlsplit(default).path.rstrip("/")
    return "/v1" if port == _OLLAMA_PORT and wire not in ("", "ollama") else ""


def move(own: str, base: str, other: str) -> str | None:
    """The address of a wire after its endpoint moved from `base` to `other`; None when nobody can tell.

    A move to another host keeps the paths of all wires. A move to another path is only for the wires at `base`.
    """
    if own == base:
        return other
    if urlsplit(base).path.rstrip("/") != urlsplit(other).path.rstrip("/"):
        return None
    return urlunsplit((*urlsplit(other)[:2], *urlsplit(own)[2:]))


def holes_of(url: str) -> tuple[str, ...]:
    """The names of the {holes} that have to be filled, in order and once each."""
    return tuple(dict.fromkeys(_hole.findall(url)))


def fill_holes(url: str, values: Mapping[str, str]) -> str:
    """The address with its holes filled; those without a value stay."""

    def fill(match: re.Match[str]) -> str:
        value = values.get(match[1], "").strip()
        # `DATABRICKS_HOST` and its like are often written with a scheme.
        return (_scheme(value) and value.split("://", 1)[1].rstrip("/")) or value or match[0]

    return _hole.sub(fill, url)
