"""Tools that come with dragoman: files, commands, the web, notes. All of them work inside a workspace.

Each is a `Tool` to be given to an agent: `Agent(..., tools=[builtin.Read, builtin.Bash], workspace=".")`. `toolbox()`
gives all of them, or those of some names.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.builtin.commands.bash import Bash, make_bash
    from dragoman.builtin.files.patch import ApplyPatch
    from dragoman.builtin.files.search import Grep
    from dragoman.builtin.files.tools import Edit, Glob, Read, Write
    from dragoman.builtin.files.workspace import Workspace
    from dragoman.builtin.memory import Recall, Remember, make_memory
    from dragoman.builtin.notes import AskUser, Finish, TodoWrite
    from dragoman.builtin.web.fetch import WebFetch, make_web_fetch
    from dragoman.types import Tool

_HOMES = {
    "Read": "files.tools",
    "Glob": "files.tools",
    "Grep": "files.search",
    "WebFetch": "web.fetch",
    "Write": "files.tools",
    "Edit": "files.tools",
    "ApplyPatch": "files.patch",
    "Bash": "commands.bash",
    "TodoWrite": "notes",
    "AskUser": "notes",
    "Finish": "notes",
    "Remember": "memory",
    "Recall": "memory",
    "make_bash": "commands.bash",
    "make_memory": "memory",
    "make_web_fetch": "web.fetch",
    "Workspace": "files.workspace",
}
NAMES = {
    "read": "Read",
    "glob": "Glob",
    "grep": "Grep",
    "web_fetch": "WebFetch",
    "write": "Write",
    "edit": "Edit",
    "apply_patch": "ApplyPatch",
    "bash": "Bash",
    "todo_write": "TodoWrite",
    "ask_user": "AskUser",
    "finish": "Finish",
    "remember": "Remember",
    "recall": "Recall",
}
"""What each tool is called on the wire, and here."""

__all__ = [
    "NAMES",
    "ApplyPatch",
    "AskUser",
    "Bash",
    "Edit",
    "Finish",
    "Glob",
    "Grep",
    "Read",
    "Recall",
    "Remember",
    "TodoWrite",
    "WebFetch",
    "Workspace",
    "Write",
    "make_bash",
    "make_memory",
    "make_web_fetch",
    "toolbox",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def toolbox(names: Iterable[str] | None = None, *, network: bool = False) -> list[Tool]:
    """The built-in tools, or those of these names; `network` is for commands in a sandbox."""
    from dragoman.errors import ConfigError, nearest

    wanted = list(NAMES) if names is None else list(names)
    for name in wanted:
        if name not in NAMES:
            guess = nearest(name, NAMES)
            raise ConfigError(
                f"there is no built-in tool {name!r}" + (f"; did you mean {guess!r}?" if guess else ""),
                hint=f"there are {', '.join(NAMES)}",
            )
    tools = {name: __getattr__(NAMES[name]) for name in dict.fromkeys(wanted)}
    if network and "bash" in tools:
        tools["bash"] = __getattr__("make_bash")(network=True)
    return list(tools.values())
