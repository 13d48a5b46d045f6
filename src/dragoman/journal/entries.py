"""What a journal accepts: names that can be shown and stored, and entries of the known kinds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dragoman.errors import ConfigError
from dragoman.journal.journal import KINDS, Entry

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


def new_run_id() -> str:
    return f"run_{os.urandom(8).hex()}"


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
