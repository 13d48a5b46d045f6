"""A home, a project in it, and a way to load what both say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman.config import Config, load


class Place(NamedTuple):
    """A user's folder with a repository in it."""

    home: Path
    project: Path

    @property
    def user_file(self) -> Path:
        return self.home / ".config" / "dragoman" / "config.toml"

    @property
    def project_file(self) -> Path:
        return self.project / "dragoman.toml"

    def load(
        self,
        user: str | None = None,
        project: str | None = None,
        environment: dict[str, str] | None = None,
        arguments: dict[str, Any] | None = None,
        below: str = "",
    ) -> Config:
        for path, text in ((self.user_file, user), (self.project_file, project)):
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o600)
        around = {"HOME": str(self.home), **(environment or {})}
        return load(self.project / below, around, arguments)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    # The folders of Linux are tested on every system; those of the others have tests of their own.
    monkeypatch.setattr("sys.platform", "linux")
    # What is laid down for the machine that runs the tests is not for them.
    monkeypatch.setattr("dragoman.config.files.MANAGED_FILE", tmp_path / "etc" / "dragoman" / "config.toml")
    home = (tmp_path / "home").resolve()
    project = home / "work" / "project"
    (project / ".git").mkdir(parents=True)
    return Place(home, project)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
