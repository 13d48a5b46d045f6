"""How a run ends for whoever started the command: the exit codes, and the words on standard error."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping

from dragoman.agent.result import Category, RunResult
from dragoman.cli.screen import show_controls
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal import UnknownRun, UnknownSession
from dragoman.secrets import scrub

FATAL = 1
MISUSED = 2
CODES: dict[Category, int] = {"success": 0, "fatal": FATAL, "capacity": 3, "retryable": 4, "waiting": 5}
_MISUSES = (ConfigError, UnknownRun, UnknownSession)
SIGNALLED = 128
"""Added to the number of the signal: 130 for Ctrl-C, 143 for SIGTERM."""

WHAT_HELPS: dict[str, str] = {
    "turn_limit": "allow more with --turns N, then go on with --resume",
    "token_limit": "allow more with --tokens N",
    "cost_limit": "allow more with --cost N, or give a price in the configuration",
    "time_limit": "allow more with --seconds N",
    "context_full": "begin a new session, or choose a model with a larger window",
    "truncated": "allow a longer reply with --option max_tokens=N",
    "starved": "allow a longer reply with --option max_tokens=N, or less thinking with --option reasoning=low",
    "awaiting_approval": "`dragoman approvals list` shows what waits; once it is answered, --resume goes on",
    "unauthorized": "check the key and what it may do; `dragoman providers NAME` says where it is looked for",
}


def code_of(result: RunResult, signal: int | None = None) -> int:
    """The exit code of a run. `signal` is the one that ended it, if one did."""
    if signal is not None and result.outcome.kind == "cancelled":
        return SIGNALLED + signal
    return CODES[result.outcome.category]


def complain(message: str, hint: str = "") -> None:
    """Say what is wrong, and what to do about it; a provider's words may quote a key."""
    print(f"error: {show_controls(scrub(message))}", file=sys.stderr)
    if hint:
        print(f"hint: {show_controls(hint)}", file=sys.stderr)


def complain_about(error: Exception, environment: Mapping[str, str]) -> int:
    """Say what broke a run off, and give the exit code; no traceback unless somebody debugs."""
    if isinstance(error, DragomanError):
        complain(str(error), error.next_step)
        return MISUSED if isinstance(error, _MISUSES) else FATAL
    if isinstance(error, OSError):
        complain(f"the output cannot be written: {error.strerror or error}", "check where it goes, and the disk")
        return FATAL
    if environment.get("DRAGOMAN_DEBUG"):
        traceback.print_exception(error)
    complain(
        f"{type(error).__name__}: {error}",
        "this is a fault of dragoman itself; with DRAGOMAN_DEBUG=1 it shows where it happened",
    )
    return FATAL
