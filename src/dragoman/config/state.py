"""Facts about endpoints, and rules that the user saved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from dragoman.config.files import parse, read_text, to_toml, user_file
from dragoman.config.layers import Config, Source
from dragoman.errors import ConfigError, DragomanError
from dragoman.paths import config_folder
from dragoman.policy import Rule, Rules, Scope, Verdict, read_rule, write_rule
from dragoman.providers import Fact
from dragoman.providers.endpoint import read_quirks
from dragoman.providers.provider import from_mapping
from dragoman.state_files import change_file

# --------------------------------------------------------------------------------------------------------------------
# Facts about endpoints, in `learned.toml` beside the user's file, one row per URL and model.
#
# Rows of `dragoman doctor` are valid until it runs again. A fact that a run learned from an error expires after a week:
# a user who repairs a server should not have to know about this file.

LEARNED_FILE = "learned.toml"
MOST_ROWS = 500
KEPT_DAYS = 7
"""How long a fact is valid that a run learned from an error."""
_DAY = 86_400
_LEARNED_HEAD = """\
# Facts about endpoints. `dragoman doctor` writes this file, and so does a run in which an endpoint rejects something.
# You may edit it or delete it; dragoman then learns the facts again.
"""

_ALWAYS = ("url", "model")
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")

LearnedBy = Literal["doctor", "run"]


class LearnedRow(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row of the file."""

    url: str
    model: str
    source: LearnedBy = "run"
    learned: str = ""
    """The date, such as 2030-12-31."""
    native_tool_calls: bool | None = None
    wire: str = ""
    format: str = ""
    why: str = ""
    quirks: dict[str, Any] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)

    @property
    def fact(self) -> Fact:
        return Fact(self.native_tool_calls, self.wire, self.why, self.quirks, self.capabilities, self.format)


LearnedRows = dict[tuple[str, str], LearnedRow]


class FileFacts:
    """Facts in a file. A file that cannot be read or written loses facts, but never fails a run."""

    def __init__(self, path: Path, source: LearnedBy = "run", calendar: Callable[[], float] = time.time) -> None:
        self.path = path
        self._source: LearnedBy = source
        self._calendar = calendar
        self._facts: LearnedRows | None = None
        self._is_ours = True
        self.problems: list[str] = []
        """Messages about problems with the file."""

    def get(self, endpoint_url: str, model: str) -> Fact | None:
        fact = self._read().get((endpoint_url, model))
        return fact.fact if fact is not None and self._counts(fact) else None

    def put(self, endpoint_url: str, model: str, fact: Fact) -> None:
        """Save a fact. A fact of the doctor replaces the old one; a fact of a run is merged with it."""
        today = time.strftime("%Y-%m-%d", time.localtime(self._calendar()))

        def add(facts: LearnedRows) -> None:
            before = facts.pop((endpoint_url, model), None)
            whole = fact if self._source == "doctor" or before is None else before.fact | fact
            source = self._source if before is None or before.source == "run" else before.source
            facts[endpoint_url, model] = LearnedRow(endpoint_url, model, source, today, **structs.asdict(whole))

        self._change(add)

    def forget(self, endpoint_url: str, model: str) -> bool:
        """Delete the facts about an endpoint. Returns whether there were any."""
        self._facts = None
        is_known = (endpoint_url, model) in self._read()
        if is_known:
            self._change(lambda facts: facts.pop((endpoint_url, model), None))
        return is_known

    def __len__(self) -> int:
        return len(self._read())

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _counts(self, fact: LearnedRow) -> bool:
        if fact.source == "doctor":
            return True
        try:
            day = time.mktime(time.strptime(fact.learned, "%Y-%m-%d"))
        except (ValueError, OverflowError):
            return False
        return self._calendar() - day < (KEPT_DAYS + 1) * _DAY

    def _read(self) -> LearnedRows:
        if self._facts is None:
            try:
                self._facts, problems = read_learned(self.path)
            except ConfigError as error:
                # The user edited the file and broke it: it is not overwritten.
                self._facts, problems, self._is_ours = {}, [f"{self.path} is ignored: {error}"], False
            self.problems += [problem for problem in problems if problem not in self.problems]
        return self._facts

    def _change(self, change: Callable[[LearnedRows], object]) -> None:
        """Change the current facts in the file; only in memory if the file is damaged or not writable."""
        self._facts = None
        facts = self._read()
        change(facts)
        if not self._is_ours:
            return
        try:
            with change_file(self.path, lambda path: read_learned(path)[0], _write_rows) as stored:
                change(stored)
        except ConfigError as error:
            self.problems.append(f"{self.path} is ignored: {error}")
        except OSError as error:
            self.problems.append(f"cannot write {self.path}: {(error.strerror or 'it failed').lower()}")


def _write_rows(facts: LearnedRows) -> str:
    return format_learned(list(facts.values())[-MOST_ROWS:])


def learned_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the facts, beside the user's file; None if there is no folder, or it is switched off."""
    own = user_file(environment)
    return own and own.parent / LEARNED_FILE


def read_learned(path: Path) -> tuple[LearnedRows, list[str]]:
    """Read the valid rows of a file, and the problems of the others. Raises ConfigError if it is not such a file."""
    if not path.exists():
        return {}, []
    rows = parse(read_text(path), str(path)).get("facts", [])
    found: LearnedRows = {}
    problems = []
    for number, row in enumerate(rows if isinstance(rows, list) else [], start=1):
        try:
            fact = msgspec.convert(row, LearnedRow)
            # A flag that a later version removed must not fail a run.
            read_quirks(fact.quirks, "a row")
            from_mapping(fact.capabilities)
        except (msgspec.ValidationError, DragomanError) as error:
            problems.append(f"{path}: fact {number} is ignored: {error}")
        else:
            found[fact.url, fact.model] = fact
    return found, problems


def format_learned(facts: list[LearnedRow]) -> str:
    """Return the text of the file."""
    parts = [_LEARNED_HEAD]
    for fact in facts:
        row = structs.asdict(fact)
        tables = {name: row.pop(name) for name in ("quirks", "capabilities")}
        lines = ["\n[[facts]]"]
        lines += [
            f"{name} = {_write_learned(value)}"
            for name, value in row.items()
            if value or name in _ALWAYS or value is False
        ]
        for name, table in tables.items():
            lines += [f"{name}.{flag} = {_write_learned(value)}" for flag, value in table.items()]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _write_learned(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_write_learned, value)) + "]"
    # A message of an endpoint may contain characters that TOML cannot: a lone surrogate, or a control character.
    return to_toml(value.encode("utf-8", "replace").decode().translate(_CONTROLS) if isinstance(value, str) else value)


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
    for workspace, rows in parse(read_text(path), str(path)).items():
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
