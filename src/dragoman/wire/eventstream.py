"""Reader and writer of the binary frames of `application/vnd.amazon.eventstream`, in which Bedrock streams.

    total length 4 | headers length 4 | CRC-32 of these 8 bytes | headers | payload | CRC-32 of everything before

All numbers are big-endian. A header is: length of its name 1 | name | type 1 | value.

No input of a server raises an exception: a frame that cannot be read becomes one `FrameBroken`. If the length of the
frame is reliable, the decoder continues after it. If the lengths themselves are damaged, the start of the next frame is
unknown, and a guess could find a frame inside a payload; so the decoder ignores the rest of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct as Layout
from typing import Literal
from zlib import crc32

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.wire.values import to_utf8

LIMIT = 16 * 1024 * 1024
"""The most bytes of one frame, read or written."""

_PRELUDE = Layout(">III")
_LENGTHS = Layout(">II")
_CHECKSUM = Layout(">I")
_LEAST = _PRELUDE.size + _CHECKSUM.size
_MOST_OF_HEADERS = 128 * 1024
# Some readers take the two bytes of a value's length as a signed number.
_MOST_OF_VALUE = 2**15 - 1


class Timestamp(Struct, frozen=True, gc=False):
    """A header of type timestamp: milliseconds since 1970, UTC."""

    milliseconds: int


class Uuid(Struct, frozen=True, gc=False):
    """A header of type uuid: its sixteen bytes."""

    raw: bytes


HeaderValue = bool | int | bytes | str | Timestamp | Uuid
"""The ten types of the wire. Its four widths of integers are all `int`."""

Damage = Literal["prelude_checksum", "impossible_length", "too_long", "message_checksum", "bad_headers", "cut"]


class Frame(Struct, frozen=True):
    """One message whose two checksums were right."""

    headers: dict[str, HeaderValue]
    payload: bytes


class FrameBroken(Struct, frozen=True, gc=False):
    """A frame that could not be read, and how many bytes it had: as declared if that can be trusted, else as seen."""

    why: Damage
    raw_length: int


class EventStreamDecoder:
    """A Stage from bytes to frames. A stream that ends inside a frame gives a last `FrameBroken("cut", ...)`."""

    __slots__ = ("_buffer", "_last_block", "_last_headers", "_limit", "_lost", "_needed", "_to_skip")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._needed = _PRELUDE.size
        self._to_skip = 0
        self._lost = False
        self._last_block = b""
        self._last_headers: dict[str, HeaderValue] = {}

    def feed(self, piece: bytes, /) -> list[Frame | FrameBroken]:
        if self._lost:
            return []
        if self._to_skip:
            skipped = min(self._to_skip, len(piece))
            self._to_skip -= skipped
            piece = piece[skipped:]
        self._buffer += piece
        return self._take() if len(self._buffer) >= self._needed else []

    def close(self) -> list[Frame | FrameBroken]:
        if not self._buffer:
            return []
        rest = len(self._buffer)
        self._buffer.clear()
        return [FrameBroken("cut", rest)]

    def _take(self) -> list[Frame | FrameBroken]:
        """Everything in the buffer that is decided by now."""
        out: list[Frame | FrameBroken] = []
        buffer, start = self._buffer, 0
        self._needed = _PRELUDE.size
        while (available := len(buffer) - start) >= _PRELUDE.size:
            total, headers_length, checksum = _PRELUDE.unpack_from(buffer, start)
            right = crc32(buffer[start : start + _LENGTHS.size]) == checksum
            damage = self._judge(total, headers_length) if right else "prelude_checksum"
            if damage is None and available < total:
                self._needed = total
                break
            if damage is None:
                out.append(self._read_frame(bytes(buffer[start : start + total]), headers_length))
            elif damage == "prelude_checksum" or total < _LEAST:
                out.append(FrameBroken(damage, _PRELUDE.size))
                self._lost = True
                start = len(buffer)
                break
            else:
                out.append(FrameBroken(damage, total))
                self._to_skip = max(0, total - available)
            start += min(total, available)
        del buffer[:start]
        return out

    def _judge(self, total: int, headers_length: int) -> Damage | None:
        if total < _LEAST or headers_length > total - _LEAST:
            return "impossible_length"
        return "too_long" if total > self._limit else None

    def _read_frame(self, frame: bytes, headers_length: int) -> Frame | FrameBroken:
        end = len(frame) - _CHECKSUM.size
        if crc32(frame[:end]) != _CHECKSUM.unpack_from(frame, end)[0]:
            return FrameBroken("message_checksum", len(frame))
        payload_start = _PRELUDE.size + headers_length
        block = frame[_PRELUDE.size : payload_start]
        # Most frames of a stream are of one kind and have the very headers of the frame before.
        headers = self._last_headers if block == self._last_block else _read_headers(block)
        if headers is None:
            return FrameBroken("bad_headers", len(frame))
        self._last_block, self._last_headers = block, headers
        return Frame(headers.copy(), frame[payload_start:end])


def encode(headers: Mapping[str, HeaderValue], payload: bytes) -> bytes:
    """Write one frame. What has no place in a frame (a header or a frame too long) is a ConfigError."""
    block = b"".join(_write_header(name, value) for name, value in headers.items())
    total = _LEAST + len(block) + len(payload)
    if len(block) > _MOST_OF_HEADERS:
        raise ConfigError(f"headers of {len(block)} bytes; a frame holds at most {_MOST_OF_HEADERS}")
    if total > LIMIT:
        raise ConfigError(f"a frame of {total} bytes; at most {LIMIT} can be sent", hint="send it in several frames")
    lengths = _LENGTHS.pack(total, len(block))
    message = b"".join((lengths, _CHECKSUM.pack(crc32(lengths)), block, payload))
    return message + _CHECKSUM.pack(crc32(message))


# ---- reading -------------------------------------------------------------------------------------------------------


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# By type: how many bytes the value has (None: two bytes in front of it say so), and how to read them.
_TYPES: tuple[tuple[int | None, Callable[[bytes], HeaderValue]], ...] = (
    (0, lambda raw: True),
    (0, lambda raw: False),
    (1, _integer),
    (2, _integer),
    (4, _integer),
    (8, _integer),
    (None, bytes),
    (None, _text),
    (8, lambda raw: Timestamp(_integer(raw))),
    (16, Uuid),
)
_TRUE, _FALSE, _INT, _LONG, _BYTES, _STRING, _TIMESTAMP, _UUID = 0, 1, 4, 5, 6, 7, 8, 9


def _read_headers(block: bytes) -> dict[str, HeaderValue] | None:
    """The headers by name, or None when they are no headers: cut, an unknown type, a name missing or given twice."""
    headers: dict[str, HeaderValue] = {}
    position, end = 0, len(block)
    while position < end:
        type_at = position + 1 + block[position]
        if type_at == position + 1 or type_at >= end or block[type_at] >= len(_TYPES):
            return None
        name = _text(block[position + 1 : type_at])
        length, read = _TYPES[block[type_at]]
        position = type_at + 1
        if length is None:
            length = int.from_bytes(block[position : position + 2], "big")
            position += 2
        if position + length > end or name in headers:
            return None
        headers[name] = read(block[position : position + length])
        position += length
    return headers


# ---- writing -------------------------------------------------------------------------------------------------------


def _write_header(name: str, value: HeaderValue) -> bytes:
    written = to_utf8(name)
    if not 1 <= len(written) <= 255:
        raise ConfigError(f"the name of a header has 1 to 255 bytes: {name!r}")
    kind, raw = _write_value(name, value)
    return b"%c%b%c%b" % (len(written), written, kind, raw)


def _write_value(name: str, value: HeaderValue) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return (_TRUE if value else _FALSE), b""
    if isinstance(value, int):
        fits = -(2**31) <= value < 2**31
        return (_INT, _write_integer(name, value, 4)) if fits else (_LONG, _write_integer(name, value, 8))
    if isinstance(value, Timestamp):
        return _TIMESTAMP, _write_integer(name, value.milliseconds, 8)
    if isinstance(value, Uuid):
        if len(value.raw) != 16:
            raise ConfigError(f"header {name!r}: a uuid has 16 bytes, not {len(value.raw)}")
        return _UUID, value.raw
    kind, raw = (_STRING, to_utf8(value)) if isinstance(value, str) else (_BYTES, value)
    if len(raw) > _MOST_OF_VALUE:
        raise ConfigError(f"header {name!r}: {len(raw)} bytes; a value has at most {_MOST_OF_VALUE}")
    return kind, len(raw).to_bytes(2, "big") + raw


def _write_integer(name: str, value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise ConfigError(f"header {name!r}: an integer that does not fit in 64 bits") from None
