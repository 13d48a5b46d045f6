"""The forms that the body of a streamed reply may have: events, JSON texts one after the other, a list, or lines.

A stream of server-sent events is sometimes a stream of bare JSON texts, a list that grows (Gemini without `alt=sse`),
or the whole reply as one JSON text, with or without the marker of a stream behind it; and the lines of Ollama are
sometimes sent as events. The first characters tell which form it is. Either way a frame comes out as the event that
server-sent events would have given.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

from dragoman.jsonscan import JsonScanner
from dragoman.stage import Stage
from dragoman.wire.framing import Line, LineBroken, LineDecoder, SseBroken, SseDecoder, SseEvent
from dragoman.wire.values import SHOWN, to_utf8

_BLANKS = b" \t\r\n"
# What may stand before the next text of a list, or of a row of texts.
_between = re.compile(r"[ \t\r\n,\[]*").match
# The first characters of `data`, `event`, `error`, `id`, `retry` and of a comment.
_FIELDS = "deir:"


class StreamDecoder:
    """A stage from the bytes of a stream to events, whichever form the stream has."""

    __slots__ = ("_chosen", "_head")

    def __init__(self) -> None:
        self._chosen: Stage[bytes, Any] | None = None
        self._head = b""

    def feed(self, piece: bytes, /) -> list[SseEvent | SseBroken | Line | LineBroken]:
        if self._chosen is not None:
            return self._chosen.feed(piece)
        # A byte order mark and blank lines in front mean nothing in any form.
        head = self._head = (self._head + piece).removeprefix(codecs.BOM_UTF8).lstrip(_BLANKS)
        if codecs.BOM_UTF8.startswith(head):
            return []
        self._chosen = self._choose(head)
        return self._chosen.feed(head) if self._chosen is not None else []

    def close(self) -> list[SseEvent | SseBroken | Line | LineBroken]:
        if self._chosen is not None:
            return self._chosen.close()
        # Too little came to tell the forms apart.
        last = TextDecoder()
        return [*last.feed(self._head), *last.close()]

    def _choose(self, head: bytes) -> Stage[bytes, Any] | None:
        """The stage for a stream that begins so; None if the next piece has to tell."""
        return TextDecoder() if head[:1] in (b"[", b"{") else SseDecoder()


class LineStreamDecoder(StreamDecoder):
    """The same for a wire whose usual form is one JSON text per line."""

    __slots__ = ()

    def _choose(self, head: bytes) -> Stage[bytes, Any] | None:
        if head[:1] in (b"d", b"e", b":"):
            return SseDecoder()
        if head == b"{":
            return None
        # A text that is indented has more than one line.
        return TextDecoder() if head[:2] in (b"{\r", b"{\n") else LineDecoder()


class TextDecoder:
    """A Stage from the bytes of JSON texts, in a list or one after the other, to events: each as soon as it is
    complete. Behind a text that is in no list, server-sent events may follow."""

    __slots__ = ("_decoder", "_events", "_in_list", "_over", "_pieces", "_scanner")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._scanner: JsonScanner | None = None
        self._pieces: list[str] = []
        self._in_list = False
        self._over = False
        self._events: SseDecoder | None = None

    def feed(self, piece: bytes, /) -> list[SseEvent | SseBroken]:
        return self._events.feed(piece) if self._events is not None else self._read(self._decoder.decode(piece))

    def close(self) -> list[SseEvent | SseBroken]:
        if self._events is not None:
            return self._events.close()
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
                start = _between(text, position).end()  # type: ignore[union-attr]
                self._in_list = self._in_list or "[" in text[position:start]
                position = start
                if text[position : position + 1] in ("", "]"):
                    # Behind the end of the list nothing is expected, and nothing is read.
                    self._over = position < len(text)
                    break
                if not self._in_list and text[position] in _FIELDS:
                    self._events = SseDecoder()
                    # Half a character at the end of the piece goes along.
                    half = self._decoder.getstate()[0]
                    return [*out, *self._events.feed(to_utf8(text[position:]) + half)]
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
