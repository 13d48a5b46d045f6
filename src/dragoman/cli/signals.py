"""Signals and standard streams of a command."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from dragoman.cli.screen import SIGNALLED

# --------------------------------------------------------------------------------------------------------------------
# Ctrl-C and SIGTERM: the first ends what goes on cleanly, the second ends the program at once.

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))


class Interrupts:
    """Takes the signals while a run goes on. `caught` is the first that came."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None], tidy: Callable[[], None]) -> None:
        """`end` is called on the loop by the first signal, `tidy` by the second, just before the program ends."""
        self._loop = loop
        self._end = end
        self._tidy = tidy
        self._before: dict[int, Any] = {}
        self._others = frozenset(children())
        self.caught: int | None = None

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            before = signal.getsignal(number)
            # Whoever started us in the background may have decided that interrupts are not for us.
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self.caught is not None:
            self.end_children()

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.caught is not None:
            with contextlib.suppress(Exception):
                self._tidy()
            self.end_children()
            os._exit(SIGNALLED + number)
        self.caught = number
        self._loop.call_soon_threadsafe(self._end)

    def end_children(self) -> None:
        """End the programs that tools have started and that are still there."""
        for number in children():
            if number not in self._others:
                with contextlib.suppress(OSError):
                    os.kill(number, signal.SIGTERM)


def children() -> list[int]:
    """The processes below this one, where the system lists them (Linux)."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        for listed in _listed(waiting.pop()):
            if listed not in found:
                found.append(listed)
                waiting.append(listed)
    return found


def _listed(number: int) -> list[int]:
    below: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{number}/task").iterdir():
            with contextlib.suppress(OSError, ValueError):
                below += [int(each) for each in (task / "children").read_text(encoding="ascii").split()]
    return below


# --------------------------------------------------------------------------------------------------------------------
# Standard output for the answer alone, whatever tools print; and a line that somebody types.

_MOST_READ = 64 * 1024


@contextlib.contextmanager
def keep_for_answers() -> Iterator[IO[str]]:
    """Standard output as a stream of our own. What tools and their programs print goes to standard error meanwhile."""
    real = sys.stdout
    real.flush()
    number, other = _number_of(real), _number_of(sys.stderr)
    if number is None or other is None:
        with contextlib.redirect_stdout(sys.stderr):
            yield real
        return
    private = os.dup(number)
    os.dup2(other, number)
    own = open(private, "w", encoding=real.encoding, errors="backslashreplace", closefd=True)  # noqa: SIM115
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield own
    finally:
        sys.stderr.flush()
        os.dup2(private, number)
        # Everything is flushed when it is written: what cannot be flushed here has failed, and was told, before.
        with contextlib.suppress(OSError):
            own.close()


@contextlib.contextmanager
def keep_from_tools() -> Iterator[IO[str]]:
    """Standard input as a stream of our own, so that a tool cannot take lines that are meant for us.

    A terminal is left as it is: a program that asks for a password may ask there.
    """
    real = sys.stdin
    number = _number_of(real)
    if number is None or real.isatty():
        yield real
        return
    private = os.dup(number)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, number)
    os.close(nothing)
    own = open(private, encoding="utf-8", errors="replace", closefd=True)  # noqa: SIM115
    try:
        yield own
    finally:
        os.dup2(private, number)
        own.close()


def _number_of(stream: IO[str]) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        return None


async def type_line() -> str | None:
    """A line that is typed at the terminal; None at its end."""
    number = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(number, readable.set)
    except (RuntimeError, PermissionError):
        # No such thing on Windows: a thread waits instead.
        return await asyncio.to_thread(sys.stdin.readline) or None
    try:
        await readable.wait()
        data = os.read(number, _MOST_READ)
    finally:
        loop.remove_reader(number)
    return data.decode("utf-8", "replace") if data else None


def forget_typed() -> None:
    """Drop what was typed before anybody asked: it cannot be an answer to what comes now."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
