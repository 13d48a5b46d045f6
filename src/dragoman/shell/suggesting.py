"""The rule to offer to a person who says "always"."""

from __future__ import annotations

from dragoman.shell.allowing import allows
from dragoman.shell.programs import find_depth
from dragoman.shell.reading import read_command
from dragoman.shell.tables import words_of

# With these before it, `name*` would cover too much, whatever follows.
_TOO_WIDE = (
    "git config",
    "git bisect run",
    "git submodule foreach",
    "npm create",
    "npm init",
    "pnpm create",
    "yarn create",
)
# Subcommands that run, reach or fetch whatever is named behind them: `uv run python*` would be any code at all.
_RUNNING = words_of("run exec dlx ssh shell install pip")
# Whose `run` names a script that the project itself has written down.
_NAMING_SCRIPTS = words_of("npm pnpm yarn")


def suggest(text: str) -> str | None:
    """A pattern that covers this line, and lines like it where it is known what "like it" means; None if none can.

    `git status -s` gives `git status*`, because git has subcommands; `rm -rf build` gives itself, because any other
    line of `rm` is another matter.
    """
    line = read_command(text)
    if not line.understood:
        return None
    exact = text.strip(" \t")
    if len(line.commands) == 1:
        words = line.commands[0].words
        depth = find_depth(words) if words else 0
        wide = " ".join(words[:depth]) + "*"
        if depth and not _is_too_wide(words[:depth]) and allows(wide, text):
            return wide
    return exact if allows(exact, text) else None


def _is_too_wide(words: tuple[str, ...]) -> bool:
    if words[0] in _NAMING_SCRIPTS and words[1] == "run":
        return False
    return " ".join(words).startswith(_TOO_WIDE) or not _RUNNING.isdisjoint(words[1:])
