"""The path of the journal, and how its folder is created."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path

import pytest
from tests.journal.support import record_run

from dragoman import config
from dragoman.config import load
from dragoman.errors import ConfigError
from dragoman.journal import MemoryJournal, SqliteJournal, default_path, open_journal
from dragoman.paths import state_folder


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


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_agent_and_the_command_line_use_one_state_folder(platform: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert state_folder(environment, platform) == default_path(environment, platform=platform).parent
    assert state_folder is config.state_folder


def test_an_unknown_home_folder_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(ConfigError, match="home folder") as caught:
        default_path({})
    assert "XDG_STATE_HOME" in caught.value.next_step


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
