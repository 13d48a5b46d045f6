"""WebFetch: one page of the public web, as text.

It sends a GET without credentials or cookies, takes no proxy from the environment, and goes only where `addresses`
allows it, at every redirect again. What it brings is the words of others; the answer begins with the address they are
from.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from dragoman.builtin.web.addresses import Refused
from dragoman.builtin.web.pages import Page, is_worth_reading, media_type_of, read_page
from dragoman.builtin.web.pinning import (
    Allowance,
    Connector,
    Resolver,
    find_addresses,
    open_page,
    read_allowance,
    resolve_by_system,
)
from dragoman.builtin.web.urls import WebAddress, follow, read_url
from dragoman.client.http import HttpTransport, Limits
from dragoman.client.transport import HttpResponse, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.tools import Context, Error, Ok, Options, ToolContext, tool_from_function
from dragoman.types import Operand, Tool

MOST_REDIRECTS = 5
PATIENCE = Timeouts(connect=8.0, first_byte=20.0, idle=10.0)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_LIMIT = 1 << 60
_SHOWN_OF_ERRORS = 1500
_PEEK = 4096


class _Settings(Struct, frozen=True):
    ports: tuple[int, ...]
    allowance: Allowance
    resolver: Resolver
    connector: Connector
    max_bytes: int
    page_size: int
    timeout: float
    timeouts: Timeouts
    headers: dict[str, str]
    clock: Callable[[], float]


class _Fetched(Struct, frozen=True):
    """An answer that is no redirect."""

    address: WebAddress
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool
    """Whether the body goes on behind what was read of it."""
    trail: tuple[str, ...]
    """The addresses that redirected here."""


class _LedAway(Struct, frozen=True):
    """A redirect to a host that nobody has been asked about."""

    source: WebAddress
    target: WebAddress
    status: int


def make_web_fetch(
    *,
    ports: Iterable[int] = (80, 443),
    allow_private: Iterable[str] = (),
    resolver: Resolver | None = None,
    transport: Connector | None = None,
    tls: ssl.SSLContext | None = None,
    max_bytes: int = 4 * 1024 * 1024,
    page_size: int = 30_000,
    timeout: float = 30.0,
    timeouts: Timeouts = PATIENCE,
    user_agent: str = "dragoman",
    clock: Callable[[], float] = time.monotonic,
) -> Tool:
    """The tool `web_fetch`, with settings of your own.

    - `ports`: the ports that it may connect to
    - `allow_private`: addresses that are fetched although they are not public: `"10.1.2.3"`, `"10.0.0.0/8"`,
      `"127.0.0.1:8080"`; a name such as `"wiki.internal"` is looked up then, and its addresses must be listed too
    - `resolver`: `await resolver(host, port)` gives the numeric addresses of a name
    - `transport`: `transport(address)` gives a transport whose connections go to this numeric address and nowhere else
    - `tls`: a context with authorities of your own
    - `max_bytes`: of a body, decoded or not; `page_size`: characters that one answer shows
    - `timeout`: seconds for everything, from the first name to the last byte; `timeouts`: for each kind of waiting
    """
    if not user_agent.isascii() or not user_agent.isprintable():
        raise ConfigError("the user agent cannot be sent", hint="use printable ASCII characters")
    settings = _Settings(
        tuple(ports),
        read_allowance(allow_private),
        resolver or resolve_by_system,
        transport or _make_connector(max_bytes, tls),
        max_bytes,
        page_size,
        timeout,
        timeouts,
        {
            "User-Agent": user_agent,
            "Accept": "text/html, application/xhtml+xml, text/*, application/json, application/xml;q=0.9, */*;q=0.5",
            "Accept-Encoding": "gzip, deflate",
        },
        clock,
    )
    return _make_tool(settings)


def _make_connector(max_bytes: int, tls: ssl.SSLContext | None) -> Connector:
    # The body is counted where it is read, for a page that is too long is shown in part and not refused.
    limits = Limits(body_bytes=_NO_LIMIT, wire_bytes=max_bytes + 1024 * 1024, connections=1)
    known: list[ssl.SSLContext] = [tls] if tls is not None else []

    def connect(address: str) -> HttpTransport:
        if not known:
            # The certificates of all authorities take a while to read: once, and late.
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            known.append(context)
        return HttpTransport(limits=limits, tls=known[0], at=address)

    return connect


def _make_tool(settings: _Settings) -> Tool:
    async def web_fetch(
        url: Annotated[str, "the address, beginning with https:// or http://"],
        offset: Annotated[int, "the character to begin at, for pages that are longer than one answer"] = 0,
        raw: Annotated[bool, "the source of an HTML page instead of its text"] = False,
        *,
        context: Context,
    ) -> Ok:
        """Fetch one page of the public web and show it as text."""
        return await _answer(settings, url, offset, raw, context)

    options = Options(
        parallel_safe=True,
        read_only=True,
        timeout=settings.timeout + 5.0,
        metadata={"class": "fetch", "family": "fetch", "origin": "builtin"},
    )
    made = tool_from_function(web_fetch, options)
    return msgspec.structs.replace(made, inspect=inspect_url)


def inspect_url(arguments: Mapping[str, Any], context: ToolContext) -> tuple[Operand, ...]:
    """The address that a call would send a request to, in its normal form."""
    url = arguments.get("url")
    try:
        address = read_url(url if isinstance(url, str) else "")
    except Refused:
        return (Operand("url", str(url)[:2000], "send", inside=False),)
    return (Operand("url", address.url, "send", real=address.host, inside=not address.doubt),)


# ---- one call --------------------------------------------------------------------------------------------------------


async def _answer(settings: _Settings, url: str, offset: int, raw: bool, context: ToolContext) -> Ok:
    address = read_url(url)
    decided = [operand.value for operand in context.operands if operand.kind == "url"]
    if decided and address.url not in decided:
        raise Error("this is not the address that was decided on; call the tool again")
    seconds = settings.timeout
    if context.deadline is not None:
        seconds = min(seconds, context.deadline - settings.clock())
    if seconds <= 0:
        raise Error(f"there is no time left to fetch {address.url}")
    try:
        async with asyncio.timeout(seconds):
            found = await _walk(settings, address, stays=bool(decided))
    except TimeoutError:
        raise Error(f"{address.url} did not answer completely within {seconds:.3g} s") from None
    except TransportFault as fault:
        raise Error(f"{address.url} could not be fetched: {fault.message}") from None
    if isinstance(found, _LedAway):
        return _tell_redirect(found)
    # Long pages take a while to convert; other calls go on meanwhile.
    page = await asyncio.to_thread(_to_page, found, raw)
    return _show(found, page, offset, settings)


async def _walk(settings: _Settings, address: WebAddress, *, stays: bool) -> _Fetched | _LedAway:
    """Follow redirects until something else comes. Every step is checked like the first one."""
    trail: list[str] = []
    while True:
        try:
            _check_port(address, settings.ports)
            addresses = await find_addresses(address, settings.resolver, settings.allowance)
        except Refused as problem:
            if not trail:
                raise
            raise Refused(f"{trail[-1]} redirects to {address.url}; {problem.reason}") from None
        async with open_page(address, addresses, settings.connector, settings.headers, settings.timeouts) as response:
            if response.status not in _REDIRECTS:
                body, cut = await _read_body(response, settings.max_bytes)
                return _Fetched(address, response.status, response.headers, body, cut, tuple(trail))
            status, location = response.status, response.headers.get("location", "")
        target = _follow(address, location)
        if stays and target.host != address.host:
            return _check_unasked(settings, _LedAway(address, target, status))
        trail.append(address.url)
        if len(trail) > MOST_REDIRECTS:
            raise Error(f"{trail[0]} redirects more than {MOST_REDIRECTS} times; the last one was to {target.url}")
        address = target


def _follow(address: WebAddress, location: str) -> WebAddress:
    try:
        return follow(address, location)
    except Refused as problem:
        raise Refused(
            f"{address.url} redirects to {location[:200]!r}, which is not fetched: {problem.reason}"
        ) from None


def _check_unasked(settings: _Settings, away: _LedAway) -> _LedAway:
    """A model is not sent to ask for what would be refused anyway."""
    target = away.target
    allowed = settings.allowance.covers(target.host, target.port) or target.host in settings.allowance.names
    if target.doubt and not allowed:
        raise Refused(f"{away.source.url} redirects to {target.url}, which is not fetched: {target.doubt}")
    return away


def _check_port(address: WebAddress, ports: tuple[int, ...]) -> None:
    if address.port not in ports:
        allowed = ", ".join(str(port) for port in ports)
        raise Refused(
            f"port {address.port} of {address.host} is not fetched, only {allowed}; "
            f"whoever runs this can allow it with make_web_fetch(ports=...)"
        )


async def _read_body(response: HttpResponse, most: int) -> tuple[bytes, bool]:
    """The body as far as it is taken, and whether it goes on."""
    media_type, _ = media_type_of(response.headers)
    if not is_worth_reading(media_type):
        most = _PEEK
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                break
    except TransportFault as fault:
        if fault.kind != "too_large":
            raise
        return b"".join(pieces)[:most], True
    return b"".join(pieces)[:most], size > most


# ---- the answer ------------------------------------------------------------------------------------------------------


def _to_page(found: _Fetched, raw: bool) -> Page:
    media_type, charset = media_type_of(found.headers)
    return read_page(found.body, media_type, charset, found.address.url, raw=raw, size=_size_of(found))


def _size_of(found: _Fetched) -> int | None:
    """How long the whole body is, if that is known."""
    if not found.cut:
        return len(found.body)
    told = found.headers.get("content-length", "")
    return int(told) if told.isascii() and told.isdigit() and "content-encoding" not in found.headers else None


def _show(found: _Fetched, page: Page, offset: int, settings: _Settings) -> Ok:
    url = found.address.url
    if not 200 <= found.status < 300:
        begins = f"; the page says:\n{page.text[:_SHOWN_OF_ERRORS]}" if page.kind != "binary" and page.text else ""
        raise Error(f"{url} answered with the status {found.status}{begins}")
    total = len(page.text)
    if offset < 0 or (offset and offset >= total):
        raise Error(f"offset {offset} is outside of the page, which has {total:,} characters")
    end = _end_of_page(page.text, offset, settings.page_size)
    size = _size_of(found)
    about = ", ".join(part for part in (page.media_type, f"{size:,} bytes" if size is not None else "") if part)
    head = [f"From {url}" + (f" ({about})" if about else "")]
    head += [f"redirected from {each}" for each in found.trail]
    head += [f"Title: {page.title}"] if page.title else []
    notes = [f"[{note}]" for note in page.notes]
    if found.cut and page.kind != "binary":
        notes.append(f"[only the first {len(found.body):,} bytes of this page were read]")
    if offset or end < total:
        more = f"; offset={end} shows more" if end < total else ""
        notes.append(f"[characters {offset:,} to {end:,} of {total:,}{more}]")
    text = page.text[offset:end] or "[the page is empty]"
    data = {"url": url, "status": found.status, "media_type": page.media_type, "characters": total, "title": page.title}
    return Ok("\n".join(head) + "\n\n" + text + ("\n\n" + "\n".join(notes) if notes else ""), data=data)


def _end_of_page(text: str, offset: int, size: int) -> int:
    """Where an answer ends: at the end of a line, if there is one near."""
    end = min(len(text), offset + size)
    if end < len(text):
        line_end = text.rfind("\n", offset + size * 4 // 5, end)
        end = line_end + 1 if line_end >= 0 else end
    return end


def _tell_redirect(away: _LedAway) -> Ok:
    source, target = away.source.url, away.target.url
    text = (
        f"From {source}\n\nIt redirects (status {away.status}) to another host:\n{target}\n"
        "That was not followed, because only this host was decided on. To go on, fetch that address."
    )
    return Ok(text, data={"url": source, "status": away.status, "redirect": target})


WebFetch: Tool = make_web_fetch()
