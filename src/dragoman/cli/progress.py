"""How far a download is: a bar on a terminal, a line for every tenth in a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_STEPS = 10


class ProgressLine:
    """Call it with what is going on, what is done and how much there is; use it in a `with`."""

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, int] = {}

    def __call__(self, words: str, done: int, total: int) -> None:
        if self._silent:
            return
        if sys.stderr.isatty():
            self._draw(words, done, total)
        else:
            self._tell(words, done, total)

    def _draw(self, words: str, done: int, total: int) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            text = TextColumn("{task.description}", markup=False)
            columns = (text, BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        if words not in self._tasks:
            self._tasks[words] = self._progress.add_task(words, total=total or None)
        self._progress.update(self._tasks[words], completed=done, total=total or None)

    def _tell(self, words: str, done: int, total: int) -> None:
        step = done * _STEPS // total if total else 0
        if self._told.get(words, -1) >= step:
            return
        self._told[words] = step
        size = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else f"{done / 1e6:.0f} MB"
        print(f"{words}: {size}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
