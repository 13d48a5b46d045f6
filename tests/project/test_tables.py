"""`each_row` tries every row of a table, and its failure names each row that failed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row


def failure(test: Any, **fixtures: Any) -> str:
    with pytest.raises(pytest.fail.Exception) as caught:
        test(**fixtures)
    return str(caught.value)


def test_every_row_is_tried_and_each_failure_is_named() -> None:
    tried = []

    @each_row("number", range(5))
    def check(number: int) -> None:
        tried.append(number)
        if number == 2:
            raise KeyError("two")
        assert number != 4, "four"

    told = failure(check)
    assert tried == [0, 1, 2, 3, 4]
    assert [line for line in told.splitlines() if line.startswith("- ")] == ["- 2", "- 4"]
    assert told.startswith("2 of 5 rows failed:")
    assert "KeyError: 'two'" in told and "four" in told


def test_two_tables_give_every_pair_and_fixtures_are_passed_on() -> None:
    tried = []

    @each_row("one, two", [(1, 2), pytest.param(3, 4, id="later")])
    @each_row(("word",), [("a",), ("b",)], ids=["first", "second"])
    def check(one: int, two: int, word: str, root: str) -> None:
        tried.append((one, two, word, root))
        assert one + two < 7 or word == "a"

    assert list(inspect.signature(check).parameters) == ["root"]
    assert "- later, second\n" in failure(check, root="/")
    assert tried == [(1, 2, "a", "/"), (1, 2, "b", "/"), (3, 4, "a", "/"), (3, 4, "b", "/")]


def test_what_would_be_no_failure_of_a_test_is_one_of_a_row() -> None:
    @each_row("error", [ValueError, None])
    def raises(error: type[Exception] | None) -> None:
        with pytest.raises(ValueError):
            if error is not None:
                raise error

    @each_row("number", [1])
    def skips(number: int) -> None:
        pytest.skip("not here")

    assert "- None\n    Failed: DID NOT RAISE" in failure(raises)
    assert "Skipped: not here" in failure(skips)


def test_a_law_is_tried_for_each_row() -> None:
    @each_row("limit", [10**9, 99])
    @given(st.integers(0, 1000))
    def law(limit: int, number: int) -> None:
        assert number < limit

    told = failure(law)
    assert told.startswith("1 of 2 rows failed:\n- 99\n")
    assert "number=99" in told


def test_the_time_limit_ends_the_table() -> None:
    tried = []

    @each_row("number", range(3))
    def check(number: int) -> None:
        tried.append(number)
        pytest.fail("Timeout (>120.0s) from pytest-timeout.")

    assert "1 of 3 rows failed" in failure(check)
    assert tried == [0]


def test_a_table_that_needs_tests_of_its_own_is_refused() -> None:
    def with_files(number: int, tmp_path: str) -> None: ...

    for use in (
        lambda: each_row("number", []),
        lambda: each_row("number", [pytest.param(1, marks=pytest.mark.full)]),
        lambda: each_row("number", [1])(with_files),
    ):
        with pytest.raises(AssertionError):
            use()
