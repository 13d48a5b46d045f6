"""Ctrl-C and SIGTERM: the first ends what goes on cleanly, the second ends the program at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

from dragoman.cli.exits import SIGNALLED

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
