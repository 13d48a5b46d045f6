"""A configuration file with every setting in it, commented out: written from the table of the settings."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from dragoman.config.kinds import NO_LIMIT
from dragoman.config.settings import MERGES, SECTIONS, SETTINGS, Setting

_USER_HEAD = """\
# dragoman: your own configuration.
#
# Every setting is here with its default, or with an example, and switched off by the `#` in front of it.
# Stronger than this file are the environment (DRAGOMAN_MODEL, DRAGOMAN_LIMITS_TURNS, ...) and the arguments of a
# command. `dragoman config show` tells what holds, and why.
"""
_PROJECT_HEAD = """\
# dragoman: the configuration of this project.
#
# It counts for everybody who works here, and may only tighten what they allow: lower a limit, forbid a tool, demand
# approval. Addresses, keys, tools and files are for each user's own configuration.
"""
DEFAULT_PLACES = {
    "journal.path": "`dragoman/journal.db` in the folder for state",
    "audit.path": "`audit.jsonl` beside the journal",
    "builtin": "all of them",
}
"""Defaults that depend on the machine, or are long, in words."""
_TABLES = """\
# ---- Tables ----

# [keys]                                      # by provider; without a row, its usual variable counts
# openai = { env = "MY_OPENAI_KEY" }          # the name of a variable
# anthropic = { file = "~/.secrets/claude" }  # a file with nothing but the key, readable by you alone
# groq = "gsk_..."                            # the key itself; only while nobody else can read this file

# [mcp.files]                                 # a server of MCP: a program with its arguments, or an address
# command = ["files-server", "--root", "."]
# env = { FILES_TOKEN = "${FILES_TOKEN}" }     # `${NAME}` stands for a variable, so that no key is written down

# [prices."ollama:qwen3"]                     # US dollars for a million tokens
# input = 0.0
# output = 0.0

# [providers.mine]                            # an endpoint of your own; `dragoman providers mine` explains it
# base_url = "http://localhost:8000/v1"

# [profiles.mine]                             # a family of models of your own
# match = ["my-model"]
# format = "hermes"
"""


def write_template(*, project: bool) -> str:
    """The text of a new file, for a project or for a user."""
    listed = [
        (title, setting)
        for title, settings in SECTIONS.items()
        for setting in settings
        if setting.kind.in_text and (setting.in_project or not project)
    ]
    # In TOML what belongs to no table stands before the first of them.
    listed.sort(key=lambda each: "." in each[1].name)
    parts = [_PROJECT_HEAD if project else _USER_HEAD]
    heading = ""
    for title, setting in listed:
        table, _, short = setting.name.rpartition(".")
        # The header of a table stands without `#`: a line below it then needs only its own removed.
        wanted = f"\n[{table}]  # {title.lower()}\n" if table else f"\n# ---- {title} ----\n"
        if wanted != heading:
            parts.append(wanted)
            heading = wanted
        parts += _describe(setting, short, project)
    if not project:
        parts.append(f"\n{_TABLES}")
    return "".join(parts)


def write_reference() -> str:
    """Every setting as a table of Markdown, for the documentation."""
    rows = [
        f"| `{setting.name}` | {_cell(setting.kind.words)} | {_default_of(setting)} | {MERGES[setting.merge]} "
        f"| {_cell(setting.help)} |\n"
        for setting in SETTINGS.values()
    ]
    return "".join(["| setting | value | default | a project | meaning |\n|---|---|---|---|---|\n", *rows])


def _default_of(setting: Setting) -> str:
    if setting.name in DEFAULT_PLACES:
        return DEFAULT_PLACES[setting.name]
    return "" if setting.default is None or setting.default in ((), {}) else f"`{to_toml(setting.default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _describe(setting: Setting, short: str, project: bool) -> list[str]:
    note = f"; a project {MERGES[setting.merge]}" if not project and setting.in_project else ""
    words = f"{setting.help} ({setting.kind.words}{note})"
    return [*(f"# {line}\n" for line in textwrap.wrap(words, 116)), f"#{short} = {example_of(setting)}\n"]


def example_of(setting: Setting) -> str:
    """A value of a setting as TOML: its default, or an example where that shows nothing."""
    return setting.example or to_toml(setting.default)


def to_toml(value: Any) -> str:
    """A plain value as it stands behind the equals sign."""
    if value is None:
        return f'"{NO_LIMIT}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
