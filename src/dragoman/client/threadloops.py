"""An event loop for each thread that makes blocking calls: it runs only while a call is waited for.

Nothing is handed to another thread and back, which is most of what a short call would cost. Connections are kept from
one call to the next. A thread that is already inside a loop cannot run another one: there the portal helps.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def is_inside_loop() -> bool:
    """Whether this thread is running an event loop right now."""
    return asyncio._get_running_loop() is not None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this thread. An interrupt cancels it and waits for its clean end; a second one does not."""
    loop = _loop()
    task = loop.create_task(coroutine)
    try:
        with _Interrupts(loop, task) as interrupts:
            try:
                return loop.run_until_complete(task)
            except asyncio.CancelledError:
                if interrupts.count:
                    raise KeyboardInterrupt from None
                raise
    finally:
        if not task.done():
            # Something was raised right through the loop. The task may still clean up after itself.
            task.cancel()
            with contextlib.suppress(BaseException):
                loop.run_until_complete(task)


class _Interrupts:
    """Ctrl-C while a call is waited for: the first cancels it, the second is raised."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._loop = loop
        self._task = task
        self.count = 0

    def __enter__(self) -> _Interrupts:
        """Take over interrupts, unless somebody else has made arrangements. They reach the main thread alone."""
        self._is_on = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._is_on:
            signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *ended: object) -> None:
        if self._is_on:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        # The loop may be asleep: the signal woke the thread, but nothing is ready yet.
        self._loop.call_soon_threadsafe(self._task.cancel)


class _Keeper:
    """The loop of one thread, closed when the thread ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()

    @property
    def is_usable(self) -> bool:
        return self._pid == os.getpid() and not self.loop.is_closed()

    def close(self) -> None:
        if self.is_usable and not self.loop.is_running():
            # The connections of a loop are closed with its generators; see the pool of the transport.
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


_kept = threading.local()


def _loop() -> asyncio.AbstractEventLoop:
    keeper: _Keeper | None = getattr(_kept, "keeper", None)
    if keeper is None or not keeper.is_usable:
        keeper = _kept.keeper = _Keeper()
        if threading.current_thread() is threading.main_thread():
            # Its local values outlive the modules that closing needs.
            atexit.register(keeper.close)
    return keeper.loop


def _close_here() -> None:
    """Close the loop of this thread before a fork: the child would share its file descriptors, and wake the parent."""
    keeper: _Keeper | None = getattr(_kept, "keeper", None)
    if keeper is not None:
        keeper.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_here)
