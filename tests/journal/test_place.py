"""Where the journal lies, and how it gets there."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path

import pytest
from tests.journal.support import record_run

from dragoman.config import load
from dragoman.journal import MemoryJournal, SqliteJournal, default_path, open_journal


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"HOME": "/h/ada"}, "linux", "/h/ada/.local/state/dragoman/journal.db"),
        ({"HOME": "/h/ada", "XDG_STATE_HOME": "/state"}, "linux", "/state/dragoman/journal.db"),
        ({"HOME": "/h/ada", "XDG_STATE_HOME": "state"}, "linux", "/h/ada/.local/state/dragoman/journal.db"),
        ({"HOME": "/u/ada"}, "darwin", "/u/ada/Library/Application Support/dragoman/journal.db"),
        ({"LOCALAPPDATA": "/local", "USERPROFILE": "/u"}, "win32", "/local/dragoman/journal.db"),
        ({"USERPROFILE": "/u"}, "win32", "/u/AppData/Local/dragoman/journal.db"),
    ],
    ids=["linux", "xdg", "relative xdg", "macos", "windows", "windows without a folder"],
)
def test_the_default_is_the_folder_for_state(environment: dict[str, str], platform: str, expected: str) -> None:
    assert default_path(environment, platform=platform).as_posix() == expected


def test_the_configuration_names_the_same_place(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "LOCALAPPDATA": str(tmp_path / "local")}
    assert load(tmp_path, environment)["journal.path"] == str(default_path(environment))


def test_a_path_is_opened_and_a_journal_is_one() -> None:
    memory = MemoryJournal()
    assert open_journal(memory) is memory
    assert open_journal(None) is None
    opened = open_journal("somewhere/journal.db")
    assert isinstance(opened, SqliteJournal)
    assert opened.path == Path("somewhere/journal.db")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_the_file_and_its_log_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "journal.db"
    with SqliteJournal(path) as journal:
        asyncio.run(record_run(journal, "r", None, []))
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        assert asyncio.run(journal.sessions()) == []
    assert list(tmp_path.iterdir()) == []
