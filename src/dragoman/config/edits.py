"""Changes of the user's settings file by a command: one table is added or removed, and all other text stays as it is.

The result is parsed before it is written. If it does not say exactly what was wanted, the file is not changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.state_files import make_folder, open_alone, parse_toml, read_text, replace_file, to_toml

_is_bare = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_header = re.compile(r"\s*\[\[?(?P<name>[^\[\]]+)\]\]?\s*(?:#.*)?").fullmatch
_NO_CONTENT = re.compile(r"\s*(?:#.*)?").fullmatch


def add_table(path: Path, table: str, name: str, row: Mapping[str, Any]) -> None:
    """Add the table `[table.name]` to a settings file, at its end. An older table of that name is replaced."""

    def change(text: str) -> str:
        kept = _without(text, table, name).rstrip()
        lines = [f"{_key(key)} = {_value(value)}" for key, value in row.items()]
        return "\n".join([*([kept, ""] if kept else []), f"[{table}.{_key(name)}]", *lines, ""])

    def expect(rows: dict[str, Any]) -> dict[str, Any]:
        return {**rows, name: dict(row)}

    _edit(path, table, change, expect)


def remove_table(path: Path, table: str, name: str) -> None:
    """Remove the table `[table.name]`, and tables below it, from a settings file."""

    def expect(rows: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in rows.items() if key != name}

    _edit(path, table, lambda text: _without(text, table, name), expect)


def read_table(path: Path, table: str) -> dict[str, Any]:
    """Return the rows of a table in a settings file; none if there is no such file."""
    found = parse_toml(_read(path), str(path)).get(table, {})
    return found if isinstance(found, dict) else {}


def _edit(
    path: Path, table: str, change: Callable[[str], str], expect: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    # A link stays a link: many people keep their settings elsewhere.
    path = path.resolve()
    try:
        make_folder(path)
        with open_alone(path.with_name(f".{path.name}.lock")):
            text = _read(path)
            before = parse_toml(text, str(path))
            changed = change(text)
            rows = before.get(table, {})
            if not isinstance(rows, dict) or not _says(changed, {**before, table: expect(rows)}, table):
                raise ConfigError(
                    f"{path} cannot be changed automatically: its table `{table}` is written in another way",
                    hint="edit it by hand; `dragoman config path` prints its path",
                )
            replace_file(path, changed)
    except OSError as problem:
        why = (problem.strerror or "it failed").lower()
        raise ConfigError(f"cannot write {path}: {why}", hint="check the folder and its permissions") from None


def _read(path: Path) -> str:
    return read_text(path) if path.exists() else ""


def _says(text: str, wanted: dict[str, Any], table: str) -> bool:
    try:
        found = parse_toml(text, "")
    except ConfigError:
        return False
    # An empty table and no table are the same.
    return {**found, table: found.get(table, {})} == wanted


def _without(text: str, table: str, name: str) -> str:
    """Return a text without a table and those below it. Comments before the next table belong to that one."""
    kept: list[str] = []
    removed: list[str] = []
    is_inside = False
    for line in text.splitlines(keepends=True):
        header = _header(line.rstrip("\n"))
        if header is not None:
            kept += _trailing(removed)
            removed = []
            is_inside = _names_table(header["name"], table, name)
        (removed if is_inside else kept).append(line)
    return "".join([*kept, *_trailing(removed)])


def _trailing(lines: list[str]) -> list[str]:
    """Return the comments and empty lines at the end of a table that is removed."""
    end = next((number for number in range(len(lines), 0, -1) if not _NO_CONTENT(lines[number - 1].rstrip("\n"))), 0)
    rest = lines[end:]
    return rest if any(line.strip() for line in rest) else []


def _names_table(header: str, table: str, name: str) -> bool:
    parts = [part.strip().strip("\"'") for part in header.split(".")]
    return parts[:2] == [table, name]


def _key(key: str) -> str:
    return key if _is_bare(key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    return to_toml(value)
