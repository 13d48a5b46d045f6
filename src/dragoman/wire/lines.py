"""Lines of bytes, and text as bytes: the rules that server-sent events and newline-delimited JSON share."""

from __future__ import annotations

import codecs
import re

LIMIT = 16 * 1024 * 1024
"""The most bytes of one line; a server that sends more without a newline does not get more memory."""
SHOWN = 1000
"""How many bytes of something too long are kept, for whoever has to find out what it was."""

half_character = re.compile("[\ud800-\udfff]")
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"


class LineSplitter:
    """Cuts a stream of bytes into lines. `pending` is the start of the line that has not ended yet."""

    __slots__ = ("_after_return", "_at_start", "pending")

    def __init__(self) -> None:
        self.pending = bytearray()
        self._at_start = True
        self._after_return = False

    @property
    def is_between_lines(self) -> bool:
        """Whether the next piece begins with a new line, and nothing that came before changes how it is read."""
        return not (self.pending or self._after_return or self._at_start)

    def feed(self, piece: bytes, /) -> list[bytes]:
        """The lines that this piece completes, without their ends."""
        if self._at_start:
            piece = self._without_mark(piece)
        if not piece:
            return []
        if self._after_return:
            # The line ended at the CR already; a LF that opens the next piece belongs to the same end.
            self._after_return = False
            if piece[0] == _LINE_FEED:
                piece = piece[1:]
                if not piece:
                    return []
        lines = piece.splitlines()  # of bytes, so only at LF, CR and CRLF
        last = piece[-1]
        tail = b""
        if last == _CARRIAGE_RETURN:
            self._after_return = True
        elif last != _LINE_FEED:
            tail = lines.pop()
        pending = self.pending
        if lines and pending:
            lines[0] = bytes(pending) + lines[0]
            pending.clear()
        if tail:
            pending += tail
        return lines

    def close(self) -> bytes:
        """What stood behind the last line end."""
        rest = bytes(self.pending)
        self.pending.clear()
        return rest

    def _without_mark(self, piece: bytes) -> bytes:
        head = bytes(self.pending) + piece
        if len(head) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(head):
            self.pending[:] = head
            return b""
        self._at_start = False
        self.pending.clear()
        return head.removeprefix(codecs.BOM_UTF8)


def to_utf8(text: str) -> bytes:
    """The text as bytes, with U+FFFD for every lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return half_character.sub("\ufffd", text).encode()
