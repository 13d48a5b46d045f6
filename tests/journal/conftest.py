from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.journal import Journal, MemoryJournal, SqliteJournal


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        yield journal


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Every journal there is: what is tested with it is the protocol."""
    made: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "journal.db")
    yield made
    made.close()
