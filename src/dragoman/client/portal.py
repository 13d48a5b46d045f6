"""Event loops for blocking callers: a loop of the calling thread, or one background thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import functools
import os
import signal
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from dragoman.errors import ConfigError

# --------------------------------------------------------------------------------------------------------------------
# An event loop for each thread that makes blocking calls. It runs only during a call.
#
# No work moves to another thread and back, which would be most of the cost of a short call. Connections are kept from
# one call to the next. A thread that already runs a loop cannot run another one: it uses the portal.

T = TypeVar("T")
P = ParamSpec("P")
Self = TypeVar("Self")


_set_handler: Callable[..., Any] = getattr(signal.signal, "__wrapped__", signal.signal)
"""Without the wrapper, which looks for a function among the members of an enum, this takes a tenth of the time."""


def is_inside_loop() -> bool:
    """Whether this thread is running an event loop."""
    return asyncio._get_running_loop() is not None


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this thread. An interrupt cancels it and waits for its cleanup; a second one does not wait."""
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
            # An exception passed through the loop. The task may still have to clean up.
            task.cancel()
            with contextlib.suppress(BaseException):
                loop.run_until_complete(task)


class _Interrupts:
    """Handles Ctrl-C during a call: the first cancels it, the second is raised."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._loop = loop
        self._task = task
        self.count = 0

    def __enter__(self) -> _Interrupts:
        """Install the handler, unless there is another one. Only the main thread receives interrupts."""
        self._is_on = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._is_on:
            _set_handler(signal.SIGINT, self._take)
        return self

    def __exit__(self, *ended: object) -> None:
        if self._is_on:
            _set_handler(signal.SIGINT, signal.default_int_handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        # The loop may sleep: the signal woke the thread, but no callback is ready.
        self._loop.call_soon_threadsafe(self._task.cancel)


class _ThreadLoop:
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
    keeper: _ThreadLoop | None = getattr(_kept, "keeper", None)
    if keeper is None or not keeper.is_usable:
        keeper = _kept.keeper = _ThreadLoop()
        if threading.current_thread() is threading.main_thread():
            # Thread-local values outlive the modules that `close` needs.
            atexit.register(keeper.close)
    return keeper.loop


def _close_here() -> None:
    """Close the loop of this thread before a fork: the child would share its file descriptors and wake the parent."""
    keeper: _ThreadLoop | None = getattr(_kept, "keeper", None)
    if keeper is not None:
        keeper.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_here)


# --------------------------------------------------------------------------------------------------------------------
# Calls from blocking code into an event loop: of the calling thread, or of one background thread of the process.
#
# A call that returns one value runs in the thread of the caller (`run_in_thread`). Streams, and calls inside a running
# loop (a notebook), run on a background thread, because the caller's own loop must not be used. The first of them
# starts the thread, which belongs to one process: a fork gets a new one. An interrupt (Ctrl-C) in the caller cancels
# the work and waits for its cleanup; a second one does not wait.

AHEAD = 64
"""How many items of an iterator are fetched ahead of the caller."""
# Windows delivers Ctrl-C only between two waits.
_POLL_SECONDS = 0.1 if os.name == "nt" else None
_JOIN_SECONDS = 5.0


class _Job(Generic[T]):
    """One coroutine on the loop, and the event on which its caller waits."""

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
        """Return the value of the work, or raise its error. An interrupt cancels the work and waits for its end."""
        try:
            # Started inside the `try`: an interrupt may arrive as soon as the other thread runs.
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
        """Wait for the end, and raise the error of the work, if there is one."""
        _wait_for(self._done)
        self.value()

    def cancel(self) -> None:
        """Cancel the work and wait until it has cleaned up."""
        if not self._done.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)
            # The garbage collector may end an iterator in any thread, also in the one that has to clean up.
            if asyncio._get_running_loop() is not self._loop:
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
        # No exception may leave this coroutine: a SystemExit of user code would end the shared loop.
        try:
            self._value = await self._coroutine
        except BaseException as error:
            self._error = error

    def _settle(self, task: asyncio.Task[None] | None) -> None:
        if self._error is None and (task is None or task.cancelled()):
            # Cancelled before its first step: Python would warn that the coroutine was never awaited.
            self._coroutine.close()
            self._error = asyncio.CancelledError()
        self._done.set()


class _ItemBuffer(Generic[T]):
    """Passes the items of an asynchronous iterator to a blocking caller, a bounded number in advance."""

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
        # The caller may have taken all items before the producer started to wait.
        if len(self._items) >= AHEAD:
            await self._room.wait()


class Portal:
    """A thread with an event loop, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread and return its value, or raise its error."""
        try:
            loop = self.loop()
        except BaseException:
            coroutine.close()
            raise
        return _Job(coroutine, loop).run()

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator. Nothing runs before the first request for an item."""
        yield from _ItemBuffer(source, self.loop()).items()

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the thread, and start the thread if this process has none."""
        if self._pid != os.getpid():
            # Threads do not survive a fork, and a lock may have been held when it happened.
            self._lock = threading.Lock()
        with self._lock:
            if self._loop is None or self._pid != os.getpid() or self._loop.is_closed():
                self._open()
            if threading.current_thread() is self._thread:
                raise ConfigError(
                    "a blocking call inside the event loop that has to run it",
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
        thread.join(_JOIN_SECONDS)

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
                loop.run_until_complete(self._cancel_tasks(loop))
            finally:
                loop.close()

    async def _cancel_tasks(self, loop: asyncio.AbstractEventLoop) -> None:
        tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()


def _wait_for(event: threading.Event) -> None:
    while not event.wait(_POLL_SECONDS):
        pass


_shared = Portal()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its value: in this thread, or on the background loop if this thread runs a loop."""
    return _shared.run(coroutine) if is_inside_loop() else run_in_thread(coroutine)


def blocking(
    function: Callable[Concatenate[Self, P], Coroutine[Any, Any, T]], name: str, doc: str
) -> Callable[Concatenate[Self, P], T]:
    """Return the blocking form of an async function or method, with the same parameters."""

    @functools.wraps(function)
    def call(self: Self, *args: P.args, **keywords: P.kwargs) -> T:
        return run(function(self, *args, **keywords))

    call.__name__, call.__doc__ = name, doc
    call.__qualname__ = f"{function.__qualname__.rpartition('.')[0]}.{name}".lstrip(".")
    return cast("Callable[Concatenate[Self, P], T]", call)


def blocking_iterator(
    function: Callable[Concatenate[Self, P], AsyncIterator[T]], name: str, doc: str
) -> Callable[Concatenate[Self, P], Iterator[T]]:
    """Return the blocking form of a function that returns an asynchronous iterator, with the same parameters."""

    @functools.wraps(function)
    def call(self: Self, *args: P.args, **keywords: P.kwargs) -> Iterator[T]:
        return iterate(function(self, *args, **keywords))

    call.__name__, call.__doc__, call.__qualname__ = name, doc, name
    return cast("Callable[Concatenate[Self, P], Iterator[T]]", call)


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous iterator, for blocking code. To leave the loop early closes it."""
    return _shared.iterate(source)
