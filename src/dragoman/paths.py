"""The folders and default files of dragoman on each platform. Pure: the functions read and create nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

from dragoman.errors import ConfigError

AUDIT_FILE = "audit.jsonl"
JOURNAL_FILE = "journal.db"
USER_FILE = "config.toml"
SWITCHED_OFF = ("off", "none", "0", "no", "false")
"""The values of a variable that turn something off."""
_OURS = "dragoman"


class _Location(NamedTuple):
    """Where a platform keeps one kind of file: a variable that names the folder, or a folder below the home."""

    xdg_variable: str
    linux: str
    macos: str
    windows_variable: str
    windows: str


_CONFIG = _Location("XDG_CONFIG_HOME", ".config", "Library/Application Support", "APPDATA", "AppData/Roaming")
_STATE = _Location("XDG_STATE_HOME", ".local/state", "Library/Application Support", "LOCALAPPDATA", "AppData/Local")
_CACHE = _Location("XDG_CACHE_HOME", ".cache", "Library/Caches", "LOCALAPPDATA", "AppData/Local")


def home_folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path | None:
    """Return the home folder of the user, or None if it is unknown."""
    names = ("USERPROFILE", "HOME") if platform == "win32" else ("HOME", "USERPROFILE")
    named = next((environment[name] for name in names if environment.get(name)), None)
    if named:
        return Path(named)
    try:
        return Path.home()
    except RuntimeError:
        return None


def current_folder(environment: Mapping[str, str]) -> Path:
    """Return the current folder. If somebody removed it, this is the path that it had.

    A command that needs no file there works in such a folder, and the settings of a project above it still count.
    """
    try:
        return Path.cwd()
    except OSError:
        named = Path(environment.get("PWD", ""))
        return named if named.is_absolute() else Path("/")


def config_folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path | None:
    """Return the folder of the user's configuration file, or None if the home folder is unknown."""
    return _find(_CONFIG, environment, platform)


def state_folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path | None:
    """Return the folder of the journal and the audit log, or None if the home folder is unknown."""
    return _find(_STATE, environment, platform)


def cache_folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path | None:
    """Return the folder of downloaded models, or None if the home folder is unknown."""
    return _find(_CACHE, environment, platform)


def user_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the user's file, whether it exists or not. `$DRAGOMAN_CONFIG` names another file, or `off`."""
    named = environment.get("DRAGOMAN_CONFIG")
    if named:
        return None if named.lower() in SWITCHED_OFF else expand(named, current_folder(environment), environment)
    folder = config_folder(environment)
    return folder and folder / USER_FILE


def expand(path: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """Expand a path from a file: `~` is the home folder, and a relative path starts at the folder of the file."""
    home = home_folder(environment)
    if home is not None and (path == "~" or path.startswith(("~/", "~\\"))):
        return home / path[2:]
    return folder / path


def default_path(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """Return the path of the user's journal."""
    return require_folder(state_folder(environment, platform), _STATE.xdg_variable) / JOURNAL_FILE


def beside(journal: Path) -> Path:
    """Return the path of the audit log of a journal: it is in the same folder."""
    return journal.with_name(AUDIT_FILE)


def require_folder(folder: Path | None, variable: str) -> Path:
    """Return the folder, or raise a ConfigError that names the variable to set."""
    if folder is None:
        raise ConfigError("the home folder is unknown", hint=f"set HOME, or set {variable} to a folder")
    return folder


def _find(location: _Location, environment: Mapping[str, str], platform: str) -> Path | None:
    named = environment.get(location.xdg_variable, "")
    # The XDG specification requires that relative paths are ignored.
    if PurePath(named).is_absolute():
        return Path(named) / _OURS
    home = home_folder(environment, platform)
    if platform == "win32":
        given = environment.get(location.windows_variable)
        return Path(given) / _OURS if given else home and home / location.windows / _OURS
    return home and home / (location.macos if platform == "darwin" else location.linux) / _OURS
