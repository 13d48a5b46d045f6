"""TLS: a certificate that cannot be trusted is never accepted, and never tried again."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.client.servers import ASKED, HELLO, QUICK, always, answer, fetch, once, serve, transport

from dragoman.client.client import Client
from dragoman.client.http import HttpTransport
from dragoman.client.retry import RequestRetried, Retries
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.events import ReplyFailed


def make_certificate(folder: Path, name: str) -> Path:
    """A certificate that signs itself, with its key, for one address."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    host = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([host]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}.pem"
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def server_side(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"), "example.invalid")


def test_a_trusted_certificate_is_spoken_to_and_the_connection_kept(ours: Path) -> None:
    async def scene() -> int:
        trusting = ssl.create_default_context(cafile=str(ours))
        async with serve(always(answer()), server_side(ours)) as server, transport(tls=trusting) as http:
            for _ in range(3):
                assert await fetch(http, server.post()) == (200, HELLO)
            return server.connections

    assert asyncio.run(scene()) == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("case", ["unknown_authority", "wrong_name", "no_tls_at_all"])
def test_a_certificate_that_cannot_be_trusted(case: str, ours: Path, other: Path) -> None:
    """Fault 3: named as what it is, and not tried again."""

    async def scene() -> list[Any]:
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

    events = asyncio.run(scene())
    assert not any(isinstance(event, RequestRetried) for event in events)
    failure = next(event.failure for event in events if isinstance(event, ReplyFailed))
    assert (failure.kind, failure.code) == ("insecure", "tls")
    assert "sk-tls" not in repr(events)


def test_a_tls_server_that_hangs_up_in_a_body(ours: Path) -> None:
    async def scene() -> TransportFault:
        trusting = ssl.create_default_context(cafile=str(ours))
        data = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
        async with serve(once(data), server_side(ours)) as server, transport(tls=trusting) as http:
            with pytest.raises(TransportFault) as caught:
                await fetch(http, server.post())
            return caught.value

    assert asyncio.run(scene()).kind == "stream_cut"


def test_a_tunnel_through_a_proxy_is_secured_behind_it(ours: Path) -> None:
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

    async def scene() -> int:
        trusting = ssl.create_default_context(cafile=str(ours))
        async with serve(always(answer()), server_side(ours)) as server, serve(tunnel) as proxy:
            async with transport(tls=trusting, proxy=f"http://me:pw@127.0.0.1:{proxy.port}") as http:
                for _ in range(2):
                    request = HttpRequest("POST", server.url + "/", {"X-Key": "hidden-from-the-proxy"})
                    assert await fetch(http, request, QUICK) == (200, HELLO)
            return proxy.connections

    assert asyncio.run(scene()) == 1
    assert b"Proxy-Authorization: Basic bWU6cHc=\r\n" in seen[0]
    assert b"hidden-from-the-proxy" not in b"".join(seen)
