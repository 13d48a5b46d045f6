"""Writing the audit log: lines are only ever added, by any number of threads and processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dragoman.audit.errors import AuditFailed, explain_failure
from dragoman.audit.files import flush_folder, make_folder, next_aside, opened, put_aside
from dragoman.audit.heads import Head, HeadFile, writing
from dragoman.audit.lines import CONTINUED, GAP, KINDS, TORN, Kind, write_line
from dragoman.audit.locks import open_alone
from dragoman.audit.tails import Tail, agrees, digest_end, read_tail
from dragoman.audit.wording import escape, put_down
from dragoman.errors import ConfigError, nearest
from dragoman.secrets import HumanSink

_OWN = frozenset({"n", "at", "kind", "run", "call", "prev", "hash"})
_SHORTEST_SECRET = 6
_LONGEST_READ = 20_000
"""Characters of a text in which secrets are looked for; far more than is kept of it."""


class AuditLog:
    """A log of decisions in which nothing can be changed or removed unnoticed.

    Every record is one line of JSON with the hash of the one before it. Texts are names: they are scrubbed of
    credentials, escaped and cut. Mappings and other values are put down as digests, never as they are.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: bool = True,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
        sink: HumanSink | None = None,
    ) -> None:
        if max_bytes is not None and max_bytes < 1:
            raise ConfigError(f"max_bytes is {max_bytes}", hint="give the size of a file in bytes, or None")
        self.path = Path(path)
        self._sync = sync
        self._max_bytes = max_bytes
        self._clock = clock
        self._sink = HumanSink() if sink is None else sink
        self._one_at_a_time = threading.Lock()

    def append(self, kind: Kind, *, run: str = "", call: str = "", **fields: Any) -> Head:
        """Add a record; when this returns, it is in the file, and with `sync` on the disk.

        Raises AuditFailed if that is not possible; then nothing was added.
        """
        content = self._put_down(kind, run, call, fields)
        with self._one_at_a_time, _explained(self.path):
            make_folder(self.path)
            with writing(self.path) as head:
                return self._append(head, kind, content)

    def _put_down(self, kind: str, run: str, call: str, fields: dict[str, Any]) -> dict[str, Any]:
        if kind not in KINDS:
            guess = nearest(kind, KINDS)
            meant = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigError(f"there is no kind of record {kind!r}{meant}", hint=f"the kinds are {', '.join(KINDS)}")
        if taken := sorted(_OWN.intersection(fields)):
            raise ConfigError(f"the log itself writes {', '.join(taken)}", hint="give the field another name")
        # A field that is None says nothing.
        told = {name: put_down(self._scrub(value)) for name, value in fields.items() if value is not None}
        return {"run": escape(run), "call": escape(call), **told}

    def _scrub(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) < _SHORTEST_SECRET:
                return value
            return self._sink.text(value[:_LONGEST_READ]) + value[_LONGEST_READ:]
        if isinstance(value, list | tuple):
            return [self._scrub(each) if isinstance(each, str) else each for each in value]
        return value

    def _append(self, head: HeadFile, kind: str, content: dict[str, Any]) -> Head:
        known = head.read()
        # The head file is locked already. It may be removed, though, and then the next writer has another one.
        with open_alone(self.path, os.O_APPEND) as log:
            tail, lines = self._line_up(log, known, kind, content)
            if not self._is_full(tail, lines):
                return self._write(log, tail, lines, head)
            os.rename(self.path, next_aside(self.path))
        with open_alone(self.path, os.O_APPEND) as log:
            tail, lines = self._line_up(log, known, kind, content)
            return self._write(log, tail, lines, head)

    def _line_up(self, log: int, known: Head | None, kind: str, content: dict[str, Any]) -> tuple[Tail, _Lines]:
        tail = read_tail(log)
        lines = self._lines_after(log, tail, known)
        lines.add(kind, content)
        return tail, lines

    def _is_full(self, tail: Tail, lines: _Lines) -> bool:
        if self._max_bytes is None or tail.size == 0:
            return False
        # An end that has to be put in order is, before the file is put aside.
        return lines.count == 1 and tail.ended and tail.size + len(lines.written) > self._max_bytes

    def _lines_after(self, log: int, tail: Tail, known: Head | None) -> _Lines:
        """What has to be said before anything else can be added to a file that ends like this."""
        lines = _Lines(self._clock)
        if tail.last is not None:
            lines.head = Head(tail.last.n, tail.last.hash)
        agreed = agrees(log, tail, known)
        if tail.size == 0 and (before := put_aside(self.path)):
            agreed = self._continue(before[-1], lines, known)
        if not tail.ended:
            lines.written += b"\n"
        if tail.behind:
            digest = digest_end(log, tail.size, tail.behind, tail.ended)
            lines.add(TORN, {"bytes": tail.behind + (not tail.ended), "sha256": digest})
        if not agreed and known is not None:
            here = lines.head.number
            lines.head = Head(max(here, known.number), lines.head.hash)
            lines.add(GAP, {"after": here, "head": known.hash, "number": known.number})
        return lines

    def _continue(self, before: Path, lines: _Lines, known: Head | None) -> bool:
        with opened(before, os.O_RDONLY) as log:
            tail = read_tail(log)
            if tail.last is None:
                return False
            lines.head = Head(tail.last.n, tail.last.hash)
            lines.add(CONTINUED, {"file": before.name})
            return agrees(log, tail, known)

    def _write(self, log: int, tail: Tail, lines: _Lines, head: HeadFile) -> Head:
        try:
            rest = memoryview(lines.written)
            while rest:
                rest = rest[os.write(log, rest) :]
            if self._sync:
                os.fsync(log)
                if tail.size == 0:
                    flush_folder(self.path)
            head.write(lines.head)
        except OSError:
            # Half a record is worse than none. If this fails as well, the next one that is added tells of it.
            with suppress(OSError):
                os.ftruncate(log, tail.size)
            raise
        return lines.head


class _Lines:
    """Lines that are about to be added, each behind the one before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.head = Head()
        self.written = b""
        self.count = 0

    def add(self, kind: str, fields: dict[str, Any]) -> None:
        number = self.head.number + 1
        line, hashed = write_line(number, round(self._clock(), 6), kind, fields, self.head.hash)
        self.written += line
        self.head = Head(number, hashed)
        self.count += 1


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except AuditFailed:
        raise
    except OSError as error:
        raise explain_failure(path, error) from error
