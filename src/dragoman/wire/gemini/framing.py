"""The two forms of a streamed reply: server-sent events, or one JSON list that grows.

Without `alt=sse` the API answers with a list of chunks that is closed at the very end. The first character tells which
of the two it is; a lone object, such as an error, is read like a list of one. Either way a chunk comes out as the
event that server-sent events would have given.
"""

from __future__ import annotations

import codecs
import re

from dragoman.jsonscan import JsonScanner
from dragoman.stage import Stage
from dragoman.wire.lines import SHOWN
from dragoman.wire.sse import SseBroken, SseDecoder, SseEvent

_BLANKS = b" \t\r\n"
# What may stand before the next chunk of a list.
_between = re.compile(r"[ \t\r\n,\[]*").match


class ChunkDecoder:
    """A Stage from the bytes of a stream to events, whichever form the stream has."""

    __slots__ = ("_chosen", "_head")

    def __init__(self) -> None:
        self._chosen: Stage[bytes, SseEvent | SseBroken] | None = None
        self._head: bytes | None = b""  # None behind the place where a byte order mark may stand

    def feed(self, piece: bytes, /) -> list[SseEvent | SseBroken]:
        if self._chosen is not None:
            return self._chosen.feed(piece)
        if self._head is not None:
            piece = self._head + piece
            if len(piece) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(piece):
                self._head = piece
                return []
            self._head = None
            piece = piece.removeprefix(codecs.BOM_UTF8)
        # Blank lines in front mean nothing in either form.
        piece = piece.lstrip(_BLANKS)
        if not piece:
            return []
        self._chosen = ListDecoder() if piece[:1] in (b"[", b"{") else SseDecoder()
        return self._chosen.feed(piece)

    def close(self) -> list[SseEvent | SseBroken]:
        return [] if self._chosen is None else self._chosen.close()


class ListDecoder:
    """A Stage from the bytes of a JSON list to its members, each as soon as it is complete."""

    __slots__ = ("_decoder", "_over", "_pieces", "_scanner")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._scanner: JsonScanner | None = None
        self._pieces: list[str] = []
        self._over = False

    def feed(self, piece: bytes, /) -> list[SseEvent | SseBroken]:
        return self._read(self._decoder.decode(piece))

    def close(self) -> list[SseEvent | SseBroken]:
        out = self._read(self._decoder.decode(b"", True))
        if self._scanner is not None:
            out.append(SseEvent(None, "".join(self._pieces), complete=False))
            self._scanner = None
        return out

    def _read(self, text: str) -> list[SseEvent | SseBroken]:
        out: list[SseEvent | SseBroken] = []
        position = 0
        while position < len(text) and not self._over:
            if self._scanner is None:
                position = _between(text, position).end()  # type: ignore[union-attr]
                if text[position : position + 1] in ("", "]"):
                    # Behind the end of the list nothing is expected, and nothing is read.
                    self._over = position < len(text)
                    break
                self._scanner = JsonScanner()
            end = self._scanner.scan(text, position)
            self._pieces.append(text[position:end])
            position = end
            if self._scanner.failed is not None:
                # No JSON, too deep or too large: its beginning goes on, and says so to whoever parses it.
                out.append(self._take(SHOWN))
                self._over = True
            elif self._scanner.done:
                out.append(self._take(None))
        return out

    def _take(self, length: int | None) -> SseEvent:
        text = "".join(self._pieces)[:length]
        self._pieces, self._scanner = [], None
        return SseEvent(None, text)
