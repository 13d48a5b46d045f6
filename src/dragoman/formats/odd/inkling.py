"""Inkling: typed blocks behind a header. The blocks are templates and markers; only the header needs a reader."""

from __future__ import annotations

from dragoman.formats.cursor import Cursor, NotACall, Reader
from dragoman.formats.entry import Place
from dragoman.formats.markers import Markers
from dragoman.formats.odd.stretches import read_slot

HEADER = "<|message_model|>"
_blocks = Markers(["<|content_"])


class InklingHeader:
    """`<|message_model|>`, perhaps with a name, before a block. The block says the name again, and there it counts."""

    format = "inkling"
    openers = (HEADER,)
    place: Place = "anywhere"
    section = None

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        return True

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(HEADER)
        name = yield from read_slot(cursor, _blocks, 200)
        if "\n" in name:
            raise NotACall("no block follows the header")
