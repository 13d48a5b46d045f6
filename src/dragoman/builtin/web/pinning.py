"""Connections to exactly the address that was checked.

A name is looked up once for each request. Every address that it has must be allowed, and the connection goes to one of
these and to nothing else: a name server that changes its mind a moment later is not asked again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from msgspec import Struct

from dragoman.builtin.web.addresses import Refused, judge_address, judge_name
from dragoman.builtin.web.urls import WebAddress
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError
from dragoman.tools import Error

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""`await resolver(host, port)` gives the numeric addresses of a name."""
Connector = Callable[[str], Transport]
"""`connector(address)` gives a transport whose connections all go to this numeric address."""

_MOST_TRIES = 4
_TRIED_ELSEWHERE = frozenset({"refused", "connect"})


class Allowance(Struct, frozen=True):
    """What may be fetched although it is not public: `10.1.2.3`, `10.0.0.0/8`, `127.0.0.1:8080`, a name."""

    networks: tuple[tuple[IPv4Network | IPv6Network, int], ...] = ()
    """With the only port for which it holds, or 0."""
    names: tuple[str, ...] = ()
    """Names that are looked up although they look private; their addresses have to be allowed as well."""

    def covers(self, address: str, port: int) -> bool:
        try:
            number = ip_address(address)
        except ValueError:
            return False
        number = getattr(number, "ipv4_mapped", None) or number
        return any(number in network and only in (0, port) for network, only in self.networks)


def read_allowance(entries: Iterable[str]) -> Allowance:
    """The allowance that a list of addresses, networks and names means."""
    networks: list[tuple[IPv4Network | IPv6Network, int]] = []
    names: list[str] = []
    for entry in entries:
        host, port = _split_port(entry.strip().lower())
        try:
            networks.append((_plain(ip_network(host, strict=False)), port))
        except ValueError:
            if port or not host or any(sign in host for sign in "/:*@ "):
                raise ConfigError(
                    f"{entry!r} cannot be allowed", hint="write 10.1.2.3, 10.0.0.0/8, 127.0.0.1:8080 or a name"
                ) from None
            names.append(host)
    return Allowance(tuple(networks), tuple(names))


def _plain(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """One IPv4 address that is written as an IPv6 address, as what it is."""
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    return IPv4Network(mapped) if mapped is not None and network.prefixlen == 128 else network


def _split_port(entry: str) -> tuple[str, int]:
    if entry.startswith("[") or entry.count(":") == 1:
        host, _, port = entry.rpartition(":")
        if port.isascii() and port.isdigit() and len(port) < 6:
            return host.strip("[]"), int(port)
    return entry.strip("[]"), 0


async def resolve_by_system(host: str, port: int) -> list[str]:
    """The addresses of a name as the system knows them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def find_addresses(page: WebAddress, resolver: Resolver, allowance: Allowance) -> tuple[str, ...]:
    """The addresses that a page may be fetched from. Raises Refused if any of them is not allowed."""
    if page.numeric:
        _check((page.host,), page, allowance)
        return (page.host,)
    why = judge_name(page.host)
    if why and page.host not in allowance.names:
        raise Refused(f"{page.host} is not fetched: {why}")
    try:
        found = tuple(await resolver(page.host, page.port))
    except (OSError, UnicodeError):
        found = ()
    if not found:
        raise Error(f"no address is known for {page.host}; check the spelling of the host")
    _check(found, page, allowance)
    return found


def _check(addresses: tuple[str, ...], page: WebAddress, allowance: Allowance) -> None:
    for address in addresses:
        why = judge_address(address)
        if why and not allowance.covers(address, page.port):
            raise Refused(f"not fetched: {why}" if page.numeric else f"{page.host} is not fetched: {why}")


@asynccontextmanager
async def open_page(
    page: WebAddress, addresses: tuple[str, ...], connector: Connector, headers: dict[str, str], timeouts: Timeouts
) -> AsyncIterator[HttpResponse]:
    """The answer to a GET, from the first of the addresses that takes a connection. Raises TransportFault."""
    fault: TransportFault | None = None
    for address in addresses[:_MOST_TRIES]:
        transport = connector(address)
        try:
            try:
                response = await transport.send(HttpRequest("GET", page.url, headers), timeouts)
            except TransportFault as problem:
                if problem.code not in _TRIED_ELSEWHERE:
                    raise
                fault = problem
                continue
            try:
                yield response
            finally:
                await response.close()
            return
        finally:
            await transport.close()
    assert fault is not None
    raise fault
