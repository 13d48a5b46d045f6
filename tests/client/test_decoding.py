"""Compressed bodies: read in small steps, in any split, and never larger than allowed."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.servers import QUICK, answer, fetch, once, serve, transport

from dragoman.client.http.parser import STEP, Decoder, Limits
from dragoman.client.transport import TransportFault


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


CODINGS = {
    "gzip": ("gzip", gzip.compress),
    "x_gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw_deflate": ("deflate", raw_deflate),
    "two_members": ("gzip", lambda data: gzip.compress(data[:3]) + gzip.compress(data[3:])),
}


def decode(coding: str, pieces: list[bytes]) -> bytes:
    decoder = Decoder(coding)
    steps = [step for piece in pieces for step in decoder.decode(piece)]
    assert all(0 < len(step) <= STEP for step in steps)
    decoder.close()
    return b"".join(steps)


@pytest.mark.parametrize("name", CODINGS)
@given(data=st.binary(max_size=500), step=st.integers(1, 40))
def test_every_split_decodes_to_the_same(name: str, data: bytes, step: int) -> None:
    coding, compress = CODINGS[name]
    packed = compress(data)
    assert decode(coding, [packed[start : start + step] for start in range(0, len(packed), step)]) == data


@pytest.mark.parametrize("name", CODINGS)
def test_a_large_body_comes_in_small_steps(name: str) -> None:
    coding, compress = CODINGS[name]
    data = bytes(range(256)) * 4000
    assert decode(coding, [compress(data)]) == data


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress"])
def test_a_coding_that_was_not_asked_for_is_refused(coding: str) -> None:
    with pytest.raises(TransportFault, match="unexpected content encoding") as caught:
        Decoder(coding)
    assert caught.value.kind == "broken_protocol"


def test_damaged_and_short_bodies_have_different_errors() -> None:
    packed = gzip.compress(b"hello" * 50)
    with pytest.raises(TransportFault, match="damaged") as caught:
        decode("gzip", [b"no gzip at all"])
    assert caught.value.kind == "broken_protocol"
    with pytest.raises(TransportFault, match="too early") as caught:
        decode("gzip", [packed[:-4]])
    assert caught.value.kind == "stream_cut"
    with pytest.raises(TransportFault, match="after the end"):
        decode("deflate", [zlib.compress(b"x") + b"more"])
    with pytest.raises(TransportFault, match="after the end"):
        decode("gzip", [gzip.compress(b"x") * 20])


def test_a_compressed_answer_is_read() -> None:
    body = b'{"text": "' + b"hello " * 1000 + b'"}'

    async def scenario() -> tuple[int, bytes]:
        data = answer(gzip.compress(body), extra=["Content-Encoding: gzip"])
        async with serve(once(data)) as server, transport() as http:
            return await fetch(http, server.post())

    assert asyncio.run(scenario()) == (200, body)


def test_a_bomb_of_ten_gigabytes_stays_small() -> None:
    """Fault 26. A member of 10 MB of zeros is sent again and again: 10 GB if somebody reads them all."""
    member = gzip.compress(bytes(10_000_000), 9)
    engine = zlib.compressobj(9, wbits=31)
    block = engine.compress(bytes(1 << 20)) + engine.flush(zlib.Z_FULL_FLUSH)
    repeated = engine.compress(bytes(1 << 20)) + engine.flush(zlib.Z_FULL_FLUSH)
    packed = block + repeated * 10_000
    assert len(packed) < 12_000_000
    assert len(member) < 11_000

    async def scenario() -> tuple[TransportFault, int, int]:
        data = answer(packed, extra=["Content-Encoding: gzip"])
        async with serve(once(data)) as server, transport(limits=Limits(body_bytes=64 << 20)) as http:
            response = await http.send(server.post(), QUICK)
            tracemalloc.start()
            try:
                size = 0
                with pytest.raises(TransportFault) as caught:
                    async for piece in response.pieces():
                        size += len(piece)
                        assert len(piece) <= STEP
                return caught.value, size, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
                await response.close()

    fault, size, peak = asyncio.run(scenario())
    assert fault.kind == "too_large"
    assert size <= 64 << 20
    assert peak < 30_000_000
