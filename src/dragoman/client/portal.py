"""From blocking code into an event loop: the calling thread's own, or that of one background thread of the process.

A call that gives one value runs in the thread of the caller (`threadloops`). Streams, and calls inside a running loop
(a notebook), run on a background thread, because the caller's own loop is never touched. The thread is started by the
first of them and belongs to one process: a fork gets a new one. An interrupt (Ctrl-C) in the caller cancels the work
and waits for its clean end; a second one does not wait.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from dragoman.client import threadloops
from dragoman.errors import ConfigError

T = TypeVar("T")

AHEAD = 64
"""How many items of an iterator are fetched before somebody takes them."""
# Windows delivers Ctrl-C only between two waits.
_PATIENCE = 0.1 if os.name == "nt" else None
_FAREWELL = 5.0


class _Job(Generic[T]):
    """One piece of work on the loop, and the place where its caller waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._context = contextvars.copy_context()
        self._done = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._start)

    def run(self) -> T:
        """The value or the error of the work. If the wait is interrupted, the work is cancelled and waited for."""
        try:
            # Started in here: an interrupt may come as soon as the other thread runs.
            self.start()
            _wait_for(self._done)
        except BaseException:
            self.cancel()
            raise
        return self.value()

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def finish(self) -> None:
        """Wait for the end, and raise the error of the work, if it had one."""
        _wait_for(self._done)
        self.value()

    def cancel(self) -> None:
        """Cancel the work and wait until it has cleaned up."""
        if not self._done.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)
            _wait_for(self._done)

    def _start(self) -> None:
        if self._cancelled:
            return
        self._task = self._loop.create_task(self._work(), context=self._context)
        self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
        else:
            self._settle(None)

    async def _work(self) -> None:
        # Nothing may leave this coroutine: an exit raised by somebody's code would end the loop of everybody.
        try:
            self._value = await self._coroutine
        except BaseException as error:
            self._error = error

    def _settle(self, task: asyncio.Task[None] | None) -> None:
        if self._error is None and (task is None or task.cancelled()):
            # Cancelled before its first step: the coroutine would complain that nobody awaited it.
            self._coroutine.close()
            self._error = asyncio.CancelledError()
        self._done.set()


class _Pump(Generic[T]):
    """Carries the items of an asynchronous iterator to a blocking caller, a bounded number ahead of him."""

    def __init__(self, source: AsyncIterator[T], loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._loop = loop
        self._items: deque[T] = deque()
        self._arrived = threading.Event()
        self._finished = False
        self._waiting = False
        self._room = asyncio.Event()
        self._job = _Job(self._run(), loop)

    def items(self) -> Iterator[T]:
        items = self._items
        try:
            self._job.start()
            finished = False
            while not finished:
                _wait_for(self._arrived)
                self._arrived.clear()
                finished = self._finished
                while items:
                    item = items.popleft()
                    if self._waiting and len(items) < AHEAD // 2:
                        self._waiting = False
                        self._loop.call_soon_threadsafe(self._room.set)
                    yield item
            self._job.finish()
        finally:
            self._job.cancel()

    async def _run(self) -> None:
        try:
            async for item in self._source:
                self._items.append(item)
                self._arrived.set()
                if len(self._items) >= AHEAD:
                    await self._pause()
        finally:
            try:
                close = getattr(self._source, "aclose", None)
                if close is not None:
                    await close()
            finally:
                self._finished = True
                self._arrived.set()

    async def _pause(self) -> None:
        self._room.clear()
        self._waiting = True
        # The caller may have taken all of them before he could see that somebody waits.
        if len(self._items) >= AHEAD:
            await self._room.wait()


class Portal:
    """A thread with an event loop, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The value of a coroutine that runs on the thread; its error is raised here."""
        try:
            loop = self.loop()
        except BaseException:
            coroutine.close()
            raise
        return _Job(coroutine, loop).run()

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator. Nothing runs before the first is asked for."""
        yield from _Pump(source, self.loop()).items()

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the thread, which is started if this process has none yet."""
        if self._pid != os.getpid():
            # Threads do not survive a fork, and a lock may have been held when it happened.
            self._lock = threading.Lock()
        with self._lock:
            if self._loop is None or self._pid != os.getpid() or self._loop.is_closed():
                self._open()
            if threading.current_thread() is self._thread:
                raise ConfigError(
                    "a blocking call inside the event loop that would have to run it",
                    hint="use the asynchronous form (aask, astream, arun) here",
                )
            assert self._loop is not None
            return self._loop

    def close(self) -> None:
        """Cancel everything that runs, and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._pid != os.getpid() or not thread.is_alive():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_FAREWELL)

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="dragoman-portal", daemon=True)
        self._thread.start()
        if self._pid == 0:
            atexit.register(self.close)
        self._pid = os.getpid()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            try:
                loop.run_until_complete(self._wind_up(loop))
            finally:
                loop.close()

    async def _wind_up(self, loop: asyncio.AbstractEventLoop) -> None:
        tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()


def _wait_for(event: threading.Event) -> None:
    while not event.wait(_PATIENCE):
        pass


_shared = Portal()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and give its value: in this thread, or on the background loop where this thread runs a loop."""
    return _shared.run(coroutine) if threadloops.is_inside_loop() else threadloops.run(coroutine)


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """The items of an asynchronous iterator, for blocking code. Leaving the loop early closes it."""
    return _shared.iterate(source)
