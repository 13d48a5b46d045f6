"""`dragoman.attach`: a file, a web address or data as a part of a message, by what its content is."""

from __future__ import annotations

import difflib
import os
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import unquote

from dragoman.builtin.web.addresses import Refused, WebAddress, follow, read_url
from dragoman.builtin.web.fetch import (
    MOST_REDIRECTS,
    PATIENCE,
    REDIRECTS,
    Allowance,
    Connector,
    find_addresses,
    make_connector,
    media_type_of,
    open_page,
    resolve_by_system,
)
from dragoman.client import portal
from dragoman.client.http import HttpTransport, Limits
from dragoman.client.http.addresses import read_address, read_proxies
from dragoman.client.transport import HttpResponse, TransportFault
from dragoman.errors import ConfigError
from dragoman.file_content import FilePath, read_file
from dragoman.media import (
    MAX_BYTES,
    check_size,
    decode_text,
    describe_size,
    ending_of,
    is_text_type,
    name_text,
    read_base64,
    recognise,
)
from dragoman.tools import Error
from dragoman.types import File, Image, Text
from dragoman.wire.values import split_data_url

Attachment = Text | Image | File
_HINT = "give the path of a file, an address that begins with https://, or bytes"
_TOO_LARGE = "send a smaller file, or a part of it"
_HEADERS = {"User-Agent": "dragoman", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}


async def aattach(source: str | bytes | FilePath, *, name: str = "", media_type: str | None = None) -> Attachment:
    """Return a file, the content of a web address, or bytes as a part of a message.

    The content decides: an image becomes an `Image`, text becomes a `Text` with the name of the file, and anything else
    a `File`. `name` and `media_type` replace those that are found. An address is fetched here, so that the part can be
    sent to every provider; `Image(url=...)` lets the provider fetch it. Raises ConfigError with the reason.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return make_part(bytes(source), name or "attachment", media_type)
    address = source if isinstance(source, str) else ""
    if address.lower().startswith(("http://", "https://")):
        found, content, said = await _fetch(address)
        return make_part(content, name or found, media_type, said)
    held = split_data_url(address)
    if held is not None:
        return make_part(read_base64(held[1]), name or f"attachment{ending_of(held[0])}", media_type or held[0] or None)
    found, content = _read(source)
    return make_part(content, name or found, media_type)


attach = portal.blocking(
    aattach,
    "attach",
    """Return a file, the content of a web address, or bytes as a part of a message: `attach("report.pdf")`.

    The arguments are those of `aattach`.
    """,
)


def make_part(content: bytes, name: str, media_type: str | None = None, said: str = "") -> Attachment:
    """Return the part for some content. `said` is the media type that a server claims."""
    try:
        check_size(content, name)
    except ValueError as error:
        raise ConfigError(str(error), hint=_TOO_LARGE if content else "check what was given") from None
    kind = media_type or recognise(content, name)
    if media_type is None and kind == "application/octet-stream" and said and not is_text_type(said):
        kind = said
    name += "" if "." in name else ending_of(kind) if kind != "text/plain" else ""
    text = decode_text(content) if is_text_type(kind) else None
    if text is not None:
        return Text(name_text(name, text))
    return Image(data=content, media_type=kind) if kind.startswith("image/") else File(name, content, None, kind)


# ---- files -----------------------------------------------------------------------------------------------------------


def _read(source: str | FilePath) -> tuple[str, bytes]:
    """The name and the content of a file, or ConfigError with the reason in one line."""
    try:
        path = os.fspath(source)
        return read_file(path)
    except TypeError:
        raise ConfigError(f"{type(source).__name__} cannot be attached", hint=_HINT) from None
    except FileNotFoundError:
        command_hint = "give the path of a file, or an address that begins with https://"
        why = f"there is no file {path!r}{_suggest(path)}"
        raise ConfigError(why, hint=_HINT, command_hint=command_hint) from None
    except IsADirectoryError:
        raise ConfigError(f"{path!r} is a folder", hint="attach the files in it, each by its path") from None
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(f"cannot read {path!r}: {why}", hint="check the path and its permissions") from None
    except ValueError as error:
        # An empty file, one that is too large, or a path with a null character.
        raise ConfigError(str(error), hint=_TOO_LARGE if "larger" in str(error) else "check the file") from None


def _suggest(path: str) -> str:
    """The end of a message about a file that does not exist: the most similar name in its folder."""
    if path.startswith("~"):
        return ", because ~ is not expanded here"
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")[:2000]
    except OSError:
        return ""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return f"; did you mean {os.path.join(folder, near[0])!r}?" if near else ""


# ---- addresses -------------------------------------------------------------------------------------------------------


async def _fetch(url: str) -> tuple[str, bytes, str]:
    """The name, the content and the media type at an address, or ConfigError with the reason in one line.

    The user named the address, so it may be private. A redirect may lead only to public hosts, and to the same host.
    """
    # Neither a password nor a query, which may hold a key, is repeated.
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    shown = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"[:200]
    try:
        first = page = read_url(url)
        for _ in range(MOST_REDIRECTS + 1):
            addresses, connector = await _find_way(page, is_named=page.host == first.host)
            async with open_page(page, addresses, connector, _HEADERS, PATIENCE) as response:
                if response.status not in REDIRECTS:
                    return await _read_answer(page, response)
                page = follow(page, response.headers.get("location", ""))
    except (Refused, Error) as error:
        raise ConfigError(f"cannot fetch {shown}: {error.reason}", hint="check the address") from None
    except TransportFault as fault:
        if fault.kind == "too_large":
            raise ConfigError(f"{shown} is larger than {describe_size(MAX_BYTES)}", hint=_TOO_LARGE) from None
        raise ConfigError(f"cannot fetch {shown}: {fault}", hint="check the address, or download the file") from None
    raise ConfigError(f"{shown} redirects more than {MOST_REDIRECTS} times", hint="check the address")


async def _find_way(page: WebAddress, *, is_named: bool) -> tuple[tuple[str, ...], Connector]:
    """The numeric addresses of a page, and what opens a connection to one of them: directly, or by the proxy."""
    limits = Limits(body_bytes=MAX_BYTES, connections=1)
    resolver: Callable[[str, int], Awaitable[Sequence[str]]] = resolve_by_system
    proxies = read_proxies("env", os.environ)
    if proxies is not None and proxies.find(read_address(page.url)) is not None:
        if not is_named and page.doubt:
            raise Refused(f"it redirects to {page.host}: {page.doubt}")
        return ("",), lambda _: HttpTransport(limits=limits, proxy="env", environment=os.environ)
    if is_named:
        found = (page.host,) if page.numeric else tuple(await _resolve(page, resolver))
    else:
        found = await find_addresses(page, resolver, Allowance())
    return found, make_connector(MAX_BYTES, None)


async def _resolve(page: WebAddress, resolver: Callable[[str, int], Awaitable[Sequence[str]]]) -> Sequence[str]:
    try:
        return await resolver(page.host, page.port)
    except (OSError, UnicodeError):
        raise Refused(f"no address is known for {page.host}; check the spelling of the host") from None


async def _read_answer(page: WebAddress, response: HttpResponse) -> tuple[str, bytes, str]:
    if response.status != 200:
        raise Refused(f"the server answered with status {response.status}")
    content = bytearray()
    async for piece in response.pieces():
        content += piece
        if len(content) > MAX_BYTES:
            raise TransportFault("too_large", "the file is larger than allowed")
    kind, _ = media_type_of(response.headers)
    name = unquote(page.target.partition("?")[0].rpartition("/")[2]) or page.host
    return name, bytes(content), kind
