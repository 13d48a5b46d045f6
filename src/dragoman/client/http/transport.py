"""The default transport: it sends requests over HTTP/1.1 and reuses connections."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from ipaddress import ip_address

from dragoman.client.http.addresses import Address, Proxy, read_address, read_proxies
from dragoman.client.http.connection import Connection, Opener, Pool, Response, open_connection
from dragoman.client.http.parser import Limits
from dragoman.client.transport import HttpRequest, Timeouts, TransportFault
from dragoman.errors import ConfigError

_is_header = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*").fullmatch
_is_method = re.compile(r"[A-Z]+").fullmatch
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class HttpTransport:
    """HTTP/1.1 with persistent connections. Several event loops may share it; each has its own connections.

    `proxy` is the URL of an HTTP proxy, or `"env"` for the proxies of the environment. The transport that a client
    opens uses `"env"`; this class by default uses none. `tls` is your own context, for a private certificate authority
    or a client certificate. `at` is a numeric address: every connection goes there, and no name is resolved. The Host
    header and the name in the certificate are still those of the request.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
        environment: Mapping[str, str] | None = None,
        at: str = "",
    ) -> None:
        self._limits = limits or Limits()
        self._proxies = read_proxies(proxy, os.environ if environment is None else environment)
        if at and self._proxies is not None:
            raise ConfigError("a proxy resolves the address itself", hint="give `proxy` or `at`, not both")
        self._at = _check_numeric(at)
        self._tls = tls
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> Response:
        """Send a request and wait for the head of the answer. Raises TransportFault."""
        address = read_address(request.url)
        proxy = self._proxies.find(address) if self._proxies is not None else None
        head = write_head(request, address, proxy)
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop) or self._make_pool(loop)
        key = (address.scheme, address.host, address.port, proxy)
        connection = pool.take(key)
        while True:
            if connection is None:
                connection = await pool.open(key, self._opener(address, proxy, timeouts), timeouts.first_byte)
            try:
                return await connection.exchange(request.method, head, request.body, timeouts)
            except TransportFault as fault:
                if fault.code != "stale":
                    raise
            # The server had closed this idle connection. The next one is new, or has just finished an answer.
            connection = None

    def _make_pool(self, loop: asyncio.AbstractEventLoop) -> Pool:
        # A pool refers to its loop, so a closed loop would stay in memory for as long as the transport.
        for other in list(self._pools):
            if other.is_closed():
                self._pools.pop(other, None)
        pool = self._pools[loop] = Pool(loop, self._limits)
        return pool

    def _opener(self, address: Address, proxy: Proxy | None, timeouts: Timeouts) -> Opener:
        async def connect(connection: Connection) -> None:
            context = self._context() if address.scheme == "https" else None
            await open_connection(connection, address, proxy, context, timeouts, self._at)

        return connect

    async def close(self) -> None:
        """Drop every connection of this event loop."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            # To load the certificates of all authorities is slow, so it happens once and on first use.
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            self._tls = context
        return self._tls


def _check_numeric(at: str) -> str:
    try:
        return at and str(ip_address(at))
    except ValueError:
        raise ConfigError(f"{at[:80]!r} is not a numeric address", hint="resolve the name first") from None


def write_head(request: HttpRequest, address: Address, proxy: Proxy | None = None) -> bytes:
    """Return the request line and the headers, as bytes."""
    lines = [f"Host: {address.authority}"]
    named = set()
    for name, value in request.headers.items():
        line = f"{name}: {value}"
        lowered = name.lower()
        if _is_header(line) is None or lowered in _OURS:
            # The message does not show the value: it may be a key.
            raise ConfigError(
                f"the header {name[:60]!r} cannot be sent", hint="remove line breaks and other control characters"
            )
        named.add(lowered)
        lines.append(line)
    if address.credentials and "authorization" not in named:
        lines.append(f"Authorization: {address.credentials}")
    if _is_method(request.method) is None:
        raise ConfigError(f"{request.method!r} is not an HTTP method")
    target = address.target
    if proxy is not None and address.scheme == "http":
        target = address.origin + target
        if proxy.credentials:
            lines.append(f"Proxy-Authorization: {proxy.credentials}")
    if request.body or request.method == "POST":
        lines.append(f"Content-Length: {len(request.body)}")
    head = "\r\n".join(lines)
    return f"{request.method} {target} HTTP/1.1\r\n{head}\r\n\r\n".encode("latin-1")
