"""The reference page of the settings: the configuration file, the environment, and the file of the gateway."""

from __future__ import annotations

import ast

from scripts.documentation.names import list_fields, locate
from scripts.documentation.tables import code, words, write_table

from dragoman.config.layers import OTHER_VARIABLES
from dragoman.config.settings import MERGES, SECTIONS, Setting
from dragoman.state_files import to_toml

GATEWAY = {"ServerSettings": "[gateway]", "EndpointSettings": "[endpoints.NAME]", "RouteSettings": "[[routes]]"}
DEFAULT_PLACES = {
    "journal.path": "`dragoman/journal.db` in the state folder",
    "audit.path": "`audit.jsonl` in the folder of the journal",
    "builtin": "all of them",
}
"""Descriptions of defaults that depend on the machine or are long."""
ABOUT = """Each setting has a name in the configuration file and, below it, an environment variable. Arguments override
the environment, which overrides your own file. The file of a project can only tighten. `dragoman config show` prints
the values and where they come from. [Configuration](../concepts/configuration.md) explains
files and layers."""


def write_settings() -> str:
    parts = [f"# Settings\n\n{words(ABOUT).rstrip()}\n"]
    for title, settings in SECTIONS.items():
        table = write_table("setting|value|default|a project|meaning", map(_describe, settings))
        parts.append(f"\n## {title}\n\n{table}")
    others = write_table("variable|meaning", ((code(name), meaning) for name, meaning in OTHER_VARIABLES.items()))
    parts.append(f"\n## Other variables\n\n{others}\n## The file of the gateway\n\n")
    parts.append("`dragoman serve --config FILE` reads it. The [guide](../guides/gateway.md) shows whole files.\n")
    parts += [_write_gateway_table(name, title) for name, title in GATEWAY.items()]
    return "".join(parts)


def _describe(setting: Setting) -> tuple[str, ...]:
    names = f"`{setting.name}`" + (f"<br>`{setting.variable}`" if setting.variable else "")
    return names, setting.kind.words.replace("*", "\\*"), _write_default(setting), MERGES[setting.merge], setting.help


def _write_default(setting: Setting) -> str:
    if setting.name in DEFAULT_PLACES:
        return DEFAULT_PLACES[setting.name]
    return "" if setting.default is None or setting.default in ((), {}) else code(to_toml(setting.default))


def _write_gateway_table(name: str, title: str) -> str:
    lines = []
    for field in list_fields(locate("dragoman.server.settings", name)):
        assert isinstance(field.node, ast.AnnAssign)
        default = ast.unparse(field.node.value) if field.node.value is not None else ""
        lines.append((code(field.name), code(ast.unparse(field.node.annotation)), code(default), field.doc))
    return f"\n### `{title}`\n\n{write_table('key|type|default|meaning', lines)}"
