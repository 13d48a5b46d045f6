"""Facts about endpoints that all programs of a user share, in the file `learned.toml`.

Rows of `dragoman doctor` are valid until it runs again. A fact that a run learned from an error expires after a week: a
user who repairs a server should not have to know about this file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from dragoman.errors import ConfigError, DragomanError
from dragoman.paths import SWITCHED_OFF, user_file
from dragoman.providers import Fact, Facts, MemoryFacts
from dragoman.providers.endpoint import read_quirks
from dragoman.providers.provider import from_mapping
from dragoman.secrets.exchanges import strip_login
from dragoman.state_files import change_file, parse_toml, read_text, to_toml

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
        self._stamp: tuple[int, int] | None = None
        self.problems: list[str] = []
        """Messages about problems with the file."""

    def get(self, endpoint_url: str, model: str) -> Fact | None:
        fact = self._read().get((strip_login(endpoint_url), model))
        return fact.fact if fact is not None and self._counts(fact) else None

    def put(self, endpoint_url: str, model: str, fact: Fact) -> None:
        """Save a fact. A fact of the doctor replaces the old one; a fact of a run is merged with it."""
        today = time.strftime("%Y-%m-%d", time.localtime(self._calendar()))
        url = strip_login(endpoint_url)

        def add(facts: LearnedRows) -> None:
            before = facts.pop((url, model), None)
            whole = fact if self._source == "doctor" or before is None else before.fact | fact
            source = self._source if before is None or before.source == "run" else before.source
            facts[url, model] = LearnedRow(url, model, source, today, **structs.asdict(whole))

        self._change(add)

    def forget(self, endpoint_url: str, model: str) -> bool:
        """Delete the facts about an endpoint. Returns whether there were any."""
        self._facts = None
        key = (strip_login(endpoint_url), model)
        is_known = key in self._read()
        if is_known:
            self._change(lambda facts: facts.pop(key, None))
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
        stamp = self._find_stamp()
        if self._facts is None or stamp != self._stamp:
            self._stamp = stamp
            try:
                self._facts, problems = read_learned(self.path)
            except ConfigError as error:
                # The user edited the file and broke it: it is not overwritten.
                self._facts, problems, self._is_ours = {}, [f"{self.path} is ignored: {error}"], False
            self.problems += [problem for problem in problems if problem not in self.problems]
        return self._facts

    def _find_stamp(self) -> tuple[int, int] | None:
        """What changes with the file: another program may have learned something."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

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
    """Return the path of the facts, beside the user's file; None if there is no folder, or it is switched off.

    `DRAGOMAN_FACTS=off` switches it off.
    """
    if environment.get("DRAGOMAN_FACTS", "").lower() in SWITCHED_OFF:
        return None
    own = user_file(environment)
    return own and own.parent / LEARNED_FILE


def shared_facts(environment: Mapping[str, str]) -> Facts:
    """Return the facts of this user, which the library and the command line share; in memory if there is no file."""
    path = learned_file(environment)
    return MemoryFacts() if path is None else _open(path)


@cache
def _open(path: Path) -> FileFacts:
    return FileFacts(path)


def read_learned(path: Path) -> tuple[LearnedRows, list[str]]:
    """Read the valid rows of a file, and the problems of the others. Raises ConfigError if it is not such a file."""
    if not path.exists():
        return {}, []
    rows = parse_toml(read_text(path), str(path)).get("facts", [])
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
