"""Connections: reuse, limits, timeouts, and the end of a connection after a protocol error."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.client.servers import (
    HELLO,
    QUICK,
    SMALL,
    Server,
    always,
    answer,
    chunked,
    fetch,
    once,
    read_request,
    scripted,
    serve,
    silent,
    transport,
)

from dragoman.client.http import HttpTransport
from dragoman.client.http.connection import Connection, Pool
from dragoman.client.http.parser import Limits
from dragoman.client.transport import HttpRequest, Timeouts, TransportFault
from dragoman.errors import ConfigError

HASTY = Timeouts(connect=5.0, first_byte=0.02, idle=0.02)


def fault_of(handler: object, timeouts: Timeouts = QUICK, limits: Limits = SMALL) -> TransportFault:
    """Return the fault of one request to a server with this handler."""

    async def scenario() -> TransportFault:
        async with serve(handler) as server, transport(limits=limits) as http:  # type: ignore[arg-type]
            with pytest.raises(TransportFault) as caught:
                await fetch(http, server.post(), timeouts)
            return caught.value

    return asyncio.run(scenario())


# ---- the usual way ---------------------------------------------------------------------------------------------------


def test_a_request_arrives_as_it_was_written() -> None:
    seen: list[bytes] = []

    async def scenario() -> None:
        async with serve(always(answer(), seen)) as server, transport() as http:
            assert await fetch(http, server.post("/v1/é?q=1 2", b"body", **{"X-Key": "abc"})) == (200, HELLO)
            host = server.url.removeprefix("http://").encode()
            assert seen == [
                b"POST /v1/%C3%A9?q=1%202 HTTP/1.1\r\nHost: "
                + host
                + b"\r\nX-Key: abc\r\nContent-Length: 4\r\n\r\nbody"
            ]

    asyncio.run(scenario())


def test_a_connection_is_kept_for_the_next_request() -> None:
    async def scenario() -> int:
        async with serve(always(answer())) as server, transport() as http:
            for _ in range(5):
                assert await fetch(http, server.post()) == (200, HELLO)
            return server.connections

    assert asyncio.run(scenario()) == 1


def test_chunks_arrive_before_the_end_of_the_answer() -> None:
    async def scenario() -> list[bytes]:
        go_on = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            whole = chunked([b"one", b"two"])
            cut = whole.index(b"3\r\ntwo")
            writer.write(whole[:cut])
            await go_on.wait()
            writer.write(whole[cut:])
            await writer.drain()

        async with serve(handler) as server, transport() as http:
            response = await http.send(server.post(), QUICK)
            found = []
            async for piece in response.pieces():
                found.append(piece)
                go_on.set()
            await response.close()
            return found

    assert asyncio.run(scenario()) == [b"one", b"two"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer(extra=["Connection: close"]), id="told_to_close"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + HELLO, id="until_close"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(HELLO) + HELLO, id="http_1.0"),
    ],
)
def test_a_connection_that_ends_with_its_answer_is_not_used_again(data: bytes) -> None:
    async def scenario() -> int:
        async with serve(once(data)) as server, transport() as http:
            assert await fetch(http, server.post()) == (200, HELLO)
            assert await fetch(http, server.post()) == (200, HELLO)
            return server.connections

    assert asyncio.run(scenario()) == 2


def test_a_thousand_requests_at_once_share_the_connections() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await read_request(reader):
            writer.write(answer(request.partition(b"\r\n\r\n")[2]))
            await writer.drain()

    async def scenario() -> int:
        async with serve(handler) as server, transport(limits=Limits(connections=50)) as http:
            names = [f"canary-{number}".encode() for number in range(1000)]
            found = await asyncio.gather(*(fetch(http, server.post(body=name)) for name in names))
            assert found == [(200, name) for name in names]
            return server.connections

    assert 1 <= asyncio.run(scenario()) <= 50


def test_a_large_request_and_a_large_answer_pass() -> None:
    body = bytes(range(256)) * 8000

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        writer.write(answer(request.partition(b"\r\n\r\n")[2]))
        await writer.drain()

    async def scenario() -> None:
        async with serve(handler) as server, transport() as http:
            assert await fetch(http, server.post(body=body)) == (200, body)

    asyncio.run(scenario())


def test_a_slow_reader_makes_the_server_wait() -> None:
    async def scenario() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n")
            for _ in range(30):
                writer.write(bytes(1_000_000))
                await writer.drain()
                sent.append(1_000_000)
            await read_request(reader)

        sent: list[int] = []
        async with serve(handler) as server, transport() as http:
            response = await http.send(server.post(), QUICK)
            # Nothing is read: what the sockets and our buffer hold is all that can have been sent.
            for _ in range(200):
                await asyncio.sleep(0)
            assert sum(sent) < 25_000_000
            assert sum([len(piece) async for piece in response.pieces()]) == 30_000_000
            await response.close()

    asyncio.run(scenario())


# ---- connections that went stale -------------------------------------------------------------------------------------


def test_a_kept_connection_that_the_server_closed_is_replaced() -> None:
    """Fault 57 and similar ones: the server closes the connection before it has read the second request."""

    async def scenario() -> tuple[int, int]:
        requests = 0

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal requests
            requests += 1
            await read_request(reader)
            writer.write(answer())
            await writer.drain()
            if requests == 1:
                # The server reads the second request on this connection, and closes it without an answer.
                await read_request(reader)
                return
            await read_request(reader)

        async with serve(handler) as server, transport() as http:
            assert await fetch(http, server.post()) == (200, HELLO)
            assert await fetch(http, server.post()) == (200, HELLO)
            return server.connections, requests

    assert asyncio.run(scenario()) == (2, 2)


def test_a_fresh_connection_that_closes_is_no_reason_to_send_again() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async def scenario() -> tuple[str, int]:
        async with serve(handler) as server, transport() as http:
            with pytest.raises(TransportFault) as caught:
                await fetch(http, server.post())
            return caught.value.kind, server.connections

    assert asyncio.run(scenario()) == ("stream_cut", 1)


def test_bytes_after_an_answer_never_reach_the_next_one() -> None:
    """Fault 57: a server that answers twice."""

    async def scenario() -> int:
        async with serve(always(answer(b"first") + answer(b"stray"))) as server, transport() as http:
            assert await fetch(http, server.post()) == (200, b"first")
            assert await fetch(http, server.post()) == (200, b"first")
            return server.connections

    assert asyncio.run(scenario()) == 2


def test_bytes_that_come_while_nobody_asks_end_the_connection() -> None:
    async def scenario() -> int:
        go_on = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(answer(b"first"))
            await writer.drain()
            await go_on.wait()
            writer.write(answer(b"stray"))
            await writer.drain()
            await read_request(reader)

        async with serve(handler) as server, transport() as http:
            assert await fetch(http, server.post()) == (200, b"first")
            go_on.set()
            await server.hung_up.wait()
            go_on.clear()
            assert await fetch(http, server.post()) == (200, b"first")
            return server.connections

    assert asyncio.run(scenario()) == 2


def test_a_connection_is_not_used_again_after_a_broken_answer() -> None:
    async def scenario() -> int:
        broken = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"
        async with serve(scripted(broken, answer())) as server, transport() as http:
            with pytest.raises(TransportFault, match="content length"):
                await fetch(http, server.post())
            assert await fetch(http, server.post()) == (200, HELLO)
            return server.connections

    assert asyncio.run(scenario()) == 2


def test_a_connection_is_not_used_again_before_its_request_was_read() -> None:
    """A server that refuses a large request early may never read the rest, nor what follows it."""

    async def refuse_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/large" not in head:
            writer.write(answer())
        else:
            writer.write(answer(b"too large", "413 Content Too Large"))
        await writer.drain()
        await asyncio.Event().wait()

    async def scenario() -> list[tuple[int, bytes]]:
        async with serve(refuse_early) as server, transport() as http:
            large = server.post("/large", bytes(32 * 1024 * 1024))
            return [await fetch(http, large), await fetch(http, server.post())]

    assert asyncio.run(scenario()) == [(413, b"too large"), (200, HELLO)]


def test_a_connection_is_kept_no_longer_than_the_server_says() -> None:
    async def scenario() -> int:
        async with serve(always(answer(extra=["Keep-Alive: timeout=1"]))) as server, transport() as http:
            await fetch(http, server.post())
            await server.hung_up.wait()
            await fetch(http, server.post())
            return server.connections

    assert asyncio.run(scenario()) == 2


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    """Fault 1."""

    async def scenario() -> TransportFault:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        async with transport() as http:
            with pytest.raises(TransportFault) as caught:
                await http.send(HttpRequest("POST", f"http://127.0.0.1:{port}/", {}), QUICK)
            return caught.value

    fault = asyncio.run(scenario())
    assert (fault.kind, fault.code) == ("unreachable", "refused")


def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 2, without asking a real name server."""

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def scenario() -> TransportFault:
        monkeypatch.setattr(socket, "getaddrinfo", fail)
        async with transport() as http:
            with pytest.raises(TransportFault) as caught:
                await http.send(HttpRequest("POST", "http://nowhere.invalid/", {}), QUICK)
            return caught.value

    fault = asyncio.run(scenario())
    assert (fault.kind, fault.code) == ("unreachable", "dns")
    assert "nowhere.invalid" in fault.message


def test_a_connection_that_never_stands() -> None:
    async def scenario() -> TransportFault:
        async with transport() as http:

            async def never(*_: object, **__: object) -> None:
                await asyncio.Event().wait()

            asyncio.get_running_loop().create_connection = never  # type: ignore[method-assign, assignment]
            with pytest.raises(TransportFault) as caught:
                await http.send(HttpRequest("POST", "http://127.0.0.1/", {}), Timeouts(connect=0.01))
            return caught.value

    fault = asyncio.run(scenario())
    assert (fault.kind, fault.code) == ("timed_out", "connect")


async def dripping_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Fault 23: a head that comes a byte at a time and has no end."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not reader.at_eof():
        writer.write(b"X: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


async def half_a_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    await silent(reader, writer)


@pytest.mark.parametrize(
    ("handler", "limits", "kind", "code"),
    [
        pytest.param(silent, SMALL, "timed_out", "first_byte", id="silent"),
        pytest.param(
            dripping_head, Limits(headers=10**6, head_bytes=1 << 30), "timed_out", "first_byte", id="slow_head"
        ),
        pytest.param(half_a_body, SMALL, "timed_out", "idle", id="half_a_body"),
    ],
)
def test_servers_that_keep_us_waiting(handler: object, limits: Limits, kind: str, code: str) -> None:
    fault = fault_of(handler, HASTY, limits)
    assert (fault.kind, fault.code) == (kind, code)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "stream_cut", id="length_too_long"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "broken_protocol", id="bad_chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "stream_cut", id="cut_chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", "too_large", id="header_1_MB"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 1_000_000, "too_large", id="a_million_headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n", "too_large", id="large_body"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 200_000, "too_large", id="endless_body"),
        pytest.param(chunked([b"a" * 50_000] * 3), "too_large", id="chunks_without_end"),
        pytest.param(b"\x16\x03\x01\x02\x00", "broken_protocol", id="tls_on_a_plain_port"),
        pytest.param(b"", "stream_cut", id="nothing"),
    ],
)
def test_answers_that_break_the_rules(data: bytes, kind: str) -> None:
    """Faults 27 and 28."""
    assert fault_of(once(data)).kind == kind


def test_a_reset_in_the_middle_of_a_body() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    assert fault_of(handler).kind == "stream_cut"


def test_what_came_before_the_fault_is_given_out() -> None:
    async def scenario() -> list[bytes]:
        async with serve(once(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")) as server, transport() as http:
            response = await http.send(server.post(), QUICK)
            found = []
            with pytest.raises(TransportFault):
                async for piece in response.pieces():
                    found.append(piece)
            await response.close()
            return found

    assert asyncio.run(scenario()) == [b"half"]


# ---- hanging up ------------------------------------------------------------------------------------------------------


async def begin(server: Server, timeouts: Timeouts, http: object) -> None:
    await fetch(http, server.post(), timeouts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "handler", [pytest.param(silent, id="before_the_head"), pytest.param(half_a_body, id="in_the_body")]
)
def test_cancelling_closes_the_connection(handler: object) -> None:
    async def scenario() -> None:
        async with serve(handler) as server, transport() as http:  # type: ignore[arg-type]
            task = asyncio.create_task(begin(server, QUICK, http))
            while server.open == 0:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.hung_up.wait(), 5)
            assert server.open == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [pytest.param(b"half", id="a_part"), pytest.param(b"12345678", id="the_whole_answer")])
def test_an_answer_that_begins_in_the_moment_of_the_cancellation_is_dropped(body: bytes) -> None:
    """Nobody read it, and no timeout watched it: the connection was lost, and the server went on to generate."""

    async def scenario() -> None:
        async with serve(silent) as server, transport(limits=Limits(connections=1)) as http:
            task = asyncio.create_task(begin(server, QUICK, http))
            while server.open == 0:
                await asyncio.sleep(0)
            (pool,) = http._pools.values()
            (connection,) = pool._all
            task.cancel()
            connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + body)
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.hung_up.wait(), 5)
            assert not pool._all and not any(pool._idle.values())

    asyncio.run(scenario())


def test_a_connection_that_is_lost_before_its_first_request_does_not_take_a_place() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        pool = Pool(loop, Limits(connections=1))

        async def open_and_lose(connection: Connection) -> None:
            connection.connection_lost(None)

        for _ in range(2):
            assert not (await pool.open("origin", open_and_lose, 1.0)).usable
        await pool.close()

    asyncio.run(scenario())


def test_a_connection_that_is_lost_while_it_opens_lets_the_next_request_open_one() -> None:
    async def scenario() -> None:
        pool = Pool(asyncio.get_running_loop(), Limits(connections=1))

        async def open_and_lose(connection: Connection) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            connection.connection_lost(None)
            for _ in range(3):
                await asyncio.sleep(0)

        attempts = [pool.open("origin", open_and_lose, 1.0) for _ in range(2)]
        assert not any(connection.usable for connection in await asyncio.gather(*attempts))
        await pool.close()

    asyncio.run(scenario())


def test_an_answer_that_is_not_wanted_to_its_end_is_dropped() -> None:
    async def scenario() -> None:
        async with serve(half_a_body) as server, transport() as http:
            response = await http.send(server.post(), QUICK)
            await response.close()
            await response.close()
            await asyncio.wait_for(server.hung_up.wait(), 5)
            with pytest.raises(TransportFault, match="closed"):
                await anext(response.pieces())

    asyncio.run(scenario())


def test_the_end_of_the_loop_closes_what_was_kept() -> None:
    """Nobody closes the transport; a socket left open would be a warning, and warnings are errors here."""

    async def scenario() -> None:
        async with serve(always(answer())) as server:
            assert await fetch(HttpTransport(), server.post()) == (200, HELLO)

    asyncio.run(scenario())


def test_a_transport_keeps_no_loop_that_was_closed() -> None:
    """Each `asyncio.run` of a program left its event loop behind, with all of its connections."""
    http = HttpTransport()

    async def scenario() -> None:
        async with serve(always(answer())) as server:
            assert await fetch(http, server.post()) == (200, HELLO)

    for _ in range(3):
        asyncio.run(scenario())
    assert len(http._pools) == 1


def test_waiting_for_a_connection_ends() -> None:
    async def scenario() -> TransportFault:
        async with serve(silent) as server, transport(limits=Limits(connections=1)) as http:
            busy = asyncio.create_task(begin(server, QUICK, http))
            while server.open == 0:
                await asyncio.sleep(0)
            with pytest.raises(TransportFault) as caught:
                await fetch(http, server.post(), HASTY)
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)
            return caught.value

    fault = asyncio.run(scenario())
    assert (fault.kind, fault.code) == ("timed_out", "pool")


def test_a_cancelled_wait_passes_its_turn_on() -> None:
    async def scenario() -> int:
        release = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await read_request(reader):
                await release.wait()
                writer.write(answer())
                await writer.drain()

        async with serve(handler) as server, transport(limits=Limits(connections=1)) as http:
            first = asyncio.create_task(fetch(http, server.post()))
            while server.open == 0:
                await asyncio.sleep(0)
            second = asyncio.create_task(fetch(http, server.post()))
            third = asyncio.create_task(fetch(http, server.post()))
            await asyncio.sleep(0)
            second.cancel()
            release.set()
            assert await first == (200, HELLO)
            assert await asyncio.wait_for(third, 5) == (200, HELLO)
            assert second.cancelled()
            return server.connections

    assert asyncio.run(scenario()) == 1


# ---- what cannot be sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        pytest.param(
            HttpRequest("POST", "http://h/", {"X-Key": "secret\r\nEvil: 1"}), "'X-Key' cannot be sent", id="break"
        ),
        pytest.param(HttpRequest("POST", "http://h/", {"Bad Name": "1"}), "cannot be sent", id="name"),
        pytest.param(HttpRequest("POST", "http://h/", {"Content-Length": "7"}), "cannot be sent", id="ours"),
        pytest.param(HttpRequest("PO ST", "http://h/", {}), "not an HTTP method", id="method"),
        pytest.param(HttpRequest("POST", "ftp://h/", {}), "not the URL", id="scheme"),
        pytest.param(HttpRequest("POST", "http://:80/", {}), "has no host", id="host"),
        pytest.param(HttpRequest("POST", "http://u:secret@h:x/", {}), "not the URL", id="port"),
    ],
)
def test_a_request_that_cannot_be_sent_says_why_and_shows_no_value(request_: HttpRequest, words: str) -> None:
    async def scenario() -> None:
        async with transport() as http:
            await http.send(request_, QUICK)

    with pytest.raises(ConfigError, match=words) as caught:
        asyncio.run(scenario())
    assert "secret" not in str(caught.value)


def test_a_user_in_the_address_becomes_a_header() -> None:
    seen: list[bytes] = []

    async def scenario() -> None:
        async with serve(always(answer(), seen)) as server, transport() as http:
            request = HttpRequest("POST", server.url.replace("//", "//me:p%40ss@") + "/", {})
            assert await fetch(http, request) == (200, HELLO)

    asyncio.run(scenario())
    assert b"\r\nAuthorization: Basic bWU6cEBzcw==\r\n" in seen[0]
    assert b"p%40ss" not in seen[0]
