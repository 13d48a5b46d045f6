"""The report of the peer tests. The peers themselves run with `make test-peers` only."""

from __future__ import annotations

import pytest
from benchmarks.support.environments import Unavailable
from tests.peers.report import Report


def fill() -> Report:
    report = Report()
    with report.check("proxy", "calls on chat"):
        pass
    with report.check("proxy", "calls on messages"):
        raise Unavailable("no such path")
    with report.check("tools", "a restart", known="documented in mcp.md"):
        raise AssertionError("the session is gone")
    report.leave_out("engine", "it does not install: no space left")
    return report


def test_only_a_failure_changes_the_exit_code() -> None:
    report = fill()
    assert report.code == 0
    with report.check("proxy", "usage"):
        raise AssertionError("3 != 4\nmore")
    assert report.code == 1
    assert report.rows[-1].status == "failed"
    assert report.rows[-1].why.startswith("3 != 4 (test_report.py:")


def test_a_failed_check_does_not_stop_the_next() -> None:
    report = Report()
    for number in range(3):
        with report.check("proxy", str(number)):
            assert number != 1
    assert [row.status for row in report.rows] == ["passed", "failed", "passed"]


def test_the_table_names_every_check_with_its_reason() -> None:
    lines = fill().table().splitlines()
    assert lines[:5] == [
        "peer    check              result       reason",
        "proxy   calls on chat      passed",
        "proxy   calls on messages  unavailable  no such path",
        "tools   a restart          known        documented in mcp.md",
        "engine  everything         unavailable  it does not install: no space left",
    ]
    assert lines[-1].startswith("1 passed, 0 failed, 1 known, 2 unavailable in ")


def test_an_interruption_is_no_result() -> None:
    report = Report()
    with pytest.raises(KeyboardInterrupt), report.check("proxy", "calls"):
        raise KeyboardInterrupt
    assert report.rows == []
