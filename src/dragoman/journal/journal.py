"""The journal protocol: claim a run, append to it, read it; and its errors. Pure."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct

from dragoman.errors import ConfigError, DragomanError

# --------------------------------------------------------------------------------------------------------------------
# The errors of a journal, each with the next step.


class JournalError(DragomanError):
    """The base class of all errors of a journal."""


class JournalFailed(JournalError):
    """The file cannot be read or written: full, read-only, locked, closed. Nothing was written."""

    hint = "check the disk and the permissions of the file, then resume the run"


class JournalUnreachable(JournalFailed):
    """The server of the journal cannot be reached, or another session keeps a lock.

    The journal tries again for some time before a task gets this error.
    """

    hint = "start the database or check the address, then try again"


class JournalDamaged(JournalError):
    """The stored records are not what was written. The journal refuses the run and guesses nothing."""

    hint = "restore the file from a backup"

    def __init__(self, place: str, why: str, *, run_id: str = "", number: int | None = None) -> None:
        self.place = place
        self.why = why
        self.run_id = run_id
        self.number = number
        at = f", run {run_id}" if run_id else ""
        at += "" if number is None else f", record {number}"
        # If the file itself cannot be read, no session in it can be deleted.
        where = f" --journal {shlex.quote(place)}" if "/" in place else ""
        fix = (
            f"delete the session: dragoman sessions delete {run_id}{where}"
            if run_id
            else f"move the file away, and the next run creates another: mv {shlex.quote(place)} "
            f"{shlex.quote(place + '.damaged')}"
        )
        super().__init__(f"the journal {place}{at} is damaged: {why}", hint=f"{self.hint}, or {fix}")


class JournalTooNew(JournalError):
    """A newer version of dragoman wrote the journal. It is not changed."""

    hint = "upgrade dragoman, or name another file"

    def __init__(self, place: str, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the journal {place} was written by a newer dragoman (version {found}, this one knows {known})"
        )


class RunBusy(JournalError):
    """Another process holds the run."""

    hint = "wait until it ends, or end that process, which releases the run"

    def __init__(self, run_id: str, holder: str) -> None:
        self.run_id = run_id
        self.holder = holder
        super().__init__(f"run {run_id} is held by {holder}")


class RunLost(JournalError):
    """The claim was released or taken over, so an append with it is refused."""

    hint = "stop this run; the process that holds it now continues it"

    def __init__(self, run_id: str, token: int, holder: str = "") -> None:
        self.run_id = run_id
        self.token = token
        self.holder = holder
        by = f"; it is held by {holder} now" if holder else ""
        super().__init__(f"claim {token} on run {run_id} is no longer valid{by}")


class RunOver(JournalError):
    """The run has ended, so it accepts no more records."""

    hint = "start a new run in the same session"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} has ended and accepts no more records")


class RunExists(JournalError):
    """A run with this id exists already."""

    hint = "resume it, or start a run with another id"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is already a run {run_id}")


class SessionExists(JournalError):
    """A session with this name exists already."""

    hint = "choose another name, or delete that session first"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"there is already a session {session!r}")


class UnknownRun(JournalError):
    """The journal has no run with this id."""

    hint = "`dragoman sessions list` shows what the journal holds"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the journal has no run {run_id!r}")


class UnknownSession(JournalError):
    """The journal has no session with this name."""

    hint = "`dragoman sessions list` shows what the journal holds"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"the journal has no session {session!r}")


class CannotFork(JournalError):
    """The session has no such turn, or a call of that turn is still open."""

    hint = "fork from an earlier turn, or resume the run first"


# --------------------------------------------------------------------------------------------------------------------
# What a run needs from a journal: claim it, append to it, read it. The protocol is small, so that another store is easy
# to write.
#
# A journal knows runs, sessions and the order of records. It does not read the bodies. The order for each call is:
# planned (in a `reply`), `approved` or `denied`, `started`, `finished`, `delivered`. If an approval was deferred,
# `asked` (the request) and `answered` (the answer) come before.

Kind = Literal[
    "run", "reply", "asked", "answered", "approved", "denied", "started", "finished", "delivered", "input", "ended"
]
"""The kinds of records."""
KINDS: frozenset[str] = frozenset(get_args(Kind))
"""The kinds of records, as a set."""
DURABLE: frozenset[str] = frozenset({"run", "asked", "answered", "started", "finished", "ended"})
"""Kinds that are on the disk before `append` returns. Others survive the process, but perhaps not a power failure."""


class Entry(Struct, frozen=True):
    """A record to append. `call_id` is the id of its call, if it concerns one.

    `calls` belongs to `reply` (the planned calls) and `delivered` (the calls whose results were sent).
    """

    kind: Kind
    body: bytes = b"{}"
    call_id: str = ""
    calls: tuple[str, ...] = ()


class Record(Struct, frozen=True):
    """A stored entry: `number` counts from 0 within the run, `at` is the time of the append by the wall clock."""

    number: int
    kind: Kind
    body: bytes
    call_id: str = ""
    at: float = 0.0
    calls: tuple[str, ...] = ()


class RunSummary(Struct, frozen=True):
    """What the journal knows about a run. Times are seconds since 1970."""

    run_id: str
    session: str
    begun: float
    last: float
    """The time of the last append."""
    records: int
    turns: int
    ended: bool
    parent: str | None = None
    """The run that this one continues, or that started it."""
    copied_from: str | None = None
    """The run from which a fork copied the first records."""
    holder: str = ""
    """A description of the process that holds the run; empty if none does."""


class SessionSummary(Struct, frozen=True):
    """What the journal knows about a session. Times are seconds since 1970."""

    session: str
    begun: float
    last: float
    runs: int
    turns: int
    records: int
    unfinished: int
    """The number of its runs without an end."""
    forked_from: str | None = None


class Journal(Protocol):
    """A store of runs. Every run belongs to a session; a run without one is a session of its own, named by its id.

    `begin` and `claim` return a token. The caller then holds the run until it releases the run, the journal is closed
    or the process ends. A higher token invalidates the lower ones: an append with an old one raises `RunLost`. A call
    that is cancelled while it waits may still take effect, like any write in progress.
    """

    async def begin(
        self, run_id: str, session: str | None, body: bytes, *, parent: str | None = None, owner: str = ""
    ) -> int:
        """Record a new run (its `run` record is number 0) and hold it. Return the token."""
        ...

    async def append(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        """Append all entries or none. If one of them is of a durable kind, all are on the disk on return."""
        ...

    async def read(self, run_id: str) -> list[Record]:
        """Return all verified records of a run, or raise `JournalDamaged`."""
        ...

    async def first(self, run_id: str) -> Record:
        """Return only the verified `run` record: the start of the run."""
        ...

    async def claim(self, run_id: str, owner: str = "") -> int:
        """Hold a run that no process holds, or whose holder is gone. Return the token, or raise `RunBusy`."""
        ...

    async def renew(self, run_id: str, *, token: int) -> None:
        """Check that the run is still held; raise `RunLost` if not. The journal itself renews leases."""
        ...

    async def release(self, run_id: str, *, token: int) -> None:
        """Release a run. Nothing happens if the claim was already lost."""
        ...

    async def run(self, run_id: str) -> RunSummary:
        """Return a summary of a run. Raises UnknownRun."""
        ...

    async def runs(self, session: str | None = None, *, unfinished: bool = False) -> list[RunSummary]:
        """Return the runs in the order of their start."""
        ...

    async def last_run(self, session: str) -> RunSummary | None:
        """Return the newest run of a session, or None if the session has none."""
        ...

    async def sessions(self) -> list[SessionSummary]:
        """Return the sessions, the last used first."""
        ...

    async def fork(self, session: str, turn: int | None, new_session: str) -> RunSummary:
        """Copy a session up to the end of a turn, or all of it for None. Return the last run of the copy.

        Turns are counted from 1 over all runs of the session; 0 keeps only the first task.
        """
        ...

    async def delete(self, session: str) -> int:
        """Delete a session with all its records. Return their number."""
        ...

    def export(self, session: str) -> AsyncIterator[dict[str, Any]]:
        """Return everything about a session, as objects for one line of JSON each."""
        ...

    def close(self) -> None:
        """Close the journal. Records that were appended are kept."""
        ...


# --------------------------------------------------------------------------------------------------------------------
# Valid names and entries: names that can be displayed and stored, and entries of the known kinds.

LONGEST_NAME = 200


def check_name(what: str, name: str) -> str:
    """Return the name of a run or a session, if a person can type it and a terminal can show it."""
    if not name or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise ConfigError(
            f"{name[:LONGEST_NAME]!r} cannot be the name of a {what}",
            hint=f"a name has 1 to {LONGEST_NAME} characters that can be printed, without blanks at its ends",
        )
    return name


def check_entries(entries: Sequence[Entry]) -> None:
    for entry in entries:
        if entry.kind not in KINDS or entry.kind == "run":
            raise ConfigError(
                f"a record cannot be of the kind {entry.kind!r}",
                hint=f"the kinds are {', '.join(sorted(KINDS))}; `run` is written by begin",
            )
        for call_id in (entry.call_id, *entry.calls):
            if not _is_text(call_id):
                raise ConfigError(f"{call_id!r} cannot be the id of a call", hint="an id has to be valid UTF-8")
    for entry in entries[:-1]:
        if entry.kind == "ended":
            raise ConfigError("no entry can follow `ended`", hint="make it the last entry")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
