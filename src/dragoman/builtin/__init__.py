"""Tools that come with dragoman: files, commands, the web, notes. All of them work inside a workspace.

Each is a `Tool` to be given to an agent: `Agent(..., tools=[builtin.Read, builtin.Bash], workspace=".")`. `toolbox()`
gives all of them, or those of some names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.builtin.commands.bash import Bash as Bash, make_bash as make_bash
    from dragoman.builtin.files.patch import ApplyPatch as ApplyPatch
    from dragoman.builtin.files.search import Grep as Grep
    from dragoman.builtin.files.tools import Edit as Edit, Glob as Glob, Read as Read, Write as Write
    from dragoman.builtin.files.workspace import Workspace as Workspace
    from dragoman.builtin.memory import Recall as Recall, Remember as Remember, make_memory as make_memory
    from dragoman.builtin.notes import AskUser as AskUser, Finish as Finish, TodoWrite as TodoWrite
    from dragoman.builtin.web.fetch import WebFetch as WebFetch, make_web_fetch as make_web_fetch
    from dragoman.types import Tool
else:
    from dragoman import export_lazily

    __all__, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman.builtin.commands.bash": "Bash make_bash",
            "dragoman.builtin.files.patch": "ApplyPatch",
            "dragoman.builtin.files.search": "Grep",
            "dragoman.builtin.files.tools": "Edit Glob Read Write",
            "dragoman.builtin.files.workspace": "Workspace",
            "dragoman.builtin.memory": "Recall Remember make_memory",
            "dragoman.builtin.notes": "AskUser Finish TodoWrite",
            "dragoman.builtin.web.fetch": "WebFetch make_web_fetch",
        },
    )
    __all__ += ["NAMES", "toolbox"]

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


def toolbox(names: Iterable[str] | None = None, *, network: bool = False, limits: Any = None) -> list[Tool]:
    """The built-in tools, or those of these names; `network` and `limits` are for commands in a sandbox."""
    from dragoman.errors import ConfigError, nearest

    wanted = list(NAMES) if names is None else list(names)
    for name in wanted:
        if name not in NAMES:
            guess = nearest(name, NAMES)
            raise ConfigError(
                f"there is no built-in tool {name!r}" + (f"; did you mean {guess!r}?" if guess else ""),
                hint=f"there are {', '.join(NAMES)}",
            )
    here = sys.modules[__name__]
    tools = {name: getattr(here, NAMES[name]) for name in dict.fromkeys(wanted)}
    if (network or limits is not None) and "bash" in tools:
        tools["bash"] = here.make_bash(network=network, limits=limits)
    return list(tools.values())
