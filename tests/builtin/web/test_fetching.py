"""WebFetch: its requests, redirects, results and limits."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import tracemalloc
import zlib
from pathlib import Path

import msgspec
import pytest
from tests.builtin.web.websites import LOCAL, Names, fetch, fetcher, redirect, reply, site
from tests.client.test_tls import make_certificate, server_side

from dragoman.builtin.web.fetch import WebFetch, inspect_url, make_web_fetch
from dragoman.client.transport import Timeouts
from dragoman.errors import ConfigError
from dragoman.tools import ToolContext
from dragoman.types import Operand

PAGE = "<title>A page</title><h1>Hello</h1><p>Some <a href='/next'>more</a>."


def get(body: bytes, path: str = "/", **settings: object) -> str:
    """The answer to one call, from a site that answers with these bytes."""
    arguments = {name: settings.pop(name) for name in ("offset", "raw", "deadline") if name in settings}

    async def scenario() -> str:
        async with site(lambda path: body) as public:
            tool = fetcher(public, **settings)
            answer = await fetch(tool, f"http://example.test:{public.port}{path}", **arguments)  # type: ignore[arg-type]
            return answer.replace(f":{public.port}", "")

    return asyncio.run(scenario())


# ---- the tool --------------------------------------------------------------------------------------------------------


def test_the_tool_says_what_it_is() -> None:
    assert (WebFetch.name, WebFetch.parallel_safe, WebFetch.read_only) == ("web_fetch", True, True)
    assert WebFetch.metadata == {"class": "fetch", "family": "fetch", "origin": "builtin"}
    assert list(WebFetch.parameters["properties"]) == ["url", "offset", "raw"]
    assert WebFetch.parameters["required"] == ["url"]


@pytest.mark.parametrize(
    ("url", "operand"),
    [
        ("HTTPS://Example.org:443/a/../b#c", Operand("url", "https://example.org/b", "send", "example.org")),
        ("http://2130706433/", Operand("url", "http://127.0.0.1/", "send", "127.0.0.1", inside=False)),
        ("http://wiki.internal/x", Operand("url", "http://wiki.internal/x", "send", "wiki.internal", inside=False)),
        ("https://[2606:4700::1]/", Operand("url", "https://[2606:4700::1]/", "send", "2606:4700::1")),
        ("file:/etc/passwd", Operand("url", "file:/etc/passwd", "send", inside=False)),
        ("http://a@b/", Operand("url", "http://a@b/", "send", inside=False)),
        (7, Operand("url", "7", "send", inside=False)),
    ],
)
def test_a_call_is_inspected_without_a_connection(url: object, operand: Operand) -> None:
    assert inspect_url({"url": url}, ToolContext()) == (operand,)
    assert WebFetch.inspect is inspect_url


def test_a_page_is_shown_as_text_below_its_address() -> None:
    assert get(reply(PAGE), "/a?b") == (
        f"From http://example.test/a?b (text/html, {len(PAGE)} bytes)\nTitle: A page\n\n"
        "# Hello\n\nSome [more](http://example.test/next)."
    )


def test_the_request_has_nothing_of_ours_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> tuple[list[str], int]:
        async with site(lambda path: reply("proxied")) as proxy, site(lambda path: reply("x")) as public:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
                monkeypatch.setenv(name, f"http://user:secret@127.0.0.1:{proxy.port}")
            await fetch(fetcher(public, user_agent="me/1"), f"http://example.test:{public.port}/p?q=1")
            lines = public.requests[0].split("\r\n")
            return [line.replace(str(public.port), "PORT") for line in lines], proxy.connections

    lines, proxied = asyncio.run(scenario())
    assert proxied == 0
    assert lines[:3] == ["GET /p?q=1 HTTP/1.1", "Host: example.test:PORT", "User-Agent: me/1"]
    assert [line.partition(":")[0] for line in lines[3:] if line] == ["Accept", "Accept-Encoding"]


def test_a_certificate_has_to_be_that_of_the_name(tmp_path: Path) -> None:
    paths = {name: make_certificate(tmp_path, name) for name in ("example.test", "other.test")}

    async def scenario(served: str) -> str:
        trusting = ssl.create_default_context(cafile=str(paths[served]))
        async with site(lambda path: reply("hello"), ssl=server_side(paths[served])) as public:
            return await fetch(fetcher(public, tls=trusting), f"https://example.test:{public.port}/")

    assert asyncio.run(scenario("example.test")).endswith("hello")
    assert "TLS with example.test" in asyncio.run(scenario("other.test"))


def test_a_strange_user_agent_is_refused_at_once() -> None:
    with pytest.raises(ConfigError):
        make_web_fetch(user_agent="a\r\nX: y")


@pytest.mark.parametrize("entry", ["", "a b", "10.0.0.0/99", "user@host", "name:80"])
def test_what_cannot_be_allowed_is_refused_at_once(entry: str) -> None:
    with pytest.raises(ConfigError):
        make_web_fetch(allow_private=(entry,))


# ---- redirects -------------------------------------------------------------------------------------------------------


def test_redirects_are_followed_and_shown_and_carry_nothing() -> None:
    async def scenario() -> tuple[str, list[str]]:
        async with (
            site(lambda path: reply("there")) as second,
            site(lambda path: redirect(f"http://other.test:{second.port}/x", "307 Temporary")) as first,
        ):
            answer = await fetch(fetcher(first, second), f"http://example.test:{first.port}/")
            named = answer.replace(str(first.port), "1").replace(str(second.port), "2")
            return named, second.requests

    answer, requests = asyncio.run(scenario())
    assert answer == (
        "From http://other.test:2/x (text/html, 5 bytes)\nredirected from http://example.test:1/\n\nthere"
    )
    assert len(requests) == 1
    sent = {line.partition(":")[0].lower() for line in requests[0].split("\r\n")}
    assert not sent & {"authorization", "cookie", "referer", "proxy-authorization"}


def test_where_one_address_was_decided_on_another_host_is_told_and_not_followed() -> None:
    async def scenario() -> tuple[str, int]:
        async with (
            site(lambda path: reply("there")) as second,
            site(lambda path: redirect(f"http://other.test:{second.port}/x")) as first,
        ):
            url = f"http://example.test:{first.port}/"
            answer = await fetch(fetcher(first, second), url, decided=url)
            return answer.replace(str(second.port), "2"), second.connections

    answer, connections = asyncio.run(scenario())
    assert connections == 0
    assert "redirects (status 302) to another host:\nhttp://other.test:2/x\n" in answer


def test_where_one_address_was_decided_on_the_same_host_is_followed() -> None:
    async def scenario() -> str:
        async with site(lambda path: reply("there") if path == "/b" else redirect("/b")) as public:
            url = f"http://example.test:{public.port}/a"
            return await fetch(fetcher(public), url, decided=url)

    assert asyncio.run(scenario()).endswith("there")


def test_an_address_that_was_not_decided_on_is_not_fetched() -> None:
    async def scenario() -> tuple[str, int]:
        async with site(lambda path: reply("there")) as public:
            url = f"http://example.test:{public.port}/"
            answer = await fetch(fetcher(public), url + "b", decided=url + "a")
            return answer, public.connections

    assert asyncio.run(scenario()) == ("Error: this is not the address that was decided on; call the tool again", 0)


# ---- kinds of content ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("text/plain", b"a <b>\r\nc", "a <b>\nc"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json; charset=utf-8", '{"a": "ä"}'.encode(), '{"a": "ä"}'),
        ("application/atom+xml", b"<feed><a/></feed>", "<feed><a/></feed>"),
        ("text/html", b"<p>a<p>b", "a\n\nb"),
        ("application/xhtml+xml", b"<p>a</p>", "a"),
        ("", b"<!DOCTYPE html><p>a</p>", "a"),
        ("", b"plain", "plain"),
        ("application/octet-stream", b"a = 1\n", "a = 1\n"),
        ("application/pdf", b"%PDF-1.7 ...", "[a PDF document (application/pdf), 12 bytes; its content is not shown]"),
        ("image/png", b"\x89PNG\r\n\x1a\n", "[a PNG image (image/png), 8 bytes; its content is not shown]"),
        ("text/plain", b"a\0b", "[data that is no text (text/plain), 3 bytes; its content is not shown]"),
        ("", b"\xff\xfd\xfe", "[data that is no text, 3 bytes; its content is not shown]"),
        ("video/mp4", b"x" * 9000, "[data that is no text (video/mp4), 9,000 bytes; its content is not shown]"),
        ("text/html", b"", "[the page is empty]"),
        ("text/html", b"\n<script>1</script>", "[the page is empty]"),
    ],
)
def test_content_is_shown_by_its_kind(kind: str, body: bytes, shown: str) -> None:
    head, _, text = get(reply(body, kind=kind)).partition("\n\n")
    assert text == shown
    assert head.startswith("From http://example.test/")


def test_the_source_is_shown_where_it_is_asked_for() -> None:
    assert get(reply("<p hidden>a</p>"), raw=True).endswith("\n\n<p hidden>a</p>")


def test_what_is_hidden_is_left_out_and_counted() -> None:
    answer = get(reply("<nav>menu</nav><p>seen<p hidden>a<p style='display:none'>b\U000e0041</p><!-- c -->"))
    assert answer.split("\n\n")[1:] == ["seen", "[left out: 2 hidden elements, 1 menu; raw=true shows the source]"]


def test_an_error_says_the_status_and_how_the_page_begins() -> None:
    answer = get(reply("<h1>No such page</h1>" + "x" * 5000, status="404 Not Found"))
    assert answer.startswith(
        "Error: http://example.test/ answered with the status 404; the page says:\n# No such page\n\nxxx"
    )
    assert len(answer) < 1700


def test_long_pages_are_paged_without_a_gap() -> None:
    text = "".join(f"line {number}\n" for number in range(4000))
    shown, offset = "", 0
    while True:
        answer = get(reply(text, kind="text/plain"), offset=offset, page_size=10_000)
        _, _, rest = answer.partition("\n\n")
        part, _, note = rest.rpartition("\n\n")
        shown += part
        if "shows more" not in note:
            break
        offset = int(note.split("offset=")[1].split(" ")[0])
        assert text[offset - 1] == "\n"
    assert shown == text
    assert note == f"[characters {offset:,} to {len(text):,} of {len(text):,}]"


@pytest.mark.parametrize("offset", [-1, 5, 10**9])
def test_an_offset_outside_of_the_page_is_an_error(offset: int) -> None:
    assert get(reply("abcde", kind="text/plain"), offset=offset) == (
        f"Error: offset {offset} is outside of the page, which has 5 characters"
    )


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_a_long_body_is_read_in_part_and_says_so() -> None:
    answer = get(reply(b"x" * 300_000, kind="text/plain"), max_bytes=1000)
    assert answer == (
        "From http://example.test/ (text/plain, 300,000 bytes)\n\n"
        + "x" * 1000
        + "\n\n[only the first 1,000 bytes of this page were read]"
    )


def test_a_body_of_ten_gigabytes_is_not_waited_for() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10000000000\r\n\r\n"
    answer = get(head + b"x" * 2000, max_bytes=1000)
    assert "(text/plain, 10,000,000,000 bytes)" in answer


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_page_is_decoded(coding: str) -> None:
    body = gzip.compress(PAGE.encode()) if coding == "gzip" else zlib.compress(PAGE.encode())
    assert "# Hello" in get(reply(body, extra=[f"Content-Encoding: {coding}"]))


def test_a_bomb_takes_no_more_than_the_limit() -> None:
    """10 MB that would be 10 GB: each block stands for 16 MB of zeros, and there are 640 of them."""
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = engine.compress(b"") + engine.flush(zlib.Z_FULL_FLUSH)
    block = engine.compress(b" " * (16 * 1024 * 1024)) + engine.flush(zlib.Z_FULL_FLUSH)
    body = start + block * 640
    assert 8e6 < len(body) < 16e6
    data = reply(body, kind="text/plain", extra=["Content-Encoding: gzip"])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        answer = get(data)
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert "[only the first 4,194,304 bytes of this page were read]" in answer
    assert grown < 60e6


def test_a_compressed_body_that_decodes_to_nothing_has_an_end() -> None:
    """Empty blocks decode to nothing, so that no count of decoded bytes would ever stop them."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: deflate\r\n\r\n"
    empty = zlib.compress(b"")[:2] + b"\0\0\0\xff\xff" * 600_000
    assert "[only the first 0 bytes of this page were read]" in get(head + empty, max_bytes=1000)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", "head of the answer is larger"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "more than 200 headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", "invalid content length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", "invalid content length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid chunk line"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "unknown transfer encoding"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nx", "unexpected content encoding"),
        (b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "invalid header"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "switched to another protocol"),
        (b"SSH-2.0-x\r\n", "not an HTTP/1 answer"),
        (reply(b"junk", extra=["Content-Encoding: gzip"]), "compressed body is damaged"),
        (reply(gzip.compress(b"x" * 99)[:-9], extra=["Content-Encoding: gzip"]), "compressed body ended too early"),
    ],
)
def test_a_broken_answer_is_an_error_that_says_what_is_wrong(data: bytes, why: str) -> None:
    answer = get(data)
    assert answer.startswith("Error: http://example.test/ could not be fetched: ")
    assert why in answer


def test_bytes_behind_the_answer_are_not_taken_for_anything() -> None:
    assert get(reply("one", kind="text/plain") + reply("two", kind="text/plain")).endswith("\n\none")


def test_a_body_that_breaks_off_is_an_error() -> None:
    async def scenario() -> str:
        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply(b"x" * 100)[:-50])
            writer.close()

        server = await asyncio.start_server(work, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            tool = make_web_fetch(ports=(port,), allow_private=("127.0.0.1",), resolver=LOCAL)
            return await fetch(tool, f"http://example.test:{port}/")

    assert "closed the connection in the body of its answer" in asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sent", "timeouts", "why"),
    [
        (b"H", Timeouts(first_byte=0.05), "did not start its answer within 0.05 s"),
        (b"HTTP/1.1 200 OK\r\nX", Timeouts(first_byte=0.05), "did not start its answer within 0.05 s"),
        (reply(b"x" * 9)[:-4], Timeouts(idle=0.05), "no data arrived for 0.05 s in the middle of an answer"),
    ],
)
def test_a_server_that_is_too_slow_is_given_up(sent: bytes, timeouts: Timeouts, why: str) -> None:
    assert get(
        sent, timeouts=timeouts
    ) == f"Error: http://example.test/ could not be fetched: the server {why}".replace("the server no data", "no data")


def test_a_call_ends_with_its_deadline() -> None:
    answer = get(reply(b"x" * 9)[:-4], deadline=1000.05, clock=lambda: 1000.0)
    assert answer == "Error: http://example.test/ did not answer completely within 0.05 s"


def test_a_deadline_that_has_passed_leaves_no_time() -> None:
    answer = get(reply("x"), deadline=999.0, clock=lambda: 1000.0)
    assert answer == "Error: there is no time left to fetch http://example.test/"


def test_a_name_without_an_address_is_an_error() -> None:
    tool = make_web_fetch(resolver=Names(empty_test=[]))
    for name in ("empty.test", "unknown.test"):
        answer = asyncio.run(fetch(tool, f"https://{name}/"))
        assert answer == f"Error: no address is known for {name}; check the spelling of the host"


def test_two_calls_at_once_do_not_disturb_each_other() -> None:
    async def scenario() -> list[str]:
        async with site(lambda path: reply(path, kind="text/plain")) as public:
            tool = fetcher(public)
            calls = [fetch(tool, f"http://example.test:{public.port}/{number}") for number in range(20)]
            return [answer.partition("\n\n")[2] for answer in await asyncio.gather(*calls)]

    assert asyncio.run(scenario()) == [f"/{number}" for number in range(20)]


def test_what_the_caller_gets_is_plain_data() -> None:
    async def scenario() -> object:
        async with site(lambda path: reply(PAGE)) as public:
            tool = fetcher(public)
            assert tool.run is not None
            found = await tool.run({"url": f"http://example.test:{public.port}/"}, ToolContext())
            return msgspec.json.decode(msgspec.json.encode(found.data))

    found = asyncio.run(scenario())
    assert isinstance(found, dict)
    assert (found["status"], found["media_type"], found["title"]) == (200, "text/html", "A page")
