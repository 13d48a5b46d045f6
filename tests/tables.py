"""Tables of cases: `each_row` checks every row of a table in one test.

pytest spends milliseconds on each test that it collects, hands to a worker and reports. A table of hundreds of rows
that each take less than that belongs into one test. `pytest.mark.parametrize` is for rows that take long, that need
fixtures of their own (`tmp_path`, `monkeypatch`), or that carry marks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest

Test = Callable[..., None]
Names = Callable[[Any], object] | Iterable[object]

_OF_TIME_LIMIT = "from pytest-timeout"
_LONGEST_NAME = 200
_OF_ONE_TEST = {"tmp_path", "monkeypatch", "capsys", "capfd", "caplog", "recwarn", "request"}
"""Fixtures that are new for each test, so rows must not share them."""


class _Row(NamedTuple):
    name: str
    values: dict[str, Any]


class _Table(NamedTuple):
    """What a test that goes through a table was made of, for a second table above it."""

    test: Test
    rows: list[_Row]


_TABLES: dict[Test, _Table] = {}


def each_row(names: str | Sequence[str], rows: Iterable[Any], *, ids: Names = repr) -> Callable[[Test], Test]:
    """Call a test for each row of a table, as `pytest.mark.parametrize` does, but in one test.

    All rows are tried. The test fails with the name of each row that failed and with the reason. Two tables at one test
    give each row of the one with each row of the other.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    is_value = names == columns[0]  # each row is the value itself
    table = [_read_row(columns, row, ids, is_value=is_value) for row in rows]
    if not callable(ids):
        table = [_Row(str(name), row.values) for name, row in zip(ids, table, strict=True)]
    assert table, "a table without rows checks nothing"

    def fold(test: Test) -> Test:
        test, inner = _TABLES.get(test, _Table(test, [_Row("", {})]))
        both = [
            _Row(", ".join(filter(None, (one.name, other.name))), one.values | other.values)
            for one in table
            for other in inner
        ]

        @functools.wraps(test, updated=())
        def check(**fixtures: Any) -> None:
            __tracebackhide__ = True
            _check_rows(test, both, fixtures)

        signature = inspect.signature(test)
        given = [parameter for name, parameter in signature.parameters.items() if name not in both[0].values]
        assert _OF_ONE_TEST.isdisjoint(parameter.name for parameter in given), "each row needs fixtures of its own"
        check.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
        check.pytestmark = list(getattr(test, "pytestmark", ()))  # type: ignore[attr-defined]
        _TABLES[check] = _Table(test, both)
        return check

    return fold


def _read_row(names: Sequence[str], row: Any, ids: Names, *, is_value: bool) -> _Row:
    values, name = (row,) if is_value else row, None
    if hasattr(row, "marks"):  # a row of `pytest.param`
        assert not row.marks, "a row with a mark needs a test of its own"
        values, name = row.values, row.id
    named = dict(zip(names, values, strict=True))
    label = ids if callable(ids) else repr
    return _Row(name or ", ".join(str(label(value))[:_LONGEST_NAME] for value in values), named)


def _check_rows(test: Test, rows: Sequence[_Row], fixtures: dict[str, Any]) -> None:
    failures: list[tuple[_Row, BaseException]] = []
    for row in rows:
        try:
            test(**row.values, **fixtures)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            failures.append((row, error))
            if _OF_TIME_LIMIT in str(error):  # it is given once: another row would have no limit
                break
    if failures:
        lines = [f"{len(failures)} of {len(rows)} rows failed:"]
        lines += [f"- {row.name}\n    {_explain(error)}" for row, error in failures]
        # The traceback of the first one is printed above this list.
        raise pytest.fail.Exception("\n".join(lines), pytrace=True) from failures[0][1]


def _explain(error: BaseException) -> str:
    text = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    return text.replace("\n", "\n    ")
