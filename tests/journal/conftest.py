from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres import postgres as postgres

from dragoman.journal import Journal, MemoryJournal, PostgresJournal, SqliteJournal


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        yield journal


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Every implementation of the protocol `Journal`."""
    made: Journal
    if request.param == "memory":
        made = MemoryJournal()
    elif request.param == "sqlite":
        made = SqliteJournal(tmp_path / "journal.db")
    else:
        made = PostgresJournal(request.getfixturevalue("postgres").new_database())
    yield made
    made.close()
