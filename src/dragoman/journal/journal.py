"""The journal protocol: claim a run, append to it, read it back; and its errors. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct

from dragoman.errors import ConfigError, DragomanError

# --------------------------------------------------------------------------------------------------------------------
# What can go wrong with a journal, each with the next step.


class JournalError(DragomanError):
    """The root of everything that a journal refuses or cannot do."""


class JournalFailed(JournalError):
    """The file cannot be read or written: full, read-only, locked, closed. Nothing was written."""

    hint = "check the disk and the rights of the file, then resume the run"


class JournalDamaged(JournalError):
    """What is stored is not what was written. The run is refused, nothing of it is guessed."""

    hint = "restore the file from a backup, or delete the session and begin again"

    def __init__(self, place: str, why: str, *, run_id: str = "", number: int | None = None) -> None:
        self.place = place
        self.why = why
        self.run_id = run_id
        self.number = number
        at = f", run {run_id}" if run_id else ""
        at += "" if number is None else f", record {number}"
        super().__init__(f"the journal {place}{at} is damaged: {why}")


class JournalTooNew(JournalError):
    hint = "upgrade dragoman, or name another file"

    def __init__(self, place: str, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the journal {place} was written by a newer dragoman (version {found}, this one knows {known})"
        )


class RunBusy(JournalError):
    """Somebody else is running it."""

    hint = "wait until it ends, or end that process; its claim then falls"

    def __init__(self, run_id: str, holder: str) -> None:
        self.run_id = run_id
        self.holder = holder
        super().__init__(f"run {run_id} is held by {holder}")


class RunLost(JournalError):
    """The claim was released or taken over, so what its former owner still has to say is refused."""

    hint = "stop this run; whoever holds it now goes on with it"

    def __init__(self, run_id: str, token: int, holder: str = "") -> None:
        self.run_id = run_id
        self.token = token
        self.holder = holder
        by = f"; it is held by {holder} now" if holder else ""
        super().__init__(f"claim {token} on run {run_id} is no longer valid{by}")


class RunOver(JournalError):
    hint = "begin a new run in the same session"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} has ended and takes no more records")


class RunExists(JournalError):
    hint = "resume it, or begin a run with another id"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is already a run {run_id}")


class SessionExists(JournalError):
    hint = "choose another name, or delete that session first"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"there is already a session {session!r}")


class UnknownRun(JournalError):
    hint = "`dragoman sessions list` shows what the journal holds"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the journal has no run {run_id!r}")


class UnknownSession(JournalError):
    hint = "`dragoman sessions list` shows what the journal holds"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"the journal has no session {session!r}")


class CannotFork(JournalError):
    """The place to fork from is none, or what stands there is still open."""

    hint = "fork from an earlier turn, or resume the run first"


# --------------------------------------------------------------------------------------------------------------------
# What a run needs of a journal: claim it, append to it, read it back. Nothing else, so that another store is a page.
#
# A journal knows runs, sessions and the order of records; what stands in a body is the business of whoever wrote it.
# Per call the order is: planned (in a `reply`), `approved` or `denied`, `started`, `finished`, `delivered`. Where
# nobody was there to approve, `asked` and `answered` stand before: the question, and what somebody said about it
# later.

Kind = Literal[
    "run", "reply", "asked", "answered", "approved", "denied", "started", "finished", "delivered", "input", "ended"
]
KINDS: frozenset[str] = frozenset(get_args(Kind))
DURABLE: frozenset[str] = frozenset({"run", "asked", "answered", "started", "finished", "ended"})
"""Kinds that are on the disk before `append` returns. The rest outlives the process, but maybe not a power cut."""


class Entry(Struct, frozen=True):
    """Something to be recorded. `call_id` is the call it is about, where it is about one.

    `calls` belongs to `reply` (the calls that it planned) and `delivered` (those whose results were sent).
    """

    kind: Kind
    body: bytes = b"{}"
    call_id: str = ""
    calls: tuple[str, ...] = ()


class Record(Struct, frozen=True):
    """An entry in its place: `number` counts from 0 within the run, `at` is the wall clock when it was appended."""

    number: int
    kind: Kind
    body: bytes
    call_id: str = ""
    at: float = 0.0
    calls: tuple[str, ...] = ()


class RunSummary(Struct, frozen=True):
    run_id: str
    session: str
    begun: float
    last: float
    """When the last record was appended."""
    records: int
    turns: int
    ended: bool
    parent: str | None = None
    """The run that this one goes on from, or that started it."""
    copied_from: str | None = None
    """The run whose first records these are, after a fork."""
    holder: str = ""
    """Who is running it, in words; empty when nobody is."""


class SessionSummary(Struct, frozen=True):
    session: str
    begun: float
    last: float
    runs: int
    turns: int
    records: int
    unfinished: int
    """How many of its runs have no end."""
    forked_from: str | None = None


class Journal(Protocol):
    """Every run belongs to a session; one that was given none is a session by itself, named by its id.

    Whoever begins or claims a run gets a token, and holds the run until it is released, the journal is closed or the
    process ends. A higher token voids the lower ones: an append with an old one raises `RunLost`. A call that is
    cancelled while it waits may still be carried out, as with any write that is under way.
    """

    async def begin(
        self, run_id: str, session: str | None, body: bytes, *, parent: str | None = None, owner: str = ""
    ) -> int:
        """Record a new run (its `run` record is number 0) and hold it: the token."""
        ...

    async def append(self, run_id: str, entries: Sequence[Entry], *, token: int) -> None:
        """Write all of them or none; on the disk when one of them is of a durable kind."""
        ...

    async def read(self, run_id: str) -> list[Record]:
        """All records of a run, proved to be the ones that were written, or `JournalDamaged`."""
        ...

    async def first(self, run_id: str) -> Record:
        """The `run` record alone, proved like the others: what a run was begun with."""
        ...

    async def claim(self, run_id: str, owner: str = "") -> int:
        """Hold a run that nobody holds, or whose holder is gone: the token. Otherwise `RunBusy`."""
        ...

    async def renew(self, run_id: str, *, token: int) -> None:
        """Make sure that the run is still held: `RunLost` if not. Claims are kept alive by the journal itself."""
        ...

    async def release(self, run_id: str, *, token: int) -> None:
        """Give a run back. Nothing happens if it was lost already."""
        ...

    async def run(self, run_id: str) -> RunSummary: ...

    async def runs(self, session: str | None = None, *, unfinished: bool = False) -> list[RunSummary]:
        """In the order in which they were begun."""
        ...

    async def last_run(self, session: str) -> RunSummary | None: ...

    async def sessions(self) -> list[SessionSummary]:
        """The one that was used last comes first."""
        ...

    async def fork(self, session: str, turn: int | None, new_session: str) -> RunSummary:
        """Copy a session up to the end of a turn, None for all of it: the last run of the copy.

        Turns are counted from 1 over all runs of the session; 0 keeps only what was asked first.
        """
        ...

    async def delete(self, session: str) -> int:
        """Remove a session with all its records: how many there were."""
        ...

    def export(self, session: str) -> AsyncIterator[dict[str, Any]]:
        """Everything about a session, as objects for one line of JSON each."""
        ...

    def close(self) -> None: ...


# --------------------------------------------------------------------------------------------------------------------
# What a journal accepts: names that can be shown and stored, and entries of the known kinds.

LONGEST_NAME = 200


def check_name(what: str, name: str) -> str:
    """The name of a run or a session, if it is one that a person can type and a terminal can show."""
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
            raise ConfigError("nothing can stand behind `ended`", hint="make it the last entry")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
