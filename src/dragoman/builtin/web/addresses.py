"""Which hosts of the web are public: spelled hosts, numeric addresses, and the addresses inside other addresses.

Nothing here looks up a name. A name is judged by its spelling, and every address that it turns out to have is judged
again, as itself and as every older address that it carries.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from dragoman.tools import Error

IpAddress = IPv4Address | IPv6Address

# Names of the own machine and of own networks: no name server of the public web answers for them.
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "broadcasthost"})
_LOCAL_ENDINGS = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "onion",
)

_REFUSED_4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), why)
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
    )
)
_REFUSED_6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), why)
    for network, why in (
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
)
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
    """An address that is not fetched, with the reason in words."""


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
    name = _to_ascii(host).lower()
    name = name[:-1] if name.endswith(".") else name
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
    values = [_read_number(part) for part in parts] if len(parts) <= 4 else []
    if not values or any(value is None for value in values):
        raise Refused(f"{name[:80]!r} is no numeric address")
    numbers = [value for value in values if value is not None]
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
    if isinstance(address, IPv4Address):
        return _judge_4(address)
    mapped = address.ipv4_mapped
    if mapped is not None:
        return _judge_4(mapped)
    return _judge_6(address)


def _judge_4(address: IPv4Address) -> str:
    for network, why in _REFUSED_4:
        if address in network:
            return f"{address} is {why}"
    return "" if address.is_global and not address.is_multicast else f"{address} is no public address"


def _judge_6(address: IPv6Address) -> str:
    if address.scope_id:
        return f"{address} belongs to one machine's own network"
    for network, why in _REFUSED_6:
        if address in network:
            return f"{address} is {why}"
    for carried in carried_addresses(address):
        why = _judge_4(carried)
        if why:
            return f"{address} stands for another: {why}"
    if address in _NAT64:
        return ""
    return "" if address in _UNICAST and address.is_global else f"{address} is no public address"


def carried_addresses(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses inside an IPv6 address, by every scheme that puts them there."""
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    found: list[IPv4Address] = []
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    if any(address in network for network in (_NAT64, _LOCAL_NAT64, _TRANSLATED, _COMPATIBLE)):
        found.append(low)
    if address in _LOCAL_NAT64:
        # With a prefix of 48 bits the address lies around a byte that is always zero.
        found.append(IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF))
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(low)
    return tuple(found)
