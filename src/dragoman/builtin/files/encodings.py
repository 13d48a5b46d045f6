"""How the bytes of a file are text: which encoding, which line ends, or no text at all.

Text is UTF-8 unless a mark at the beginning says UTF-16. What is neither is read as latin-1, in which every byte is a
character, so that nothing is lost; and whoever shows it says so.
"""

from __future__ import annotations

import codecs
from typing import Literal

from msgspec import Struct

Name = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]

_MARKS: tuple[tuple[bytes, Name], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Control characters that no text has; a terminal's escapes, form feeds and backspaces do occur.
_UNTEXTUAL = bytes(byte for byte in range(32) if byte not in (7, 8, 9, 10, 11, 12, 13, 27))
_SAMPLE = 8192

_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or a document in one, such as docx or jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a macOS program or library"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x00asm", "WebAssembly"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
)


class Encoding(Struct, frozen=True):
    """The encoding of a file, and the mark that it begins with."""

    name: Name = "utf-8"
    mark: bytes = b""

    @property
    def width(self) -> int:
        """Bytes of the smallest character: text is only looked for at whole ones."""
        return 2 if self.name.startswith("utf-16") else 1

    @property
    def words(self) -> str:
        """As an answer calls it."""
        named = {"utf-8": "UTF-8", "utf-16-le": "UTF-16 (LE)", "utf-16-be": "UTF-16 (BE)", "latin-1": "latin-1"}
        return named[self.name] + (" with a byte order mark" if self.mark and self.name == "utf-8" else "")

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError for what the encoding does not hold."""
        return text.encode(self.name)


PLAIN = Encoding()


def marked(head: bytes) -> Encoding | None:
    """The encoding that the mark at the beginning of a file names; None without one."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return None  # It begins as UTF-16 does, but is none.
    return next((Encoding(name, mark) for mark, name in _MARKS if head.startswith(mark)), None)


def encoding_of(content: bytes) -> Encoding:
    """The encoding of a whole file."""
    found = marked(content)
    if found is not None:
        return found
    try:
        content.decode()
    except UnicodeDecodeError:
        return Encoding("latin-1")
    return PLAIN


def is_binary(head: bytes) -> bool:
    """Whether the beginning of a file is no text in any encoding that is known here."""
    if marked(head) is not None:
        return False
    sample = head[:_SAMPLE]
    if b"\0" in sample:
        return True
    strange = len(sample) - len(sample.translate(None, _UNTEXTUAL))
    return strange > 3 and strange * 20 > len(sample)


def kind_of(head: bytes) -> str:
    """What a binary file is, by its first bytes."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    if head[257:262] == b"ustar":
        return "a tar archive"
    return next((words for start, words in _KINDS if head.startswith(start)), "binary data")


def line_end_of(content: bytes, encoding: Encoding) -> Literal["\n", "\r\n", "mixed"]:
    """How the lines of a file end. `mixed` where both occur."""
    crlf = count_of(content, "\r\n".encode(encoding.name), encoding.width)
    lf = count_of(content, "\n".encode(encoding.name), encoding.width)
    if not crlf:
        return "\n"
    return "\r\n" if crlf == lf else "mixed"


def places_of(content: bytes, wanted: bytes, width: int = 1) -> list[int]:
    """Where some bytes occur, at whole characters and without overlaps."""
    found: list[int] = []
    at = content.find(wanted)
    while at >= 0 and wanted:
        if at % width:
            at = content.find(wanted, at + 1)
            continue
        found.append(at)
        at = content.find(wanted, at + len(wanted))
    return found


def count_of(content: bytes, wanted: bytes, width: int = 1) -> int:
    return content.count(wanted) if width == 1 else len(places_of(content, wanted, width))
