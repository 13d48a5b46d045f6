"""The connections below WebFetch: they go to a chosen address, and compressed bodies end."""

from __future__ import annotations

import asyncio
import zlib

import pytest
from tests.builtin.web.websites import reply, site

from dragoman.client.http import HttpTransport, Limits
from dragoman.client.transport import HttpRequest, Timeouts, TransportFault
from dragoman.errors import ConfigError

QUICK = Timeouts(connect=5.0, first_byte=5.0, idle=5.0)


async def send(http: HttpTransport, url: str) -> tuple[int, bytes]:
    try:
        response = await http.send(HttpRequest("GET", url, {}), QUICK)
        return response.status, b"".join([piece async for piece in response.pieces()])
    finally:
        await http.close()


def test_a_connection_goes_to_the_chosen_address_and_keeps_the_name() -> None:
    async def scenario() -> tuple[tuple[int, bytes], str]:
        async with site(lambda path: reply("here", kind="text/plain")) as target:
            url = f"http://no-such-name.invalid:{target.port}/x"
            return await send(HttpTransport(at="127.0.0.1"), url), target.requests[0].split("\r\n")[1].split(":")[1]

    assert asyncio.run(scenario()) == ((200, b"here"), " no-such-name.invalid")


def test_a_proxy_and_a_chosen_address_exclude_each_other() -> None:
    with pytest.raises(ConfigError):
        HttpTransport(at="127.0.0.1", proxy="http://127.0.0.1:1")


@pytest.mark.parametrize("at", ["localhost", "127.1", "127.0.0.1:80"])
def test_a_chosen_address_is_numeric(at: str) -> None:
    with pytest.raises(ConfigError):
        HttpTransport(at=at)


@pytest.mark.parametrize(("wire_bytes", "fits"), [(100, False), (100_000, True)])
def test_compressed_bytes_are_counted_before_they_are_decoded(wire_bytes: int, fits: bool) -> None:
    engine = zlib.compressobj(wbits=-15)
    body = b"\0\0\0\xff\xff" * 1000 + engine.compress(b"x") + engine.flush()

    async def scenario() -> tuple[int, bytes]:
        async with site(lambda path: reply(body, extra=["Content-Encoding: deflate"])) as target:
            http = HttpTransport(limits=Limits(wire_bytes=wire_bytes))
            return await send(http, f"http://127.0.0.1:{target.port}/")

    if fits:
        assert asyncio.run(scenario()) == (200, b"x")
    else:
        with pytest.raises(TransportFault) as caught:
            asyncio.run(scenario())
        assert (caught.value.kind, caught.value.code) == ("too_large", "wire")


def test_plain_bytes_count_once() -> None:
    async def scenario() -> tuple[int, bytes]:
        async with site(lambda path: reply(b"x" * 5000)) as target:
            return await send(HttpTransport(limits=Limits(wire_bytes=10)), f"http://127.0.0.1:{target.port}/")

    assert asyncio.run(scenario()) == (200, b"x" * 5000)
