"""Compressed bodies, undone a small step at a time, so that a small body cannot become a huge one in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from dragoman.client.transport import TransportFault

STEP = 64 * 1024
"""The most bytes that one step gives."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
_MOST_MEMBERS = 16


class Decoder:
    """Undoes one content coding. `decode` is lazy: each piece is made when it is asked for."""

    def __init__(self, coding: str) -> None:
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise TransportFault(
                "broken_protocol", f"a content encoding nobody asked for: {coding[:60]!r}", code="coding"
            )
        self._is_gzip = coding != "deflate"
        self._engine = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._members = 1
        self._head = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """What these bytes decode to, in pieces of at most STEP bytes."""
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
            # A step may be full although all input was taken: what is held back comes with further steps.
            while not engine.eof and (piece := engine.decompress(b"", STEP)):
                yield piece
        except zlib.error as error:
            raise TransportFault("broken_protocol", f"the compressed body is damaged: {error}", code="coding") from None

    def _open_member(self) -> zlib._Decompress:
        # A gzip body may consist of several members; no server has a reason to send many.
        self._members += 1
        if not self._is_gzip or self._members > _MOST_MEMBERS:
            raise TransportFault("broken_protocol", "bytes behind the end of a compressed body", code="coding")
        return zlib.decompressobj(_GZIP)

    def close(self) -> None:
        """The body is complete; raises if the compressed data is not."""
        if self._engine is None or not self._engine.eof:
            raise TransportFault("stream_cut", "the compressed body ended too early", code="coding")


def _open_deflate(head: bytes) -> zlib._Decompress:
    # Some servers call raw deflate by this name, without the header that the standard asks for.
    is_zlib = head[0] & 15 == 8 and (head[0] << 8 | head[1]) % 31 == 0
    return zlib.decompressobj(_ZLIB if is_zlib else _RAW)


def decoder_for(headers: dict[str, str]) -> Decoder | None:
    """The decoder that a body needs; None for a plain one."""
    coding = headers.get("content-encoding", "").strip().lower()
    return Decoder(coding) if coding and coding != "identity" else None
