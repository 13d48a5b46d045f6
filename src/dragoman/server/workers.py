"""Several processes that serve one gateway: a parent opens the socket, starts them, and starts them again.

The parent serves nothing. It has no event loop and no thread, so that it can fork at any time. Each worker has a
channel to it. Orders go through the channel and not as signals: a service manager sends its signal to every process of
a group, and a worker that counted both would cut off its clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import secrets
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from zlib import crc32

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.server.process import SECONDS_TO_END, GatewayServer
from dragoman.server.records import Counts, Records

log = logging.getLogger("dragoman.server")

_STOP, _STOP_AT_ONCE, _RELOAD, _READY = b"s", b"k", b"h", b"r"
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_STEADY_SECONDS = 30.0
"""A worker that lived as long did not die of its start: the next one starts after the first pause again."""
_SECONDS_TO_EXIT = 3.0
"""After the end of all requests, for the exit of a process."""
_SIGNAL_BASE = 128
MOST_WORKERS = 256
_MOST_COUNTS = 64 * 1024
_HEAD = struct.Struct("=II")
"""The length and the checksum of what follows."""
_SECONDS_BETWEEN_COUNTS = 0.5


class Board:
    """Memory that all workers of one parent see: each of them writes its counters there, and reads those of the others.

    What a worker has written remains after its death, and its successor goes on with it.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._memory = mmap.mmap(-1, workers * _MOST_COUNTS)
        self._last: dict[int, Counts] = {}

    def write(self, number: int, counts: Counts) -> None:
        data = msgspec.json.encode(counts)
        if len(data) + _HEAD.size <= _MOST_COUNTS:
            place = (number - 1) * _MOST_COUNTS
            self._memory[place : place + _HEAD.size + len(data)] = _HEAD.pack(len(data), crc32(data)) + data

    def read(self, number: int) -> Counts:
        """Return the counters of a worker. During a write, those of the last time."""
        place = (number - 1) * _MOST_COUNTS
        size, check = _HEAD.unpack_from(self._memory, place)
        data = self._memory[place + _HEAD.size : place + _HEAD.size + min(size, _MOST_COUNTS)]
        if size and crc32(data) == check:
            self._last[number] = msgspec.json.decode(data, type=Counts)
        return self._last.get(number, Counts())

    def read_others(self, number: int) -> list[Counts]:
        return [self.read(each) for each in range(1, self._workers + 1) if each != number]


class Worker(Struct, frozen=True):
    """What a worker has from its parent."""

    board: Board
    channel: socket.socket
    number: int
    of: int
    secret: bytes
    """Makes the boundaries of results unpredictable, and equal in all workers."""
    is_first: bool
    """Whether it writes the start message."""

    def obey(self, server: GatewayServer, reload: Callable[[], object] | None) -> None:
        """Follow the orders of the parent from now on, and end with it. Tell it that the start succeeded."""
        loop = asyncio.get_running_loop()

        def listen() -> None:
            try:
                orders = self.channel.recv(64)
            except BlockingIOError:
                return
            except OSError:
                orders = b""
            if not orders:
                loop.remove_reader(self.channel)
                log.error("worker %d ends: its parent has ended", self.number)
            if not orders or _STOP in orders:
                server.stop()
            if _STOP_AT_ONCE in orders:
                server.stop(at_once=True)
            if _RELOAD in orders and reload is not None:
                reload()

        loop.add_reader(self.channel, listen)
        # A signal to one worker ends it, and the parent starts another one.
        loop.add_signal_handler(signal.SIGTERM, server.stop)
        with contextlib.suppress(OSError):
            self.channel.send(_READY)

    def count_together(self, records: Records) -> None:
        """Show the counters of all workers in each of them."""
        records.go_on(self.board.read(self.number))
        loop = asyncio.get_running_loop()

        def read_others() -> list[Counts]:
            # What was shown once must not be lost with this process.
            self.board.write(self.number, records.as_counts())
            return self.board.read_others(self.number)

        def publish() -> None:
            self.board.write(self.number, records.as_counts())
            loop.call_later(_SECONDS_BETWEEN_COUNTS, publish)

        records.others = read_others
        publish()


class _Child(Struct, eq=False):
    """A worker as its parent sees it."""

    number: int
    process: int
    channel: socket.socket
    begun: float
    is_ready: bool = False

    def order(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            self.channel.send(what)


def run_workers(
    number: int, listener: socket.socket, *, grace: float, reloads: bool, secret: bytes | None = None
) -> Worker | int:
    """Start workers. Each of them returns from this call with a `Worker`, the parent with its exit code in the end.

    The parent closes its listener when it begins to end. `reloads` says whether SIGHUP reads settings again; otherwise
    it ends everything.
    """
    if not 1 < number <= MOST_WORKERS:
        raise ConfigError(f"--workers is {number}", hint=f"give a number from 1 to {MOST_WORKERS}")
    if not hasattr(os, "fork"):
        raise ConfigError("this system cannot fork a process", hint="leave out --workers, or start several gateways")
    ended = _Parent(number, listener, grace, reloads, secret or secrets.token_bytes(32)).run()
    if isinstance(ended, Worker):
        # A terminal sends these to every process, and the parent decides what they mean.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return ended


class _Parent:
    def __init__(self, number: int, listener: socket.socket, grace: float, reloads: bool, secret: bytes) -> None:
        self._listener = listener
        self._board = Board(number)
        self._number, self._grace, self._reloads, self._secret = number, grace, reloads, secret
        self._children: dict[int, _Child] = {}
        """By the descriptor of the channel."""
        self._due: dict[int, float] = {1: 0.0}
        """When each worker that does not run is started. The first one shows whether the gateway can start."""
        self._pauses: dict[int, float] = {}
        self._has_started = self._has_reloaded = False
        self._stops = 0
        self._code = 0
        self._kill_at = 0.0

    def run(self) -> Worker | int:
        with self._received_signals() as wake:
            while self._children or (self._due and not self._stops):
                worker = self._start_due()
                if worker is not None:
                    return worker
                self._wait(wake)
        return self._code

    # ---- signals ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _received_signals(self) -> Iterator[socket.socket]:
        """Yield a socket that receives the number of each signal. In a worker, all is as before afterwards."""
        reading, writing = socket.socketpair()
        reading.setblocking(False)
        writing.setblocking(False)
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, lambda *_: None) for number in numbers}
        wakeup = signal.set_wakeup_fd(writing.fileno())
        try:
            yield reading
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                # None is a handler that was not installed by Python.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            reading.close()
            writing.close()

    def _handle(self, number: int) -> None:
        if number == signal.SIGHUP and self._reloads:
            self._has_reloaded = True
            for child in self._children.values():
                child.order(_RELOAD)
        elif number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._stop()

    def _stop(self) -> None:
        self._stops += 1
        at_once = self._stops > 1
        # A client that the workers no longer accept must not wait for them.
        self._listener.close()
        self._kill_at = time.monotonic() + (0 if at_once else self._grace) + SECONDS_TO_END + _SECONDS_TO_EXIT
        for child in self._children.values():
            child.order(_STOP_AT_ONCE if at_once else _STOP)
            if not child.is_ready:
                # It does not listen yet, and has no client.
                _send(child.process, signal.SIGTERM)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _start_due(self) -> Worker | None:
        """Start the workers whose time has come. Return the worker in its own process."""
        now = time.monotonic()
        for number in [number for number, at in self._due.items() if at <= now and not self._stops]:
            del self._due[number]
            ours, theirs = socket.socketpair()
            process = os.fork()
            if not process:
                # Another worker must not keep a channel open whose end means something.
                for channel in (ours, *(child.channel for child in self._children.values())):
                    channel.close()
                return self._become(number, theirs)
            theirs.close()
            ours.setblocking(False)
            child = self._children[ours.fileno()] = _Child(number, process, ours, now)
            if self._has_reloaded:
                # The parent has the settings of its start.
                child.order(_RELOAD)
        return None

    def _become(self, number: int, channel: socket.socket) -> Worker:
        channel.setblocking(False)
        return Worker(self._board, channel, number, self._number, self._secret, is_first=not self._has_started)

    def _wait(self, wake: socket.socket) -> None:
        """Wait for a signal, a word or the end of a worker, or the time of the next start."""
        now = time.monotonic()
        times = list(self._due.values()) if not self._stops else [self._kill_at]
        timeout = max(0.0, min(times) - now) if times else None
        readable, _, _ = select.select([wake.fileno(), *self._children], [], [], timeout)
        for each in readable:
            if each == wake.fileno():
                for number in wake.recv(64):
                    self._handle(number)
            else:
                self._listen(self._children[each])
        if self._stops and time.monotonic() >= self._kill_at:
            self._kill_at += _SECONDS_TO_EXIT
            for child in self._children.values():
                log.error("worker %d does not end, and is killed", child.number)
                _send(child.process, signal.SIGKILL)

    def _listen(self, child: _Child) -> None:
        try:
            said = child.channel.recv(64)
        except OSError:
            said = b""
        if not said:
            self._note_end(child)
            return
        child.is_ready = True
        if not self._has_started:
            self._has_started = True
            self._due |= {number: 0.0 for number in range(2, self._number + 1)}

    def _note_end(self, child: _Child) -> None:
        """A worker has ended: start another one after a pause, unless the first one could not start at all."""
        del self._children[child.channel.fileno()]
        child.channel.close()
        code = os.waitstatus_to_exitcode(os.waitpid(child.process, 0)[1])
        if not self._has_started:
            self._due.clear()
            if not self._stops:
                self._code = code if code >= 0 else _SIGNAL_BASE - code
            return
        if self._stops:
            return
        lived = time.monotonic() - child.begun
        pause = _FIRST_PAUSE if lived >= _STEADY_SECONDS else self._pauses.get(child.number, _FIRST_PAUSE)
        self._pauses[child.number] = min(2 * pause, _LONGEST_PAUSE)
        self._due[child.number] = time.monotonic() + pause
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        log.error("worker %d ended %s; another one starts in %g s", child.number, how, pause)


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
