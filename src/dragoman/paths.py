"""State folders and default file locations, per platform. Pure: nothing is read or created here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePath

# --------------------------------------------------------------------------------------------------------------------
# Where a program keeps what it has to remember, on each system. Nothing is looked at or made here.


def state_folder(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """Our folder in the place for state that the system has for programs of this user."""
    return _find(environment, platform) / "dragoman"


def default_path(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """The journal of this user: in the folder for state that the system has for programs."""
    return state_folder(environment, platform=platform) / "journal.db"


def _find(environment: Mapping[str, str], platform: str) -> Path:
    chosen = environment.get("XDG_STATE_HOME", "")
    # The specification asks to ignore a relative one.
    if PurePath(chosen).is_absolute():
        return Path(chosen)
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    return home / ".local" / "state"


# --------------------------------------------------------------------------------------------------------------------
# Where the audit log lies unless somebody says otherwise: beside the journal.

NAME = "audit.jsonl"


def default_audit_path(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """The audit log of this user, in the folder where the journal is unless it was given another place."""
    return state_folder(environment, platform=platform) / NAME


def beside(journal: Path) -> Path:
    """The audit log that belongs to a journal: in the same folder."""
    return journal.with_name(NAME)
