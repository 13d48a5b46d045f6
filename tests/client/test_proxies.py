"""Proxies: those of the environment, except for this machine, or the configured one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import make_certificate, server_side
from tests.client.servers import ASKED, HELLO, Server, always, answer, fetch, serve, transport

from dragoman import providers
from dragoman.client import Client, Retries
from dragoman.client.http import HttpTransport
from dragoman.client.http.addresses import Proxies, read_address, read_proxies
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.errors import ConfigError
from dragoman.wire.failures import CONNECTION_HINTS

NAMES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def test_a_client_uses_the_proxies_of_the_environment_and_never_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> list[int]:
        counts = []
        async with serve(always(answer())) as proxy, serve(always(answer())) as server:
            for name in NAMES:
                monkeypatch.setenv(name, proxy.url)
            for variables in (None, {"HTTP_PROXY": proxy.url}):
                async with server.client(environment=variables) as client:
                    assert (await client.ask(ASKED)).text == "hello"
                counts.append(proxy.connections)
                far = providers.resolve("openai_chat:m", base_url="http://far.invalid/v1")
                async with Client(far, key="sk-1", retries=Retries(attempts=1), environment=variables) as client:
                    assert (await client.ask(ASKED)).text == "hello"
                counts.append(proxy.connections)
        return counts

    assert asyncio.run(scenario()) == [0, 1, 1, 2]


def test_a_proxy_of_another_kind_in_the_environment_fails_only_the_requests_that_need_it() -> None:
    proxies = read_proxies("env", {"ALL_PROXY": "socks5://p:1", "NO_PROXY": "free.example"})
    assert proxies is not None
    for url in ("http://localhost:11434/", "https://free.example/", "http://127.0.0.1/"):
        assert proxies.find(read_address(url)) is None
    with pytest.raises(ConfigError, match="ALL_PROXY"):
        proxies.find(read_address("https://api.openai.com/"))


LOOPBACK = ("localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0")
LOOPBACK_TOO = ("[::ffff:127.0.0.1]", "[::]")
ELSEWHERE = ("localhost.example", "notlocalhost", "128.0.0.1", "10.0.0.1", "[::2]", "127.0.0.1.example", "1localhost")


def test_the_loopback_uses_no_proxy_of_the_environment_and_all_other_hosts_do() -> None:
    proxies = read_proxies("env", {"ALL_PROXY": "http://p:3"})
    for host in (*LOOPBACK, *LOOPBACK_TOO):
        assert find(proxies, f"http://{host}:8000/v1") is None, host
    for host in ELSEWHERE:
        assert find(proxies, f"http://{host}:8000/v1") == ("p", 3), host


EXCEPTIONS: list[tuple[str, str, bool]] = [
    ("*", "https://a/", True),
    ("a b\tc", "https://b/", True),
    (" , a ,, ", "https://a/", True),
    ("*.b.c", "https://a.b.c/", True),
    ("*.b.c", "https://ab.c/", False),
    ("B.C", "https://a.b.c./", True),
    ("b.c", "https://a.b.c:8443/", True),
    ("b.c:8443", "https://a.b.c:8443/", True),
    ("b.c:443", "https://a.b.c:8443/", False),
    ("10.0.0.0/8", "http://10.1.2.3/", True),
    ("10.0.0.0/8", "http://11.1.2.3/", False),
    ("10.0.0.0/8", "http://10.example/", False),
    ("10.1.2.3", "http://10.1.2.3/", True),
    ("1.2.3", "http://10.1.2.3/", False),
    ("fd00::/8", "http://[fd12::1]/", True),
    ("::1", "http://[::2]/", False),
    ("[fd12::1]:80", "http://[fd12::1]/", True),
    ("[fd12::1]:81", "http://[fd12::1]/", False),
    ("fd12::1", "http://[fd12::1]:9/", True),
    (".", "http://a/", False),
    ("*.", "http://a/", False),
    ("", "http://a/", False),
]


def test_the_exceptions_of_the_environment() -> None:
    for entry, url, exempt in EXCEPTIONS:
        proxies = read_proxies("env", {"ALL_PROXY": "http://p:3", "NO_PROXY": entry})
        assert (find(proxies, url) is None) is exempt, (entry, url)


def test_no_proxy_can_be_asked_for() -> None:
    assert read_proxies("none", {"ALL_PROXY": "http://p:3"}) is None
    assert find(read_proxies("http://q:4", {"NO_PROXY": "*"}), "http://localhost/") == ("q", 4)


def test_a_plain_request_takes_the_whole_address_to_the_proxy() -> None:
    seen: list[bytes] = []

    async def scenario() -> None:
        async with serve(always(answer(), seen)) as proxy, transport(proxy=proxy.url.replace("//", "//u:p@")) as http:
            assert await fetch(http, HttpRequest("POST", "http://far.invalid:81/x?a=1", {})) == (200, HELLO)

    asyncio.run(scenario())
    assert seen[0].startswith(b"POST http://far.invalid:81/x?a=1 HTTP/1.1\r\nHost: far.invalid:81\r\n")
    assert b"\r\nProxy-Authorization: Basic dTpw\r\n" in seen[0]


def test_a_proxy_that_refuses_a_tunnel_is_named() -> None:
    async def scenario() -> TransportFault:
        refusal = answer(b"no", "407 Proxy Authentication Required")
        async with serve(always(refusal)) as proxy, transport(proxy=proxy.url) as http:
            with pytest.raises(TransportFault) as caught:
                await fetch(http, HttpRequest("POST", "https://far.invalid/", {}))
            return caught.value

    fault = asyncio.run(scenario())
    assert (fault.kind, fault.code) == ("unreachable", "proxy")
    assert "status 407" in fault.message


class TunnelProxy:
    """A proxy that records the first bytes of each tunnel, and passes them on when the test lets it."""

    def __init__(self, target: Server, greeting: bytes) -> None:
        self.target = target
        self.greeting = greeting
        self.began: list[bytes] = []
        self.has_begun = asyncio.Event()
        self.may_pass = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.greeting)
        first = await reader.read(65536)
        self.began.append(first)
        self.has_begun.set()
        await self.may_pass.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target.port)
        far_writer.write(first)
        back = asyncio.ensure_future(self._pass(far_reader, writer))
        try:
            await self._pass(reader, far_writer)
        finally:
            back.cancel()
            far_writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65536):
            writer.write(piece)


@asynccontextmanager
async def tunnels(folder: Path, greeting: bytes) -> AsyncIterator[tuple[TunnelProxy, Server, HttpTransport]]:
    """A server with TLS, a proxy in front of it, and a transport that uses the proxy."""
    ours = make_certificate(folder, "127.0.0.1")
    async with serve(always(answer()), server_side(ours)) as server:
        proxy = TunnelProxy(server, greeting)
        trusting = ssl.create_default_context(cafile=str(ours))
        async with serve(proxy.handle) as entry, transport(proxy=entry.url, tls=trusting) as http:
            yield proxy, server, http


def test_no_request_uses_a_tunnel_before_its_tls(tmp_path: Path) -> None:
    """Otherwise the proxy, and everybody behind it, could read the key."""

    async def scenario() -> list[bytes]:
        async with tunnels(tmp_path, b"HTTP/1.1 200 OK\r\n\r\n") as (proxy, server, http):
            request = server.post(Authorization="Bearer sk-secret-0123456789")
            first = asyncio.ensure_future(fetch(http, request))
            await proxy.has_begun.wait()
            proxy.has_begun.clear()
            second = asyncio.ensure_future(fetch(http, request))
            await asyncio.wait_for(proxy.has_begun.wait(), 5)
            proxy.may_pass.set()
            assert await asyncio.gather(first, second) == [(200, HELLO)] * 2
            return proxy.began

    began = asyncio.run(scenario())
    assert [first[:2] for first in began] == [b"\x16\x03"] * 2, "a tunnel begins with TLS"


@pytest.mark.parametrize(
    "greeting",
    ["HTTP/1.1 200 OK", "HTTP/1.0 200 Connection established", "HTTP/1.1 200 OK\r\nConnection: close"],
)
def test_a_tunnel_is_kept_for_the_next_request(greeting: str, tmp_path: Path) -> None:
    async def scenario() -> int:
        async with tunnels(tmp_path, f"{greeting}\r\n\r\n".encode()) as (proxy, server, http):
            proxy.may_pass.set()
            for _ in range(3):
                assert await fetch(http, server.post()) == (200, HELLO)
            return len(proxy.began)

    assert asyncio.run(scenario()) == 1


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "http://proxy.invalid:3128"], ids=["nobody", "no name"])
def test_a_proxy_that_is_not_there_is_the_cause_and_the_hint_says_so(proxy: str) -> None:
    async def scenario() -> TransportFault:
        async with transport(proxy=proxy) as http:
            with pytest.raises(TransportFault) as caught:
                await fetch(http, HttpRequest("POST", "http://far.invalid/", {}))
            return caught.value

    fault = asyncio.run(scenario())
    assert (fault.kind, fault.code) == ("unreachable", "proxy")
    assert "HTTPS_PROXY" in CONNECTION_HINTS[fault.code]


def find(proxies: Proxies | None, url: str) -> tuple[str, int] | None:
    proxy = proxies.find(read_address(url)) if proxies is not None else None
    return (proxy.host, proxy.port) if proxy is not None else None


@pytest.mark.parametrize(
    ("environment", "url", "found"),
    [
        pytest.param({}, "http://a/", None, id="none"),
        pytest.param({"HTTP_PROXY": "http://p:1"}, "http://a/", ("p", 1), id="http"),
        pytest.param({"HTTP_PROXY": "http://p:1"}, "https://a/", None, id="other_scheme"),
        pytest.param({"https_proxy": "p:2"}, "https://a/", ("p", 2), id="without_scheme"),
        pytest.param({"ALL_PROXY": "http://p:3"}, "https://a/", ("p", 3), id="all"),
        pytest.param({"ALL_PROXY": "http://p:3", "NO_PROXY": "a,b"}, "https://a/", None, id="exception"),
        pytest.param({"ALL_PROXY": "http://p:3", "no_proxy": ".b.c"}, "https://a.b.c/", None, id="domain"),
        pytest.param({"ALL_PROXY": "http://p:3", "no_proxy": "b.c"}, "https://ab.c/", ("p", 3), id="no_suffix"),
        pytest.param({"ALL_PROXY": "http://p:3", "no_proxy": "*"}, "https://a/", None, id="star"),
        pytest.param({"ALL_PROXY": "http://p:3", "no_proxy": "a:444"}, "https://a/", ("p", 3), id="other_port"),
        pytest.param({"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}, "http://a/", None, id="cgi"),
    ],
)
def test_the_proxies_of_the_environment(environment: dict[str, str], url: str, found: tuple[str, int] | None) -> None:
    assert find(read_proxies("env", environment), url) == found
    assert read_proxies(None, environment) is None


@pytest.mark.parametrize("url", ["socks5://p:1", "https://p:1", "http://", "http://p:x"])
def test_proxies_of_another_kind_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="proxy"):
        read_proxies(url, {})
