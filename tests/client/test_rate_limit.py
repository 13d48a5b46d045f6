"""The rate limiter: no minute has more than the limits, and requests start in order."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
from tests.client.servers import ASKED, HELLO, QUICK, read_request, serve

from dragoman.client import RateLimiter
from dragoman.client.rate_limit import WINDOW
from dragoman.errors import ConfigError
from dragoman.events import ReplyFailed

LIMITS: list[dict[str, int]] = [
    {"requests": 1},
    {"requests": 3},
    {"tokens": 100},
    {"requests": 4, "tokens": 100},
    {"requests": 4, "tokens": 100, "concurrent": 2},
    {"concurrent": 1},
    {},
]


class Clock:
    """A clock that advances only when code sleeps."""

    def __init__(self) -> None:
        self.now = 5000.1
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.now += seconds


def run_load(limits: dict[str, int], sizes: list[int]) -> tuple[list[tuple[int, float, int]], list[int]]:
    """Send requests of these sizes: the number, time and tokens of each in order, and how many ran at a time."""
    clock = Clock()
    limiter = RateLimiter(clock=clock, sleep=clock.sleep, **limits)
    started: list[tuple[int, float, int]] = []
    running: list[int] = []

    async def send(number: int, tokens: int) -> None:
        async with limiter.slot(tokens // 2) as slot:
            started.append((number, clock.now, tokens))
            running.append(limiter.running)
            slot.report(tokens)
            await asyncio.sleep(0)

    async def scenario() -> None:
        await asyncio.gather(*(send(number, tokens) for number, tokens in enumerate(sizes)))

    asyncio.run(scenario())
    assert (limiter.running, limiter.waiting) == (0, 0)
    return started, running


def test_no_window_of_a_minute_has_more_than_the_limits_and_requests_start_in_order() -> None:
    sizes = [random.Random(7).choice([0, 5, 20, 40, 90]) for _ in range(40)]
    for limits in LIMITS:
        started, running = run_load(limits, sizes)
        assert [number for number, _, _ in started] == list(range(40)), limits
        assert max(running) <= limits.get("concurrent", 40), limits
        for _, begin, _ in started:
            window = [entry for entry in started if begin <= entry[1] < begin + WINDOW - 1e-6]
            assert len(window) <= limits.get("requests", 40), limits
            # A reported number may exceed its estimate: then only the requests after it wait.
            assert sum(tokens for _, _, tokens in window[:-1]) <= limits.get("tokens", 10**6), limits


def test_the_limiter_waits_no_longer_than_it_must() -> None:
    clock = Clock()
    limiter = RateLimiter(requests=2, clock=clock, sleep=clock.sleep)

    async def scenario() -> list[float]:
        times = []
        for gap in (0.0, 10.0, 0.0, 0.0):
            clock.now += gap
            async with limiter.slot():
                times.append(round(clock.now - 5000.1, 3))
        return times

    assert asyncio.run(scenario()) == [0.0, 10.0, 60.0, 70.0]
    assert [round(each, 3) for each in clock.slept] == [50.0, 10.0]


def test_a_large_request_is_not_overtaken_and_one_above_the_limit_runs_alone() -> None:
    clock = Clock()
    limiter = RateLimiter(tokens=100, clock=clock, sleep=clock.sleep)
    order: list[int] = []

    async def send(tokens: int) -> None:
        async with limiter.slot(tokens):
            order.append(tokens)

    async def scenario() -> None:
        await asyncio.gather(*(send(tokens) for tokens in (60, 90, 1, 5000, 2)))

    asyncio.run(scenario())
    assert order == [60, 90, 1, 5000, 2]
    assert [round(each) for each in clock.slept] == [60, 60, 60]


def test_a_request_that_gives_up_lets_the_next_one_through() -> None:
    async def scenario() -> tuple[int, int]:
        limiter = RateLimiter(concurrent=1)
        first = await limiter.slot().acquire()
        second = asyncio.ensure_future(limiter.slot().acquire())
        third = asyncio.ensure_future(limiter.slot().acquire())
        await asyncio.sleep(0)
        assert limiter.waiting == 2
        second.cancel()
        first.release()
        first.release()
        await third
        return limiter.running, limiter.waiting

    assert asyncio.run(scenario()) == (1, 0)


def test_a_pause_that_the_endpoint_requests_holds_everybody() -> None:
    clock = Clock()
    limiter = RateLimiter(clock=clock, sleep=clock.sleep)
    limiter.hold(7.0)
    with limiter.slot():
        assert round(clock.now - 5000.1) == 7
    limiter.hold(0.0)
    with limiter.slot():
        assert round(clock.now - 5000.1) == 7


def test_threads_and_event_loops_share_a_limiter() -> None:
    limiter = RateLimiter(concurrent=2)
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with limiter.slot():
                most.append(limiter.running)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert max(most) <= 2
    assert (limiter.running, limiter.waiting) == (0, 0)


def test_a_waiter_of_a_closed_loop_blocks_nobody() -> None:
    limiter = RateLimiter(concurrent=1)
    first = limiter.slot()
    first.__enter__()
    loop = asyncio.new_event_loop()
    task = loop.create_task(limiter.slot().acquire())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    first.release()
    with limiter.slot():
        assert limiter.waiting == 0
    del task


@pytest.mark.parametrize("limit", ["requests", "tokens", "concurrent"])
def test_a_limit_of_nothing_is_refused(limit: str) -> None:
    with pytest.raises(ConfigError, match=limit):
        RateLimiter(**{limit: 0})  # type: ignore[arg-type]


def test_a_client_sends_within_the_limits_and_counts_reported_tokens() -> None:
    clock = Clock()
    limiter = RateLimiter(requests=2, concurrent=1, clock=clock, sleep=clock.sleep)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            body = HELLO[:-1] + b',"usage":{"prompt_tokens":30,"completion_tokens":12}}'
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
            await writer.drain()

    async def scenario() -> list[str]:
        async with serve(answer) as server, server.client(limiter=limiter, timeouts=QUICK) as client:
            replies = await asyncio.gather(*(client.ask(ASKED) for _ in range(3)))
            return [reply.text for reply in replies]

    assert asyncio.run(scenario()) == ["hello"] * 3
    assert [round(each) for each in clock.slept] == [60]
    assert [entry.tokens for entry in limiter._admitted] == [42]
    assert limiter.running == 0


def test_a_rejected_request_holds_the_others_and_a_deadline_ends_the_wait() -> None:
    limiter = RateLimiter(concurrent=1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Type: application/json\r\n"
            writer.write(head + b"Content-Length: 2\r\n\r\n{}")
            await writer.drain()

    async def scenario() -> list[Any]:
        async with serve(answer) as server, server.client(limiter=limiter, timeouts=QUICK) as client:
            await client.ask(ASKED)
            loop = asyncio.get_running_loop()
            return [event async for event in client.stream(ASKED, deadline=loop.time() + 0.01)]

    failed = [event.failure for event in asyncio.run(scenario()) if isinstance(event, ReplyFailed)]
    assert [(failure.kind, failure.code) for failure in failed] == [("timed_out", "deadline")]
    assert (limiter.running, limiter.waiting) == (0, 0)
