"""Signals and standard streams of a command: interrupts, child processes, and reserved stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from dragoman.cli.exit_codes import SIGNAL_BASE

# ---- signals during a run --------------------------------------------------------------------------------------------

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class InterruptHandler:
    """Handles SIGINT, SIGTERM and SIGHUP during a run. The first ends the run, the second ends the program at once.

    `signal_number` is the first signal that came.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_first: Callable[[], object], on_second: Callable[[], object]
    ) -> None:
        """`on_first` is called on the loop; `on_second` is called just before the program ends."""
        self._loop = loop
        self._on_first = on_first
        self._on_second = on_second
        self._previous: dict[int, Any] = {}
        self._earlier_children = frozenset(child_processes())
        self.signal_number: int | None = None

    def __enter__(self) -> Self:
        for signum in _SIGNALS:
            previous = signal.getsignal(signum)
            # A shell may start a background job with interrupts ignored. That setting is kept.
            if previous is not signal.SIG_IGN:
                self._previous[signum] = previous
                signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, previous in self._previous.items():
            signal.signal(signum, previous)
        if self.signal_number is not None:
            self.end_children()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            with contextlib.suppress(Exception):
                self._on_second()
            _keyboard.restore()
            self.end_children()
            os._exit(SIGNAL_BASE + signum)
        self.signal_number = signum
        self._loop.call_soon_threadsafe(self._on_first)

    def end_children(self) -> None:
        """Send SIGTERM to the processes that were started during the run and have not ended."""
        for pid in child_processes():
            if pid not in self._earlier_children:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)


def child_processes() -> list[int]:
    """All descendants of this process, where the system lists them (Linux)."""
    found: list[int] = []
    queue = [os.getpid()]
    while queue:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{queue.pop()}/task").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    children = [int(each) for each in (task / "children").read_text(encoding="ascii").split()]
                    queue += [child for child in children if child not in found]
                    found += [child for child in children if child not in found]
    return found


# ---- standard streams ------------------------------------------------------------------------------------------------

_MAX_LINE_BYTES = 64 * 1024


@contextlib.contextmanager
def reserve_stdout() -> Iterator[IO[str]]:
    """A private stream to standard output. Meanwhile, what tools and their processes print goes to standard error."""
    real = sys.stdout
    real.flush()
    descriptor, other = _descriptor_of(real), _descriptor_of(sys.stderr)
    if descriptor is None or other is None:
        with contextlib.redirect_stdout(sys.stderr):
            yield real
        return
    private = os.dup(descriptor)
    os.dup2(other, descriptor)
    own = open(private, "w", encoding=real.encoding, errors="backslashreplace", closefd=True)  # noqa: SIM115
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield own
    finally:
        sys.stderr.flush()
        os.dup2(private, descriptor)
        # Every write is flushed. A failure here was already reported before.
        with contextlib.suppress(OSError):
            own.close()


@contextlib.contextmanager
def reserve_stdin() -> Iterator[IO[str]]:
    """A private stream from standard input, so that a tool cannot read lines that are meant for the command.

    A terminal stays as it is: a program may ask for a password there.
    """
    real = sys.stdin
    descriptor = _descriptor_of(real)
    if descriptor is None or real.isatty():
        yield real
        return
    private = os.dup(descriptor)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, descriptor)
    os.close(null)
    own = open(private, encoding="utf-8", errors="replace", closefd=True)  # noqa: SIM115
    try:
        yield own
    finally:
        os.dup2(private, descriptor)
        own.close()


def _descriptor_of(stream: IO[str]) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        return None


def has_piped_text() -> bool:
    """Whether standard input is a pipe with text that nobody has read."""
    descriptor = _descriptor_of(sys.stdin)
    if descriptor is None:
        return False
    with contextlib.suppress(ImportError, OSError):
        import fcntl
        import termios

        waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode) and any(waiting)
    return False


def is_attended() -> bool:
    """Whether a user can see a question and type an answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def read_line() -> str | None:
    """The next line that is typed at the terminal; None at the end of input."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except (RuntimeError, PermissionError):
        # The event loop on Windows cannot watch a terminal; a thread waits instead.
        return await asyncio.to_thread(sys.stdin.readline) or None
    try:
        await readable.wait()
        data = os.read(descriptor, _MAX_LINE_BYTES)
    finally:
        loop.remove_reader(descriptor)
    return data.decode("utf-8", "replace") if data else None


class _Keyboard:
    """The echo of the terminal. Without it, keys that are typed during a reply do not tear the text apart."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    @property
    def is_hidden(self) -> bool:
        return self._before is not None

    def hide(self) -> None:
        with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
            import termios

            descriptor = sys.stdin.fileno()
            # A job in the background would be stopped if it changed the terminal.
            if self._before is None and os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
                with contextlib.suppress(termios.error):
                    before = termios.tcgetattr(descriptor)
                    after = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
                    termios.tcsetattr(descriptor, termios.TCSANOW, after)
                    self._before = before

    def restore(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            import termios

            with contextlib.suppress(termios.error, OSError, ValueError):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


_keyboard = _Keyboard()


@contextlib.contextmanager
def hidden_keys() -> Iterator[None]:
    """Do not show the keys that are typed. They wait for whoever reads them next."""
    _keyboard.hide()
    try:
        yield
    finally:
        _keyboard.restore()


@contextlib.contextmanager
def shown_keys() -> Iterator[None]:
    """Show the keys that are typed, although `hidden_keys` hides them."""
    was_hidden = _keyboard.is_hidden
    _keyboard.restore()
    try:
        yield
    finally:
        if was_hidden:
            _keyboard.hide()


def has_typed_more() -> bool:
    """Whether more input is there at once, behind a line that was read: nobody types that fast."""
    try:
        return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def discard_typed_input() -> None:
    """Discard what was typed before the question: it cannot be an answer to it."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
