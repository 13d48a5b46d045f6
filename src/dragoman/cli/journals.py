"""The journal that a command works on: the one that is named, or the one of the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.journal import SqliteJournal

T = TypeVar("T")


def find_journal(named: str | None) -> Path:
    """The path of the journal; one that is named has to be there."""
    if named is not None:
        path = Path(named).expanduser()
        if not path.exists():
            raise ConfigError(f"there is no journal at {path}", hint="check the path; a run with a journal makes one")
        return path
    from dragoman.config import load

    place = load()["journal.path"]
    if place is None:
        raise ConfigError("there is no place for the journal", hint="set HOME, or name a file with --journal")
    return Path(place)


def with_journal(path: Path, work: Callable[[SqliteJournal], Awaitable[T]]) -> T:
    """Do something with a journal, and close it."""
    from dragoman.journal import SqliteJournal

    async def opened() -> T:
        with SqliteJournal(path) as store:
            return await work(store)

    return asyncio.run(opened())
