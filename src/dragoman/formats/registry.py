"""The registry of formats: the rows of the catalogue and the rows that a user registers, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.entry_points import EntryPoint, load_entry_points
from dragoman.errors import ConfigError, UnknownFormat
from dragoman.formats.catalogue import ROWS
from dragoman.formats.improvised.entry import Improvised
from dragoman.formats.plan import Plan
from dragoman.formats.template import Format
from dragoman.formats.thinking import SuffixedThink, pairs
from dragoman.formats.unmarked import RESIDUE

_rows: dict[str, Format] = {row.name: row for row in ROWS}
_aliases: dict[str, str] = {alias: row.name for row in ROWS for alias in row.aliases}
_plans: dict[tuple[str, bool | None, bool], Plan] = {}
"""By name, `loose` (None: the row alone) and `more_thinking`."""


def names() -> list[str]:
    """Return the names of all formats, then their aliases; `auto` is not included."""
    return [*_rows, *_aliases]


def get(name: str) -> Format:
    """Return the row with this name or alias."""
    if name == "auto":
        raise ConfigError(
            "`auto` reads every format; it is not a format itself", hint="name the format, for example hermes"
        )
    row = _rows.get(_aliases.get(name, name))
    if row is None and not _problems:
        load_installed()
        row = _rows.get(_aliases.get(name, name))
    if row is None:
        problems = "; ".join(each for found in _problems for each in found) or None
        declared = (
            "each model declares its own format: use formats.from_response_template"
            if name == "response_template"
            else problems
        )
        raise UnknownFormat(name, [*_rows, *_aliases, "auto"], hint=declared)
    return row


ENTRY_POINTS = "dragoman.formats"
_problems: list[tuple[str, ...]] = []


def load_installed(points: Iterable[EntryPoint] | None = None) -> tuple[str, ...]:
    """Register the formats of installed packages (group `dragoman.formats`). Return the problems.

    A value is a `Format` or a list of them. An unknown name of a format calls this function; call it yourself if `auto`
    should search for these formats before one of them is named.
    """
    _problems.append(load_entry_points(ENTRY_POINTS, _take, points))
    return _problems[-1]


def _take(row: object) -> None:
    if not isinstance(row, Format):
        raise ConfigError(f"{row!r} is not a Format"[:200])
    register(row)


def register(row: Format) -> Format:
    """Add a format. It can then be used by name, and `auto` searches for it."""
    for name in (row.name, *row.aliases):
        if name in _rows or name in _aliases or name == "auto":
            raise ConfigError(f"there is already a format named {name!r}", hint="choose another name")
    Plan([row], named=True)  # a template that cannot be compiled raises here, before anything is registered
    _rows[row.name] = row
    _aliases.update(dict.fromkeys(row.aliases, row.name))
    _forget("auto")
    return row


def unregister(name: str) -> None:
    """Remove a format that `register` added."""
    row = get(name)
    if row in ROWS:
        raise ConfigError(
            f"{name!r} belongs to the catalogue and cannot be removed",
            hint="unregister removes only formats that register added",
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
    """Return the plan of a format, or of all formats for `auto`. It is compiled on first use.

    With `loose`, `auto` leaves calls without a marker to the loose scanner, which sees the whole text.
    A row that is passed as `name` or in `extra` need not be registered; its plan is cached only if it is.
    """
    if isinstance(name, Format):
        plan = _plan_of_row(name, more_thinking=more_thinking)
    else:
        plan = _kept_plan(name, loose=loose, more_thinking=more_thinking)
    rows = tuple(extra)
    return plan.extend(rows) if rows else plan


def _plan_of_row(row: Format, *, more_thinking: bool) -> Plan:
    """The plan of this row alone, without what is read beside every named format."""
    key = (row.name, None, more_thinking)
    is_registered = _rows.get(row.name) is row
    plan = _plans.get(key) if is_registered else None
    if plan is None:
        plan = Plan([row], named=True, thinking=pairs(named=more_thinking))
        if is_registered:
            _plans[key] = plan
    return plan


def _kept_plan(name: str, *, loose: bool, more_thinking: bool) -> Plan:
    row = None if name == "auto" else get(name)
    key = (row.name if row else "auto", loose and row is None, more_thinking)
    plan = _plans.get(key)
    if plan is None:
        if row is None:
            plan = Plan(
                (row for row in _rows.values() if row.in_auto),
                named=False,
                thinking=pairs(named=more_thinking),
                entries=(SuffixedThink(), *RESIDUE),
                unmarked=not loose,
                improvised=Improvised(marked_only=loose),
            )
        else:
            plan = Plan(
                [row], named=True, thinking=pairs(named=more_thinking), entries=RESIDUE, improvised=Improvised()
            )
        _plans[key] = plan
    return plan


def reasoning_plan() -> Plan:
    """Return the plan that separates the reasoning from the answer and finds no call."""
    key = ("", False, True)
    if key not in _plans:
        _plans[key] = Plan((), named=True, thinking=pairs(named=True), entries=(SuffixedThink(),))
    return _plans[key]


def rows() -> Iterator[Format]:
    return iter(_rows.values())
