"""The client against servers on the loopback: replies, failures, retries, deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import pytest
from tests.client.servers import (
    ASKED,
    FIRST,
    HELLO,
    REST,
    STREAM,
    always,
    answer,
    chunked,
    once,
    read_request,
    scripted,
    serve,
    silent,
)
from tests.tables import each_row

from dragoman import providers
from dragoman.client.client import Client
from dragoman.client.retry import NOTICES, Breakers, RequestPrepared, RequestRetried, Retries
from dragoman.client.transport import Timeouts
from dragoman.errors import ConfigError, MissingKey
from dragoman.events import ReplyEnded, ReplyFailed, TextDelta
from dragoman.replies import fold
from dragoman.testing import Answer, ScriptedModel
from dragoman.types import Failure, Message, Reply, Request, Text
from dragoman.wire.framing import skip_to_content

KEY = "sk-loopback-0123456789"


class Clock:
    """A clock that advances only when code sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def settings(clock: Clock | None = None, attempts: int = 3) -> dict[str, Any]:
    clock = clock or Clock()
    return {
        "retries": Retries(attempts=attempts, base=1.0, patience=60.0),
        "clock": clock,
        "sleep": clock.sleep,
        "random": lambda: 0.5,
    }


async def listen(client: Client, request: Request = ASKED, **options: Any) -> list[Any]:
    async with client:
        return [event async for event in client.stream(request, **options)]


def request_events(handler: Any, request: Request = ASKED, whole: bool = False, **given: Any) -> list[Any]:
    """Return all events of one request to a server with this handler."""

    async def scenario() -> list[Any]:
        async with serve(handler) as server:
            return await listen(server.client(**given), request, whole=whole)

    return asyncio.run(scenario())


def reply_of(events: list[Any]) -> Reply:
    return fold([event for event in events if not isinstance(event, NOTICES)])


def failure_of(events: list[Any]) -> Failure:
    failure = reply_of(events).failure
    assert failure is not None
    assert isinstance(events[-1], ReplyEnded)
    assert events[-1].stop == "error"
    return failure


# ---- replies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer(HELLO), id="one_body"),
        pytest.param(answer(HELLO, kind="application/json; charset=utf-8"), id="with_charset"),
        pytest.param(answer(HELLO, kind="application/problem+json"), id="json_kin"),
        pytest.param(answer(HELLO, kind="text/plain"), id="body_as_text"),
        pytest.param(answer(STREAM, kind="text/event-stream"), id="stream"),
        pytest.param(chunked([STREAM[:40], STREAM[40:]]), id="stream_in_chunks"),
    ],
)
def test_a_reply_is_read_whichever_way_it_comes(data: bytes, whole: bool) -> None:
    events = request_events(always(data), whole=whole)
    assert isinstance(events[0], RequestPrepared)
    reply = reply_of(events)
    assert (reply.text, reply.stop, reply.failure, reply.id) == ("hello", "end", None, "r1")


def test_a_stream_that_calls_itself_text_is_read() -> None:
    assert reply_of(request_events(always(answer(STREAM, kind="text/plain")))).text == "hello"


def test_blanks_before_a_reply_cost_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may send megabytes of them before its content shows what it is."""
    mark = b"\xef\xbb\xbf"
    pieces = [*([b" " * 1024] * 1_000), mark[:2], mark[2:] + STREAM]
    server = ScriptedModel([Answer(200, {"content-type": "text/plain"}, pieces=pieces)])
    sizes: list[int] = []

    def skip(data: bytes) -> bytes:
        sizes.append(len(data))
        return skip_to_content(data)

    async def scenario() -> Reply:
        async with Client(server.endpoint(), transport=server) as client:
            return await client.ask(ASKED, whole=False)

    monkeypatch.setattr("dragoman.client.exchange.skip_to_content", skip)
    assert asyncio.run(scenario()).text == "hello"
    assert sum(map(len, pieces)) <= sum(sizes) <= sum(map(len, pieces)) + len(mark)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("body", [HELLO, STREAM], ids=["one_body", "stream"])
@pytest.mark.parametrize(
    "head", [(b"\xef\xbb\xbf",), (b"\xef", b"\xbb\xbf"), (b" \xef\xbb\xbf \n",), (b"\n", b"\xef\xbb", b"\xbf", b" ")]
)
def test_a_byte_order_mark_in_pieces_of_its_own_means_nothing(
    head: tuple[bytes, ...], body: bytes, whole: bool
) -> None:
    server = ScriptedModel([Answer(200, {"content-type": "text/plain"}, pieces=[*head, body])])

    async def scenario() -> Reply:
        async with Client(server.endpoint(), transport=server) as client:
            return await client.ask(ASKED, whole=whole)

    assert asyncio.run(scenario()).text == "hello"


def test_the_body_says_whether_a_stream_is_wanted() -> None:
    seen: list[bytes] = []

    async def scenario() -> None:
        async with serve(always(answer(), seen)) as server, server.client() as client:
            await client.ask(ASKED)
            await client.ask(ASKED, whole=False)

    asyncio.run(scenario())
    assert b'"stream":true' not in seen[0]
    assert b'"stream":true' in seen[1]
    assert b"Accept-Encoding: gzip, deflate\r\n" in seen[0]
    assert b"Accept-Encoding: identity\r\n" in seen[1]
    assert all(b"\r\nAuthorization: Bearer " + KEY.encode() in request for request in seen)


def test_text_arrives_before_the_reply_has_ended() -> None:
    async def scenario() -> list[str]:
        go_on = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + FIRST)
            await go_on.wait()
            writer.write(REST)
            await writer.drain()

        words = []
        async with serve(handler) as server, server.client() as client:
            async for event in client.stream(ASKED):
                if isinstance(event, TextDelta):
                    words.append(event.text)
                    go_on.set()
        return words

    assert asyncio.run(scenario()) == ["hel", "lo"]


def test_the_losses_of_the_preparation_are_reported() -> None:
    request = Request("m", [Message("user", [Text("hi")])], options={"top_k": 3})
    prepared = request_events(always(answer()), request)[0]
    assert isinstance(prepared, RequestPrepared)
    assert len(prepared.losses) == 1
    assert prepared.bytes > 20


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, '{"error":{"message":"bad thing","code":"invalid"}}', "bad_request"),
        (400, '{"error":{"message":"maximum context length is 10"}}', "context_too_long"),
        (401, '{"error":{"message":"no"}}', "unauthorized"),
        (403, '{"error":{"message":"no"}}', "unauthorized"),
        (404, '{"error":{"message":"no such model"}}', "not_found"),
        (405, "Method Not Allowed", "not_found"),
        (415, "", "bad_request"),
        (429, '{"error":{"message":"slow down"}}', "rate_limited"),
        (500, "<html>oops</html>", "server_error"),
        (501, "<html>Unsupported method</html>", "not_found"),
        (502, "", "server_error"),
        (503, "[1, 2]", "overloaded"),
        (504, '{"x": 1}', "timed_out"),
        (529, '{"error":{"type":"overloaded_error"}}', "overloaded"),
    ],
)
def test_a_status_becomes_a_failure(status: int, body: str, kind: str) -> None:
    failure = failure_of(request_events(always(answer(body.encode(), f"{status} X"))))
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.message


def test_an_error_that_is_a_web_page_is_told_without_its_tags() -> None:
    head = "<!DOCTYPE html><html><head><style>p { color: red }</style><title>Bad&nbsp;gateway</title></head>"
    for page, message in (
        (
            f"{head}<body>\n<!-- 502 --><h1>No upstream</h1>\n<p>a &lt; b</p></body></html>",
            "Bad gateway No upstream a < b",
        ),
        ("<html><style>p { color: red }", "status 502: no message"),
        ("upstream\n is  down", "upstream is down"),
    ):
        failure = failure_of(request_events(always(answer(page.encode(), "502 X"))))
        assert (failure.kind, failure.message) == ("server_error", message)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_named_and_not_shown(status: int) -> None:
    """Fault 19: also when the server repeats the key."""
    body = b'{"error":{"message":"Incorrect API key provided: %b"}}' % KEY.encode()

    async def scenario() -> list[Any]:
        async with serve(always(answer(body, f"{status} No"))) as server:
            client = server.client(key=None, environment={"OPENAI_API_KEY": KEY})
            assert KEY not in repr(client)
            return await listen(client)

    events = asyncio.run(scenario())
    assert "key: OPENAI_API_KEY" in failure_of(events).message
    assert KEY not in repr(events)


def test_a_server_that_needs_a_key_is_told_apart_from_one_that_rejects_it() -> None:
    async def scenario() -> list[Any]:
        async with serve(always(answer(b'{"error":{"message":"who is there?"}}', "401 No"))) as server:
            endpoint = providers.resolve("custom:m", base_url=f"{server.url}/v1")
            return await listen(Client(endpoint, environment={}))

    assert failure_of(asyncio.run(scenario())).message == "who is there? (key: none was given)"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(answer(b"<html>" + b"x" * 999, kind="text/html"), "text/html", id="html"),
        pytest.param(answer(b"<html>hi", kind="text/plain"), "not JSON", id="html_as_text"),
        pytest.param(answer(b"not json"), "not JSON", id="no_json"),
        pytest.param(answer(b"[]"), "not a JSON object", id="list"),
        pytest.param(answer(b"\x89PNG", kind="image/png"), "image/png", id="image"),
    ],
)
def test_another_content_is_a_broken_protocol(data: bytes, words: str) -> None:
    """Fault 21."""
    failure = failure_of(request_events(always(data)))
    assert failure.kind == "broken_protocol"
    assert words in failure.message
    assert len(str(failure.body)) <= 200


def test_a_page_that_repeats_the_key_is_scrubbed() -> None:
    failure = failure_of(request_events(always(answer(b"<p>" + KEY.encode() * 30, kind="text/html"))))
    assert KEY[:12] not in failure.message
    assert "***" in failure.message


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_named_and_not_followed(status: int) -> None:
    """Fault 22."""

    async def scenario() -> tuple[Failure, int]:
        async with serve(always(answer())) as other:
            moved = answer(b"", f"{status} Moved", extra=[f"Location: {other.url}/v1/chat?key=hush"])
            async with serve(always(moved)) as server:
                return failure_of(await listen(server.client())), other.connections

    failure, followed = asyncio.run(scenario())
    assert followed == 0
    assert (failure.kind, failure.code, failure.status) == ("broken_protocol", "redirect", status)
    assert "127.0.0.1" in failure.message
    assert "hush" not in failure.message


@pytest.mark.parametrize(
    ("handler", "kind", "code"),
    [
        pytest.param(silent, "timed_out", "first_byte", id="silent"),
        pytest.param(once(b""), "stream_cut", "reset", id="hangs_up"),
        pytest.param(once(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000), "too_large", "head", id="large_head"),
        pytest.param(once(b"nonsense\r\n\r\n"), "broken_protocol", "status_line", id="no_http"),
    ],
)
def test_faults_of_the_connection_become_failures(handler: Any, kind: str, code: str) -> None:
    failure = failure_of(request_events(handler, timeouts=Timeouts(first_byte=0.05)))
    assert (failure.kind, failure.code) == (kind, code)


@each_row("place", range(0, len(STREAM), 7))
def test_a_stream_that_is_cut_anywhere_keeps_its_text_and_reports_the_cut(place: int) -> None:
    """Faults 4 and 5, on a real connection: after the last frame nothing is missing."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
    events = request_events(once(head + STREAM[:place]))
    reply = reply_of(events)
    finished = b"[DONE]" in STREAM[:place]
    assert (reply.failure is None) is finished
    assert "hello".startswith(reply.text)
    if reply.failure is not None:
        assert reply.failure.kind == "stream_cut"


def test_an_idle_stream_fails_with_the_true_reason() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + FIRST)
        await silent(reader, writer)

    events = request_events(handler, timeouts=Timeouts(idle=0.02))
    failure = failure_of(events)
    assert (failure.kind, failure.code) == ("timed_out", "idle")
    assert reply_of(events).text == "hel"


def test_one_endless_line_of_a_stream_ends_in_a_failure() -> None:
    """Fault 27: the line is larger than one event may be."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
        for _ in range(200):
            writer.write(b"a" * 1_000_000)
            await writer.drain()

    failure = failure_of(request_events(handler))
    assert failure.kind in ("too_large", "server_error")


def test_invalid_utf_8_is_replaced() -> None:
    """Fault 25."""
    data = STREAM.replace(b"hel", b"h\xffl")
    assert reply_of(request_events(always(answer(data, kind="text/event-stream")))).text == "h\ufffdllo"


# ---- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again(status: int) -> None:
    """Faults 16, 17 and 20."""
    clock = Clock()
    busy = answer(b"{}", f"{status} Busy")
    events = request_events(scripted(busy, busy, answer()), **settings(clock))
    retried = [event for event in events if isinstance(event, RequestRetried)]
    assert [event.attempt for event in retried] == [1, 2]
    assert [event.wait for event in retried] == clock.slept == [0.5, 1.0]
    assert reply_of(events).text == "hello"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_final_failure_is_not_tried_again(status: int) -> None:
    events = request_events(scripted(answer(b"{}", f"{status} No"), answer()), **settings())
    assert not any(isinstance(event, RequestRetried) for event in events)
    assert failure_of(events).status == status


@pytest.mark.parametrize(
    ("header", "slept"),
    [
        pytest.param("Retry-After: 7", [7.5], id="seconds"),
        pytest.param(f"Retry-After: {formatdate(5030, usegmt=True)}", [30.5], id="date"),
        pytest.param("Retry-After: -1", [0.5], id="negative"),
        pytest.param("Retry-After-Ms: 250", [0.75], id="milliseconds"),
        pytest.param("Retry-After: 1000000000", [], id="absurd"),
    ],
)
def test_a_server_that_names_a_time_is_obeyed(header: str, slept: list[float]) -> None:
    """Fault 15."""
    clock = Clock()
    busy = answer(b"{}", "429 Busy", extra=[header])
    events = request_events(scripted(busy, answer()), calendar=lambda: 5000.0, **settings(clock))
    assert clock.slept == slept
    if slept:
        assert reply_of(events).text == "hello"
    else:
        assert "requests a delay" in failure_of(events).message


def test_a_connection_that_is_cut_before_anything_was_delivered_is_tried_again() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    turns = iter([cut, answer(STREAM, kind="text/event-stream")])

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(next(turns))
        await writer.drain()

    events = request_events(handler, **settings())
    assert sum(isinstance(event, RequestRetried) for event in events) == 1
    assert reply_of(events).text == "hello"
    assert sum(isinstance(event, ReplyFailed) for event in events) == 0


def test_nothing_is_tried_again_after_the_first_word() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + FIRST
    events = request_events(once(cut), **settings())
    assert not any(isinstance(event, RequestRetried) for event in events)
    assert reply_of(events).text == "hel"
    assert failure_of(events).kind == "stream_cut"


def test_an_error_in_a_stream_before_its_first_text_is_retried() -> None:
    """Fault 14."""
    error = b'data: {"error":{"message":"overloaded","code":"overloaded_error"}}\n\n'
    first = answer(error, kind="text/event-stream")
    events = request_events(scripted(first, answer(STREAM, kind="text/event-stream")), **settings())
    assert reply_of(events).text == "hello"
    assert sum(isinstance(event, RequestRetried) for event in events) == 1


def test_giving_up_says_how_often() -> None:
    failure = failure_of(request_events(always(answer(b"{}", "500 X")), **settings()))
    assert "after 3 attempts" in failure.message


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_deadline_ends_a_stream_that_only_pings() -> None:
    """Fault 24."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            writer.write(b": ping\n\n")
            await writer.drain()
            await asyncio.sleep(0.002)

    async def scenario() -> list[Any]:
        async with serve(handler) as server:
            loop = asyncio.get_running_loop()
            return await listen(server.client(clock=loop.time), deadline=loop.time() + 0.05)

    failure = failure_of(asyncio.run(scenario()))
    assert (failure.kind, failure.code) == ("timed_out", "deadline")


def test_no_second_attempt_after_the_deadline() -> None:
    clock = Clock()

    async def scenario() -> list[Any]:
        busy = answer(b"{}", "429 Busy", extra=["Retry-After: 30"])
        async with serve(always(busy)) as server:
            return await listen(server.client(**settings(clock)), deadline=clock.now + 20)

    failure = failure_of(asyncio.run(scenario()))
    assert clock.slept == []
    assert "after the deadline" in failure.message


def test_an_origin_that_fails_again_and_again_is_left_alone() -> None:
    """Fault 17: the circuit opens, and one probe closes it."""
    clock = Clock()

    async def scenario() -> None:
        bad, good = answer(b"{}", "500 X"), answer()
        async with serve(scripted(bad, bad, good, good)) as server:
            given = {**settings(clock, attempts=1), "breakers": Breakers(failures=2, pause=30.0)}
            async with server.client(**given) as client:
                for _ in range(2):
                    reply = await client.ask(ASKED)
                    assert reply.failure is not None and reply.failure.status == 500
                reply = await client.ask(ASKED)
                assert reply.failure is not None
                assert (reply.failure.code, reply.failure.retry_after) == ("circuit_open", 30.0)
                clock.now += 30
                assert (await client.ask(ASKED)).text == "hello"
                assert (await client.ask(ASKED)).failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize("words", [False, True])
def test_cancelling_hangs_up(words: bool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if words:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + FIRST)
        await silent(reader, writer)

    async def scenario() -> None:
        async with serve(handler) as server, server.client() as client:
            task = asyncio.create_task(client.ask(ASKED, whole=not words))
            while server.open == 0:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.hung_up.wait(), 5)

    asyncio.run(scenario())


def test_leaving_a_stream_early_hangs_up() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + FIRST)
        await silent(reader, writer)

    async def scenario() -> None:
        async with serve(handler) as server, server.client() as client:
            events = client.stream(ASKED)
            async for event in events:
                if isinstance(event, TextDelta):
                    break
            await events.aclose()  # type: ignore[attr-defined]
            await asyncio.wait_for(server.hung_up.wait(), 5)

    asyncio.run(scenario())


# ---- what the caller has to mend -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "environment", "error", "words"),
    [
        pytest.param("openai:gpt-5", {}, MissingKey, "OPENAI_API_KEY", id="key"),
        pytest.param("anthropic:claude", {}, MissingKey, "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN", id="two_names"),
        pytest.param("azure:mine", {"AZURE_OPENAI_API_KEY": "k" * 9}, ConfigError, "incomplete", id="hole"),
        pytest.param("bedrock:x", {}, ConfigError, "incomplete", id="region"),
    ],
)
def test_what_is_missing_is_named(model: str, environment: dict[str, str], error: type[Exception], words: str) -> None:
    client = Client(providers.resolve(model), environment=environment)
    with pytest.raises(error, match=words):
        asyncio.run(client.ask(ASKED))


def test_many_requests_at_once_do_not_mix() -> None:
    """Fault 53: each reply carries the word of its own request."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await read_request(reader):
            word = request.split(b"canary-")[1].split(b'"')[0]
            writer.write(answer(HELLO.replace(b"hello", b"canary-" + word)))
            await writer.drain()

    async def scenario() -> list[Reply]:
        async with serve(handler) as server, server.client() as client:
            asks: list[Callable[[], Awaitable[Reply]]] = []
            for number in range(300):
                request = Request("m", [Message("user", [Text(f"canary-{number}")])])
                asks.append(lambda request=request: client.ask(request))  # type: ignore[misc]
            return await asyncio.gather(*(ask() for ask in asks))

    assert [reply.text for reply in asyncio.run(scenario())] == [f"canary-{number}" for number in range(300)]
