"""What came over the web, made into text: by its media type, its charset, and a look at its first bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from dragoman.builtin.web.elements import names
from dragoman.builtin.web.markup import tokens
from dragoman.builtin.web.readable import to_readable

PageKind = Literal["html", "text", "binary"]

_TEXTS = frozenset(
    f"application/{name}"
    for name in names(
        "json jsonlines ndjson x-ndjson xml xml-dtd javascript ecmascript x-javascript typescript yaml x-yaml toml sql "
        "graphql x-sh x-httpd-php x-www-form-urlencoded x-tex x-latex x-python x-ruby x-perl x-subrip rtf mbox "
        "x-patch x-diff pgp-signature pgp-keys pem-certificate-chain x-pem-file manifest"
    )
)
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"})
_MAGIC = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
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


def is_worth_reading(media_type: str) -> bool:
    """Whether a body of this type may turn out to be text."""
    return media_type in _VAGUE or _named_kind(media_type) != "binary"


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
    if b"\0" in head or any(head.startswith(magic) for magic, _ in _MAGIC[:6]):
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
    what = next((name for magic, name in _MAGIC if beginning.startswith(magic)), "")
    described = " ".join(
        part for part in (what or "data that is no text", f"({media_type})" if media_type else "") if part
    )
    length = f", {size:,} bytes" if size is not None else ""
    return f"[{described}{length}; its content is not shown]"


def decode(data: bytes, charset: str, *, is_html: bool = False) -> str:
    """The text of a body: by its byte order mark, the charset of the header, that of the page, or a guess."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], encoding)
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
    found = to_readable(text, address)
    left_out = [
        _count(found.hidden, "hidden element"),
        _count(found.unseen, "invisible character"),
        _count(found.menus, "menu"),
        "the rest of a page with too many tags" if found.cut else "",
    ]
    named = ", ".join(part for part in left_out if part)
    notes = (f"left out: {named}; raw=true shows the source",) if named else ()
    return Page(kind, found.text, media_type, found.title, notes)


def _count(number: int, what: str) -> str:
    return "" if not number else f"{number:,} {what}{'s' if number > 1 else ''}"
