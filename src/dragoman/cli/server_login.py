"""Logins at MCP servers from the command line: the files, and the question at the terminal before a browser opens."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.characters import escape_message
from dragoman.cli.screen import print_line
from dragoman.config import config_folder

if TYPE_CHECKING:
    from dragoman.mcp import BrowserLogin, LoginRequest

_PINS_FILE_NAME = "mcp-pins.json"
_TOKENS_FILE_NAME = "mcp-tokens.json"


def pins_file(environment: Mapping[str, str]) -> Path | None:
    """The file that holds the pinned definitions of MCP tools; None if there is no configuration folder."""
    folder = config_folder(environment)
    return folder and folder / _PINS_FILE_NAME


def tokens_file(environment: Mapping[str, str]) -> Path | None:
    """The file that holds the tokens of logins at MCP servers; None if there is no configuration folder."""
    folder = config_folder(environment)
    return folder and folder / _TOKENS_FILE_NAME


def terminal_login(workspace: str | None = None, *, is_confirmed: bool = False) -> BrowserLogin | None:
    """The user at the terminal, who confirms logins; None without one. `is_confirmed` needs no terminal."""
    from dragoman.cli.signals import discard_typed_input, is_attended, read_line
    from dragoman.mcp import BrowserLogin

    if not is_confirmed and not is_attended():
        return None

    async def confirm(request: LoginRequest) -> bool:
        print_line(str(request), error=True)
        if is_confirmed:
            return True
        discard_typed_input()
        print("open the login page in your browser? [y/N] ", end="", file=sys.stderr, flush=True)
        line = await read_line()
        return (line or "").strip().lower() in ("y", "yes")

    def show(url: str) -> None:
        print_line("if no browser opens, open this page on this machine:", error=True)
        print(escape_message(url), file=sys.stderr, flush=True)

    return BrowserLogin(confirm, show=show, workspace=workspace)
