"""The rules that somebody agreed to keep: `permissions.toml` beside the user's own file, a table for each workspace.

A rule holds in the folder in which it was kept and nowhere else, and no project can bring one along.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman.config.files import config_folder, parse, read_text
from dragoman.config.learned import replace_file
from dragoman.config.writing import to_toml
from dragoman.errors import ConfigError
from dragoman.policy import Rule, Verdict, read_rule, write_rule

FILE = "permissions.toml"
MOST_RULES = 500
"""Of one workspace. Whoever has kept so many has long stopped reading them."""
_VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")
_HEAD = """\
# Rules that were kept when somebody answered a question with `always`, by workspace.
# This file may be edited, and it may be deleted: then everything is asked about again.
"""
_Table = dict[str, dict[Verdict, list[str]]]


def permissions_file(environment: Mapping[str, str]) -> Path | None:
    """Where rules are kept; None where there is no place for them."""
    folder = config_folder(environment)
    return folder and folder / FILE


def remembered_rules(environment: Mapping[str, str], workspace: str | os.PathLike[str]) -> list[Rule]:
    """The rules that were kept for a workspace. Raises ConfigError for a file that cannot be used."""
    path = permissions_file(environment)
    if path is None:
        return []
    found = _read(path).get(_name(workspace), {})
    return [read_rule(text, verdict, "user") for verdict in _VERDICTS for text in found.get(verdict, ())]


def remember_rule(environment: Mapping[str, str], workspace: str | os.PathLike[str], rule: Rule) -> Path:
    """Keep a rule for a workspace; the file that holds it now. Raises ConfigError if it cannot be kept."""
    path = permissions_file(environment)
    if path is None:
        raise ConfigError("there is no folder for configuration in which a rule could be kept", hint="set HOME")
    text = write_rule(rule)
    # What cannot be read again must not be written.
    read_rule(text, rule.verdict)
    try:
        with _locked(path):
            table = _read(path)
            kept = table.setdefault(_name(workspace), {}).setdefault(rule.verdict, [])
            if text in kept:
                return path
            if len(kept) >= MOST_RULES:
                raise ConfigError(
                    f"{path} has {len(kept)} rules for this folder", hint="put wider ones in your own file"
                )
            kept.append(text)
            replace_file(path, _write(table))
    except UnicodeEncodeError:
        raise ConfigError(f"{path} cannot hold a name that is no text", hint="rename the folder or the file") from None
    except OSError as error:
        why = (error.strerror or "it failed").lower()
        raise ConfigError(f"{path} cannot be written: {why}", hint="check who may write there") from None
    return path


def forget_rule(environment: Mapping[str, str], workspace: str | os.PathLike[str], rule: Rule) -> bool:
    """Drop a rule that was kept; whether there was one."""
    path = permissions_file(environment)
    if path is None or not path.exists():
        return False
    with _locked(path):
        table = _read(path)
        kept = table.get(_name(workspace), {}).get(rule.verdict, [])
        if write_rule(rule) not in kept:
            return False
        kept.remove(write_rule(rule))
        replace_file(path, _write(table))
    return True


def _name(workspace: str | os.PathLike[str]) -> str:
    return str(Path(workspace).resolve())


def _read(path: Path) -> _Table:
    """The rules of every workspace. A file that is broken, or that others can write, is for its owner to mend."""
    if not path.exists():
        return {}
    if os.name == "posix" and path.stat().st_mode & 0o022:
        raise ConfigError(f"{path} can be written by others, so its rules are not used", hint=f"chmod 600 {path}")
    found: _Table = {}
    for workspace, rows in parse(read_text(path), str(path)).items():
        if not isinstance(rows, Mapping):
            raise ConfigError(f"{path}: {workspace!r} is no table", hint="write the folder in brackets and quotes")
        found[workspace] = {}
        for verdict, texts in rows.items():
            if verdict not in _VERDICTS or not isinstance(texts, list) or not all(map(_is_text, texts)):
                raise ConfigError(
                    f"{path}: {verdict!r} of {workspace!r} is no list of rules", hint="write allow = [...]"
                )
            for text in texts:
                _check(path, text, verdict)
            found[workspace][verdict] = list(texts)
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check(path: Path, text: str, verdict: Verdict) -> None:
    try:
        read_rule(text, verdict)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", hint=error.next_step) from None


def _write(table: _Table) -> str:
    parts = [_HEAD]
    for workspace, rows in table.items():
        lines = [f"{verdict} = {to_toml(texts)}" for verdict, texts in rows.items() if texts]
        if lines:
            # The one character that JSON leaves as it is and TOML does not accept.
            name = to_toml(workspace).replace("\x7f", "\\u007f")
            parts.append(f"\n[{name}]\n" + "\n".join(lines) + "\n")
    return "".join(parts)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else writes the file meanwhile: two sessions may keep a rule at the same time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(
        path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600
    )
    try:
        with contextlib.suppress(ImportError):
            # Where there are no such locks, the last one to write wins.
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
