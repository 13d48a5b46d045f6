"""Faults 17 to 28 and 51 to 57 on real sockets: the circuit breaker, sizes, clients that leave, files that run out."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server import load_endpoint, processes
from tests.server.gateways import RunningGateway
from tests.server.processes import CLIENTS, Running, write_request
from tests.server.test_faults import GOOD, MODES, ask, gateway_for, read, status

from dragoman.server import protocol
from dragoman.server.settings import ServerSettings
from dragoman.testing import Answer, Fault, Upstream

MOST_MEMORY = 100.0
"""MB of a gateway that reads bombs and endless lines, one after another."""


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="memory and files of a process are read in /proc")


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    """Look until something is true. Each look gives the other threads a turn."""
    end = time.monotonic() + 20
    turn = threading.Event()
    while not condition():
        assert time.monotonic() < end, what
        turn.wait(0.001)


def count_tasks(gateway: RunningGateway) -> int:
    return len(asyncio.all_tasks(gateway.loop))


# ---- 17, 18, 22, 25 --------------------------------------------------------------------------------------------------


def test_fault_17_an_endpoint_that_fails_repeatedly_is_asked_again_by_one_probe() -> None:
    clock = [0.0]
    with Upstream([*[status(500)] * 16, GOOD, GOOD]) as upstream, gateway_for(upstream, clock=clock) as gateway:
        for _ in range(5):
            assert ask(gateway, "openai_chat", True).status == 500
        assert len(upstream.received) == 15
        for wire, stream in MODES:
            answer = ask(gateway, wire, stream)
            assert answer.status in (503, 529) and int(answer.headers["retry-after"]) in range(1, 6), answer
        assert len(upstream.received) == 15, "an open circuit sends nothing"
        clock[0] += 6.0
        assert ask(gateway, "anthropic", False).status >= 500
        assert len(upstream.received) == 16, "one probe"
        assert ask(gateway, "anthropic", False).status >= 500
        assert len(upstream.received) == 16, "the probe failed, so the circuit stays open"
        clock[0] += 6.0
        assert [ask(gateway, "anthropic", True).status for _ in range(2)] == [200, 200]


def test_fault_17_a_fallback_answers_before_the_first_output_and_never_after_it() -> None:
    late = Fault("insert", at=3, body=b'data: {"error": {"message": "the model crashed"}}\n\n')
    with Upstream([status(529)] * 30) as first, Upstream([GOOD] * 10) as second:
        with gateway_for(first, second) as gateway:
            for wire, stream in MODES:
                assert read(wire, stream, ask(gateway, wire, stream)).calls, (wire, stream)
        assert len(second.received) == len(MODES)
    with Upstream([late, GOOD] * 5) as first, Upstream([]) as second, gateway_for(first, second) as gateway:
        for wire in CLIENTS:
            assert read(wire, True, ask(gateway, wire, True)).failure is not None, wire
        assert len(first.received) == len(CLIENTS) and second.received == []


TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "the request exceeds the available context size (4096 tokens), try increasing it",
    "prompt is too long: 210000 tokens > 200000 maximum",
]


def test_fault_18_a_conversation_that_is_too_long_is_the_error_that_makes_each_client_compact() -> None:
    for message in TOO_LONG:
        with Upstream([status(400, message)] * len(MODES)) as upstream, gateway_for(upstream) as gateway:
            for wire, stream in MODES:
                answer = ask(gateway, wire, stream)
                failure = read(wire, stream, answer).failure
                assert answer.status == 400 and failure is not None, (wire, stream, answer)
                assert failure.kind == "context_too_long", (wire, stream, answer)
            assert len(upstream.received) == len(MODES)


def test_fault_22_a_redirect_is_not_followed_and_no_key_goes_elsewhere() -> None:
    with Upstream([]) as elsewhere:
        place = f"{elsewhere.url}/chat/completions"
        for code in (301, 302, 303, 307, 308):
            script = [Fault("redirect", status=code, headers={"location": place})] * len(MODES)
            with Upstream(script) as upstream, gateway_for(upstream) as gateway:
                for wire, stream in MODES:
                    answer = ask(gateway, wire, stream)
                    assert answer.status == 502 and "location" not in answer.headers, answer
                assert len(upstream.received) == len(MODES)
        assert elsewhere.connections == 0


ODD = {
    b"a\xffb": "a\ufffdb",
    b"a\\ud83db": "a\ufffdb",
    b"a\\u0000b": "a\0b",
    b"a\xf0\x9f\x8c\xa1b": "a\U0001f321b",
    b"a\xed\xa0\xbdb": "a\ufffd\ufffd\ufffdb",
}


def test_fault_25_bytes_that_are_no_characters_reach_every_client_as_valid_text() -> None:
    for data, text in ODD.items():
        frames = [
            b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % data,
            b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
        ]
        whole = b'{"choices":[{"message":{"content":"%b"},"finish_reason":"stop"}]}' % data
        for stream in (False, True):
            answer = Answer(200, {"content-type": "text/event-stream"}, pieces=frames)
            if not stream:
                answer = Answer(200, {"content-type": "application/json"}, whole)
            with Upstream([answer] * len(CLIENTS)) as upstream, gateway_for(upstream) as gateway:
                for wire in CLIENTS:
                    found = read(wire, stream, ask(gateway, wire, stream))
                    found.text.encode()
                    assert found.text == text or (b"\\u0000" in data and found.text == "ab"), (data, wire, stream)


def test_fault_25_bytes_that_are_no_characters_in_arguments_run_nothing_else() -> None:
    for value in (b"Par\xffis", b"Par\\\\ud83dis", b"\\\\u12"):
        arguments = b'{\\"note\\": \\"%b\\"}' % value
        call = b'{"index":0,"id":"a","function":{"name":"save","arguments":"%b"}}' % arguments
        frames = [
            b'data: {"choices":[{"delta":{"tool_calls":[%b]}}]}\n\n' % call,
            b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n',
        ]
        answer = Answer(200, {"content-type": "text/event-stream"}, pieces=frames)
        with Upstream([answer] * 2 * len(CLIENTS)) as upstream, gateway_for(upstream) as gateway:
            for wire in CLIENTS:
                reply = read(wire, True, ask(gateway, wire, True))
                notes = [str(made.arguments.get("note", "")) for made in reply.calls]
                json.dumps(notes).encode()
                assert notes in ([], ["Par\ufffdis"], [""], ["\ufffd"]) or "\\u12" in notes[0], (value, wire, notes)


# ---- 26 and 27: memory -----------------------------------------------------------------------------------------------


def make_bomb(coding: str, kind: str, head: bytes = b"") -> Answer:
    """10 GB of blanks in 10 MB. Blocks that end at a byte can be repeated."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packing.compress(head) + packing.flush(zlib.Z_FULL_FLUSH)
    block = packing.compress(b" " * (1 << 20)) + packing.flush(zlib.Z_FULL_FLUSH)
    start = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" if coding == "gzip" else b"\x78\xda"
    body = start + first + block * (10 << 10)
    return Answer(200, {"content-type": kind, "content-encoding": coding}, body)


@needs_proc
def test_faults_26_and_27_bombs_and_endless_lines_cost_little_memory(tmp_path: Path) -> None:
    events = "text/event-stream"
    rows: list[tuple[str, Any, bool]] = [
        ("a whole answer in gzip", make_bomb("gzip", "application/json"), False),
        ("a whole answer in deflate", make_bomb("deflate", "application/json"), False),
        ("a stream in gzip", make_bomb("gzip", events, b"data: "), True),
        ("an error", Fault("status", status=500, body=b" " * (20 << 20)), False),
        ("a line of 200 MB", Fault("long_line", size=200 << 20), True),
        ("a stream without lines", Fault("long_line", size=200 << 20, headers={"content-type": "text/plain"}), True),
    ]
    script = [script for _, row, _ in rows for script in [row] * (3 if row in (rows[3][1],) else 1)]
    with Upstream(script) as upstream, processes.serving(tmp_path, upstream.url) as gateway:
        for name, _, stream in rows:
            answer = asyncio.run(processes.exchange(gateway.port, write_request("anthropic", "Go.", stream=stream)))
            assert answer.status in (500, 502) and len(answer.body) < 2000, (name, answer)
            assert gateway.most_memory < MOST_MEMORY, f"{name}: {gateway.most_memory} MB"


# ---- 51 and 52: clients ----------------------------------------------------------------------------------------------


def test_fault_51_a_client_that_leaves_cancels_the_request_to_the_endpoint() -> None:
    rows = [(wire, stream, Fault("stall", at=450 if stream else None)) for wire, stream in MODES]
    for wire, stream, fault in rows:
        with Upstream([fault] if fault.answers else [fault, GOOD]) as upstream, gateway_for(upstream) as gateway:
            before = count_tasks(gateway)

            async def leave(gateway: RunningGateway = gateway, wire: str = wire, stream: bool = stream) -> None:
                client = await processes.connect(gateway.port, write_request(wire, "Go.", stream=stream))
                if stream:
                    await client.first
                else:
                    await asyncio.to_thread(upstream.wait_for_request)
                client.transport.abort()

            asyncio.run(leave())
            assert upstream.wait_for_hangup(), (wire, stream)
            wait_until("a task was left", lambda g=gateway, b=before: count_tasks(g) <= b)  # type: ignore[misc]
            assert gateway.gateway.records.running == 0


def test_fault_51_a_client_that_leaves_cancels_what_is_passed_on_unchanged() -> None:
    body = b'{"model": "m", "prompt": "x", "stream": true}'
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    chat = write_request("openai_chat", "Go.")
    for profile, data in (("compat", head + body), ("passthrough", chat)):
        with (
            Upstream([Fault("stall", at=450), GOOD]) as upstream,
            gateway_for(upstream, profile=profile) as gateway,
        ):
            before = count_tasks(gateway)

            async def leave(gateway: RunningGateway = gateway, data: bytes = data) -> None:
                client = await processes.connect(gateway.port, data)
                await client.first
                client.transport.abort()

            asyncio.run(leave())
            assert upstream.wait_for_hangup(), profile
            wait_until("a task was left", lambda g=gateway, b=before: count_tasks(g) <= b)  # type: ignore[misc]


def test_fault_4_what_is_passed_on_unchanged_ends_where_the_endpoint_failed(caplog: pytest.LogCaptureFixture) -> None:
    script = [Fault("close", at=450), GOOD]
    with Upstream(script) as upstream, gateway_for(upstream, profile="passthrough") as gateway:
        answer = ask(gateway, "openai_chat", True)
        assert answer.status == 200 and not answer.is_whole and answer.body
        assert "stream_cut" in gateway.reports[0]["failure"]
        assert gateway.gateway.router.resting()
    assert "an error of the gateway itself" not in caplog.text


def test_fault_52_a_client_that_reads_nothing_holds_little_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets have buffers of their own, of some megabytes in all. What is beyond them is the gateway's."""
    monkeypatch.setattr(protocol, "SECONDS_FOR_A_WRITE", 1.0)
    with (
        processes.Flood() as flood,
        gateway_for(flood, gateway=ServerSettings(port=0, keep_alive=0.2)) as gateway,  # type: ignore[arg-type]
        socket.create_connection(("127.0.0.1", gateway.port)) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(write_request("openai_chat", "Go."))
        assert flood.left.wait(30), "the gateway still reads for a client that does not"
        sent = flood.sent
        wait_until("an exchange did not end", lambda: gateway.gateway.records.running == 0)
    assert sent < 40 << 20, f"{sent >> 20} MB were read for a client that reads nothing"


# ---- 56: files -------------------------------------------------------------------------------------------------------


@needs_proc
def test_fault_56_without_files_clients_get_503_and_the_gateway_recovers(tmp_path: Path) -> None:
    """The usual limit is lowered while it runs, so that it cannot know it."""
    said = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
    closing = Answer(200, {"content-type": "application/json", "connection": "close"}, said)
    with Upstream([closing], loop=True) as upstream, processes.serving(tmp_path, upstream.url) as gateway:
        pid = gateway.process.pid
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert processes.get(gateway.port, "/healthz").status == 200
        # Below the last limit that suffices, there is a file for a client and none for a connection to an endpoint.
        for limit in range(40, 8, -1):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, usual[1]))
            answer = asyncio.run(ask_until_answered(gateway, write_request("ollama", "Go.")))
            if answer.status == 503:
                break
        before = len(upstream.received)
        for wire, stream in MODES:
            answer = asyncio.run(ask_until_answered(gateway, write_request(wire, "Go.", stream=stream)))
            failure = read(wire, stream, answer).failure
            assert answer.status == 503 and failure is not None and "open files" in failure.message, answer
            assert answer.headers["retry-after"] == "1"
        assert len(upstream.received) == before
        ready = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        resting = asyncio.run(ask_until_answered(gateway, ready)).body
        assert b'"resting":[]' in resting, "the endpoint is not to blame"
        crowd = asyncio.run(ask_together(gateway, write_request("openai_chat", "Go."), 20))
        assert {answer.status for answer in crowd} <= {0, 503}, crowd
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        asyncio.run(ask_each(gateway, 200))
        assert "Traceback" not in gateway.log.read_text(encoding="utf-8")


LIMIT = 100
FEW_FILES = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT})); " + (
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@needs_proc
def test_fault_56_a_gateway_serves_as_many_clients_as_it_may_have_files(tmp_path: Path) -> None:
    count, room = 45, (LIMIT - 64) // 2
    with (
        processes.started(load_endpoint.COMMAND, tmp_path / "endpoint.log") as endpoint,
        processes.serving(tmp_path, f"{endpoint.url}/v1", wrapper=(sys.executable, "-c", FEW_FILES)) as gateway,
    ):

        async def run(round: int) -> list[processes.Answer]:
            clients = []
            for number in range(count):
                orders = load_endpoint.write_orders(f"canary-{number}-{number:x}", round=round, of=room + 1)
                data = write_request(CLIENTS[number % len(CLIENTS)], orders)
                clients.append(await processes.connect(gateway.port, data))
            # The others hold their connections until the endpoint has one request more.
            ends = asyncio.as_completed([client.ended for client in clients])
            for end in itertools.islice(ends, count - room):
                await end
            await load_endpoint.release(endpoint.port, round, room + 1)
            return [processes.read_answer(await client.ended) for client in clients]

        for round in (1, 2):
            answers = asyncio.run(run(round))
            assert all(answer.is_whole for answer in answers), answers
            statuses = [answer.status for answer in answers]
            assert (statuses.count(200), statuses.count(503)) == (room, count - room), statuses


async def ask_until_answered(gateway: Running, data: bytes) -> processes.Answer:
    """Ask until there is an answer: a client that has just left may still hold the last file."""
    for _ in range(1000):
        answer = await processes.exchange(gateway.port, data)
        if answer.status:
            return answer
    raise AssertionError("no answer")


async def ask_each(gateway: Running, status: int) -> None:
    for wire in CLIENTS:
        answer = await processes.exchange(gateway.port, write_request(wire, "Go."))
        assert answer.status == status, answer


async def ask_together(gateway: Running, data: bytes, count: int) -> list[processes.Answer]:
    return await asyncio.gather(*(processes.exchange(gateway.port, data) for _ in range(count)))


@needs_proc
def test_fault_56_connections_above_the_limit_get_503_in_the_wire_of_the_client(tmp_path: Path) -> None:
    limit = "most_connections = 3\n"
    with Upstream([GOOD], loop=True) as upstream, processes.serving(tmp_path, upstream.url, gateway=limit) as gateway:

        async def run() -> None:
            idle = [await processes.connect(gateway.port, b"") for _ in range(3)]
            for wire in CLIENTS:
                answer = await processes.exchange(gateway.port, write_request(wire, "Go."))
                failure = read(wire, True, answer).failure
                assert answer.status == 503 and failure is not None, answer
                assert failure.retry_after is not None and "connections" in failure.message, answer
            many = [await processes.connect(gateway.port, b"") for _ in range(200)]
            # Those above the limit and its margin are closed at once.
            await asyncio.gather(*(client.ended for client in many[32:]))
            assert gateway.files < 80
            for client in [*idle, *many]:
                client.transport.abort()
            await asyncio.gather(*(client.ended for client in [*idle, *many]))

        asyncio.run(run())
        wait_until("it did not recover", lambda: processes.get(gateway.port, "/healthz").status == 200)
        asyncio.run(ask_each(gateway, 200))
        assert len(upstream.received) == len(CLIENTS)


# ---- 57: answers of another request ----------------------------------------------------------------------------------


def test_fault_57_an_answer_never_belongs_to_another_request() -> None:
    stray = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 22\r\n\r\n" + b'{"stray": "of another"}'
    )
    faults = [
        Fault("trailing_bytes", body=stray),
        Fault("bad_chunk", at=1),
        Fault("short_length", at=30),
        Fault("long_length", at=30),
        Fault("end", at=200),
    ]
    for fault in faults:
        for stream in (False, True):
            with Upstream([fault, *(f"reply {number}" for number in range(9))]) as upstream:
                with gateway_for(upstream) as gateway:
                    answers = [ask(gateway, "anthropic", stream) for _ in range(4)]
                texts = [read("anthropic", stream, answer).text for answer in answers]
                assert texts[1:] == sorted(set(texts[1:])) and all(texts[1:]), (fault, stream, texts)
                assert texts[0] not in texts[1:] and not any(b"stray" in answer.body for answer in answers)
                # An answer that ends too early, but where it said, leaves the connection in order.
                assert upstream.connections == (1 if fault.kind == "end" else 2), (fault, stream)
