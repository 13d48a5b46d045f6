"""Where the journal lies unless somebody says otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.folders import state_folder

if TYPE_CHECKING:
    from dragoman.journal.journal import Journal


def default_path(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """The journal of this user: in the folder for state that the system has for programs."""
    return state_folder(environment, platform=platform) / "journal.db"


def open_journal(journal: Journal | str | os.PathLike[str] | None) -> Journal | None:
    """A journal for whatever names one: itself, the path of a file, or None."""
    if not isinstance(journal, str | os.PathLike):
        return journal
    from dragoman.journal.sqlite import SqliteJournal

    return SqliteJournal(journal)
