"""Settings from the user's file, the project's file (which may only tighten them), the environment and the arguments.

`load()` reads and merges them, and keeps the origin of every value. `SETTINGS` is the table of all settings.
"""

from __future__ import annotations

from dragoman.config.files import PROJECT_FILE, managed_file, project_file, write_template
from dragoman.config.layers import Config, Origin, Overridden, SettingValue
from dragoman.config.loader import keys_by_variable, load, read_key, read_keys
from dragoman.config.settings import SECTIONS, SETTINGS, Setting
from dragoman.config.state import forget_rule, permissions, permissions_file, remember_rule, remembered_rules
from dragoman.config.tool_sources import Toolbox, load_agents, load_installed, load_source, load_tools, restrict
from dragoman.paths import config_folder, state_folder, user_file
from dragoman.secrets.settings import mask

__all__ = [
    "PROJECT_FILE",
    "SECTIONS",
    "SETTINGS",
    "Config",
    "Origin",
    "Overridden",
    "Setting",
    "SettingValue",
    "Toolbox",
    "config_folder",
    "forget_rule",
    "keys_by_variable",
    "load",
    "load_agents",
    "load_installed",
    "load_source",
    "load_tools",
    "managed_file",
    "mask",
    "permissions",
    "permissions_file",
    "project_file",
    "read_key",
    "read_keys",
    "remember_rule",
    "remembered_rules",
    "restrict",
    "state_folder",
    "user_file",
    "write_template",
]
