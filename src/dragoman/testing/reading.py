"""The server's side of HTTP/1.1, as far as a test needs it: requests in, one after another."""

from __future__ import annotations

import asyncio

from msgspec import Struct, field

_PIECE = 1 << 16


class Received(Struct, frozen=True):
    """A request as it came in. Header names are in lower case; of a header that came twice, the last counts."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Incoming:
    """What a client sends, with a place to wait for the moment when it goes away."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._held = bytearray()

    async def wait_for_end(self) -> None:
        """Until the client is gone. What it sends in the meantime is kept for later."""
        while await self._fill():
            pass

    async def read(self) -> Received | None:
        """The next request, or None at the end."""
        while b"\r\n\r\n" not in self._held:
            if not await self._fill():
                return None
        head = await self._take(self._held.index(b"\r\n\r\n") + 4)
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "chunked" in headers.get("transfer-encoding", ""):
            return Received(method, target, headers, await self._read_chunks())
        return Received(method, target, headers, await self._take(int(headers.get("content-length", "0"))))

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            while b"\r\n" not in self._held:
                await self._fill_or_fail()
            size = int(await self._take(self._held.index(b"\r\n") + 2), 16)
            body += (await self._take(size + 2))[:size]
            if size == 0:
                return bytes(body)

    async def _take(self, count: int) -> bytes:
        while len(self._held) < count:
            await self._fill_or_fail()
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    async def _fill_or_fail(self) -> None:
        if not await self._fill():
            raise ConnectionResetError("the client went away in the middle of a request")

    async def _fill(self) -> bool:
        try:
            piece = await self._reader.read(_PIECE)
        except ConnectionError:
            return False
        self._held += piece
        return bool(piece)
