"""Proxies: only when asked for, and then all the way."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.servers import ASKED, HELLO, always, answer, fetch, serve, transport

from dragoman.client.http.addresses import Proxies, read_address, read_proxies
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.errors import ConfigError

NAMES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def test_the_environment_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 58."""

    async def scene() -> int:
        async with serve(always(answer())) as proxy, serve(always(answer())) as server:
            for name in NAMES:
                monkeypatch.setenv(name, proxy.url)
            async with server.client() as client:
                assert (await client.ask(ASKED)).text == "hello"
            return proxy.connections

    assert asyncio.run(scene()) == 0


def test_a_plain_request_takes_the_whole_address_to_the_proxy() -> None:
    seen: list[bytes] = []

    async def scene() -> None:
        async with serve(always(answer(), seen)) as proxy, transport(proxy=proxy.url.replace("//", "//u:p@")) as http:
            assert await fetch(http, HttpRequest("POST", "http://far.invalid:81/x?a=1", {})) == (200, HELLO)

    asyncio.run(scene())
    assert seen[0].startswith(b"POST http://far.invalid:81/x?a=1 HTTP/1.1\r\nHost: far.invalid:81\r\n")
    assert b"\r\nProxy-Authorization: Basic dTpw\r\n" in seen[0]


def test_a_proxy_that_refuses_a_tunnel_is_named() -> None:
    async def scene() -> TransportFault:
        refusal = answer(b"no", "407 Proxy Authentication Required")
        async with serve(always(refusal)) as proxy, transport(proxy=proxy.url) as http:
            with pytest.raises(TransportFault) as caught:
                await fetch(http, HttpRequest("POST", "https://far.invalid/", {}))
            return caught.value

    fault = asyncio.run(scene())
    assert (fault.kind, fault.code) == ("unreachable", "proxy")
    assert "status 407" in fault.message


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
