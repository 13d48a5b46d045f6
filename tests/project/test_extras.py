"""What a person is told whose environment lacks a part of dragoman."""

from __future__ import annotations

from pathlib import Path

from dragoman.__main__ import _EXTRAS
from dragoman.cli.app import COMMANDS
from dragoman.errors import ConfigError
from dragoman.extras import install_command, missing_extra


def test_the_command_fits_the_installer_of_the_environment(tmp_path: Path) -> None:
    assert install_command("server", prefix=str(tmp_path)) == 'pip install "dragoman[server]"'
    (tmp_path / "pipx_metadata.json").touch()
    assert install_command("server", prefix=str(tmp_path)) == 'pipx install --force "dragoman[cli,server]"'
    (tmp_path / "uv-receipt.toml").touch()
    assert install_command("cli", "local", prefix=str(tmp_path)) == 'uv tool install "dragoman[cli,local]"'


def test_the_table_of_extras_names_commands() -> None:
    assert set(_EXTRAS) <= {row.name for row in COMMANDS}


def test_an_error_names_the_part_and_the_command() -> None:
    error = missing_extra("a server needs uvicorn", "server")
    assert isinstance(error, ConfigError)
    assert str(error) == "a server needs uvicorn, which is not installed"
    assert error.next_step == 'install it: pip install "dragoman[server]"'
