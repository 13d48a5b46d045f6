"""Concurrent writers, and writers that are killed: there is one chain, and no written record is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from dragoman.journal.audit import AuditLog
from dragoman.journal.verification import read_records, verify

WRITERS = str(Path(__file__).with_name("writers.py"))


def start(path: Path, name: str, count: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, WRITERS, str(path), name, str(count), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("max_bytes", [[], ["20000"]], ids=["one file", "several files"])
def test_processes_write_one_chain(tmp_path: Path, max_bytes: list[str]) -> None:
    path = tmp_path / "audit.jsonl"
    counts = {"one": 150, "two": 90, "three": 120, "four": 60}
    processes = [start(path, name, count, *max_bytes) for name, count in counts.items()]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert verify(path).ok
    written = [record for record in read_records(path) if record["kind"] == "decision"]
    assert Counter(record["run"] for record in written) == counts
    for name, count in counts.items():
        mine = [record["call"] for record in written if record["run"] == name]
        assert mine == [f"call_{number}" for number in range(count)], "each writer's records are in its order"


def test_threads_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    shared = AuditLog(path, sync=False)
    logs = [shared, shared, AuditLog(path, sync=False, max_bytes=10_000), AuditLog(path, sync=False)]

    def work(log: AuditLog, name: str) -> None:
        for number in range(100):
            log.append("ended", run=name, call=str(number))

    threads = [threading.Thread(target=work, args=(log, f"t{at}")) for at, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(path).ok
    assert Counter(record["run"] for record in read_records(path) if record["kind"] == "ended") == {
        f"t{at}": 100 for at in range(4)
    }


def test_verifying_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    process = start(path, "busy", 1_000_000, "8000")
    assert process.stdout is not None
    seen = []
    for _ in range(12):
        process.stdout.readline()
        report = verify(path)
        assert report.ok, report
        seen.append(report.records)
    process.kill()
    process.communicate()
    assert seen == sorted(seen)
    assert seen[-1] >= 12


def test_killed_writers_leave_a_log_that_can_be_verified(tmp_path: Path) -> None:
    """Twenty writers, each killed at a moment of its own while another one writes on."""
    path = tmp_path / "audit.jsonl"
    lots = random.Random(7)
    told: Counter[str] = Counter()
    for number in range(10):
        pair = [start(path, f"w{number}{letter}", 100_000, "30000") for letter in "ab"]
        for process in pair:
            assert process.stdout is not None
            for _ in range(lots.randrange(1, 25)):
                process.stdout.readline()
            process.kill()
        for process, letter in zip(pair, "ab", strict=True):
            rest, _ = process.communicate()
            # The last number that it printed before it was killed.
            told[f"w{number}{letter}"] = int(rest.split()[-1]) if rest.split() else 0
        report = verify(path)
        assert report.ok, report
    AuditLog(path).append("ended", run="last")
    assert verify(path).ok
    calls = Counter(record.get("run") for record in read_records(path) if record.get("kind") == "decision")
    assert all(calls[name] >= last + 1 for name, last in told.items()), "what was said to be written is there"


@pytest.mark.parametrize("max_bytes", [[], ["9000"]], ids=["one file", "several files"])
def test_a_head_file_that_is_removed_while_others_write(tmp_path: Path, max_bytes: list[str]) -> None:
    """A writer that waited for the lock of a rotated file has to lock the new file."""
    path = tmp_path / "audit.jsonl"
    processes = [start(path, name, 200, *max_bytes) for name in ("one", "two", "three")]
    head = path.with_name("audit.jsonl.head")
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    while any(process.poll() is None for process in processes):
        head.unlink(missing_ok=True)
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    report = verify(path)
    assert (report.ok, report.records - report.files) == (True, 599), report
