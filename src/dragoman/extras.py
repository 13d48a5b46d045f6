"""The extras of the package: what to say if a part of dragoman needs one that is not installed."""

from __future__ import annotations

import os
import sys

from dragoman.errors import ConfigError


def install_command(*extras: str, prefix: str = sys.prefix) -> str:
    """Return the command that installs extras into the environment of this process.

    uv and pipx give each program an environment of its own. It has no `pip`, and an installation replaces the extras.
    """
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return f'uv tool install "{_requirement("cli", *extras)}"'
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return f'pipx install --force "{_requirement("cli", *extras)}"'
    # The shell of Windows knows no single quotes.
    return f'pip install "{_requirement(*extras)}"'


def missing_extra(what: str, extra: str) -> ConfigError:
    """Return the error for a part that needs an extra. `what` is such as `a server needs uvicorn`."""
    return ConfigError(f"{what}, which is not installed", hint=f"install it: {install_command(extra)}")


def _requirement(*extras: str) -> str:
    return f"dragoman[{','.join(dict.fromkeys(extras))}]"
