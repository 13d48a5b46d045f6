"""The tool `web_fetch`: it returns one page of the public web as text."""

from __future__ import annotations

import asyncio
import codecs
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from dragoman.builtin.files.text import NEVER_TEXT, marked
from dragoman.builtin.files.text import kind_of as file_kind_of
from dragoman.builtin.files.workspace import counted
from dragoman.builtin.web.addresses import Refused, WebAddress, follow, judge_address, judge_name, read_url
from dragoman.client.http import HttpTransport, Limits
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError
from dragoman.tools import Context, Error, Ok, Options, ToolContext, tool_from_function
from dragoman.types import Operand, Tool

# --------------------------------------------------------------------------------------------------------------------
# Connections to exactly the address that was checked.
#
# A name is looked up once for each request. Every address that it has must be allowed, and the connection goes to one
# of these and to nothing else: a name server that changes its mind a moment later is not asked again.

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


# --------------------------------------------------------------------------------------------------------------------
# What came over the web, made into text: by its media type, its charset, and a look at its first bytes.

PageKind = Literal["html", "text", "binary"]

_APPLICATIONS_AS_TEXT = (
    "json jsonlines ndjson x-ndjson xml xml-dtd javascript ecmascript x-javascript typescript yaml x-yaml toml sql "
    "graphql x-sh x-httpd-php x-www-form-urlencoded x-tex x-latex x-python x-ruby x-perl x-subrip rtf mbox "
    "x-patch x-diff pgp-signature pgp-keys pem-certificate-chain x-pem-file manifest"
)
_TEXTS = frozenset(f"application/{name}" for name in _APPLICATIONS_AS_TEXT.split())
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"})
# Labels that stand for more than they say, as browsers read them.
_WIDER = {"iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252"}
_WIDER |= {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932"}
_WIDER |= {"euc-kr": "cp949", "ks_c_5601-1987": "cp949", "iso-8859-9": "cp1254", "tis-620": "cp874", "utf8": "utf-8"}
# Nothing else is looked up: among the codecs of Python are some that are no charsets, and some that are slow.
_is_charset = re.compile(
    r"utf-8|utf-16(?:-?[lb]e)?|windows-(?:125[0-8]|874)|cp125[0-8]|cp(?:874|932|949)|iso-8859-(?:[2-9]|1[013-6])"
    r"|koi8-[ru]|gb18030|big5(?:-hkscs)?|euc-jp|iso-2022-jp|macintosh|ibm866|mac-cyrillic"
).fullmatch
_PEEK = 4096


class Page(Struct, frozen=True):
    """A fetched page as text, with everything that there is to say about how it was read."""

    kind: PageKind
    text: str
    media_type: str = ""
    title: str = ""
    notes: tuple[str, ...] = ()
    """What was left out, in words."""


def media_type_of(headers: Mapping[str, str]) -> tuple[str, str]:
    """The media type and the charset that the headers name; empty where they name none."""
    kind, *parameters = headers.get("content-type", "").split(";")
    charset = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'").lower()
    return kind.split(",")[0].strip().lower()[:100], charset[:40]


def _named_kind(media_type: str) -> PageKind:
    if media_type in ("text/html", "application/xhtml+xml"):
        return "html"
    if media_type.startswith("text/") or media_type in _TEXTS or media_type.endswith(("+json", "+xml", "+yaml")):
        return "text"
    return "binary"


def kind_of(media_type: str, beginning: bytes) -> PageKind:
    """What a body is, by its type and by its first bytes."""
    kind = _named_kind(media_type)
    head = beginning[:_PEEK]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "text" if media_type in _VAGUE else kind
    if b"\0" in head or head.startswith(NEVER_TEXT):
        return "binary"
    if media_type not in _VAGUE:
        return kind
    if re.match(rb"\s*<(?:!doctype\s+html|html|head|body)[\s>]", head, re.IGNORECASE):
        return "html"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "binary"
    return "text"


def describe_binary(media_type: str, beginning: bytes, size: int | None) -> str:
    """One line about a body that is no text."""
    what = file_kind_of(beginning, "data that is no text") + (f" ({media_type})" if media_type else "")
    length = f", {size:,} bytes" if size is not None else ""
    return f"[{what}{length}; its content is not shown]"


def decode(data: bytes, charset: str, *, is_html: bool = False) -> str:
    """The text of a body: by its byte order mark, the charset of the header, that of the page, or a guess."""
    found = marked(data)
    if found is not None:
        return _decode(data[len(found.mark) :], found.name)
    encoding = _known(charset) or (_known(_declared(data)) if is_html else "")
    if encoding:
        return _decode(data, encoding)
    try:
        # A body that was cut may end inside a character; that is no reason to take it for another charset.
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return _decode(data, "cp1252")


def _decode(data: bytes, encoding: str) -> str:
    return codecs.getincrementaldecoder(encoding)("replace").decode(data)


def _known(label: str) -> str:
    label = _WIDER.get(label.strip(), label.strip())
    return label if _is_charset(label) is not None else ""


def _declared(data: bytes) -> str:
    """The charset that a page names itself, near its beginning."""
    from dragoman.builtin.web.markup import tokens

    for token in tokens(data[:_PEEK].decode("latin-1")):
        if token.value != "meta" or token.kind != "start":
            continue
        found = token.attributes.get("charset", "")
        if not found and token.attributes.get("http-equiv", "").lower() == "content-type":
            found = token.attributes.get("content", "").lower().partition("charset=")[2]
        if found:
            # Whoever can read this declaration did not read UTF-16.
            found = found.strip().lower()
            return "utf-8" if found.startswith("utf-16") else found
    return ""


def read_page(data: bytes, media_type: str, charset: str, address: str, *, raw: bool, size: int | None) -> Page:
    """A body as text. With `raw`, HTML stays as it is."""
    kind = kind_of(media_type, data)
    if kind == "binary":
        return Page(kind, describe_binary(media_type, data, size), media_type)
    text = decode(data, charset, is_html=kind == "html")
    if kind == "text" or raw:
        return Page(kind, text.replace("\r\n", "\n"), media_type)
    from dragoman.builtin.web.readable import to_readable

    found = to_readable(text, address)
    counts = ((found.hidden, "hidden element"), (found.unseen, "invisible character"), (found.menus, "menu"))
    left_out = [counted(number, what) for number, what in counts if number]
    left_out += ["the rest of a page with too many tags"] if found.cut else []
    notes = (f"left out: {', '.join(left_out)}; raw=true shows the source",) if left_out else ()
    return Page(kind, found.text, media_type, found.title, notes)


# --------------------------------------------------------------------------------------------------------------------
# WebFetch: one page of the public web, as text.
#
# It sends a GET without credentials or cookies, takes no proxy from the environment, and goes only where `addresses`
# allows it, at every redirect again. What it brings is the words of others; the answer begins with the address they
# are from.

MOST_REDIRECTS = 5
PATIENCE = Timeouts(connect=8.0, first_byte=20.0, idle=10.0)
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_LIMIT = 1 << 60
_SHOWN_OF_ERRORS = 1500


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
        transport or make_connector(max_bytes, tls),
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


def make_connector(max_bytes: int, tls: ssl.SSLContext | None) -> Connector:
    """What opens a transport to one numeric address; more than `max_bytes` of a body are not received."""
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

    metadata = {"class": "fetch", "family": "fetch", "origin": "builtin"}
    options = Options(read_only=True, timeout=settings.timeout + 5.0, metadata=metadata)
    return msgspec.structs.replace(tool_from_function(web_fetch, options), inspect=inspect_url)


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
            found = await _walk(settings, address, context)
    except TimeoutError:
        raise Error(f"{address.url} did not answer completely within {seconds:.3g} s") from None
    except TransportFault as fault:
        raise Error(f"{address.url} could not be fetched: {fault.message}") from None
    if isinstance(found, Ok):
        return found
    # Long pages take a while to convert; other calls go on meanwhile.
    media_type, charset = media_type_of(found.headers)
    page = await asyncio.to_thread(
        read_page, found.body, media_type, charset, found.address.url, raw=raw, size=_size_of(found)
    )
    return _show(found, page, offset, settings)


async def _walk(settings: _Settings, address: WebAddress, context: ToolContext) -> _Fetched | Ok:
    """Follow redirects until something else comes. Every step is checked like the first one.

    Where rules decide on the call, they decide on the target of a redirect again.
    """
    trail: list[str] = []
    stays = any(operand.kind == "url" for operand in context.operands)
    while True:
        try:
            if address.port not in settings.ports:
                allowed = ", ".join(str(port) for port in settings.ports)
                raise Refused(
                    f"port {address.port} of {address.host} is not fetched, only {allowed}; "
                    f"whoever runs this can allow it with make_web_fetch(ports=...)"
                )
            addresses = await find_addresses(address, settings.resolver, settings.allowance)
        except Refused as problem:
            if not trail:
                raise
            raise Refused(f"{trail[-1]} redirects to {address.url}; {problem.reason}") from None
        async with open_page(address, addresses, settings.connector, settings.headers, settings.timeouts) as response:
            if response.status not in REDIRECTS:
                body, cut = await _read_body(response, settings.max_bytes)
                return _Fetched(address, response.status, response.headers, body, cut, tuple(trail))
            status, location = response.status, response.headers.get("location", "")
        target = _follow(address, location)
        if stays and target.host != address.host:
            return _tell_redirect(settings, address.url, target, status, _OTHER_HOST)
        if context.decide is not None and not _may_follow(context.decide, address, target):
            return _tell_redirect(settings, address.url, target, status, _OTHER_ADDRESS)
        trail.append(address.url)
        if len(trail) > MOST_REDIRECTS:
            raise Error(f"{trail[0]} redirects more than {MOST_REDIRECTS} times; the last one was to {target.url}")
        address = target


_OTHER_HOST = "another host:\n{url}\nThat was not followed, because only this host was decided on."
_OTHER_ADDRESS = "another address:\n{url}\nThat was not followed, because it needs a decision of its own."


def _may_follow(decide: Callable[[dict[str, Any]], Any], address: WebAddress, target: WebAddress) -> bool:
    """Whether the rules that decided on an address also let a call go on to the target of its redirect."""
    decision = decide({"url": target.url})
    if decision.verdict == "deny":
        raise Refused(f"{address.url} redirects to {target.url}, which is not fetched: {decision.reason}")
    if decision.verdict == "allow":
        return True
    # Somebody approved this address, and the target is another spelling of it: encrypted, or as a folder.
    before = decide({"url": address.url})
    is_same = (before.verdict, before.rule, before.code) == (decision.verdict, decision.rule, decision.code)
    return is_same and _is_variant(address.url, target.url)


def _is_variant(url: str, target: str) -> bool:
    """Whether two addresses differ only in a slash at the end of the path, or the second one is encrypted."""
    if url.startswith("http://") and target.startswith("https://"):
        url = f"https{url.removeprefix('http')}"
    path, mark, query = url.partition("?")
    return target in (url, f"{path}/{mark}{query}", f"{path.removesuffix('/')}{mark}{query}")


def _tell_redirect(settings: _Settings, source: str, target: WebAddress, status: int, why: str) -> Ok:
    # A model is not sent to ask for what would be refused anyway.
    allowed = settings.allowance.covers(target.host, target.port) or target.host in settings.allowance.names
    if target.doubt and not allowed:
        raise Refused(f"{source} redirects to {target.url}, which is not fetched: {target.doubt}")
    text = (
        f"From {source}\n\nIt redirects (status {status}) to {why.format(url=target.url)} To go on, fetch that address."
    )
    return Ok(text, data={"url": source, "status": status, "redirect": target.url})


def _follow(address: WebAddress, location: str) -> WebAddress:
    try:
        return follow(address, location)
    except Refused as problem:
        raise Refused(
            f"{address.url} redirects to {location[:200]!r}, which is not fetched: {problem.reason}"
        ) from None


async def _read_body(response: HttpResponse, most: int) -> tuple[bytes, bool]:
    """The body as far as it is taken, and whether it goes on."""
    media_type, _ = media_type_of(response.headers)
    if media_type not in _VAGUE and _named_kind(media_type) == "binary":
        most = _PEEK  # It cannot turn out to be text.
    body, goes_on = bytearray(), False
    try:
        async for piece in response.pieces():
            body += piece
            if len(body) > most:
                break
    except TransportFault as fault:
        if fault.kind != "too_large":
            raise
        goes_on = True
    return bytes(body[:most]), goes_on or len(body) > most


# ---- the answer ------------------------------------------------------------------------------------------------------


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


WebFetch: Tool = make_web_fetch()
