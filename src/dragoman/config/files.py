"""Configuration files: their paths, how they are read, and a template with comments."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path

from dragoman.config.layers import Layer, Source, from_tables
from dragoman.config.settings import MERGES, SECTIONS, Setting
from dragoman.paths import SWITCHED_OFF, current_folder, expand, home_folder
from dragoman.state_files import parse_toml, read_text, to_toml

# --------------------------------------------------------------------------------------------------------------------
# Find and read the configuration files. Reads are bounded, and an error names the line and column.

PROJECT_FILE = "dragoman.toml"
"""The name of the configuration file of a project."""
MANAGED_FILE = Path("/etc/dragoman/config.toml")
"""The settings that the administrator of the machine sets for all users."""
_REPOSITORIES = (".git", ".hg", ".jj", ".svn")


def managed_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the managed file, which overrides all other sources, or None if there is none.

    `$DRAGOMAN_MANAGED` names one if the machine has none. It cannot disable the managed file of the machine.
    """
    try:
        MANAGED_FILE.lstat()
    except (FileNotFoundError, NotADirectoryError):
        named = environment.get("DRAGOMAN_MANAGED")
        return (
            expand(named, current_folder(environment), environment)
            if named and named.lower() not in SWITCHED_OFF
            else None
        )
    except OSError:
        # The path cannot be checked, so the file may exist.
        return MANAGED_FILE
    return MANAGED_FILE


def find_meddlers(path: Path) -> str:
    """Return why users other than root can change a managed file; empty if they cannot."""
    if os.name != "posix":
        return ""
    for each in (path, path.parent):
        try:
            found = each.stat()
        except OSError:
            return ""
        if found.st_uid != 0:
            return f"{each} does not belong to root"
        if found.st_mode & 0o022:
            return f"users other than root can write {each}"
    return ""


def project_file(directory: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the project's file: the nearest one from the directory up to the top of its repository.

    Outside a repository the search ends below the home folder. Outside both, it checks only the directory itself,
    because other users may be able to write to a folder above it (`/tmp`).
    """
    for folder in project_folders(directory, environment):
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
    return None


def project_folders(directory: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return the folders where the files of a project are searched for, the nearest first."""
    if environment.get("DRAGOMAN_PROJECT", "").lower() in SWITCHED_OFF:
        return []
    home = home_folder(environment)
    directory = directory.resolve()
    home = home and home.resolve()
    folders = [directory]
    for folder in (directory, *directory.parents):
        if folder not in folders:
            if folder == home:
                return folders
            folders.append(folder)
        if any((folder / name).exists() for name in _REPOSITORIES):
            return folders
    is_inside_home = home is not None and home in directory.parents
    return folders if is_inside_home else folders[:1]


def read_layer(path: Path, kind: Source) -> Layer:
    """Read a file as a layer. Raises ConfigError if it cannot be read or is not TOML; other faults are in the layer."""
    text = read_text(path)
    return from_tables(parse_toml(text, str(path)), kind, str(path), text)


def shorten(path: Path, environment: Mapping[str, str]) -> str:
    """Return a path with `~` for the home folder."""
    home = home_folder(environment)
    if home is not None and home != Path(home.anchor) and path.is_relative_to(home):
        return str(Path("~") / path.relative_to(home))
    return str(path)


def is_private(path: Path) -> bool:
    """Whether only the owner can read a file. On Windows, which has no permission bits, the folder protects it."""
    if os.name != "posix":
        return True
    try:
        return path.stat().st_mode & 0o077 == 0
    except OSError:
        return False


# --------------------------------------------------------------------------------------------------------------------
# A configuration file with every setting commented out, generated from the table of settings.

_USER_HEAD = """\
# dragoman: your own configuration.
#
# This file lists every setting with its default or an example. Remove the `#` in front of a setting to use it.
# The environment (DRAGOMAN_MODEL, DRAGOMAN_LIMITS_TURNS, ...) and the arguments of a command override this file.
# `dragoman config show` prints the effective values and their origins.
"""
_PROJECT_HEAD = """\
# dragoman: the configuration of this project.
#
# It applies to all users of this project, and may only tighten their settings: lower a limit, forbid a tool, require
# an approval. URLs, keys, tools and files belong in each user's own configuration.
"""
_TABLES = """\
# ---- Tables ----

# [keys]                                      # by provider; without a row, its usual variable is used
# openai = { env = "MY_OPENAI_KEY" }          # the name of a variable
# anthropic = { file = "~/.secrets/claude" }  # a file that contains only the key, and that only you can read
# groq = "gsk_..."                            # the key itself; only if nobody else can read this file

# [mcp.files]                                 # an MCP server: a program, or a URL; `dragoman mcp add` writes it
# command = ["files-server", "--root", "."]
# env = { FILES_TOKEN = "${FILES_TOKEN}" }     # `${NAME}` is replaced by a variable, so that the file has no key

# [prices."ollama:qwen3"]                     # US dollars per million tokens
# input = 0.0
# output = 0.0

# [providers.mine]                            # your own endpoint; `dragoman providers mine` shows it
# base_url = "http://localhost:8000/v1"

# [profiles.mine]                             # your own model profile
# match = ["my-model"]
# format = "hermes"
"""


def write_template(*, project: bool) -> str:
    """Return the text of a new file, for a project or for a user."""
    listed = [
        (title, setting)
        for title, settings in SECTIONS.items()
        for setting in settings
        if setting.kind.in_text and (setting.in_project or not project)
    ]
    # In TOML, keys without a table come before the first table.
    listed.sort(key=lambda each: "." in each[1].name)
    parts = [_PROJECT_HEAD if project else _USER_HEAD]
    heading = ""
    for title, setting in listed:
        table, _, short = setting.name.rpartition(".")
        # The header of a table has no `#`, so that the user only has to uncomment one line.
        wanted = f"\n[{table}]  # {title.lower()}\n" if table else f"\n# ---- {title} ----\n"
        if wanted != heading:
            parts.append(wanted)
            heading = wanted
        parts += _describe(setting, short, project)
    if not project:
        parts.append(f"\n{_TABLES}")
    return "".join(parts)


def _describe(setting: Setting, short: str, project: bool) -> list[str]:
    note = f"; a project {MERGES[setting.merge]}" if not project and setting.in_project else ""
    words = f"{setting.help} ({setting.kind.words}{note})"
    return [
        *(f"# {line}\n" for line in textwrap.wrap(words, 116)),
        f"#{short} = {setting.example or to_toml(setting.default)}\n",
    ]
