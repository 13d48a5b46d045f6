"""The rule to offer to a person who says "always"."""

from __future__ import annotations

from dragoman.shell.allowing import allows
from dragoman.shell.programs import find_depth
from dragoman.shell.reading import read_command

# With these before it, `name*` would cover too much, whatever follows.
_TOO_WIDE = frozenset(
    {"git config", "npm exec", "git bisect run", "git submodule foreach", "docker run", "docker exec"}
)


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
        if depth and not any(wide[:-1].startswith(name) for name in _TOO_WIDE) and allows(wide, text):
            return wide
    return exact if allows(exact, text) else None
