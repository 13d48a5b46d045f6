"""The environment of a command: begun from nothing, with a short list of harmless variables.

Keys of providers stand in the environment of many programs. A command that a model wrote has no use for them.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping

from dragoman.builtin.commands.programs import absolute_entries
from dragoman.errors import ConfigError

ALLOWED = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TZ")
"""Passed on where they are set, beside LC_*; TERM is always `dumb`."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Each of these makes a shell, the loader or an interpreter run or load something before the command itself.
_NEVER = re.compile(
    r"(DRAGOMAN_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|GLOBIGNORE|BASH_FUNC_.*"
    r"|LD_.*|DYLD_.*|GCONV_PATH|PYTHONSTARTUP|PERL5OPT|RUBYOPT|NODE_OPTIONS)",
    re.IGNORECASE | re.DOTALL,
)
_FOR_GIT = (("core.fsmonitor", "false"), ("safe.bareRepository", "explicit"))
"""Settings that count more than those of a repository: nothing is run to find changes, and a folder with the files of
a repository in it is none unless it is called `.git` or named with `--git-dir`."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def clean_environment(own: Mapping[str, str], more: Mapping[str, str] | Iterable[str] = ()) -> dict[str, str]:
    """What a command gets of our own environment: the list, and what the caller names or gives beside it."""
    found = {name: value for name, value in own.items() if name in ALLOWED or name.startswith("LC_")}
    found.setdefault("PATH", _PATH)
    found["TERM"] = "dumb"
    if isinstance(more, Mapping):
        found.update(more)
    else:
        found.update({name: own[name] for name in more if name in own})
    found["PATH"] = os.pathsep.join(absolute_entries(found["PATH"])) or _PATH
    found.update(_settings_for_git(found))
    return {name: value for name, value in found.items() if _NAME.fullmatch(name) and "\0" not in value}


def _settings_for_git(given: Mapping[str, str]) -> dict[str, str]:
    """What git is told beside its files, after what the caller tells it."""
    counted = given.get("GIT_CONFIG_COUNT", "")
    start = int(counted) if re.fullmatch(r"[0-9]{1,4}", counted) else 0
    # Without this `git status` writes the index anew, and runs a hook when it has.
    told = {"GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_COUNT": str(start + len(_FOR_GIT))}
    for index, (key, value) in enumerate(_FOR_GIT, start):
        told |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return told


def check_allowed(more: Mapping[str, str] | Iterable[str]) -> Mapping[str, str] | tuple[str, ...]:
    """What a caller wants commands to have beside the list; refused where it would be a key or a way in."""
    if isinstance(more, str):
        raise ConfigError(f"not a list of names: {more!r}", hint=f"write environment=({more!r},)")
    kept = dict(more) if isinstance(more, Mapping) else tuple(more)
    keys = _names_of_keys()
    for name in kept:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"not the name of an environment variable: {name!r}", hint="letters, digits and _")
        if name in keys and not isinstance(kept, dict):
            raise ConfigError(
                f"{name} holds the key of a provider, and commands never get ours",
                hint=f"give commands a key of their own: environment={{{name!r}: ...}}",
            )
        if _NEVER.fullmatch(name):
            raise ConfigError(f"{name} would change what a command runs, and is never passed on", hint="leave it out")
    return kept


@functools.cache
def _names_of_keys() -> frozenset[str]:
    from dragoman import providers

    return frozenset(name for row in providers.names() for name in providers.get(row).key_names)
