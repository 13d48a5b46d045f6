"""Verification of an audit log: it detects changed, removed, moved and inserted records."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.journal.audit import (
    CONTINUED,
    GAP,
    MOST_OF_A_LINE,
    NOTHING_BEFORE,
    TORN,
    AuditFailed,
    Head,
    Link,
    escape,
    explained,
    read_link,
    read_record,
    reading,
    rotated_files,
)
from dragoman.state_files import opened

# --------------------------------------------------------------------------------------------------------------------
# The records of a log, for display. `verify` checks them.


_NO_LOG = "check the path; a run with tools makes one"


def read_records(
    path: str | os.PathLike[str], *, run: str | None = None, last: int | None = None
) -> list[dict[str, Any]]:
    """Return the records of a log, or of one run, newest last; `last` keeps only that many.

    A line that is not in the written form has `"damaged": true`.
    """
    place = Path(path)
    named = None if run is None else escape(run)
    found: deque[dict[str, Any]] = deque(maxlen=last)
    with explained(place):
        files = [*rotated_files(place), *([place] if place.exists() else [])]
        if not files:
            raise AuditFailed(f"there is no audit log at {place}", hint=_NO_LOG)
        for file in files:
            found.extend(record for record in _read_file(file) if named is None or record.get("run") == named)
    return list(found)


def _read_file(path: Path) -> Iterator[dict[str, Any]]:
    with opened(path, os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as file:
        while line := file.readline(MOST_OF_A_LINE):
            content = line.removesuffix(b"\n")
            record = read_record(content)
            if read_link(content) is None:
                yield (record or {"bytes": len(line)}) | {"damaged": True}
            elif record is not None:
                yield record


# --------------------------------------------------------------------------------------------------------------------
# The verification reads a log from the start and reports changed, removed, moved and inserted records.
#
# Its limit: somebody who may write the file and its head file can build a new chain from any record on, with a new
# head. Only a head that was copied to another place, and is passed here, reveals that.

_HASH = re.compile(r"[0-9a-f]{64}").fullmatch
_KEEP = "keep the file unchanged and compare it with a copy; for a new log, move it and its .head file away"
_CHANGED = "it was changed: its hash does not match its content"
_FORGED = "it is not a record, and not the beginning of one that a killed writer left"
_LEFT = "bytes that are not a record, left by a killed writer"
_NO_HEAD = "there is no head, so removed records at the end cannot be detected"


class AuditReport(Struct, frozen=True):
    """The result of a verification."""

    ok: bool
    records: int
    """The number of valid records before the first fault."""
    head_hash: str
    """The hash of the last valid record. Copy it to another place, and pass it next time."""
    head_number: int = 0
    first_fault: int | None = None
    """The line number, from 1, of the first fault."""
    file: str = ""
    """The name of the file with that line."""
    what: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    """Observations that are not faults: a killed writer, missing older files, no head."""
    files: int = 1


class _Fault(Exception):
    def __init__(self, line: int, what: str, hint: str = _KEEP) -> None:
        super().__init__(what)
        self.line = line
        self.what = what
        self.hint = hint


def verify(path: str | os.PathLike[str], *, head: str | None = None) -> AuditReport:
    """Verify a log, including its older files. `head` is a hash that was copied from it earlier.

    The time is linear in the size of the log; memory does not depend on it. Other processes may write meanwhile: the
    verification covers what the log contained at its start.
    """
    if head is not None and not _HASH(head := head.strip().lower()):
        raise ConfigError("a head is 64 hexadecimal digits", hint="`dragoman audit verify` prints it")
    place = Path(path)
    with explained(place), ExitStack() as stack:
        with reading(place) as known:
            older = rotated_files(place)
            live = stack.enter_context(opened(place, os.O_RDONLY)) if place.exists() else None
            # The file may be renamed meanwhile; this descriptor still refers to it.
            size = os.fstat(live).st_size if live is not None else 0
        if live is None and not older and known is None:
            raise AuditFailed(f"there is no audit log at {place}", hint=_NO_LOG)
        walk = _ChainReader(known, head)
        current = place
        try:
            for current in older:
                with opened(current, os.O_RDONLY) as descriptor:
                    walk.read_to(descriptor, os.fstat(descriptor).st_size)
            current = place
            if live is not None:
                walk.read_to(live, size)
            walk.finish()
        except _Fault as fault:
            return walk.report(fault, current.name)
        return walk.report()


class _ChainReader:
    """The walk along the chain."""

    def __init__(self, known: Head | None, given: str | None) -> None:
        self._known = known if known is not None and known.number else None
        self._given = given
        self._since: int | None = None
        self._head: Head | None = None
        self._records = 0
        self._files = 0
        self._line = 0
        self._torn = _BrokenLines()
        self._notes: list[str] = []

    def read_to(self, descriptor: int, size: int) -> None:
        """Read one file, up to a size."""
        self._files += 1
        self._line = 0
        with open(descriptor, "rb", closefd=False) as file:
            for line, ended in _lines(file, size):
                self._line += 1
                self._take(line, read_link(line[:-1] if ended else line), ended)

    def _take(self, line: bytes, link: Link | None, ended: bool) -> None:
        if link is None:
            self._torn.add(self._line, line, self._head.number + 1 if self._head is not None else 1)
            return
        if self._torn.line is not None:
            self._settle(link, line)
        else:
            self._follow(link, line)
        if not ended:
            self._raise_unended(link)

    def _settle(self, link: Link, line: bytes) -> None:
        """Check that a record directly after invalid lines describes them, or report them."""
        torn, self._torn = self._torn, _BrokenLines()
        assert torn.line is not None
        told = read_record(line) if link.kind == TORN else None
        if told is None or told.get("bytes") != torn.length or told.get("sha256") != torn.digest.hexdigest():
            raise _Fault(torn.line, _CHANGED)
        torn.check()
        self._follow(link, line)
        self._notes.append(f"line {torn.line}: {torn.length} {_LEFT}; the next record accounts for them")

    def _follow(self, link: Link, line: bytes) -> None:
        before = self._head
        if before is None:
            self._begin(link)
        elif link.kind == GAP and link.prev == before.hash:
            self._raise_gap(line)
        elif link.prev != before.hash or link.n != before.number + 1:
            raise _Fault(self._line, _misplaced(link, before))
        self._head = Head(link.n, link.hash)
        self._records += 1
        self._check_known(link)
        if link.hash == self._given:
            self._since = link.n

    def _begin(self, link: Link) -> None:
        if link.kind == CONTINUED:
            self._notes.append(f"it begins with record {link.n}; the older files are missing")
        elif link.kind == GAP:
            raise _Fault(self._line, f"the {link.n - 1} records before it are missing")
        elif link.n != 1 or link.prev != NOTHING_BEFORE:
            raise _Fault(self._line, f"the records before number {link.n} are missing")

    def _raise_gap(self, line: bytes) -> None:
        told = read_record(line) or {}
        raise _Fault(
            self._line,
            f"when this was written the log ended at record {told.get('after')}, "
            f"and its head file knew record {told.get('number')}: what was between them, or instead of them, is gone",
            "somebody removed or changed them, or the machine lost power while it wrote without sync. " + _KEEP,
        )

    def _check_known(self, link: Link) -> None:
        known = self._known
        if known is not None and link.n == known.number and link.hash != known.hash:
            raise _Fault(self._line, "it is not the record with this number in the head file")

    def _raise_unended(self, link: Link) -> None:
        if self._known is not None and link.n <= self._known.number:
            raise _Fault(self._line, "the newline was removed")
        self._notes.append(f"line {self._line}, the last one, has no newline: a writer was killed during the write")

    def finish(self) -> None:
        """Check for missing records at the end."""
        last = self._head.number if self._head is not None else 0
        if self._known is not None and last < self._known.number:
            missing = self._known.number - last
            raise _Fault(
                self._torn.line or self._line + 1,
                f"the log ends at record {last}, and its head file knows record {self._known.number}: "
                f"{missing} record{'s are' if missing != 1 else ' is'} missing at its end",
            )
        if self._torn.line is not None:
            self._torn.check(at_end=True)
            note = f"line {self._torn.line}: {self._torn.length} {_LEFT}; the next record will account for them"
            self._notes.append(note)
        self._check_given(last)

    def _check_given(self, last: int) -> None:
        if self._given is None:
            if self._known is None and last:
                self._notes.append(_NO_HEAD)
        elif self._since is None and self._given != NOTHING_BEFORE:
            raise _Fault(
                self._line + 1,
                "it does not contain the given head: records at its end are missing, or it was rewritten",
            )
        elif self._since is not None and self._since < last:
            grown = last - self._since
            self._notes.append(f"{grown} record{'s' if grown > 1 else ''} more than at the given head")

    def report(self, fault: _Fault | None = None, file: str = "") -> AuditReport:
        head = self._head if self._head is not None else Head()
        return AuditReport(
            ok=fault is None,
            records=self._records,
            head_hash=head.hash,
            head_number=head.number,
            first_fault=fault.line if fault is not None else None,
            file=file,
            what=fault.what if fault is not None else "",
            hint=fault.hint if fault is not None else "",
            notes=tuple(self._notes),
            files=self._files,
        )


class _BrokenLines:
    """Consecutive lines that are not records."""

    def __init__(self) -> None:
        self.line: int | None = None
        self.length = 0
        self.digest = sha256()
        self._forged: int | None = None
        self._begun = 0
        self._ended = True

    def add(self, line: int, content: bytes, number: int) -> None:
        """Add a line, or a piece of a long one. `number` is the number of the next record."""
        if self.line is None:
            self.line = line
        self.length += len(content)
        self.digest.update(content)
        # A piece of a longer line than the log writes was not left by a writer.
        if self._ended:
            self._begun = line
        is_fragment = self._ended and _is_fragment(content.removesuffix(b"\n"), number)
        if self._forged is None and not is_fragment:
            self._forged = self._begun
        self._ended = content.endswith(b"\n")

    def check(self, *, at_end: bool = False) -> None:
        """Raise a fault unless each line is what a killed writer leaves: at the end, a line without a newline."""
        if self._forged is not None:
            raise _Fault(self._forged, _FORGED)
        if at_end and self._ended:
            assert self.line is not None
            raise _Fault(self.line, _FORGED)


_BEGINNING = re.compile(rb'\{"n":([0-9]{1,20})(,[\x20-\x7e]*)?\Z').match
_WHOLE_RECORD = re.compile(rb'"hash":"[0-9a-f]{64}"\}').search


def _is_fragment(content: bytes, number: int) -> bool:
    """Whether a writer that was killed may have left this instead of the record with this number.

    It is the beginning of one record, and no JSON object of its own. After a power failure, zeros may stand for the
    rest.
    """
    if not content:
        return False
    content = content.rstrip(b"\0")
    if b'{"n":'.startswith(content):
        return True
    found = _BEGINNING(content)
    if found is None or read_record(content) is not None or _WHOLE_RECORD(content):
        return False
    wanted = str(number).encode()
    return found[1] == wanted if found[2] is not None else wanted.startswith(found[1])


def _misplaced(link: Link, before: Head) -> str:
    if link.n > before.number + 1:
        return f"it is record {link.n}, and record {before.number} precedes it: the records between them are missing"
    if link.n <= before.number:
        return f"it is record {link.n}, which belongs before record {before.number}: it was moved or inserted again"
    return f"it does not follow the line before it: record {before.number} was replaced, or this one was inserted"


def _lines(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file up to a size, and whether each has its newline. A long line comes in pieces."""
    left = size
    while left > 0:
        line = file.readline(min(left, MOST_OF_A_LINE))
        if not line:
            return
        left -= len(line)
        yield line, line.endswith(b"\n")
