"""The environment of a server: what every program needs, and what its own row says. Nothing else.

A server is somebody else's program. It gets none of the keys that lie in the environment of the user.
"""

from __future__ import annotations

from collections.abc import Mapping

INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL"}
    # What programs on Windows do not start without.
    | {"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"}
)


def clean_environment(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables that a server is started with; `own` are those of its row, and win."""
    kept = {
        name: value
        for name, value in inherited.items()
        # Old shells carry functions in variables; what looks like one is left out.
        if (name.upper() in INHERITED or name.startswith("LC_")) and not value.startswith("()")
    }
    return {**kept, **own}
