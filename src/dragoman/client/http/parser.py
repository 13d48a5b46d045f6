"""A strict parser of HTTP/1.1 responses, with bounded decompression."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from dragoman.client.transport import TransportFault

# --------------------------------------------------------------------------------------------------------------------
# Limits for the size of an answer and the number of connections.


class Limits(Struct, frozen=True):
    """Limits for the memory and connections that a server can use. Normal servers stay far below them."""

    body_bytes: int = 64 * 1024 * 1024
    """Bytes of one body, after decompression."""
    wire_bytes: int = 64 * 1024 * 1024
    """Bytes of one body on the wire: a compressed body may produce no output for any number of bytes."""
    head_bytes: int = 64 * 1024
    """Bytes of the status line and all headers; also of all trailers, and of all chunk extensions."""
    headers: int = 200
    connections: int = 400
    """Open connections of all origins together. Further requests wait for a free one."""
    idle_seconds: float = 30.0
    """How long a connection is kept for the next request."""


# --------------------------------------------------------------------------------------------------------------------
# Decompression in small steps, so that a small body cannot become a huge one in memory.

STEP = 64 * 1024
"""The maximum number of bytes of one step."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
_MOST_MEMBERS = 16


class Decoder:
    """Decodes one content coding. `decode` is lazy: it produces each piece on demand."""

    def __init__(self, coding: str) -> None:
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise TransportFault("broken_protocol", f"unexpected content encoding {coding[:60]!r}", code="coding")
        self._is_gzip = coding != "deflate"
        self._engine = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._members = 1
        self._head = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes, in pieces of at most STEP bytes."""
        engine = self._engine
        if engine is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            engine = self._engine = _open_deflate(data)
        try:
            while data:
                if engine.eof:
                    engine = self._engine = self._open_member()
                piece = engine.decompress(data, STEP)
                data = engine.unconsumed_tail or engine.unused_data
                if piece:
                    yield piece
            # A step may be full although all input was consumed: further steps return the rest.
            while not engine.eof and (piece := engine.decompress(b"", STEP)):
                yield piece
        except zlib.error as error:
            raise TransportFault("broken_protocol", f"the compressed body is damaged: {error}", code="coding") from None

    def _open_member(self) -> zlib._Decompress:
        # A gzip body may have several members, but no normal server sends many.
        self._members += 1
        if not self._is_gzip or self._members > _MOST_MEMBERS:
            raise TransportFault("broken_protocol", "data after the end of a compressed body", code="coding")
        return zlib.decompressobj(_GZIP)

    def close(self) -> None:
        """End the body. Raises TransportFault if the compressed data is incomplete."""
        if self._engine is None or not self._engine.eof:
            raise TransportFault("stream_cut", "the compressed body ended too early", code="coding")


def _open_deflate(head: bytes) -> zlib._Decompress:
    # Some servers send raw deflate under this name, without the header that the standard requires.
    is_zlib = head[0] & 15 == 8 and (head[0] << 8 | head[1]) % 31 == 0
    return zlib.decompressobj(_ZLIB if is_zlib else _RAW)


def decoder_for(headers: dict[str, str]) -> Decoder | None:
    """Return the decoder for a body; None for a plain one."""
    coding = headers.get("content-encoding", "").strip().lower()
    return Decoder(coding) if coding and coding != "identity" else None


# --------------------------------------------------------------------------------------------------------------------
# A strict parser for HTTP/1.1 responses, without a connection.
#
# `feed(data)` returns the head when it is complete, then pieces of the body, then END; `close()` is the end of the
# connection. Every split of the bytes gives the same head and the same body. Invalid HTTP raises a TransportFault
# (`broken_protocol`, `too_large`), and so does an early end (`stream_cut`). After either, the connection cannot be
# used again.
#
# It is strict on purpose: lines end with CRLF, header names are tokens, folded lines and different lengths are errors.
# A client that guesses where an answer ends misreads the next answer.

_TLS_ALERT = b"\x15\x03"
_status_line = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?\r\n").match
_header = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\r\n").match
_chunk_line = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(;[\t\x20-\x7e\x80-\xff]*)?\r\n").fullmatch
_LONGEST_CHUNK_LINE = 4096
_MOST_DIGITS = 18

END: Final = object()
"""The body is complete."""


class Head(Struct, frozen=True):
    """The status and the headers; names in lower case, repeated ones joined with a comma."""

    status: int
    headers: dict[str, str]


State = Literal["head", "length", "chunk_line", "chunk", "chunk_end", "trailers", "until_close", "done", "failed"]


def _check_framing(head: Head) -> None:
    """Refuse a head after which two programs could disagree about the end of the answer (RFC 9112, section 6)."""
    coding, length = head.headers.get("transfer-encoding"), head.headers.get("content-length")
    if coding is not None and length is not None:
        raise TransportFault("broken_protocol", "a content length and a transfer encoding together", code="length")
    size = _read_content_length(length) if length is not None else 0
    if (head.status < 200 or head.status == 204) and (coding is not None or size):
        raise TransportFault("broken_protocol", f"a body with the status {head.status}", code="length")


def _read_content_length(written: str) -> int:
    """The length in a header that may be repeated; all values are the same."""
    values = {value.strip(" \t") for value in written.split(",")}
    text = values.pop()
    if values or not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise TransportFault("broken_protocol", f"invalid content length: {written[:60]!r}", code="length")
    return int(text)


class ResponseParser:
    """Parses the response to one request. `method` decides whether a body is possible."""

    def __init__(self, limits: Limits, method: str = "POST") -> None:
        self._limits = limits
        self._method = method
        self._state: State = "head"
        self._pending = bytearray()
        self._remaining = 0
        self._overhead = 0
        self._skipped = 0
        self._http_10 = False
        self.keeps = True
        """Whether the connection can be reused after the body."""
        self.seen = False
        """Whether any byte arrived."""
        self.fault: TransportFault | None = None
        """The fault behind the last events that were returned. What arrived before a fault is not lost with it."""

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def stray(self) -> bool:
        """Whether bytes arrived after the end of the response."""
        return self._state == "done" and bool(self._pending)

    def feed(self, data: bytes) -> list[object]:
        """Return the events that these bytes complete: a Head, bytes of the body, END."""
        self.seen = True
        out: list[object] = []
        try:
            self._read(data, out)
        except TransportFault as fault:
            self._state = "failed"
            self.keeps = False
            if not out:
                raise
            self.fault = fault.copy()
        return out

    def close(self) -> list[object]:
        """End the connection. Raises `stream_cut` if the response is incomplete."""
        self.keeps = False
        if self._state == "until_close":
            self._state = "done"
            return [END]
        if self._state in ("done", "failed"):
            return []
        where = "in the head of its answer" if self._state == "head" else "in the body of its answer"
        self._state = "failed"
        raise TransportFault("stream_cut", f"the server closed the connection {where}", code="eof")

    # ---- states ---------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, out: list[object]) -> None:
        while True:
            state = self._state
            if state == "head":
                rest = self._read_head(data, out)
            elif state == "length":
                rest = self._read_length(data, out)
            elif state == "until_close":
                if data:
                    out.append(data)
                return
            elif state == "done":
                if data:
                    # Unsolicited bytes: they cannot be distinguished from the next answer.
                    self._pending += data[:1]
                    self.keeps = False
                return
            elif state == "failed":
                raise self.fault or TransportFault("broken_protocol", "data after a broken answer", code="desync")
            else:
                rest = self._read_chunked(data, out)
            if rest is None:
                return
            data = rest

    def _read_head(self, data: bytes, out: list[object]) -> bytes | None:
        pending = self._pending
        if pending:
            start = max(0, len(pending) - 3)
            pending += data
            whole = bytes(pending) if pending.find(b"\r\n\r\n", start) >= 0 else None
            size = len(pending)
        else:
            whole = data
            size = len(data)
        end = whole.find(b"\r\n\r\n") if whole is not None else -1
        if end < 0:
            if size > self._limits.head_bytes:
                raise self._too_large("head")
            if not pending:
                pending += data
            self._check_beginning()
            return None
        assert whole is not None
        if end + 4 + self._skipped > self._limits.head_bytes:
            raise self._too_large("head")
        pending.clear()
        head = self._parse_head(whole, end + 2)
        _check_framing(head)
        rest = whole[end + 4 :]
        if head.status < 200:
            if head.status == 101:
                raise TransportFault("broken_protocol", "the server switched to another protocol", code="status")
            # 100 Continue and 103 Early Hints: the final answer follows.
            self._skipped += end + 4
            return rest
        self._choose_body(head)
        out.append(head)
        if self._state == "done":
            out.append(END)
        return rest

    def _check_beginning(self) -> None:
        """Detect early, and not at a timeout, that this is not HTTP."""
        start = bytes(self._pending[:7])
        if start.startswith(_TLS_ALERT):
            raise TransportFault(
                "broken_protocol", "the server uses TLS at this port; write https:// instead of http://", code="tls"
            )
        if start != b"HTTP/1."[: len(start)]:
            raise TransportFault(
                "broken_protocol", f"not an HTTP/1 answer: it starts with {start!r}", code="status_line"
            )

    def _parse_head(self, data: bytes, end: int) -> Head:
        found = _status_line(data, 0, end)
        if found is None:
            line = data[:end].split(b"\r\n", 1)[0][:80]
            raise TransportFault("broken_protocol", f"invalid HTTP/1 status line: {line!r}", code="status_line")
        self._http_10 = found[1] == b"0"
        headers: dict[str, str] = {}
        count = 0
        position = found.end()
        while position < end:
            count += 1
            if count > self._limits.headers:
                raise TransportFault("too_large", f"more than {self._limits.headers} headers", code="headers")
            header = _header(data, position, end)
            if header is None:
                raise TransportFault(
                    "broken_protocol", f"invalid header: {data[position : position + 60]!r}", code="header"
                )
            name = header[1].decode("ascii").lower()
            value = header[2].decode("latin-1").rstrip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
            position = header.end()
        return Head(int(found[2]), headers)

    def _choose_body(self, head: Head) -> None:
        headers = head.headers
        if self._method == "CONNECT" and 200 <= head.status < 300:
            # A tunnel stays open whatever the headers say. Many proxies answer with HTTP/1.0.
            self._state = "done"
            return
        connection = headers.get("connection", "").lower()
        if "close" in connection or (self._http_10 and "keep-alive" not in connection):
            self.keeps = False
        if head.status in (204, 304) or self._method == "HEAD":
            self._state = "done"
            return
        coding = headers.get("transfer-encoding")
        length = headers.get("content-length")
        if coding is not None:
            self._expect_chunks(coding)
        elif length is not None:
            self._expect_length(length, "content-encoding" not in headers)
        else:
            self.keeps = False
            self._state = "until_close"

    def _expect_chunks(self, coding: str) -> None:
        if coding.lower() != "chunked" or self._http_10:
            raise TransportFault("broken_protocol", f"unknown transfer encoding {coding[:60]!r}", code="coding")
        self._state = "chunk_line"

    def _expect_length(self, length: str, plain: bool) -> None:
        self._remaining = _read_content_length(length)
        if plain and self._remaining > self._limits.body_bytes:
            raise self._too_large("body")
        self._state = "length" if self._remaining else "done"

    def _read_length(self, data: bytes, out: list[object]) -> bytes | None:
        if not data:
            return None
        size = len(data)
        if size < self._remaining:
            self._remaining -= size
            out.append(data)
            return None
        here = self._remaining
        self._remaining = 0
        self._state = "done"
        if size == here:
            out += (data, END)
            return None
        out += (data[:here], END)
        return data[here:]

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def _read_chunked(self, data: bytes, out: list[object]) -> bytes | None:
        """Parse all chunks in these bytes. An incomplete line waits for more bytes."""
        if self._pending:
            data = bytes(self._pending) + data
            self._pending.clear()
        pieces: list[bytes] = []
        position, size = 0, len(data)
        while position < size and self._state != "done":
            if self._state == "chunk":
                piece = data[position : position + self._remaining]
                pieces.append(piece)
                position += len(piece)
                self._remaining -= len(piece)
                if not self._remaining:
                    self._state = "chunk_end"
                continue
            try:
                step = self._read_line(data, position)
            except TransportFault:
                if pieces:
                    out.append(b"".join(pieces))
                raise
            if step < 0:
                self._pending += data[position:]
                position = size
            else:
                position = step
        if pieces:
            out.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._state == "done":
            out.append(END)
            return data[position:]
        return None

    def _read_line(self, data: bytes, position: int) -> int:
        """Return the position after the line that starts here; -1 if it is incomplete."""
        state = self._state
        end = data.find(b"\n", position)
        most = 2 if state == "chunk_end" else _LONGEST_CHUNK_LINE if state == "chunk_line" else self._limits.head_bytes
        if (end if end >= 0 else len(data)) - position > most:
            raise self._broken_line(state, data, position)
        if end < 0:
            return -1
        end += 1
        if state == "chunk_line":
            self._begin_chunk(data, position, end)
        elif state == "chunk_end":
            if data[position:end] != b"\r\n":
                raise self._broken_line(state, data, position)
            self._state = "chunk_line"
        elif data[position:end] == b"\r\n":
            self._state = "done"
        else:
            self._skip_trailer(data, position, end)
        return end

    def _begin_chunk(self, data: bytes, position: int, end: int) -> None:
        found = _chunk_line(data, position, end)
        if found is None:
            raise self._broken_line("chunk_line", data, position)
        size = int(found[1], 16)
        if found[2]:
            self._add_overhead(len(found[2]))
        self._remaining = size
        if size:
            self._state = "chunk"
        else:
            self._state = "trailers"
            self._overhead = 0
            self._skipped = 0

    def _skip_trailer(self, data: bytes, position: int, end: int) -> None:
        if _header(data, position, end) is None:
            raise self._broken_line("trailers", data, position)
        self._add_overhead(end - position)
        self._skipped += 1
        if self._skipped > self._limits.headers:
            raise TransportFault("too_large", f"more than {self._limits.headers} trailers", code="headers")

    def _add_overhead(self, count: int) -> None:
        self._overhead += count
        if self._overhead > self._limits.head_bytes:
            raise self._too_large("trailers" if self._state == "trailers" else "chunk extensions")

    def _broken_line(self, state: str, data: bytes, position: int) -> TransportFault:
        what = state.replace("_", " ")
        return TransportFault("broken_protocol", f"invalid {what}: {data[position : position + 60]!r}", code="chunk")

    def _too_large(self, what: str) -> TransportFault:
        most = self._limits.body_bytes if what == "body" else self._limits.head_bytes
        return TransportFault("too_large", f"the {what} of the answer is larger than {most} bytes", code=what)
