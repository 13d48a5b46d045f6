"""Tools that come with dragoman: files, commands, the web, notes. All of them work inside a workspace.

Each is a `Tool` for an agent: `Agent(..., tools=[builtin.Read, builtin.Bash], safety=Safety(workspace="."))`.
`toolbox()` returns all of them, or those with some names.
"""

from __future__ import annotations

import os
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
    __all__ += ["NAMES", "POSIX_TOOLS", "missing_tools", "toolbox"]

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
POSIX_TOOLS = ("read", "glob", "grep", "write", "edit", "apply_patch", "bash")
"""The tools that need descriptors of folders or a POSIX shell. Windows has neither."""


def missing_tools(names: Iterable[str] = NAMES) -> list[str]:
    """The tools of these names that do not run on this system."""
    return [] if os.name == "posix" else [name for name in names if name in POSIX_TOOLS]


def toolbox(names: Iterable[str] | None = None, *, network: bool = False, limits: Any = None) -> list[Tool]:
    """The built-in tools, or those of these names; `network` and `limits` are for commands in a sandbox.

    Without names, these are the tools that run on this system. A named tool that does not raises ConfigError.
    """
    from dragoman.errors import ConfigError, did_you_mean

    wanted = [name for name in NAMES if name not in missing_tools()] if names is None else list(names)
    if missing := missing_tools(wanted):
        raise ConfigError(
            f"these tools do not run on Windows: {', '.join(missing)}",
            hint="leave them out, or run dragoman on Linux or macOS; on Windows, in WSL",
        )
    for name in wanted:
        if name not in NAMES:
            raise ConfigError(
                f"there is no built-in tool {name!r}{did_you_mean(name, NAMES)}",
                hint=f"there are {', '.join(NAMES)}",
            )
    here = sys.modules[__name__]
    tools = {name: getattr(here, NAMES[name]) for name in dict.fromkeys(wanted)}
    if (network or limits is not None) and "bash" in tools:
        tools["bash"] = here.make_bash(network=network, limits=limits)
    return list(tools.values())
