"""Framing of streams: readers and writers of server-sent events and newline-delimited JSON, and the choice of one."""

from __future__ import annotations

import codecs
import re
from typing import Any, Literal

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.jsonscan import JsonScanner
from dragoman.stage import Stage
from dragoman.wire.values import LIMIT, SHOWN, LineSplitter, to_utf8, write

# --------------------------------------------------------------------------------------------------------------------
# Server-sent events, according to the WHATWG standard.
#
# The decoder reports four things that the standard does not define:
#
# - *The end.* A browser drops an event without its final blank line. Some servers omit that line, so the event is
#   delivered, with `complete=False`. A stream that ends between two events gives no such event; one that ends inside an
#   event gives exactly one, even before its data. The wire decides whether the stream was complete (`[DONE]`).
# - *Ids.* `SseEvent.id` is the id in this event; `SseDecoder.last_id` is the one to resume from.
# - *Errors.* A line `error: ...`, as older builds of llama.cpp send it, is the data of an event of that name.
# - *Size.* An event above the limit becomes one `SseBroken`; the decoder continues after its blank line.
#
# Bytes that are not UTF-8 become U+FFFD. No input of a server raises an exception.

EVENT_LIMIT = 16 * 1024 * 1024
"""The most bytes of one event, line ends counted as one byte and comments not counted."""

# More digits than any sensible delay has, and far fewer than int() refuses.
_MOST_DIGITS = 15
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"


class SseEvent(Struct, frozen=True, gc=False):
    """One event. `event` is None if the server sent no name (a browser uses "message")."""

    event: str | None
    data: str
    id: str | None = None
    retry: int | None = None
    complete: bool = True
    """False when the stream ended before the blank line that ends an event."""


class SseBroken(Struct, frozen=True, gc=False):
    """An event that could not be read: its beginning, and the name of the fault."""

    raw: str
    why: Literal["event_too_long"] = "event_too_long"


class SseDecoder:
    """A stage from bytes to events."""

    __slots__ = ("_between", "_data", "_event", "_id", "_limit", "_retry", "_size", "_skipping", "_splitter", "last_id")

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self.last_id = ""
        """The id to resume from: that of the last complete event that had one, with or without data."""
        self._limit = limit
        self._splitter = LineSplitter()
        self._skipping = False
        self._data: list[str] = []
        self._event: str | None = None
        self._id: str | None = None
        self._retry: int | None = None
        # The bytes of this event so far; 0 exactly when none of its lines has come.
        self._size = 0
        self._between = False  # nothing that came so far has a part in what comes next

    def feed(self, piece: bytes, /) -> list[SseEvent | SseBroken]:
        if self._between:
            whole = _read_one(piece)
            if whole is not None and len(piece) <= self._limit:
                return [whole]
        out: list[SseEvent | SseBroken] = []
        lines = self._splitter.feed(piece)
        if lines:
            self._read(lines, out)
        pending = self._splitter.pending
        if pending:
            if not self._skipping and self._size + len(pending) > self._limit:
                out.append(self._give_up(pending))
            if self._skipping:
                # One byte is enough to know that the line is not the blank one.
                del pending[1:]
        self._between = not self._size and not self._skipping and self._splitter.is_between_lines
        return out

    def close(self) -> list[SseEvent | SseBroken]:
        out: list[SseEvent | SseBroken] = []
        rest = self._splitter.close()
        if rest:
            self._read([rest], out)
        if self._size:
            out.append(SseEvent(self._event, "\n".join(self._data), self._id, self._retry, complete=False))
        self._forget()
        return out

    def _read(self, lines: list[bytes], out: list[SseEvent | SseBroken]) -> None:
        data = self._data
        for line in lines:
            if not line:
                if data:
                    text = data[0] if len(data) == 1 else "\n".join(data)
                    out.append(SseEvent(self._event, text, self._id, self._retry))
                if self._id is not None:
                    self.last_id = self._id
                self._forget()
            elif not self._skipping:
                size = self._size + len(line)
                if size > self._limit:
                    out.append(self._give_up(line))
                elif line.startswith(b"data: "):
                    self._size = size + 1
                    data.append(line[6:].decode("utf-8", "replace"))
                elif line.startswith(b"event: "):
                    self._size = size + 1
                    self._event = line[7:].decode("utf-8", "replace") or None
                elif not line.startswith(b":"):
                    self._size = size + 1
                    self._take_field(line)

    def _take_field(self, line: bytes) -> None:
        name, _, rest = line.partition(b":")
        value = rest.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(value)
        elif name == b"error":
            self._event = "error"
            self._data.append(value)
        elif name == b"event":
            self._event = value or None
        elif name == b"id":
            if "\0" not in value:
                self._id = value
        elif name == b"retry" and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
            self._retry = int(value)

    def _forget(self) -> None:
        self._data.clear()
        self._event = self._id = self._retry = None
        self._size = 0
        self._skipping = False

    def _give_up(self, line: bytes | bytearray) -> SseBroken:
        # Only what fits is shown, so that it is the same however the rest of the line was cut into pieces.
        fits = line[: min(SHOWN, max(0, self._limit - self._size))].decode("utf-8", "replace")
        raw = "\n".join([*self._data, fits])[:SHOWN]
        self._forget()
        self._skipping = True
        return SseBroken(raw)


def _read_one(piece: bytes) -> SseEvent | None:
    """The event of a piece that is one whole event of the usual form, as most pieces are; None for any other piece."""
    head, _, rest = piece.partition(b"data: ")
    data = rest[:-2]
    if not rest.endswith(b"\n\n") or _LINE_FEED in data or _CARRIAGE_RETURN in piece:
        return None
    name = None
    try:
        if head:
            if not head.startswith(b"event: ") or head.find(b"\n") != len(head) - 1:
                return None
            name = head[7:-1].decode() or None
        return SseEvent(name, data.decode())
    except UnicodeDecodeError:
        return None


def encode_sse(event: str | None, data: str | bytes) -> bytes:
    """Write one event. Every line end inside the data (LF, CRLF, CR) is read back as LF.

    A name with a line break in it would be read as another field, so it is refused with a ConfigError.
    """
    written = data if isinstance(data, bytes) else to_utf8(data)
    if b"\n" in written or b"\r" in written:
        # An end behind the last line opens one more, empty line, which splitlines() gives only if something is in it.
        lines = (written + b".").splitlines()
        lines[-1] = lines[-1][:-1]
        written = b"\ndata: ".join(lines)
    if event is None:
        return b"data: %b\n\n" % written
    if "\n" in event or "\r" in event:
        raise ConfigError(f"the name of an event cannot hold a line break: {event!r}")
    return b"event: %b\ndata: %b\n\n" % (to_utf8(event), written)


# --------------------------------------------------------------------------------------------------------------------
# Newline-delimited JSON: one JSON text per line, as Ollama streams it.
#
# A line ends with LF, CRLF or CR, and a byte order mark at the very start is no part of the first line; both may be
# split between pieces.
#
# A last line without a newline is delivered with `complete=False`: some servers omit the last newline, other streams
# are truncated, and only the reader of the JSON can distinguish the two.


class Line(Struct, frozen=True, gc=False):
    """One line that is not blank. `complete` is False when the stream ended before its newline came."""

    text: str
    complete: bool = True


class LineBroken(Struct, frozen=True, gc=False):
    """A line that could not be read: its first bytes as text, and the name of the fault."""

    raw: str
    why: Literal["line_too_long"] = "line_too_long"


class LineDecoder:
    """A stage from bytes to `Line`s; blank lines are left out, bytes that are not UTF-8 become U+FFFD."""

    __slots__ = ("_limit", "_skipping", "_splitter")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._splitter = LineSplitter()
        self._skipping = False

    def feed(self, piece: bytes, /) -> list[Line | LineBroken]:
        out: list[Line | LineBroken] = []
        for line in self._splitter.feed(piece):
            if self._skipping:
                self._skipping = False
            else:
                self._read(line, True, out)
        pending = self._splitter.pending
        if self._skipping:
            del pending[1:]
        elif len(pending) > self._limit:
            out.append(self._broken(pending))
            self._skipping = True
        return out

    def close(self) -> list[Line | LineBroken]:
        out: list[Line | LineBroken] = []
        rest = self._splitter.close()
        if not self._skipping:
            self._read(rest, False, out)
        return out

    def _read(self, line: bytes, complete: bool, out: list[Line | LineBroken]) -> None:
        if len(line) > self._limit:
            out.append(self._broken(line))
        elif line and not line.isspace():
            out.append(Line(line.decode("utf-8", "replace"), complete))

    def _broken(self, line: bytes | bytearray) -> LineBroken:
        return LineBroken(line[: min(SHOWN, self._limit)].decode("utf-8", "replace"))


def encode_ndjson(value: Any) -> bytes:
    """Write a JSON value as one line. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD."""
    return write(value).encode() + b"\n"


# --------------------------------------------------------------------------------------------------------------------
# The forms that a stream may have: events, JSON texts one after the other, a list, or lines.
#
# A stream of server-sent events is sometimes a stream of bare JSON texts, a list that grows (Gemini without `alt=sse`),
# or the whole reply as one JSON text, with or without the marker of a stream behind it; and the lines of Ollama are
# sometimes sent as events. The first characters tell which form it is. Either way a frame comes out as the event that
# server-sent events would have given.

_before_content = re.compile(rb"(?:[ \t\r\n]++|%b)*+" % codecs.BOM_UTF8).match
# What may stand before the next text of a list, or of a row of texts.
_between = re.compile(r"[ \t\r\n,\[]*").match
# The first characters of `data`, `event`, `error`, `id`, `retry` and of a comment.
_FIELD_STARTS = "deir:"


def skip_to_content(data: bytes) -> bytes:
    """Return the beginning of a body without blanks and byte order marks, which mean nothing in any form."""
    return data[_before_content(data).end() :]  # type: ignore[union-attr]


def may_precede_content(head: bytes) -> bool:
    """Whether what is left of the beginning of a body may be half of a byte order mark, or is nothing at all."""
    return codecs.BOM_UTF8.startswith(head)


class StreamDecoder:
    """A stage from the bytes of a stream to events, whichever form the stream has."""

    __slots__ = ("_chosen", "_head")

    def __init__(self) -> None:
        self._chosen: Stage[bytes, Any] | None = None
        self._head = b""

    def feed(self, piece: bytes, /) -> list[SseEvent | SseBroken | Line | LineBroken]:
        if self._chosen is not None:
            return self._chosen.feed(piece)
        head = self._head = skip_to_content(self._head + piece)
        if may_precede_content(head):
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
                if not self._in_list and text[position] in _FIELD_STARTS:
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
