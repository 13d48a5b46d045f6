"""Settings: one file of the user, one of the project that may only tighten, the environment, and the arguments.

`load()` reads and merges them; every value knows where it came from. The table of all settings is `SETTINGS`.
"""

from __future__ import annotations

from dragoman.config.effective import Config
from dragoman.config.files import PROJECT_FILE, config_folder, managed_file, project_file, state_folder, user_file
from dragoman.config.keys import keys_by_variable, read_key, read_keys
from dragoman.config.layers import Origin, Said
from dragoman.config.loading import load
from dragoman.config.merging import Overridden
from dragoman.config.permissions import permissions
from dragoman.config.prices import price_by
from dragoman.config.remembered import forget_rule, permissions_file, remember_rule, remembered_rules
from dragoman.config.settings import SECTIONS, SETTINGS, Setting
from dragoman.config.toolboxes import Toolbox, load_installed, load_source, load_tools, restrict
from dragoman.config.writing import write_template
from dragoman.secrets.settings import mask

__all__ = [
    "PROJECT_FILE",
    "SECTIONS",
    "SETTINGS",
    "Config",
    "Origin",
    "Overridden",
    "Said",
    "Setting",
    "Toolbox",
    "config_folder",
    "forget_rule",
    "keys_by_variable",
    "load",
    "load_installed",
    "load_source",
    "load_tools",
    "managed_file",
    "mask",
    "permissions",
    "permissions_file",
    "price_by",
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
