"""Addresses of the web, read strictly: one spelling, one meaning, nothing that two readers take differently."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote, urljoin

from msgspec import Struct

from dragoman.builtin.web.addresses import IpAddress, Refused, judge_address, judge_host, judge_name

PORTS = {"http": 80, "https": 443}
LONGEST_URL = 8192

_scheme = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):").match
_authority = re.compile(r"//([^/?#]*)").match
_host_and_port = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?").fullmatch
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search
_SAFE = "%/:=&?~+!$,;'@()*[]|"
_dots = {".": ".", "%2e": ".", "..": "..", ".%2e": "..", "%2e.": "..", "%2e%2e": ".."}


class WebAddress(Struct, frozen=True):
    """An http or https URL in its normal form, without a fragment."""

    scheme: str
    host: str
    """A name in lower case and ASCII, or a numeric address in its usual spelling."""
    port: int
    target: str
    """Path and query, escaped."""
    numeric: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"

    @property
    def doubt(self) -> str:
        """Why the spelling alone speaks against it; empty for what looks public."""
        return judge_address(self.host) if self.numeric else judge_name(self.host)


def read_url(text: str) -> WebAddress:
    """The address that a text spells. Raises Refused with a reason for anything but plain http and https."""
    text = text.strip(" ")
    if len(text) > LONGEST_URL:
        raise Refused(f"the address is longer than {LONGEST_URL} characters")
    if _control(text) is not None:
        raise Refused("the address holds control characters")
    found = _scheme(text)
    scheme = found[1].lower() if found is not None else ""
    if scheme not in PORTS:
        what = f"the scheme {scheme[:40]!r}" if scheme and "." not in scheme else "no scheme"
        raise Refused(f"the address has {what}; only http and https are fetched: write it as https://host/path")
    assert found is not None
    authority = _authority(text, found.end())
    if authority is None:
        raise Refused(f"write the address with two slashes: {scheme}://host/path")
    host, port = _read_authority(authority[1], scheme)
    numeric = isinstance(host, IPv4Address | IPv6Address)
    return WebAddress(scheme, str(host), port, _read_target(text[authority.end() :]), numeric)


def _read_authority(authority: str, scheme: str) -> tuple[IpAddress | str, int]:
    if "@" in authority:
        raise Refused("the address names a user; addresses with credentials are not fetched")
    if "\\" in authority:
        raise Refused("the address holds a backslash where its host stands")
    found = _host_and_port(authority)
    if found is None:
        raise Refused(f"{authority[:80]!r} is no host with a port")
    port = int(found[2]) if found[2] else PORTS[scheme]
    if not 0 < port < 65536:
        raise Refused(f"{port} is no port")
    return judge_host(found[1]), port


def _read_target(rest: str) -> str:
    rest = rest.partition("#")[0]
    path, mark, query = rest.partition("?")
    return _without_dots(quote(path, safe=_SAFE)) + (mark + quote(query, safe=_SAFE) if query else "")


def _without_dots(path: str) -> str:
    """A path without `.` and `..`, so that a rule about a folder is about that folder."""
    if not path.startswith("/"):
        return "/"
    kept: list[str] = []
    parts = path[1:].split("/")
    for place, part in enumerate(parts):
        kind = _dots.get(part.lower()) if len(part) <= 6 else None
        if kind is None:
            kept.append(part)
            continue
        if kind == ".." and kept:
            kept.pop()
        if place == len(parts) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def follow(page: WebAddress, location: str) -> WebAddress:
    """Where a redirect of a page leads. Raises Refused for what no redirect may lead to."""
    location = location.strip(" \t")
    if not location.isascii():
        # Headers are read as Latin-1; servers that put other letters there mean UTF-8.
        location = location.encode("latin-1", "replace").decode("utf-8", "replace")
    if not location:
        raise Refused("the redirect does not say where to")
    if _control(location) is not None or "\\" in location:
        raise Refused("the redirect leads to an address with control characters or backslashes")
    if len(location) > LONGEST_URL:
        raise Refused(f"the redirect leads to an address longer than {LONGEST_URL} characters")
    try:
        joined = urljoin(page.url, location)
    except ValueError:
        raise Refused("the redirect leads to something that is no address") from None
    target = read_url(joined)
    if page.scheme == "https" and target.scheme == "http":
        raise Refused(f"the redirect leads from https to plain http: {target.url}")
    return target
