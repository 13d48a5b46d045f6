"""Blocking calls in the caller's own thread: values, errors, interrupts, forks, and an end that leaves nothing open."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from dragoman.client import portal

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")


async def name_thread() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_a_call_runs_in_the_thread_of_its_caller() -> None:
    assert portal.run(name_thread()) == threading.current_thread().name


def test_inside_a_running_loop_it_goes_to_the_background() -> None:
    async def notebook() -> str:
        return portal.run(name_thread())

    assert asyncio.run(notebook()) == "dragoman-portal"


def test_one_loop_serves_all_calls_of_a_thread() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert portal.run_in_thread(loop()) is portal.run_in_thread(loop())


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), asyncio.CancelledError()])
def test_an_error_comes_back_and_the_loop_lives_on(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        portal.run_in_thread(fail())
    assert portal.run_in_thread(name_thread())


@POSIX
def test_an_interrupt_cancels_waits_for_the_end_and_is_raised() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleanly")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.run_in_thread(work())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["cleanly"]


@POSIX
def test_a_handler_of_the_programs_own_is_left_alone() -> None:
    def handler(number: int, frame: object) -> None: ...

    async def read() -> object:
        return signal.getsignal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    try:
        assert portal.run_in_thread(read()) is handler
    finally:
        signal.signal(signal.SIGINT, before)


@POSIX
def test_a_fork_gets_a_loop_of_its_own() -> None:
    code = """
import os
from dragoman.client import portal
async def value(): return 7
portal.run_in_thread(value())
child = os.fork()
if child == 0:
    os._exit(portal.run_in_thread(value()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), portal.run_in_thread(value()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7", "7"]


def test_threads_and_the_program_end_without_anything_left_open() -> None:
    code = """
import asyncio, threading
from dragoman.client import portal
async def value(): return asyncio.get_running_loop()
loops = [portal.run_in_thread(value())]
thread = threading.Thread(target=lambda: loops.append(portal.run_in_thread(value())))
thread.start(); thread.join()
print(loops[0].is_closed(), loops[1].is_closed())
"""
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")
