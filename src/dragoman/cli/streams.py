"""Standard output for the answer alone, whatever tools print; and a line that somebody types."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO

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
