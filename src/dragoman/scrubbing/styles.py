"""How a hidden secret is shown: by its kind, or by its first four characters as older programs do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.errors import ConfigError, nearest

# The kind, the value, and whether it stood without quotes where text needs them: a number of JSON.
Render = Callable[[str, str, bool], str]


def by_kind(kind: str, value: str, bare: bool = False) -> str:
    """`[redacted:github_token]`: nothing of the value is left."""
    return f'"[redacted:{kind}]"' if bare else f"[redacted:{kind}]"


def by_beginning(kind: str, value: str, bare: bool = False) -> str:
    """`ghp_*[REDACTED]`: the first four characters, if the value is longer than four."""
    beginning = value[:4] if len(value) > 4 else ""
    # A piece of an escape would break the JSON around it, and a break the line.
    if not beginning.isprintable() or any(mark in beginning for mark in "\\\"'[*"):
        beginning = ""
    return f'"{beginning}*[REDACTED]"' if bare else f"{beginning}*[REDACTED]"


STYLES: Final[dict[str, Render]] = {"kind": by_kind, "seed": by_beginning}


def get_style(name: str) -> Render:
    """The way of showing with this name."""
    try:
        return STYLES[name]
    except KeyError:
        guess = nearest(name, STYLES)
        known = ", ".join(STYLES)
        raise ConfigError(
            f"unknown style of scrubbing {name!r}" + (f"; did you mean {guess!r}?" if guess else ""),
            hint=f"use one of: {known}",
        ) from None
