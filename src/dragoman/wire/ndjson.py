"""Newline-delimited JSON: one JSON text per line, as Ollama streams it.

A line ends with LF, CRLF or CR, and a byte order mark at the very start is no part of the first line; both may be
split between pieces.

A line that the end of the stream left without its newline is delivered with `complete=False`: some servers forget
the last newline, others were cut off, and only whoever knows the JSON inside can tell which.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.wire.lines import LIMIT, SHOWN, LineSplitter
from dragoman.wire.values import write


class Line(Struct, frozen=True, gc=False):
    """One line that is not blank. `complete` is False when the stream ended before its newline came."""

    text: str
    complete: bool = True


class LineBroken(Struct, frozen=True, gc=False):
    """A line that could not be read: its first bytes as text, and the name of what was wrong."""

    raw: str
    why: Literal["line_too_long"] = "line_too_long"


class LineDecoder:
    """A Stage from bytes to `Line`s; blank lines are left out, bytes that are no UTF-8 become U+FFFD."""

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


def encode(value: Any) -> bytes:
    """Write a JSON value as one line. Half a character, which UTF-8 cannot carry, becomes U+FFFD."""
    return write(value).encode() + b"\n"
