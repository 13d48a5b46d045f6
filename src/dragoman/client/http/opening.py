"""How a connection comes about: names, sockets, TLS, and the tunnel through a proxy. Every failure gets its name."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from ipaddress import ip_address

from dragoman.client.http.addresses import Address
from dragoman.client.http.connections import Connection
from dragoman.client.http.proxies import Proxy
from dragoman.client.transport import Timeouts, TransportFault

_REFUSED = f"[Errno {errno.ECONNREFUSED}]"


async def open_connection(
    connection: Connection,
    address: Address,
    proxy: Proxy | None,
    context: ssl.SSLContext | None,
    timeouts: Timeouts,
    at: str = "",
) -> None:
    """Connect, with TLS for https. Raises a TransportFault that says what went wrong.

    `at` is the numeric address to connect to where it has been chosen already; no name is looked up then, and the
    certificate has to be that of the name all the same.
    """
    place = address.authority if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
    try:
        async with asyncio.timeout(timeouts.connect):
            if proxy is None:
                await _connect(connection, at or address.host, address.port, context, address.host)
                if at:
                    _check_peer(connection, at, place)
            else:
                await _connect(connection, proxy.host, proxy.port, None, "")
                if context is not None:
                    await _tunnel(connection, address, proxy, context, timeouts)
    except TransportFault:
        raise
    except TimeoutError:
        message = f"no connection to {place} within {timeouts.connect:g} s"
        raise TransportFault("timed_out", message, code="connect") from None
    except ssl.SSLError as error:
        raise TransportFault("insecure", f"TLS with {address.authority} failed: {_reason(error)}", code="tls") from None
    except socket.gaierror as error:
        raise TransportFault("unreachable", f"no address for {place}: {error.strerror}", code="dns") from None
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError) or _REFUSED in str(error)
        why = "nothing listens there" if refused else error.strerror or str(error)
        raise TransportFault(
            "unreachable", f"cannot connect to {place}: {why}", code="refused" if refused else "connect"
        ) from None


async def _connect(connection: Connection, host: str, port: int, context: ssl.SSLContext | None, name: str) -> None:
    certified = name if context is not None else None
    await connection.loop.create_connection(lambda: connection, host, port, ssl=context, server_hostname=certified)


def _check_peer(connection: Connection, at: str, place: str) -> None:
    """Make sure that whoever is at the other end has the address that was chosen, before anything is said."""
    transport = connection.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    found = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if not found or ip_address(found) != ip_address(at):
        message = f"the connection to {place} went to {found or 'an unknown address'} and not to {at}"
        raise TransportFault("insecure", message, code="peer")


async def _tunnel(
    connection: Connection, address: Address, proxy: Proxy, context: ssl.SSLContext, timeouts: Timeouts
) -> None:
    host = f"[{address.host}]" if ":" in address.host else address.host
    place = f"{host}:{address.port}"
    credentials = f"Proxy-Authorization: {proxy.credentials}\r\n" if proxy.credentials else ""
    head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{credentials}\r\n".encode("ascii")
    response = await connection.exchange("CONNECT", head, b"", timeouts)
    if not 200 <= response.status < 300:
        message = f"the proxy {proxy.host}:{proxy.port} refused a tunnel to {place}: status {response.status}"
        raise TransportFault("unreachable", message, code="proxy")
    transport = connection.transport
    if transport is None:
        raise TransportFault("unreachable", f"the proxy {proxy.host}:{proxy.port} closed the tunnel", code="proxy")
    secured = await connection.loop.start_tls(transport, connection, context, server_hostname=address.host)
    assert secured is not None
    connection.upgrade(secured)


def _reason(error: ssl.SSLError) -> str:
    verdict = getattr(error, "verify_message", "")
    return str(verdict or error.reason or error)
