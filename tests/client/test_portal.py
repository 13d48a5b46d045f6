"""The background loop: values, errors, streams, interrupts, forks, and its end."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from dragoman.client.portal import AHEAD, Portal
from dragoman.errors import ConfigError


@pytest.fixture
def portal() -> Iterator[Portal]:
    made = Portal()
    yield made
    made.close()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_a_value_comes_back(portal: Portal) -> None:
    assert [portal.run(double(number)) for number in range(5)] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_an_error_comes_back_and_the_loop_lives_on(portal: Portal, error: BaseException) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        portal.run(fail())
    assert portal.run(double(4)) == 8


def test_it_works_inside_a_running_loop(portal: Portal) -> None:
    async def notebook() -> int:
        return portal.run(double(21))

    assert asyncio.run(notebook()) == 42


def test_a_call_from_its_own_loop_is_refused_and_not_stuck(portal: Portal) -> None:
    async def inside() -> int:
        return portal.run(double(1))

    with pytest.raises(ConfigError, match="blocking call inside the event loop") as caught:
        portal.run(inside())
    assert "aask" in caught.value.next_step


def test_many_threads_share_it(portal: Portal) -> None:
    found: dict[int, int] = {}

    def work(number: int) -> None:
        found[number] = portal.run(double(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: 2 * number for number in range(20)}


def test_context_variables_are_those_of_the_caller(portal: Portal) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    async def read() -> str:
        return variable.get()

    variable.set("mine")
    assert portal.run(read()) == "mine"


class Counter:
    """An asynchronous iterator that knows how far it was read and whether it was closed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.made = 0
        self.closed = False

    async def items(self) -> AsyncIterator[int]:
        try:
            for number in range(self.count):
                self.made += 1
                yield number
        finally:
            await asyncio.sleep(0)
            self.closed = True


def test_items_come_in_order_and_the_source_is_closed(portal: Portal) -> None:
    counter = Counter(1000)
    assert list(portal.iterate(counter.items())) == list(range(1000))
    assert counter.closed


def test_nothing_runs_before_the_first_item_is_asked_for(portal: Portal) -> None:
    counter = Counter(10)
    items = portal.iterate(counter.items())
    assert counter.made == 0
    assert next(items) == 0


def test_leaving_early_closes_the_source_which_ran_only_a_little_ahead(portal: Portal) -> None:
    counter = Counter(100_000)
    items = portal.iterate(counter.items())
    assert [next(items) for _ in range(10)] == list(range(10))
    items.close()  # type: ignore[attr-defined]
    assert counter.closed
    assert counter.made <= 10 + 2 * AHEAD


def test_an_iterator_that_the_garbage_collector_ends_in_the_loop_is_closed(portal: Portal) -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            closed.set()

    def forget() -> None:
        items = portal.iterate(numbers())
        assert next(items) == 1
        cycle: list[object] = [items]
        cycle.append(cycle)

    async def collect() -> str:
        gc.collect()
        return "collected"

    gc.disable()
    try:
        forget()
        assert portal.run(collect()) == "collected"
    finally:
        gc.enable()
    assert closed.wait(10)


def test_an_error_comes_after_the_items_before_it(portal: Portal) -> None:
    async def source() -> AsyncIterator[int]:
        yield 1
        raise ValueError("the end")

    found = []
    with pytest.raises(ValueError, match="the end"):
        for item in portal.iterate(source()):
            found.append(item)
    assert found == [1]


def test_timeouts_that_span_items_work(portal: Portal) -> None:
    """All of a source runs in one task, so that a scope may be entered before one item and left behind another."""

    async def source() -> AsyncIterator[str]:
        async with asyncio.timeout(5):
            yield "in"
            yield "side"

    assert list(portal.iterate(source())) == ["in", "side"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("streaming", [False, True], ids=["run", "iterate"])
def test_an_interrupt_cancels_the_work_and_waits_for_its_end(portal: Portal, streaming: bool) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("clean")

    async def source() -> AsyncIterator[int]:
        yield 1
        await work()

    with pytest.raises(KeyboardInterrupt):
        if streaming:
            list(portal.iterate(source()))
        else:
            portal.run(work())
    assert cleaned == ["clean"]
    assert portal.run(double(3)) == 6


def test_closing_cancels_what_runs_and_a_later_call_starts_a_new_thread(portal: Portal) -> None:
    started, ended = threading.Event(), threading.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def call() -> None:
        with pytest.raises(asyncio.CancelledError):
            portal.run(hang())

    thread = threading.Thread(target=call)
    thread.start()
    started.wait(5)
    portal.close()
    thread.join(5)
    assert ended.is_set() and not thread.is_alive()
    assert portal.run(double(5)) == 10


SCRIPT = """
import asyncio, os, sys
from dragoman.client import portal

async def value():
    await asyncio.sleep(0)
    return os.getpid()

assert portal.run(value()) == os.getpid()
child = os.fork()
if child == 0:
    assert portal.run(value()) == os.getpid()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

print("alive", portal.run(value()) == os.getpid(), flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no fork")
def test_a_fork_gets_a_loop_of_its_own_and_the_exit_is_clean() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "alive True\n"
