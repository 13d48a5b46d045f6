"""The durable log of runs: what was planned, started, finished and delivered, in an append-only SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.journal.history import CallTrace, Turn, calls, open_calls, order_faults, turns, was_ended
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
    open_journal,
)
from dragoman.journal.memory import MemoryJournal
from dragoman.paths import default_path

if TYPE_CHECKING:
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
    "Kind",
    "MemoryJournal",
    "Record",
    "RunBusy",
    "RunExists",
    "RunLost",
    "RunOver",
    "RunSummary",
    "SessionExists",
    "SessionSummary",
    "SqliteJournal",
    "Turn",
    "UnknownRun",
    "UnknownSession",
    "calls",
    "default_path",
    "open_calls",
    "open_journal",
    "order_faults",
    "turns",
    "was_ended",
]


def __getattr__(name: str) -> Any:
    # Whoever runs without a journal does not pay for loading SQLite.
    if name == "SqliteJournal":
        from dragoman.journal.sqlite import SqliteJournal

        return SqliteJournal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
