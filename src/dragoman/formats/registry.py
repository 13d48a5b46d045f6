"""Formats by name: the catalogue, and whatever a user adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.errors import ConfigError, UnknownFormat
from dragoman.formats.catalogue import ROWS
from dragoman.formats.plan import Plan
from dragoman.formats.template import Format
from dragoman.formats.thinking import SuffixedThink, pairs

_rows: dict[str, Format] = {row.name: row for row in ROWS}
_aliases: dict[str, str] = {alias: row.name for row in ROWS for alias in row.aliases}
_plans: dict[tuple[str, bool, bool], Plan] = {}


def names() -> list[str]:
    """Every name that a format goes by, aliases after the names proper; `auto` is not among them."""
    return [*_rows, *_aliases]


def get(name: str) -> Format:
    """The row of that name or alias."""
    if name == "auto":
        raise ConfigError("`auto` reads every format and is none itself", hint="name the format, for example hermes")
    row = _rows.get(_aliases.get(name, name))
    if row is None:
        declared = (
            "each model declares its own: use formats.from_response_template" if name == "response_template" else None
        )
        raise UnknownFormat(name, [*_rows, *_aliases, "auto"], hint=declared)
    return row


def register(row: Format) -> Format:
    """Add a format of your own; from now on it can be named, and `auto` looks for it."""
    for name in (row.name, *row.aliases):
        if name in _rows or name in _aliases or name == "auto":
            raise ConfigError(f"there is already a format named {name!r}", hint="choose another name")
    Plan([row], named=True)  # a template that cannot be compiled fails here, and nothing is registered
    _rows[row.name] = row
    _aliases.update(dict.fromkeys(row.aliases, row.name))
    _forget("auto")
    return row


def unregister(name: str) -> None:
    """Take back a format that `register` added."""
    row = get(name)
    if row in ROWS:
        raise ConfigError(
            f"{name!r} belongs to the catalogue and stays", hint="only registered formats can be taken back"
        )
    del _rows[row.name]
    for alias in row.aliases:
        del _aliases[alias]
    _forget("auto")
    _forget(row.name)


def _forget(name: str) -> None:
    for key in [key for key in _plans if key[0] == name]:
        del _plans[key]


def plan_for(
    name: str | Format, *, loose: bool = False, more_thinking: bool = False, extra: Iterable[Format] = ()
) -> Plan:
    """What a parser of this format, or of all of them, looks for. Compiled on first use.

    In loose `auto`, calls without a marker are left to the loose scanner, which sees more and judges better.
    A row that is given itself, or as `extra`, need not be registered, and nothing of it is kept.
    """
    if isinstance(name, Format):
        plan = Plan([name], named=True, thinking=pairs(named=True) if more_thinking else ())
    else:
        plan = _kept_plan(name, loose=loose, more_thinking=more_thinking)
    rows = tuple(extra)
    return plan.extend(rows) if rows else plan


def _kept_plan(name: str, *, loose: bool, more_thinking: bool) -> Plan:
    row = None if name == "auto" else get(name)
    key = (row.name if row else "auto", loose and row is None, more_thinking)
    plan = _plans.get(key)
    if plan is None:
        if row is None:
            plan = Plan(
                (row for row in _rows.values() if row.in_auto),
                named=False,
                unmarked=not loose,
                thinking=pairs(named=more_thinking),
                entries=(SuffixedThink(),),
            )
        else:
            plan = Plan([row], named=True, thinking=pairs(named=True) if more_thinking else ())
        _plans[key] = plan
    return plan


def rows() -> Iterator[Format]:
    return iter(_rows.values())
