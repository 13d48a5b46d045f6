"""What bytes are: media types by content and by name, text, the dimensions of images, and sizes in words."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any

MAX_BYTES = 15_000_000
"""The largest image or file that is read or sent; no provider accepts larger ones in a request."""

UNKNOWN = "application/octet-stream"
PDF = "application/pdf"
COMMON_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that every model that sees images takes."""
_ZIP, _OLE = "application/zip", "application/x-ole-storage"
UNREADABLE = frozenset({UNKNOWN, _ZIP, _OLE})
"""The types of files of which a model could read nothing."""
_OFFICE = "application/vnd.openxmlformats-officedocument"

# --------------------------------------------------------------------------------------------------------------------
# By content. The first bytes decide; a name is only asked where they do not.

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", PDF),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"PK\x03\x04", _ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
# The brand of a file in the format of MP4; any other brand is a video.
_BRANDS = {b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"avif": "image/avif", b"qt  ": "video/quicktime"}
_BRANDS |= dict.fromkeys((b"heic", b"heix", b"hevc", b"mif1", b"msf1"), "image/heic")
_BRANDS |= dict.fromkeys((b"3gp4", b"3gp5", b"3gp6"), "video/3gpp")
# The folders inside of an office document, which is a ZIP archive.
_IN_ZIP = (
    (b"word/", f"{_OFFICE}.wordprocessingml.document"),
    (b"xl/", f"{_OFFICE}.spreadsheetml.sheet"),
    (b"ppt/", f"{_OFFICE}.presentationml.presentation"),
)
_SEARCHED = 1 << 16
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)

_BY_ENDING = {
    **{ending: f"image/{ending}" for ending in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "heic", "heif", "avif")},
    **{"jpg": "image/jpeg", "tif": "image/tiff", "svg": "image/svg+xml"},
    **{ending: f"text/{ending}" for ending in ("csv", "html", "xml", "css")},
    **{"txt": "text/plain", "md": "text/markdown", "htm": "text/html", "tsv": "text/tab-separated-values"},
    **{"pdf": PDF, "json": "application/json", "yaml": "application/yaml", "yml": "application/yaml"},
    **{"doc": "application/msword", "xls": "application/vnd.ms-excel", "ppt": "application/vnd.ms-powerpoint"},
    **{"docx": _IN_ZIP[0][1], "xlsx": _IN_ZIP[1][1], "pptx": _IN_ZIP[2][1], "zip": _ZIP},
    **{"odt": "application/vnd.oasis.opendocument.text", "epub": "application/epub+zip", "rtf": "application/rtf"},
    **{"wav": "audio/wav", "mp3": "audio/mpeg", "ogg": "audio/ogg", "opus": "audio/ogg", "flac": "audio/flac"},
    **{"m4a": "audio/mp4", "aac": "audio/aac", "mp4": "video/mp4", "webm": "video/webm", "mov": "video/quicktime"},
    **{"mkv": "video/x-matroska", "avi": "video/x-msvideo"},
}
_RECOGNISED = frozenset(kind for _, kind in _BEGINNINGS) | frozenset({*_RIFF.values(), "image/bmp", "image/avif"})
"""The types whose content cannot be mistaken: a name that claims one of them for other content is wrong."""
_is_text_type = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|toml)|application/x-(yaml|toml)|image/svg\+xml"
).fullmatch


def find_type(content: bytes) -> str:
    """The media type of data by its first bytes; empty if they do not tell."""
    if content[:4] == b"RIFF":
        return _RIFF.get(content[8:12], "")
    if content[4:8] == b"ftyp":
        return _BRANDS.get(content[8:12], "video/mp4")
    if content[:2] == b"BM" and int.from_bytes(content[14:18], "little") in _BMP_HEADERS:
        return "image/bmp"
    found = next((kind for start, kind in _BEGINNINGS if content.startswith(start)), "")
    if found == _ZIP:
        names = content[:_SEARCHED]
        return next((kind for folder, kind in _IN_ZIP if b"[Content_Types].xml" in names and folder in names), _ZIP)
    return found


def ending_of(media_type: str) -> str:
    """The usual end of the name of a file of this type, with its dot."""
    found = next((ending for ending, kind in _BY_ENDING.items() if kind == media_type), "bin")
    return f".{found}"


def find_base64_type(data: str) -> str | None:
    """The media type of base64 data that came without one, by its first bytes."""
    return find_type(read_base64(data[:64])) or None


def read_base64(data: str) -> bytes:
    """The bytes of base64 text; none if it is no such text."""
    try:
        return b64decode(data)
    except (binascii.Error, ValueError):
        return b""


def type_of_name(name: str) -> str:
    """The media type that the end of a file's name or address tells; empty if it tells none."""
    return _BY_ENDING.get(name.partition("?")[0].rpartition(".")[2].lower(), "") if "." in name else ""


def recognise(content: bytes, name: str = "") -> str:
    """The media type of a file, by its content, and by its name where the content leaves it open."""
    found, named = find_type(content), type_of_name(name)
    if found and found not in (_ZIP, _OLE):
        return found
    if named and named not in _RECOGNISED and not is_text_type(named):
        return named
    if found:
        return found
    if decode_text(content) is None:
        return UNKNOWN
    return named if is_text_type(named) else "text/plain"


def is_text_type(media_type: str | None) -> bool:
    """Whether data of this type is text that a model can read as it is."""
    return _is_text_type((media_type or "").partition(";")[0].strip().lower()) is not None


def kind_of(media_type: str | None) -> str:
    """What a file of this type is in one word: `image`, `audio`, `video`, `text`, `document` or `file`."""
    plain = (media_type or "").lower()
    family = plain.partition("/")[0]
    if family in ("image", "audio", "video"):
        return family
    if is_text_type(plain):
        return "text"
    return "document" if plain == PDF or plain.startswith(("application/vnd.", "application/msword")) else "file"


# --------------------------------------------------------------------------------------------------------------------
# Text.

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Control characters that no text has; tabs, line ends, form feeds, backspaces and the escapes of terminals occur.
UNTEXTUAL = bytes(byte for byte in range(32) if byte not in (7, 8, 9, 10, 11, 12, 13, 27))


def decode_text(content: bytes) -> str | None:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark; None if it is no such text."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if content.startswith(mark)), (b"", "utf-8"))
    if not mark and len(content) != len(content.translate(None, UNTEXTUAL)):
        return None
    try:
        return content[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        return None


def name_text(name: str, text: str) -> str:
    """The text of a file for a model: with its name, and with an end that the text itself does not contain."""
    label = " ".join(name.replace('"', "'").split())[:200] or "file"
    fence = "```"
    while fence in text:
        fence += "`"
    return f"File {label}:\n{fence}\n{text.removesuffix(chr(10))}\n{fence}"


# --------------------------------------------------------------------------------------------------------------------
# Dimensions and sizes, for people.


def measure(content: bytes) -> tuple[int, int] | None:
    """The width and height of a PNG, GIF, JPEG, WebP or BMP image, from its head; None if they are not found."""
    kind = find_type(content)
    size: tuple[int, int] | None = None
    if kind == "image/png":
        size = _pair(content, 16, 4, "big")
    elif kind == "image/gif":
        size = _pair(content, 6, 2, "little")
    elif kind == "image/bmp":
        size = _pair(content, 18, 4, "little")
    elif kind == "image/jpeg":
        size = _measure_jpeg(content)
    elif kind == "image/webp":
        size = _measure_webp(content)
    return size if size is not None and 0 < size[0] < 1 << 24 and 0 < size[1] < 1 << 24 else None


def _pair(content: bytes, at: int, width: int, order: Any) -> tuple[int, int] | None:
    if len(content) < at + 2 * width:
        return None
    return int.from_bytes(content[at : at + width], order), int.from_bytes(content[at + width : at + 2 * width], order)


def _measure_jpeg(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            turned = _pair(content, at + 5, 2, "big")
            return None if turned is None else (turned[1], turned[0])
        else:
            at += 2 + max(2, int.from_bytes(content[at + 2 : at + 4], "big"))
    return None


def _measure_webp(content: bytes) -> tuple[int, int] | None:
    form = content[12:16]
    if form == b"VP8X" and len(content) >= 30:
        return int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1
    if form == b"VP8L" and len(content) >= 25:
        bits = int.from_bytes(content[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    size = _pair(content, 26, 2, "little") if form == b"VP8 " else None
    return None if size is None else (size[0] & 0x3FFF, size[1] & 0x3FFF)


def describe_size(count: int) -> str:
    """A number of bytes in words."""
    if count < 1000:
        return f"{count} bytes" if count != 1 else "1 byte"
    return f"{count / 1000:.0f} kB" if count < 999_500 else f"{count / 1_000_000:.1f} MB"


def check_size(content: bytes, what: str) -> bytes:
    """The content, or ValueError if there is none or if no provider accepts so much."""
    if not content:
        raise ValueError(f"{what} is empty")
    if len(content) > MAX_BYTES:
        raise ValueError(f"{what} is larger than {describe_size(MAX_BYTES)}, which no provider accepts")
    return content
