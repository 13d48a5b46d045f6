"""The exit codes of all commands, and which errors may be over the next time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import TransportError

if TYPE_CHECKING:
    from dragoman.agent.result import Category

FATAL = 1
USAGE_ERROR = 2
NO_ANSWER = 4
"""An endpoint or a database does not answer, or a run failed that may succeed the next time."""
EXIT_CODES: dict[Category, int] = {"success": 0, "fatal": FATAL, "capacity": 3, "retryable": NO_ANSWER, "waiting": 5}
SIGNAL_BASE = 128
"""Added to the number of the signal: 130 for Ctrl-C, 143 for SIGTERM."""


def is_temporary(error: BaseException) -> bool:
    """Whether an endpoint or a database does not answer, so that the same command may succeed the next time."""
    # Most commands need no journal.
    from dragoman.journal.journal import JournalUnreachable

    return isinstance(error, TransportError | JournalUnreachable)
