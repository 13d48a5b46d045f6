"""A log of runs: one JSON line per event."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import msgspec

from dragoman.agent.events import (
    Asked,
    RunEnded,
    RunEvent,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from dragoman.agent.result import RunResult
from dragoman.characters import escape_message
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    MarkerDropped,
    PartEnded,
    PartReceived,
    ReplyEnded,
    ReplyFailed,
    TextDelta,
    ThinkingDelta,
)
from dragoman.secrets import HumanSink
from dragoman.secrets.registered import SHORTEST
from dragoman.types import Failure, File, Image, InvalidCall, Provenance, Text, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# Values for a log: plain, bounded, and without known secrets.


def hide_known(secrets: Iterable[str]) -> HumanSink:
    """Return the redactor for a log: it hides these secrets and text that looks like a secret."""
    return HumanSink([secret for secret in secrets if len("".join(secret.split())) >= SHORTEST])


class Bounds(msgspec.Struct, frozen=True):
    """How much of a value is kept; a note marks every omission."""

    text: int = 2_000
    entries: int = 100
    depth: int = 12


class JsonSafe:
    """Converts any value to JSON. It redacts and cuts texts, and cuts long lists and deep nesting with a note."""

    def __init__(self, sink: HumanSink, bounds: Bounds) -> None:
        self._sink = sink
        self._bounds = bounds

    def text(self, text: str, length: int | None = None) -> str:
        """Return a text, redacted and then cut. `length` is its whole length, if `text` is only its beginning."""
        whole = len(text) if length is None else length
        most = self._bounds.text
        if whole <= most:
            return self._sink.text(text)
        # A secret may cross the cut: redact a longer text, and then drop the end, which may be half of a secret.
        margin = self._sink.longest
        beginning = self._sink.text(text[: most + margin])
        kept = beginning[: max(0, min(most, len(beginning) - margin))]
        return f"{kept}… [cut, {whole} characters in all]"

    @property
    def longest_text(self) -> int:
        """The number of characters from the beginning of a text that `text` needs."""
        return self._bounds.text + self._sink.longest

    def value(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth >= self._bounds.depth:
            return f"… [{type(value).__name__} nested deeper than {depth} cut]"
        if isinstance(value, msgspec.Struct):
            return self._mapping(msgspec.structs.asdict(value), depth)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._entries(list(value), depth)
        if isinstance(value, bytes | bytearray):
            return f"[{len(value)} bytes]"
        # `repr` of a foreign object may fail or never end, so only its type is logged.
        return f"[{type(value).__name__}]"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for position, (key, each) in enumerate(value.items()):
            if position >= self._bounds.entries:
                plain["…"] = f"[{len(value) - position} of {len(value)} entries cut]"
                break
            plain[self.text(str(key))] = self.value(each, depth + 1)
        return plain

    def _entries(self, values: list[Any], depth: int) -> list[Any]:
        kept = [self.value(each, depth + 1) for each in values[: self._bounds.entries]]
        if len(values) > len(kept):
            kept.append(f"… [{len(values) - len(kept)} of {len(values)} entries cut]")
        return kept


# --------------------------------------------------------------------------------------------------------------------
# An event of a run as one JSON object, for a log or for a program that follows a run.

_PLAIN = JsonSafe(HumanSink(), Bounds(text=1_000_000, entries=10_000, depth=64))


def as_record(event: RunEvent, json_safe: JsonSafe = _PLAIN) -> dict[str, Any]:
    """Return the event with its type and readable fields, without opaque data of a wire and whole histories."""
    describe = _DESCRIBED.get(type(event), _fields)
    record: dict[str, Any] = json_safe.value(describe(event))
    return {"type": type(event).__name__, **record}


def _fields(event: Any) -> dict[str, Any]:
    """All fields of an event. A call and a failure contain data that only a codec reads, so they are described."""
    fields = msgspec.structs.asdict(event)
    for name, value in fields.items():
        if isinstance(value, ToolCall):
            fields[name] = _call(value)
        elif isinstance(value, InvalidCall):
            fields[name] = _invalid(value)
        elif isinstance(value, ToolResult):
            fields[name] = _result(value)
        elif isinstance(value, Failure):
            fields[name] = _failure(value)
    return fields


def _call(call: ToolCall) -> dict[str, Any]:
    known = _pick(call, "id", "name", "arguments")
    if call.repairs:
        known["repairs"] = list(call.repairs)
    if call.changes:
        known["changes"] = [change.path for change in call.changes]
    return known | _source(call.provenance)


def _invalid(call: InvalidCall) -> dict[str, Any]:
    faults = [str(fault) for fault in call.faults]
    return {"id": call.id, "name": call.name, "kind": call.kind, "faults": faults} | _source(call.provenance)


def _source(provenance: Provenance | None) -> dict[str, Any]:
    if provenance is None:
        return {}
    return {name: value for name, value in _pick(provenance, "channel", "format", "level").items() if value}


def _result(result: ToolResult) -> dict[str, Any]:
    content = result.content if isinstance(result.content, str) else [_part(part) for part in result.content]
    return {"call_id": result.call_id, "name": result.name, "content": content, "is_error": result.is_error}


def _part(part: Text | Image | File) -> Any:
    if isinstance(part, Text):
        return part.text
    size = len(part.data) if part.data else 0
    return {"kind": type(part).__name__.lower(), "media_type": part.media_type, "characters": size}


def _pick(value: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _run_result(result: RunResult) -> dict[str, Any]:
    return {
        **_pick(result, "outcome", "text", "data", "usage", "cost", "turns"),
        "calls": len(result.calls),
        "messages": len(result.messages),
        **_pick(result, "problems", "run_id", "session", "model"),
    }


def _failure(failure: Failure) -> dict[str, Any]:
    # The body is omitted: it may repeat the whole request.
    return _pick(failure, "kind", "message", "status", "code")


_DESCRIBED: dict[type, Callable[[Any], dict[str, Any]]] = {
    CallBroken: lambda event: _pick(event, "name", "why", "raw", "format"),
    CallEnded: lambda event: {"call": _call(event.call)},
    PartEnded: lambda event: {"kind": event.kind},
    PartReceived: lambda event: {"part": _part(event.part)},
    ReplyEnded: lambda event: {"stop": event.stop},
    ReplyFailed: lambda event: _failure(event.failure),
    RunEnded: lambda event: _run_result(event.result),
    ToolEnded: lambda event: _fields(event) | {"seconds": round(event.seconds, 6)},
    ToolStarted: lambda event: {"turn": event.turn, "call": _call(event.call)},
    TurnEnded: lambda event: msgspec.structs.asdict(event) | {"results": len(event.results)},
}


# --------------------------------------------------------------------------------------------------------------------
# A log of runs: one line of JSON per event, in a file or a stream. It never blocks or fails a run.

Deltas = Literal["join", "skip"]
LONGEST_LINE = 64 * 1024
_MOST_RUNS = 10_000
"""The maximum number of unfinished runs whose texts are collected."""


class Stream(Protocol):
    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


class JsonLog:
    """A listener: `log(run_id, event)` writes one line. Many runs, and many threads, may share it.

    `target` is a path, or a stream with `write` and `flush`. A file is opened at the first line, is appended to, and
    is readable by its owner alone. `secrets` never appear in a line. With `deltas="join"` the pieces of a text become
    one line where the text ends, with "skip" none; the pieces of arguments are always skipped, for the finished call
    follows them. `clock` gives seconds since 1970.

    If a line cannot be written, it is lost, but the run continues: `report` is called once, and when writes work again,
    a line of the type `LinesLost` contains the number of missing lines.
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
        self._json_safe = JsonSafe(hide_known(secrets), bounds or Bounds())
        self._joins = deltas == "join"
        self._clock = clock
        self._report = report or _print_to_standard_error
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = threading.Lock()
        self._has_reported = False
        self.lost = 0
        """The number of lines that were lost since the last successful write."""

    def __call__(self, run_id: str, event: RunEvent) -> None:
        try:
            with self._lock:
                self._take(run_id, event)
        except Exception as problem:
            # An error in the log must not stop the run.
            self._report_once(f"an event could not be logged: {type(problem).__name__}: {problem}")

    def close(self) -> None:
        """Write the collected texts, and close the file."""
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
                run.gather(event, self._json_safe.longest_text)
            return
        self._write_gathered(run_id, run)
        if isinstance(event, Asked):
            run.turn = event.turn
        self._write(run_id, run.turn, as_record(event, self._json_safe))
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
            text = self._json_safe.text("".join(run.pieces), run.length)
            record = {"type": run.kind.__name__, "text": text}
            run.clear()
            self._write(run_id, run.turn, record)

    def _write(self, run_id: str, turn: int, record: dict[str, Any]) -> None:
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        head = {"time": moment.replace("+00:00", "Z"), "run": run_id, "turn": turn}
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
            self._report_once(f"cannot write the log ({problem}); the run continues without it")

    def _report_once(self, message: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            with contextlib.suppress(Exception):
                self._report(message)


class _Run:
    """The turn of a run, and the text that is collected. Only the beginning of a long text is kept."""

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


# ---- sinks ---------------------------------------------------------------------------------------------------------


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
        # On a full disk a write may be partial; the next record then starts on a new line.
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(f"only {written} of {len(data)} bytes were written")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class _StreamSink:
    """A stream of the caller, who also closes it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        self._stream.write(line)
        self._stream.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def _line(record: dict[str, Any]) -> str:
    # Only ASCII: lone surrogates, and characters that some readers treat as line ends, are escaped.
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _print_to_standard_error(message: str) -> None:
    print(f"dragoman: {escape_message(message)}", file=sys.stderr)
