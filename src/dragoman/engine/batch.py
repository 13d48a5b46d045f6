"""Batches: the tasks of a file, each executed once, and their results in another file, each written once."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.records import Ended, decode
from dragoman.agent.result import CATEGORIES, add_cost
from dragoman.engine.engine import Engine, RunStatus
from dragoman.errors import ConfigError, nearest
from dragoman.journal.journal import Journal, UnknownRun
from dragoman.state_files import lock_now

# --------------------------------------------------------------------------------------------------------------------
# Tasks.

_KEYS = ("id", "task")
_EXAMPLE = 'write one JSON value per line: {"id": "a", "task": "What is ...?"}, or only "What is ...?"'


class BatchTask(Struct, frozen=True):
    """A task of a batch. `key` follows from the batch, the id and the text, so it is the same in the next start.

    A run that failed for the time being is repeated as another run, with another `attempt`.
    """

    id: str
    task: str
    key: str
    attempt: int = 1

    @property
    def run_id(self) -> str:
        return self.key if self.attempt == 1 else f"{self.key}.{self.attempt}"


def read_tasks(content: bytes, shown: str, batch: str) -> list[BatchTask]:
    """Read a task from each line: a text, or an object with `task` and perhaps `id`. Blank lines do not count."""
    tasks: dict[str, BatchTask] = {}
    # Editors on Windows begin a file with this mark.
    for number, line in enumerate(content.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        if not line.strip():
            continue
        place = f"{shown}, line {number}"
        try:
            read = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ConfigError(f"{place} is not JSON: {error}", hint=_EXAMPLE) from None
        fields = read if isinstance(read, dict) else {"task": read}
        _refuse_misspelled(fields, place)
        task, key = fields.get("task"), fields.get("id", str(number))
        if not isinstance(task, str) or not task.strip():
            raise ConfigError(f"{place} has no text `task`", hint=_EXAMPLE)
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise ConfigError(f"{place}: `id` is neither a text nor a number", hint=_EXAMPLE)
        if str(key) in tasks:
            raise ConfigError(f"{place}: the id {key!r} occurs twice", hint="give each task its own id, or none at all")
        digest = hashlib.sha256(msgspec.json.encode([str(key), task])).hexdigest()
        tasks[str(key)] = BatchTask(str(key), task, f"{batch}-{digest[:16]}")
    if not tasks:
        raise ConfigError(f"{shown} has no tasks", hint=_EXAMPLE)
    return list(tasks.values())


def _refuse_misspelled(fields: Mapping[str, Any], place: str) -> None:
    """Raise ConfigError for a key that resembles a known one, which is missing. Others are columns of the user."""
    for wrong in fields:
        guess = nearest(wrong.lower(), _KEYS) if wrong not in _KEYS else None
        if guess is not None and guess not in fields:
            raise ConfigError(f"{place}: there is no key {wrong!r}; did you mean {guess!r}?"[:200], hint=_EXAMPLE)


def name_batch(results: Path) -> str:
    """Return the name of the batch that writes these results. The same file continues the same batch."""
    return f"batch_{hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:12]}"


# --------------------------------------------------------------------------------------------------------------------
# Results.


class BatchResult(Struct, frozen=True):
    """The result of a task, as a line of the file of results."""

    id: str
    run_id: str
    outcome: str
    text: str = ""
    reason: str = ""
    turns: int = 0
    attempt: int = 1
    usage: dict[str, int] = {}
    cost: float | None = None
    """In US dollars; None if a price is unknown."""
    seconds: float = 0.0
    """From the start of the run to its end."""

    @property
    def key(self) -> str:
        return self.run_id if self.attempt == 1 else self.run_id.rpartition(".")[0]

    @property
    def is_temporary(self) -> bool:
        """Whether the run failed for a reason that may go away, such as the network."""
        return _category(self.outcome) == "retryable"


async def read_result(journal: Journal, task: BatchTask) -> BatchResult | None:
    """Return the result of a run that has ended in the journal."""
    try:
        summary = await journal.run(task.run_id)
        if not summary.ended:
            return None
        ended: Ended = decode((await journal.read(task.run_id))[-1].body, Ended)
    except UnknownRun:
        return None
    return BatchResult(
        task.id,
        task.run_id,
        ended.kind,
        ended.text,
        ended.reason,
        ended.turns,
        task.attempt,
        ended.usage,
        ended.cost,
        round(summary.last - summary.begun, 3),
    )


_OTHER_OUTPUT = "name another file with --output"
_BEGINNING = b'{"id":"'


def _is_cut_off(line: bytes) -> bool:
    """Whether a line may be the beginning of a result. Another file, which was named by mistake, is not shortened."""
    begun = line.replace(b" ", b"")
    if not begun.startswith(_BEGINNING):
        return _BEGINNING.startswith(begun)
    try:
        return "run_id" in msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return True


class ResultFile:
    """The file of results. One process at a time writes it, and a line that a crash cut off is written again."""

    def __init__(self, path: Path, change: Callable[[Any], Any] = lambda data: data, *, retry: bool = False) -> None:
        """`change` gets each result as plain data before it is written, and may hide secrets in it. `retry` removes the
        temporary failures from the file."""
        self._path = path
        self._change = change
        self._retry = retry
        self._file: IO[bytes] | None = None
        self.results: dict[str, BatchResult] = {}

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and not self._path.is_file():
                # Earlier results are read from it, and a device may have no end.
                raise ConfigError(f"cannot write {self._path}: it is not a regular file", hint=_OTHER_OUTPUT)
            self._file = file = open(self._path, "a+b")
        except OSError as error:
            why = (error.strerror or "it failed").lower()
            raise ConfigError(f"cannot write {self._path}: {why}", hint=_OTHER_OUTPUT) from None
        try:
            # Windows has no such locks: two processes that execute the same batch there write each result twice.
            lock_now(file.fileno())
            self._read(file)
        except BlockingIOError:
            file.close()
            raise ConfigError(f"another process writes {self._path}", hint=f"wait for it, or {_OTHER_OUTPUT}") from None
        except BaseException:
            file.close()
            raise
        return self

    def _read(self, file: IO[bytes]) -> None:
        file.seek(0)
        size = 0
        kept: list[bytes] = []
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and _is_cut_off(line):
                # The process that wrote it was killed.
                break
            size += len(line)
            try:
                found = msgspec.json.decode(line, type=BatchResult)
            except (msgspec.MsgspecError, UnicodeError):
                raise ConfigError(
                    f"{self._path}, line {number} is not a result of a batch", hint=_OTHER_OUTPUT
                ) from None
            if not (self._retry and found.is_temporary):
                self.results[found.key] = found
                kept.append(line)
        # If this is interrupted, the journal still has every result.
        if sum(map(len, kept)) < size:
            file.truncate(0)
            file.write(b"".join(kept))
            file.flush()
        else:
            file.truncate(size)

    def write(self, result: BatchResult) -> None:
        if result.key in self.results or self._file is None:
            return
        self._file.write(msgspec.json.encode(self._change(msgspec.to_builtins(result))) + b"\n")
        # One write for each line, so that other programs always read whole lines.
        self._file.flush()
        self.results[result.key] = result

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


# --------------------------------------------------------------------------------------------------------------------
# The execution of a batch.

_AT_ONCE = 16


async def run_batch(
    engine: Engine, agent: str, tasks: Sequence[BatchTask], results: ResultFile, *, retry: bool = False
) -> AsyncIterator[BatchResult | RunStatus]:
    """Execute the tasks that have no result yet. Yield each result, or the status of a run without one.

    A run that waits for an approval, was cancelled before its start or could not be executed has no result. The next
    start of the batch tries it again. `retry` also repeats runs that failed for the time being.
    """
    todo: dict[str, BatchTask] = {}
    for task in tasks:
        if task.key in results.results:
            continue
        current, found = await _find_attempt(engine.journal, task, retry=retry)
        if found is None:
            todo[current.run_id] = current
        else:
            results.write(found)
            yield found
    await engine.retry(todo)
    await _submit_all(engine, agent, list(todo.values()))
    async for status in engine.follow(todo):
        found = await read_result(engine.journal, todo[status.run_id])
        if found is not None:
            results.write(found)
        yield found or status


async def _find_attempt(journal: Journal, task: BatchTask, *, retry: bool) -> tuple[BatchTask, BatchResult | None]:
    """Return the attempt that counts, and its result if it has ended. Earlier ones failed for the time being."""
    last: BatchResult | None = None
    for attempt in itertools.count(1):
        current = replace(task, attempt=attempt)
        try:
            await journal.run(current.run_id)
        except UnknownRun:
            return (current, None) if retry or last is None else (replace(task, attempt=attempt - 1), last)
        last = await read_result(journal, current)
        if last is None or not last.is_temporary:
            return current, last
    raise AssertionError("attempts are counted without end")


async def _submit_all(engine: Engine, agent: str, tasks: Sequence[BatchTask]) -> None:
    waiting = iter(tasks)

    async def submit_some() -> None:
        for task in waiting:
            await engine.submit(agent, task.task, run_id=task.run_id)

    await asyncio.gather(*(submit_some() for _ in range(min(_AT_ONCE, len(tasks)))))


# --------------------------------------------------------------------------------------------------------------------
# The summary.

PERCENTILES = (50, 90, 99)


class BatchSummary(Struct, frozen=True):
    """What came of a batch: how many tasks have which outcome, what they cost, and how long they took."""

    tasks: int
    results: int
    outcomes: dict[str, int]
    without_result: dict[str, int]
    """The states of the runs without a result: `waiting`, `failed`, `cancelled`."""
    cost: float | None
    usage: dict[str, int]
    seconds: dict[str, float]
    """Percentiles of the duration of a run, by name: `p50`."""
    other_results: int = 0
    """The results in the file of tasks that were changed or removed since. They remain, and do not count."""

    @property
    def succeeded(self) -> int:
        return sum(count for kind, count in self.outcomes.items() if _category(kind) == "success")


def _category(kind: str) -> str:
    return CATEGORIES.get(kind, "fatal")  # type: ignore[call-overload, no-any-return]


def summarise_batch(tasks: Sequence[BatchTask], results: ResultFile, states: Iterable[str]) -> BatchSummary:
    """Summarise all results of a batch, those of earlier starts included."""
    found = [results.results[task.key] for task in tasks if task.key in results.results]
    usage: Counter[str] = Counter()
    cost: float | None = 0.0
    for each in found:
        usage.update(each.usage)
        cost = add_cost(cost, each.cost)
    return BatchSummary(
        len(tasks),
        len(found),
        dict(Counter(each.outcome for each in found).most_common()),
        dict(Counter(states).most_common()),
        cost,
        dict(usage),
        dict(_percentiles(sorted(each.seconds for each in found))),
        len(results.results) - len(found),
    )


def _percentiles(values: Sequence[float]) -> Iterator[tuple[str, float]]:
    for percent in PERCENTILES if values else ():
        # The nearest rank: the smallest value that at least this part of all values does not exceed.
        rank = max(1, -(-percent * len(values) // 100))
        yield f"p{percent}", values[rank - 1]
