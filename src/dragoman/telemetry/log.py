"""A log of runs: one line of JSON per event, in a file or a stream, that never stands in a run's way."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from dragoman.agent.events import Asked, RunEnded, RunEvent
from dragoman.events import ArgumentsDelta, MarkerDropped, TextDelta, ThinkingDelta
from dragoman.telemetry.records import as_record
from dragoman.telemetry.values import Bounds, Plainer, hide_known

Deltas = Literal["join", "skip"]
LONGEST_LINE = 64 * 1024
_MOST_RUNS = 10_000
"""Runs that were begun and not ended, whose texts are being gathered."""


class Stream(Protocol):
    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


class JsonLog:
    """A listener: `log(run_id, event)` writes one line. Many runs, and many threads, may share it.

    `target` is a path, or a stream with `write` and `flush`. A file is opened at the first line, is appended to, and
    is readable by its owner alone. `secrets` never appear in a line. With `deltas="join"` the pieces of a text become
    one line where the text ends, with "skip" none; the pieces of arguments are always skipped, for the finished call
    follows them. `clock` gives seconds since 1970.

    A line that cannot be written is lost and not the run: `report` hears of it once, and where writing works again a
    line of the type `LinesLost` says how many are missing.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Stream,
        *,
        secrets: Iterable[str] = (),
        deltas: Deltas = "join",
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.time,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._sink: _FileSink | _StreamSink
        self._sink = _FileSink(target) if isinstance(target, str | os.PathLike) else _StreamSink(target)
        self._plainer = Plainer(hide_known(secrets), bounds or Bounds())
        self._joins = deltas == "join"
        self._clock = clock
        self._report = report or _tell_on_standard_error
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = threading.Lock()
        self._has_complained = False
        self.lost = 0
        """Lines that could not be written since the last one that could."""

    def __call__(self, run_id: str, event: RunEvent) -> None:
        try:
            with self._lock:
                self._take(run_id, event)
        except Exception as problem:
            # Whatever is wrong in here is no reason to stop somebody's run.
            self._complain(f"an event could not be logged: {type(problem).__name__}: {problem}")

    def close(self) -> None:
        """Write what is still being gathered, and close the file."""
        with self._lock:
            for run_id, run in self._runs.items():
                self._write_gathered(run_id, run)
            self._runs.clear()
            self._sink.close()

    def __enter__(self) -> JsonLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- events to lines ------------------------------------------------------------------------------------------

    def _take(self, run_id: str, event: RunEvent) -> None:
        run = self._run(run_id)
        if isinstance(event, ArgumentsDelta | MarkerDropped):
            return
        if isinstance(event, TextDelta | ThinkingDelta):
            if self._joins:
                if run.kind is not type(event):
                    self._write_gathered(run_id, run)
                run.gather(event, self._plainer.longest_text)
            return
        self._write_gathered(run_id, run)
        if isinstance(event, Asked):
            run.turn = event.turn
        self._write(run_id, run.turn, as_record(event, self._plainer))
        if isinstance(event, RunEnded):
            self._runs.pop(run_id, None)

    def _run(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = _Run()
            if len(self._runs) > _MOST_RUNS:
                self._write_gathered(*self._runs.popitem(last=False))
        return run

    def _write_gathered(self, run_id: str, run: _Run) -> None:
        if run.kind is not None:
            text = self._plainer.text("".join(run.pieces), run.length)
            record = {"type": run.kind.__name__, "text": text}
            run.clear()
            self._write(run_id, run.turn, record)

    def _write(self, run_id: str, turn: int, record: dict[str, Any]) -> None:
        seconds = self._clock()
        head = {"time": _stamp(seconds), "run": run_id, "turn": turn}
        line = _line(head | record)
        if len(line) > LONGEST_LINE:
            line = _line(head | {"type": record["type"], "cut": f"{len(line)} bytes"})
        if self.lost:
            line = _line({"time": head["time"], "type": "LinesLost", "lines": self.lost}) + line
        try:
            self._sink.write(line)
            self.lost = 0
        except (OSError, ValueError) as problem:
            self.lost += 1
            self._complain(f"the log cannot be written ({problem}); the run goes on without it")

    def _complain(self, message: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            with contextlib.suppress(Exception):
                self._report(message)


class _Run:
    """The turn of a run, and the text that is being gathered. Only the beginning of a long text is kept."""

    __slots__ = ("kept", "kind", "length", "pieces", "turn")

    def __init__(self) -> None:
        self.turn = 0
        self.clear()

    def clear(self) -> None:
        self.kind: type | None = None
        self.pieces: list[str] = []
        self.kept = 0
        self.length = 0

    def gather(self, event: TextDelta | ThinkingDelta, most: int) -> None:
        self.kind = type(event)
        self.length += len(event.text)
        room = most - self.kept
        if room > 0:
            piece = event.text[:room]
            self.pieces.append(piece)
            self.kept += len(piece)


# ---- where the lines go --------------------------------------------------------------------------------------------


class _FileSink:
    """A file that is appended to, each line by one write, so that several programs may share it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._is_torn = False

    def write(self, line: str) -> None:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(self._path, flags, 0o600)
        data = (b"\n" if self._is_torn else b"") + line.encode()
        written = os.write(self._descriptor, data)
        # A full disk takes a part of a line; the next one then begins on a line of its own.
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(f"only {written} of {len(data)} bytes were taken")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class _StreamSink:
    """A stream of somebody else, who also closes it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        self._stream.write(line)
        self._stream.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def _line(record: dict[str, Any]) -> str:
    # In ASCII alone: half a surrogate pair, and whatever some readers take for the end of a line, is escaped.
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _tell_on_standard_error(message: str) -> None:
    print(f"dragoman: {message}", file=sys.stderr)
