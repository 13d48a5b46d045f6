"""Threads are chosen by the cores that are free."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.local.engine import choose_threads, count_busy, count_cores


@pytest.mark.parametrize(
    ("cores", "busy", "threads"),
    [(2, 0.0, 2), (2, 0.9, 1), (2, 7.0, 1), (8, 2.4, 6), (1, 0.0, 1), (64, 0.0, 16)],
)
def test_busy_cores_are_left_alone(cores: int, busy: float, threads: int) -> None:
    assert choose_threads(lambda: cores, lambda: busy) == threads


def test_the_quota_of_a_container_counts(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("100000 100000\n", encoding="ascii")
    assert count_cores(quota) == 1
    quota.write_text("max 100000\n", encoding="ascii")
    assert count_cores(quota) == count_cores(tmp_path / "nowhere")


def test_what_runs_besides_us_is_counted(tmp_path: Path) -> None:
    load = tmp_path / "loadavg"
    load.write_text("9.00 9.00 9.00 3/400 1234\n", encoding="ascii")
    assert count_busy(load, lambda seconds: None) == 2


def test_without_such_a_file_the_load_average_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 0.0, 0.0), raising=False)
    assert count_busy(tmp_path / "nowhere") == 1.5
