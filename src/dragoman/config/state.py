"""The rules that the user saved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dragoman.config.layers import Config, Source
from dragoman.errors import ConfigError
from dragoman.paths import config_folder
from dragoman.policy import Rule, Rules, Scope, Verdict, read_rule, write_rule
from dragoman.state_files import change_file, parse_toml, read_text, to_toml

# --------------------------------------------------------------------------------------------------------------------
# Saved rules: `permissions.toml` beside the user's file, with a table for each workspace.
#
# A rule applies only to the folder for which it was saved, and no project can contain one.

PERMISSIONS_FILE = "permissions.toml"
MOST_RULES = 500
"""The maximum number of rules of one workspace. Nobody reviews more than that."""
_VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")
_PERMISSIONS_HEAD = """\
# Rules that were saved when the user answered an approval request with `always`, by workspace.
# You may edit this file or delete it; dragoman then asks again.
"""
_Table = dict[str, dict[Verdict, list[str]]]


def permissions_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the saved rules, or None if there is no configuration folder."""
    folder = config_folder(environment)
    return folder and folder / PERMISSIONS_FILE


def remembered_rules(environment: Mapping[str, str], workspace: str | os.PathLike[str]) -> list[Rule]:
    """Return the rules that were saved for a workspace. Raises ConfigError for an unusable file."""
    path = permissions_file(environment)
    if path is None:
        return []
    found = _read(path).get(_name(workspace), {})
    return [read_rule(text, verdict, "user") for verdict in _VERDICTS for text in found.get(verdict, ())]


def remember_rule(environment: Mapping[str, str], workspace: str | os.PathLike[str], rule: Rule) -> Path:
    """Save a rule for a workspace and return the path of the file. Raises ConfigError if that fails."""
    path = permissions_file(environment)
    if path is None:
        raise ConfigError("there is no configuration folder for the rule", hint="set HOME")
    text = write_rule(rule)
    # A rule that cannot be read again must not be written.
    read_rule(text, rule.verdict)
    try:
        with change_file(path, _read, _write_permissions) as table:
            kept = table.setdefault(_name(workspace), {}).setdefault(rule.verdict, [])
            if text not in kept and len(kept) >= MOST_RULES:
                raise ConfigError(
                    f"{path} already has {len(kept)} rules for this folder", hint="write broader rules in your own file"
                )
            if text not in kept:
                kept.append(text)
    except UnicodeEncodeError:
        raise ConfigError(
            f"{path} cannot store a name that is not UTF-8", hint="rename the folder or the file"
        ) from None
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        raise ConfigError(f"cannot write {path}: {why}", hint="check its permissions") from None
    return path


def forget_rule(environment: Mapping[str, str], workspace: str | os.PathLike[str], rule: Rule) -> bool:
    """Delete a saved rule. Returns whether there was one."""
    path = permissions_file(environment)
    if path is None or not path.exists():
        return False
    with change_file(path, _read, _write_permissions) as table:
        kept = table.get(_name(workspace), {}).get(rule.verdict, [])
        was_kept = write_rule(rule) in kept
        if was_kept:
            kept.remove(write_rule(rule))
    return was_kept


def _name(workspace: str | os.PathLike[str]) -> str:
    return str(Path(workspace).resolve())


def _read(path: Path) -> _Table:
    """Read the rules of every workspace. A damaged file, or one that others can write, is an error."""
    if not path.exists():
        return {}
    if os.name == "posix" and path.stat().st_mode & 0o022:
        raise ConfigError(f"others can write {path}, so its rules are not used", hint=f"chmod 600 {path}")
    found: _Table = {}
    for workspace, rows in parse_toml(read_text(path), str(path)).items():
        if not isinstance(rows, Mapping):
            raise ConfigError(f"{path}: {workspace!r} is not a table", hint="write the folder in brackets and quotes")
        found[workspace] = {}
        for verdict, texts in rows.items():
            if (
                verdict not in _VERDICTS
                or not isinstance(texts, list)
                or not all(isinstance(text, str) for text in texts)
            ):
                raise ConfigError(
                    f"{path}: {verdict!r} of {workspace!r} is not a list of rules", hint="write allow = [...]"
                )
            try:
                for text in texts:
                    read_rule(text, verdict)
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}", hint=error.next_step) from None
            found[workspace][verdict] = list(texts)
    return found


def _write_permissions(table: _Table) -> str:
    parts = [_PERMISSIONS_HEAD]
    for workspace, rows in table.items():
        lines = [f"{verdict} = {to_toml(texts)}" for verdict, texts in rows.items() if texts]
        if lines:
            # The only character that JSON leaves unescaped and TOML does not accept.
            name = to_toml(workspace).replace("\x7f", "\\u007f")
            parts.append(f"\n[{name}]\n" + "\n".join(lines) + "\n")
    return "".join(parts)


# --------------------------------------------------------------------------------------------------------------------
# The rules of the settings, each with the scope of its source.

_SCOPES: dict[Source, Scope] = {
    "managed": "managed",
    "user": "user",
    "project": "project",
    "environment": "session",
    "argument": "session",
}


def permissions(config: Config, remembered: Iterable[Rule] = (), *, attended: bool = True) -> Rules:
    """Return the mode and the rules of a configuration, and the saved rules.

    If no user is present, `attended` is False, and the calls in `auto_approve` are allowed too. Such an entry has the
    effect of a rule in `allow`: it does not override ask rules, nor the approvals that every mode needs.
    """
    rules = [
        read_rule(text, verdict, _SCOPES[said.origin.kind])
        for verdict in reversed(_VERDICTS)
        for said in config.settled[verdict].parts
        if said.origin.kind in _SCOPES
        for text in said.value
    ]
    rules += remembered
    if not attended:
        scope = _SCOPES.get(config.origin("auto_approve").kind, "user")
        rules += [read_rule(text, "allow", scope) for text in config["auto_approve"]]
    return Rules(config["mode"], tuple(dict.fromkeys(rules)))
