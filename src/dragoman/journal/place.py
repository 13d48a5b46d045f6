"""Where the journal lies unless somebody says otherwise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.journal.journal import Journal


def open_journal(journal: Journal | str | os.PathLike[str] | None) -> Journal | None:
    """A journal for whatever names one: itself, the path of a file, or None."""
    if not isinstance(journal, str | os.PathLike):
        return journal
    from dragoman.journal.sqlite import SqliteJournal

    return SqliteJournal(journal)
