"""`dragoman config`: what is shown, where files are written, and what stays hidden."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.config import SETTINGS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with no configuration yet, standing in a repository."""
    for name in [name for name in os.environ if name.startswith(("DRAGOMAN_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("sys.platform", "linux")
    folder = tmp_path.resolve() / "home"
    (folder / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "project")
    return folder


def own_file(home: Path, text: str) -> Path:
    path = home / ".config" / "dragoman" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_every_setting_is_shown_with_its_origin(dragoman, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_file(home, "[limits]\nturns = 20\n")
    (home / "project" / "dragoman.toml").write_text('limits.turns = 5\ndeny = ["shell"]\n', encoding="utf-8")
    monkeypatch.setenv("DRAGOMAN_MODEL", "ollama:qwen3")
    done = dragoman("config", "show")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert 'model "ollama:qwen3" $DRAGOMAN_MODEL' in lines
    assert "limits.turns 5 ~/project/dragoman.toml:1" in lines
    assert f"not 20 ~/.config/dragoman/config.toml:2: the project's {home}/project/dragoman.toml:1 is tighter" in lines
    assert 'deny ["shell"] ~/project/dragoman.toml:2' in lines
    assert 'trust "default" default' in lines
    assert all(f"\n  {name}" in done.out for name in SETTINGS)


def test_show_as_json(dragoman, home: Path) -> None:
    path = own_file(home, "[limits]\nturns = 20\n")
    project = home / "project" / "dragoman.toml"
    project.write_text("limits.turns = 50\n", encoding="utf-8")
    data = dragoman("config", "show", "--json").data
    assert data["files"] == {"managed": None, "user": str(path), "project": str(project)}
    assert [each["name"] for each in data["settings"]] == list(SETTINGS)
    (turns,) = [each for each in data["settings"] if each["name"] == "limits.turns"]
    assert turns["value"] == 20
    assert turns["origin"] == {"kind": "user", "path": str(path), "line": 2, "variable": None}
    assert [(each["value"], each["origin"]["kind"]) for each in turns["overridden"]] == [
        (10, "default"),
        (50, "project"),
    ]
    only = dragoman("config", "show", "--set", "--json").data
    assert [each["name"] for each in only["settings"]] == ["limits.turns"]


@pytest.mark.parametrize("arguments", [("show",), ("show", "--json")])
def test_no_key_is_ever_shown(dragoman, home: Path, arguments: tuple[str, ...]) -> None:
    own_file(
        home,
        'proxy = "http://me:sk-secret-1@proxy"\n[keys]\ngroq = "sk-secret-2"\nopenai = { env = "MINE" }\n'
        '[providers.mine]\nbase_url = "https://x/v1?key=sk-secret-3"\nheaders = { Auth = "sk-secret-4" }\n',
    )
    done = dragoman("config", *arguments)
    assert done.code == 0
    assert "sk-secret" not in done.out + done.err
    assert "MINE" in done.out


def test_warnings_are_beside_the_answer(dragoman, home: Path) -> None:
    path = own_file(home, '[keys]\ngroq = "gsk"\n')
    path.chmod(0o644)
    done = dragoman("config", "show", "--set")
    assert done.err.startswith("warning: ")
    assert "chmod 600" in done.err
    assert dragoman("config", "show", "--json").data["warnings"]


def test_a_broken_file_is_an_error_with_its_place(dragoman, home: Path) -> None:
    (home / "project" / "dragoman.toml").write_text("limits.turns = 0\n", encoding="utf-8")
    done = dragoman("config", "show")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {home}/project/dragoman.toml:1: `limits.turns`")


def test_a_project_that_says_where_data_goes_is_passed_over_and_told_of(dragoman, home: Path) -> None:
    (home / "project" / "dragoman.toml").write_text('proxy = "http://elsewhere"\n', encoding="utf-8")
    done = dragoman("config", "show")
    assert done.code == 0 and "elsewhere" not in done.out
    assert "dragoman.toml:1" in done.err and "proxy" in done.err


def test_init_writes_a_private_file_once(dragoman, home: Path) -> None:
    path = home / ".config" / "dragoman" / "config.toml"
    assert dragoman("config", "init").out == f"wrote {path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert dragoman("config", "show", "--set", "--json").data["settings"] == []
    path.write_text("limits.turns = 3\n", encoding="utf-8")
    again = dragoman("config", "init")
    assert (again.code, again.err) == (2, f"error: {path} already exists\nhint: --force replaces it\n")
    assert path.read_text(encoding="utf-8") == "limits.turns = 3\n"
    assert dragoman("config", "init", "--force").code == 0
    assert "#turns = 10" in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["config.toml"]


def test_init_for_a_project(dragoman, home: Path) -> None:
    path = home / "project" / "dragoman.toml"
    before = os.umask(0o022)
    try:
        assert dragoman("config", "init", "--project").code == 0
        assert dragoman("config", "init", "--project", "--force").code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert dragoman("config", "path", "--project").out == f"{path}\n"


def test_path(dragoman, home: Path) -> None:
    assert dragoman("config", "path").out == f"{home}/.config/dragoman/config.toml\n"
    missing = dragoman("config", "path", "--project")
    assert (missing.code, missing.out) == (2, "")
    assert "config init --project" in missing.err


def test_config_alone_explains_itself(dragoman) -> None:
    done = dragoman("config")
    assert done.code == 0
    assert done.out.startswith("Usage: dragoman config")
    assert "init" in done.out


@pytest.mark.parametrize(
    ("shell", "environment", "expected"),
    [
        ("bash", {"COMP_WORDS": "dragoman conf", "COMP_CWORD": "1"}, "config"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "dragoman config in"}, "init"),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "dragoman config sh", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
            "show",
        ),
    ],
)
def test_shells_complete_commands(shell: str, environment: dict[str, str], expected: str) -> None:
    # In a process of its own: completion ends the process.

    around = os.environ | environment | {"_DRAGOMAN_COMPLETE": f"complete_{shell}"}
    done = subprocess.run([sys.executable, "-m", "dragoman"], capture_output=True, text=True, env=around, check=True)
    assert expected in done.stdout
    assert "error" not in done.stderr
