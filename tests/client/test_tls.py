"""TLS: a certificate that cannot be trusted is never accepted, and never tried again."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import make_certificate, server_side
from tests.client.servers import ASKED, HELLO, QUICK, always, answer, fetch, once, serve, transport

from dragoman.client import detect
from dragoman.client.client import Client
from dragoman.client.http import HttpTransport
from dragoman.client.retry import RequestRetried, Retries
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.errors import ConnectFailed
from dragoman.events import ReplyFailed
from dragoman.testing import Upstream
from dragoman.types import Reply
from dragoman.wire.failures import as_error


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"), "example.invalid")


def test_a_trusted_certificate_is_spoken_to_and_the_connection_kept(ours: Path) -> None:
    async def scenario() -> int:
        trusting = ssl.create_default_context(cafile=str(ours))
        async with serve(always(answer()), server_side(ours)) as server, transport(tls=trusting) as http:
            for _ in range(3):
                assert await fetch(http, server.post()) == (200, HELLO)
            return server.connections

    assert asyncio.run(scenario()) == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("case", ["unknown_authority", "wrong_name", "no_tls_at_all"])
def test_a_certificate_that_cannot_be_trusted(case: str, ours: Path, other: Path) -> None:
    """Fault 3: the error names the cause, and the request is not sent again."""

    async def scenario() -> list[Any]:
        async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        context = {"unknown_authority": server_side(ours), "wrong_name": server_side(other), "no_tls_at_all": None}[
            case
        ]
        trusting = ssl.create_default_context(cafile=str(other)) if case == "wrong_name" else None
        async with serve(reset if context is None else always(answer()), context) as server:
            http = HttpTransport(tls=trusting)
            from dragoman import providers

            endpoint = providers.resolve("openai_chat:m", base_url=f"https://127.0.0.1:{server.port}/v1")
            client = Client(endpoint, transport=http, key="sk-tls-0123456789", environment={}, retries=Retries())
            events = [event async for event in client.stream(ASKED)]
            await http.close()
            return events

    events = asyncio.run(scenario())
    assert not any(isinstance(event, RequestRetried) for event in events)
    failure = next(event.failure for event in events if isinstance(event, ReplyFailed))
    assert (failure.kind, failure.code) == ("insecure", "tls")
    assert "SSL_CERT_FILE" in as_error(failure).next_step
    assert "sk-tls" not in repr(events)


def test_a_server_of_the_tests_streams_over_tls(ours: Path) -> None:
    async def scenario() -> str:
        trusting = ssl.create_default_context(cafile=str(ours))
        async with transport(tls=trusting) as http, Client(upstream.endpoint(), transport=http) as client:
            return (await client.ask(ASKED, whole=False)).text

    with Upstream(["A reply in several pieces."], tls=server_side(ours)) as upstream:
        assert asyncio.run(scenario()) == "A reply in several pieces."
        with pytest.raises(ConnectFailed) as caught:
            detect(upstream.url)
    assert "SSL_CERT_FILE" in caught.value.next_step


def test_a_client_certificate_is_sent_to_a_server_that_demands_one(ours: Path) -> None:
    demanding = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ours))
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_cert_chain(ours)
    trusting = ssl.create_default_context(cafile=str(ours))

    async def ask() -> Reply:
        async with transport(tls=trusting) as http:
            return await Client(upstream.endpoint(), transport=http, retries=Retries(attempts=1)).ask(ASKED)

    with Upstream(["Hello, client."], tls=demanding) as upstream:
        assert asyncio.run(ask()).failure is not None
        trusting.load_cert_chain(ours)
        assert asyncio.run(ask()).text == "Hello, client."


def test_a_tls_server_that_hangs_up_in_a_body(ours: Path) -> None:
    async def scenario() -> TransportFault:
        trusting = ssl.create_default_context(cafile=str(ours))
        data = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
        async with serve(once(data), server_side(ours)) as server, transport(tls=trusting) as http:
            with pytest.raises(TransportFault) as caught:
                await fetch(http, server.post())
            return caught.value

    assert asyncio.run(scenario()).kind == "stream_cut"


def test_a_tunnel_through_a_proxy_uses_tls_to_the_origin(ours: Path) -> None:
    """The proxy sees the name of the host and nothing else."""
    seen: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        host, port = head.split()[1].decode().split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                seen.append(data)
                target.write(data)
            target.close()

        try:
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        finally:
            far_writer.close()

    async def scenario() -> int:
        trusting = ssl.create_default_context(cafile=str(ours))
        async with serve(always(answer()), server_side(ours)) as server, serve(tunnel) as proxy:
            async with transport(tls=trusting, proxy=f"http://me:pw@127.0.0.1:{proxy.port}") as http:
                for _ in range(2):
                    request = HttpRequest("POST", server.url + "/", {"X-Key": "hidden-from-the-proxy"})
                    assert await fetch(http, request, QUICK) == (200, HELLO)
            return proxy.connections

    assert asyncio.run(scenario()) == 1
    assert b"Proxy-Authorization: Basic bWU6cHc=\r\n" in seen[0]
    assert b"hidden-from-the-proxy" not in b"".join(seen)
