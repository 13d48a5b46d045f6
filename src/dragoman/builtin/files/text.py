"""Files as text: encodings, pages of lines, and suggestions for names that do not exist."""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from dragoman.builtin.files.workspace import Found, Workspace, quoted
from dragoman.media import UNTEXTUAL
from dragoman.tools import Error

# --------------------------------------------------------------------------------------------------------------------
# How the bytes of a file are text: which encoding, which line ends, or no text at all.
#
# Text is UTF-8 unless a mark at the beginning says UTF-16. What is neither is read as latin-1, in which every byte is
# a character, so that nothing is lost; and whoever shows it says so.

Name = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]

_MARKS: tuple[tuple[bytes, Name], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
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
NEVER_TEXT = tuple(start for start, _ in _KINDS[:6])
"""Beginnings that no text has by accident."""


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
    strange = len(sample) - len(sample.translate(None, UNTEXTUAL))
    return strange > 3 and strange * 20 > len(sample)


def kind_of(head: bytes, unknown: str = "binary data") -> str:
    """What a binary file is, by its first bytes."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    if head[257:262] == b"ustar":
        return "a tar archive"
    return next((words for start, words in _KINDS if head.startswith(start)), unknown)


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


# --------------------------------------------------------------------------------------------------------------------
# What a model may have meant that named a file, or quoted a text, which is not there.

_MOST_LINES = 10_000
_MOST_PARTS = 200
_MOST_COMPARED = 300
_LONGEST_LINE = 300
_AROUND = 2
_NO_ACCIDENT = 8
_MOST_SHOWN = 12
_NUMBERED = re.compile(r"[ ]*\d+\t")


def absent_words(workspace: Workspace, found: Found) -> str:
    """That there is no such file, and what may have been meant."""
    words = f"{quoted(found.path)}: there is no such file"
    folder, _, name = found.path.rpartition("/")
    names: list[str] = []
    with suppress(Error):
        names = workspace.names(folder or ".")
    near = difflib.get_close_matches(name, names[:2000], n=3, cutoff=0.6)
    beside = ", ".join(quoted(f"{folder}/{each}" if folder else each) for each in near)
    return f"{words}. Similar: {beside}" if near else f"{words}; glob finds files by pattern"


def miss_words(text: str, wanted: str, replacement: str) -> str:
    """Why a text may not have been found in a file, and the lines that come nearest to it."""
    lines, parts = text.removesuffix("\n").split("\n"), wanted.split("\n")
    if any(_NUMBERED.match(part) for part in parts) and all(_NUMBERED.match(part) or not part for part in parts):
        return "It begins with the line numbers that read shows; leave out each number and the tab behind it."
    there = _line_of(text, replacement.strip("\n"))
    if there is not None:
        return f"The new text is there already, at line {there}."
    near, is_alike = _nearest(lines, parts)
    if near is None:
        return "Nothing in the file comes near it; read the file again."
    words = "These lines differ from it in white space only:" if is_alike else "The nearest lines are:"
    return f"{words}\n{numbered(lines, near, len(parts))}"


def _line_of(text: str, replacement: str) -> int | None:
    """Where a text is: in whole lines, or anywhere if it is long enough for that to be no accident."""
    at = f"\n{text}\n".find(f"\n{replacement}\n") if replacement.strip() else -1
    if at < 0 and len(replacement.strip()) >= _NO_ACCIDENT:
        at = text.find(replacement)
    return None if at < 0 else text.count("\n", 0, at) + 1


def numbered(lines: list[str], at: int, length: int) -> str:
    """Some lines, from index `at`, with a few around them, as `read` shows them."""
    first = max(at - _AROUND, 0)
    last = min(at + length + _AROUND, len(lines), first + _MOST_SHOWN)
    return "\n".join(f"{number + 1}\t{_short(lines[number])}" for number in range(first, last))


def _short(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " [...]"


def _nearest(lines: list[str], parts: list[str]) -> tuple[int | None, bool]:
    """The index of the line that is most like the first one that was wanted; whether only white space differs."""
    skipped = next((index for index, part in enumerate(parts) if part.strip()), None)
    if skipped is None:
        return None, False
    squeezed = ["".join(line.split()) for line in lines[:_MOST_LINES]]
    wanted = ["".join(part.split()) for part in parts[: skipped + _MOST_PARTS]]
    for index, line in enumerate(squeezed):
        if line == wanted[skipped] and squeezed[index : index + len(wanted) - skipped] == wanted[skipped:]:
            return max(index - skipped, 0), True
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(parts[skipped].strip()[:_LONGEST_LINE])
    best = 0.6
    at: int | None = None
    left = _MOST_COMPARED  # Comparing takes long, and this is only a hint.
    for index, line in enumerate(lines[:_MOST_LINES]):
        matcher.set_seq1(line.strip()[:_LONGEST_LINE])
        if left and matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            left -= 1
            if matcher.ratio() > best:
                best, at = matcher.ratio(), index
    return at, False


# --------------------------------------------------------------------------------------------------------------------
# One page of the lines of a file, however large the file and however long its lines: read in pieces, and bounded.

PAGE_CHARACTERS = 48_000
"""Characters of one page, with the numbers: a little less than what a result may have."""
LINE_CHARACTERS = 2_000
"""Characters of one line that are shown."""
MOST_COUNTED = 256 << 20
"""Bytes behind the page that are still counted for the number of lines."""
_HELD = LINE_CHARACTERS * 4
_PREFIX = 8


class Line(Struct, frozen=True):
    number: int
    text: str
    missing: int = 0
    """Bytes of the line that are not shown."""
    readable: bool = True
    """False where the line is not in the encoding of the file, and is shown as latin-1."""


class Page(Struct):
    """Some lines of a file, and what is known of the rest."""

    lines: list[Line]
    total: int = 0
    """Lines in the file, as far as they were counted."""
    complete: bool = False
    """Whether the file was read to its end."""
    crlf: int = 0
    """Lines of the page that end in CR LF."""
    lf: int = 0
    unended: bool = False
    """The last line of the file has no line end."""
    full: bool = False
    """The page ended for its size, before it had as many lines as were asked for."""


def read_page(pieces: Iterable[bytes], offset: int, limit: int) -> Page:
    """Lines `offset` to `offset + limit - 1`, from pieces of UTF-8."""
    page = Page([])
    reader = _Reader(page, offset, limit)
    for piece in pieces:
        reader.feed(piece)
        if reader.behind > MOST_COUNTED:
            break
    else:
        reader.end()
    return page


class _Reader:
    """Counts lines until the page begins, takes the page, and counts the rest."""

    def __init__(self, page: Page, offset: int, limit: int) -> None:
        self._page = page
        self._first = offset
        self._limit = limit
        self._number = 1
        self._head = bytearray()
        self._length = 0
        self._room = PAGE_CHARACTERS
        self._is_over = False
        self.behind = 0
        """Bytes behind the page that were counted."""

    def feed(self, piece: bytes) -> None:
        start = self._skip(piece)
        while not self._is_over:
            end = piece.find(b"\n", start)
            if end < 0:
                break
            self._hold(piece, start, end)
            self._finish(ended=True)
            start = end + 1
        if self._is_over:
            self._number += piece.count(b"\n", start)
            self.behind += len(piece) - start
        # What is left belongs to a line whose end is in a later piece.
        rest = max(start, piece.rfind(b"\n") + 1) if self._is_over else start
        self._hold(piece, rest, len(piece), fresh=rest > start)
        self._page.total = self._number - 1

    def _skip(self, piece: bytes) -> int:
        """Go over lines that come before the page, without looking at them."""
        if self._number >= self._first:
            return 0
        wanted = self._first - self._number
        there = piece.count(b"\n")
        if there:
            self._length = 0
        if there < wanted:
            self._number += there
            return piece.rfind(b"\n") + 1
        at = -1
        for _ in range(wanted):
            at = piece.find(b"\n", at + 1)
        self._number = self._first
        return at + 1

    def _hold(self, piece: bytes, start: int, end: int, fresh: bool = False) -> None:
        if fresh:
            self._head.clear()
            self._length = 0
        self._length += end - start
        if self._number >= self._first and len(self._head) < _HELD:
            self._head += piece[start : min(end, start + _HELD - len(self._head))]

    def _finish(self, ended: bool) -> None:
        head, length = bytes(self._head), self._length
        self._head.clear()
        self._length = 0
        number = self._number
        self._number += ended
        if number < self._first:
            return
        has_cr = ended and head.endswith(b"\r") and len(head) == length
        line = _line(number, head[:-1] if has_cr else head, length - has_cr)
        self._room -= len(line.text) + _PREFIX
        if self._room < 0 and self._page.lines:
            self._page.full = self._is_over = True
            return
        self._page.lines.append(line)
        self._page.crlf += has_cr
        self._page.lf += ended and not has_cr
        self._is_over = len(self._page.lines) >= self._limit

    def end(self) -> None:
        page = self._page
        page.complete = True
        page.unended = self._length > 0
        page.total = self._number - 1 + page.unended
        if page.unended and not self._is_over:
            self._finish(ended=False)


def _line(number: int, head: bytes, length: int) -> Line:
    is_cut, encoding = length > len(head), "utf-8"
    try:
        text = codecs.getincrementaldecoder("utf-8")("strict").decode(head, final=not is_cut)
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = head.decode(encoding)
    shown = text[:LINE_CHARACTERS]
    missing = length - len(shown.encode(encoding)) if is_cut or len(shown) < len(text) else 0
    return Line(number, shown, missing, encoding == "utf-8")


def as_utf8(pieces: Iterable[bytes], encoding: Encoding) -> Iterator[bytes]:
    """Pieces of a file as UTF-8, without the mark at its beginning; UTF-8 stays as it is, sound or not."""
    mark = len(encoding.mark)
    decoder = codecs.getincrementaldecoder(encoding.name)("replace") if encoding.width > 1 else None
    for piece in pieces:
        yield piece[mark:] if decoder is None else decoder.decode(piece[mark:]).encode()
        mark = 0
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()
