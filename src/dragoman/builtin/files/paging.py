"""One page of the lines of a file, however large the file and however long its lines: read in pieces, and bounded."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from msgspec import Struct

from dragoman.builtin.files.encodings import Encoding

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
        if reader.has_enough:
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
        self._behind = 0

    @property
    def has_enough(self) -> bool:
        return self._behind > MOST_COUNTED

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
            self._behind += len(piece) - start
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
    is_cut = length > len(head)
    text, readable = _decoded(head, is_cut)
    if not is_cut and len(text) <= LINE_CHARACTERS:
        return Line(number, text, 0, readable)
    shown = text[:LINE_CHARACTERS]
    size = len(shown.encode("utf-8" if readable else "latin-1"))
    return Line(number, shown, length - size, readable)


def _decoded(head: bytes, is_cut: bool) -> tuple[str, bool]:
    try:
        return codecs.getincrementaldecoder("utf-8")("strict").decode(head, final=not is_cut), True
    except UnicodeDecodeError:
        return head.decode("latin-1"), False


def as_utf8(pieces: Iterable[bytes], encoding: Encoding) -> Iterator[bytes]:
    """Pieces of a file as UTF-8, without the mark at its beginning; UTF-8 stays as it is, sound or not."""
    mark = len(encoding.mark)
    if encoding.width == 1:
        for piece in pieces:
            yield piece[mark:]
            mark = 0
        return
    decoder = codecs.getincrementaldecoder(encoding.name)("replace")
    for piece in pieces:
        yield decoder.decode(piece[mark:]).encode()
        mark = 0
    yield decoder.decode(b"", final=True).encode()
