"""Strict parsing of URLs, and the check whether a host is public."""

from __future__ import annotations

import re
import unicodedata
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, urljoin

from msgspec import Struct

from dragoman.sandbox.protected_names import words
from dragoman.tools import Error

# --------------------------------------------------------------------------------------------------------------------
# Which hosts of the web are public: spelled hosts, numeric addresses, and the addresses inside other addresses.
#
# Nothing here looks up a name. A name is judged by its spelling, and every address that it turns out to have is
# judged again, as itself and as every older address that it carries.

IpAddress = IPv4Address | IPv6Address

# Names of the own machine and of own networks: no name server of the public web answers for them.
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "broadcasthost"})
_LOCAL_ENDINGS = words(
    "localhost localdomain local internal intranet private corp home lan home.arpa in-addr.arpa ip6.arpa onion"
)

_REFUSED = [
    (ip_network(network), why)
    for network, why in (
        ("0.0.0.0/8", "an address of this machine"),
        ("10.0.0.0/8", "an address of a private network"),
        ("100.64.0.0/10", "an address of a provider's own network"),
        ("127.0.0.0/8", "an address of this machine"),
        ("169.254.0.0/16", "a link-local address, where clouds keep their credentials"),
        ("168.63.129.16/32", "an address that only a cloud's own machines know"),
        ("172.16.0.0/12", "an address of a private network"),
        ("192.0.0.0/24", "an address kept for protocols"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "an address of a relay"),
        ("192.168.0.0/16", "an address of a private network"),
        ("198.18.0.0/15", "an address for measurements"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "an address of many machines"),
        ("240.0.0.0/4", "an address that nobody has"),
        ("::/128", "an address of this machine"),
        ("::1/128", "an address of this machine"),
        ("::/96", "an IPv4 address in an old disguise"),
        ("::ffff:0:0:0/96", "a translated IPv4 address"),
        ("64:ff9b:1::/48", "an address of a network's own translator"),
        ("100::/64", "an address where everything is dropped"),
        ("2001::/32", "an address of a tunnel (Teredo)"),
        ("2001::/23", "an address kept for protocols"),
        ("2001:db8::/32", "an address for documentation"),
        ("2002::/16", "an address of a tunnel (6to4)"),
        ("3fff::/20", "an address for documentation"),
        ("5f00::/16", "an address inside a provider's network"),
        ("fc00::/7", "an address of a private network"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "an address of a private network"),
        ("ff00::/8", "an address of many machines"),
    )
]
_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_ISATAP = (0x00005EFE, 0x02005EFE)

_LONGEST_HOST = 253
_is_name = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_-]{1,63})*").fullmatch
_is_number = re.compile(r"[0-9]+|0x[0-9a-f]*").fullmatch
_never_in_a_host = re.compile(r"[\x00-\x20\x7f-\x9f\\/?#@%<>^|\"'`{}\s]").search


class Refused(Error):
    """A URL that is not fetched, with the reason."""


# ---- hosts as they are spelled ---------------------------------------------------------------------------------------


def judge_host(host: str) -> IpAddress | str:
    """What a host of a URL means: a numeric address, or a name in its normal form. Raises Refused for anything else.

    Numbers are read as system libraries read them, so that `2130706433`, `0x7f.1` and `127.1` are the address that
    they stand for, and not a name that something else might look up.
    """
    if not host:
        raise Refused("the address names no host")
    if len(host) > _LONGEST_HOST * 2:
        raise Refused("the host of the address is too long")
    if host.startswith("["):
        return _read_bracketed(host)
    _refuse_odd(host)
    name = _to_ascii(host).lower().removesuffix(".")
    if _is_number(name.rpartition(".")[2]) is not None:
        return _read_numbers(name)
    if _is_name(name) is None:
        raise Refused(f"{host[:80]!r} is no name of a host")
    return name


def judge_name(name: str) -> str:
    """Why a name in normal form is refused; empty if nothing in its spelling speaks against it."""
    if name in _LOCAL_NAMES:
        return f"{name} is this machine"
    for ending in _LOCAL_ENDINGS:
        if name == ending or name.endswith("." + ending):
            return f"names that end in .{ending} belong to own networks, not to the public web"
    if "." not in name:
        return f"{name} has no dot: it is a name of an own network, not of the public web"
    return ""


def _refuse_odd(host: str) -> None:
    if _never_in_a_host(host) is not None:
        raise Refused(f"the host {host[:80]!r} holds characters that no host has")


def _to_ascii(host: str) -> str:
    if host.isascii():
        return host
    # Full-width digits and dots, circled numbers and their like stand for plain ones; what they hide shows up here.
    plain = unicodedata.normalize("NFKC", host)
    _refuse_odd(plain)
    try:
        return plain.encode("idna").decode("ascii")
    except UnicodeError:
        raise Refused(f"{host[:80]!r} is no name of a host") from None


def _read_bracketed(host: str) -> IpAddress:
    text = host[1:-1]
    if not host.endswith("]") or not text.isascii():
        raise Refused(f"{host[:80]!r} is no IPv6 address")
    if "%" in text:
        raise Refused("an address with a zone belongs to one machine's own network")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise Refused(f"{host[:80]!r} is no IPv6 address") from None
    return address.ipv4_mapped or address


def _read_numbers(name: str) -> IPv4Address:
    """An IPv4 address of one to four numbers, each decimal, octal or hexadecimal; the last fills what is left."""
    parts = name.split(".")
    numbers = [value for part in parts if (value := _read_number(part)) is not None]
    if len(parts) > 4 or len(numbers) < len(parts):
        raise Refused(f"{name[:80]!r} is no numeric address")
    last = numbers.pop()
    if any(number > 255 for number in numbers) or last >= 256 ** (4 - len(numbers)):
        raise Refused(f"{name[:80]!r} is no numeric address")
    for place, number in enumerate(numbers):
        last += number << 8 * (3 - place)
    return IPv4Address(last)


def _read_number(part: str) -> int | None:
    if _is_number(part) is None:
        return None
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    if len(part) > 1 and part.startswith("0"):
        return int(part, 8) if not set(part) & set("89") else None
    return int(part)


# ---- numeric addresses ----------------------------------------------------------------------------------------------


def judge_address(address: IpAddress | str) -> str:
    """Why an address is refused; empty if it is one of the public web, and so is every address that it carries."""
    if isinstance(address, str):
        try:
            return judge_address(ip_address(address))
        except ValueError:
            return f"{address[:80]!r} is no address"
    address = getattr(address, "ipv4_mapped", None) or address
    if isinstance(address, IPv6Address) and address.scope_id:
        return f"{address} belongs to one machine's own network"
    for network, why in _REFUSED:
        if address in network:
            return f"{address} is {why}"
    if isinstance(address, IPv4Address):
        is_public = address.is_global and not address.is_multicast
    else:
        for carried in carried_addresses(address):
            if why := judge_address(carried):
                return f"{address} stands for another: {why}"
        is_public = address in _NAT64 or (address in _UNICAST and address.is_global)
    return "" if is_public else f"{address} is no public address"


def carried_addresses(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses inside an IPv6 address, by every scheme that puts them there."""
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    found = [each for each in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if each is not None]
    if any(address in network for network in (_NAT64, _LOCAL_NAT64, _TRANSLATED, _COMPATIBLE)):
        found.append(low)
    if address in _LOCAL_NAT64:
        # With a prefix of 48 bits the address lies around a byte that is always zero.
        found.append(IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF))
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(low)
    return tuple(found)


# --------------------------------------------------------------------------------------------------------------------
# Addresses of the web, read strictly: one spelling, one meaning, nothing that two readers take differently.

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
