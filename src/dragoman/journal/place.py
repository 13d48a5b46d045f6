"""Where the journal lies unless somebody says otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.journal.journal import Journal


def default_path(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """The journal of this user: in the folder for state that the system has for programs."""
    return _state_folder(environment, platform) / "dragoman" / "journal.db"


def open_journal(journal: Journal | str | os.PathLike[str] | None) -> Journal | None:
    """A journal for whatever names one: itself, the path of a file, or None."""
    if not isinstance(journal, str | os.PathLike):
        return journal
    from dragoman.journal.sqlite import SqliteJournal

    return SqliteJournal(journal)


def _state_folder(environment: Mapping[str, str], platform: str) -> Path:
    chosen = environment.get("XDG_STATE_HOME", "")
    # The specification asks to ignore a relative one.
    if PurePath(chosen).is_absolute():
        return Path(chosen)
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    return home / ".local" / "state"
