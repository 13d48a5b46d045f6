"""The journal: a durable log of runs (planned, started, finished, delivered) in an append-only SQLite file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError
from dragoman.journal.history import CallTrace, calls, open_calls, order_faults, was_ended
from dragoman.journal.journal import (
    DURABLE,
    KINDS,
    CannotFork,
    Entry,
    Journal,
    JournalDamaged,
    JournalError,
    JournalFailed,
    JournalTooNew,
    JournalUnreachable,
    Kind,
    Record,
    RunBusy,
    RunExists,
    RunLost,
    RunOver,
    RunSummary,
    SessionExists,
    SessionSummary,
    UnknownRun,
    UnknownSession,
)
from dragoman.journal.memory import MemoryJournal
from dragoman.paths import default_path

if TYPE_CHECKING:
    from dragoman.journal.postgres import PostgresJournal
    from dragoman.journal.sqlite import SqliteJournal

__all__ = [
    "DURABLE",
    "KINDS",
    "CallTrace",
    "CannotFork",
    "Entry",
    "Journal",
    "JournalDamaged",
    "JournalError",
    "JournalFailed",
    "JournalTooNew",
    "JournalUnreachable",
    "Kind",
    "MemoryJournal",
    "PostgresJournal",
    "Record",
    "RunBusy",
    "RunExists",
    "RunLost",
    "RunOver",
    "RunSummary",
    "SessionExists",
    "SessionSummary",
    "SqliteJournal",
    "UnknownRun",
    "UnknownSession",
    "calls",
    "default_path",
    "is_address",
    "open_calls",
    "open_journal",
    "order_faults",
    "was_ended",
]


def is_address(journal: object) -> bool:
    """Whether a journal is the address of a Postgres database."""
    return isinstance(journal, str) and journal.startswith(("postgres://", "postgresql://"))


def open_journal(journal: Journal | str | os.PathLike[str] | None) -> Journal | None:
    """Return a journal from a journal, the path of a file, the address of a Postgres database, or None."""
    if not isinstance(journal, str | os.PathLike):
        if journal is not None and not callable(getattr(journal, "begin", None)):
            hint = 'write journal=True, or journal="runs.db"'
            raise ConfigError(f"a journal is a Journal, a path or an address, not {type(journal).__name__}", hint=hint)
        return journal
    if is_address(journal):
        from dragoman.journal.postgres import PostgresJournal

        return PostgresJournal(str(journal))
    from dragoman.journal.sqlite import SqliteJournal

    return SqliteJournal(journal)


def __getattr__(name: str) -> Any:
    # A program without a journal does not load a database.
    if name == "PostgresJournal":
        from dragoman.journal.postgres import PostgresJournal

        return PostgresJournal
    if name == "SqliteJournal":
        from dragoman.journal.sqlite import SqliteJournal

        return SqliteJournal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
