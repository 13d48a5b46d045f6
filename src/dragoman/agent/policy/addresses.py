"""Patterns of addresses: `domain:*.example.org` for hosts, `https://example.org/docs/**` for parts of one.

Hosts are compared label by label in their normal form. An address that two programs could read in two ways is never
allowed by a pattern.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from dragoman.agent.policy.globs import allows_path, matches_text, mentions_path

DOMAIN = "domain:"
_PORTS = {"http": 80, "https": 443}
_odd = re.compile(r"[\s\\\x00-\x20\x7f-\x9f]").search
_ENCODED_STEPS = re.compile(r"%(?:2e|2f|5c|00)", re.IGNORECASE).search


class Address(NamedTuple):
    """The parts of an address that a rule looks at."""

    scheme: str
    host: str
    port: int | None
    path: str
    has_query: bool
    has_login: bool


def read_address(text: str) -> Address | None:
    """The parts of an address; None if it is none."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    login = "@" in parts.netloc
    return Address(
        parts.scheme.lower(),
        normal_host(parts.hostname),
        port if port is not None else _PORTS.get(parts.scheme.lower()),
        parts.path or "/",
        bool(parts.query) or _ends_in_mark(parts, text),
        login,
    )


def spellings_of(text: str, real: str) -> list[str]:
    """An address as it is given, and as it really is: `real` is the whole address again, or its host alone."""
    if not real or "://" in real:
        return [each for each in (text, real) if each]
    address = read_address(text)
    if address is None:
        return [text]
    host = f"[{real}]" if ":" in real and not real.startswith("[") else real
    port = "" if address.port in (None, _PORTS.get(address.scheme)) else f":{address.port}"
    return [text, f"{address.scheme}://{host}{port}{address.path}{'?' if address.has_query else ''}"]


def normal_host(host: str) -> str:
    """A host as the network knows it: lower case, without the dot at its end, other alphabets in their ASCII form."""
    plain = host.lower().removesuffix(".")
    if plain.isascii():
        return plain
    try:
        return plain.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        return plain


def allows_address(pattern: str, text: str) -> bool:
    """Whether an address surely is one that the pattern names."""
    address = None if _odd(text) else read_address(text)
    if address is None or address.has_login or address.scheme not in _PORTS:
        return False
    if pattern.startswith(DOMAIN):
        return _is_host(pattern.removeprefix(DOMAIN), address.host)
    wanted = read_address(pattern)
    if wanted is None or (address.scheme, address.port) != (wanted.scheme, wanted.port):
        return False
    if not _is_host(wanted.host, address.host) or (address.has_query and not wanted.path.endswith("**")):
        return False
    # Servers differ in what they make of an encoded slash or an empty name.
    if _ENCODED_STEPS(address.path) or "//" in address.path:
        return False
    return allows_path(wanted.path, address.path)


def mentions_address(pattern: str, text: str) -> bool:
    """Whether an address may be one that the pattern names, or one beneath it; what cannot be read may be any."""
    # Browsers read a backslash as a slash, and pass over line breaks.
    spellings = dict.fromkeys((text, re.sub(r"[\t\r\n]", "", text).strip().replace("\\", "/")))
    addresses = [read_address(each) for each in spellings]
    return any(each is None or _mentions(pattern, each) for each in addresses)


def _mentions(pattern: str, address: Address) -> bool:
    if pattern.startswith(DOMAIN):
        return _is_host_or_beneath(pattern.removeprefix(DOMAIN), address.host)
    wanted = read_address(pattern)
    if wanted is None:
        return matches_text(pattern.casefold(), f"{address.scheme}://{address.host}{address.path}".casefold())
    if not _is_host(wanted.host, address.host):
        return False
    return any(mentions_path(wanted.path, path) for path in (address.path, unquote(address.path)))


def _is_host_or_beneath(pattern: str, host: str) -> bool:
    return _is_host(pattern, host) or _is_host(f"*.{pattern}", host)


def _is_host(pattern: str, host: str) -> bool:
    wanted, found = normal_host(pattern).split("."), host.split(".")
    if wanted == ["*"]:
        return True
    if wanted[0] == "*":
        # One label or more in the place of the star.
        wanted = wanted[1:]
        if len(found) <= len(wanted):
            return False
        found = found[-len(wanted) :]
    return len(wanted) == len(found) and all(map(matches_text, wanted, found))


def _ends_in_mark(parts: SplitResult, text: str) -> bool:
    return not parts.query and "?" in text.partition("#")[0]
