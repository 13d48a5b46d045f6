"""Fault 44, the store alone: a process that is killed while it appends loses no confirmed record."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dragoman.journal import Record, SqliteJournal

WRITE = """
import asyncio, os, sys
from dragoman.journal import Entry, SqliteJournal

async def write(journal, run):
    token = await journal.begin(run, "s", b"0")
    os.write(1, f"{run} 0\\n".encode())
    for number in range(1, 100_000):
        await journal.append(run, [Entry(("input", "started")[number % 2], str(number).encode())], token=token)
        os.write(1, f"{run} {number}\\n".encode())

async def main(path):
    journal = SqliteJournal(path)
    await asyncio.gather(*(write(journal, f"r{number}") for number in range(3)))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("promises", [1, 10, 60, 150])
def test_every_promise_survives_a_kill(tmp_path: Path, promises: int) -> None:
    path = tmp_path / "journal.db"
    process = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(promises)]
    process.kill()
    rest, _ = process.communicate()
    promised = Counter(line.split()[0] for line in [*lines, *rest.splitlines(keepends=True)] if line.endswith("\n"))

    async def look(journal: SqliteJournal) -> dict[str, list[Record]]:
        found = {run.run_id: await journal.read(run.run_id) for run in await journal.runs()}
        for run_id in found:
            assert await journal.claim(run_id) == 2, "nobody holds the runs of a dead process"
        return found

    with SqliteJournal(path) as journal:
        found = asyncio.run(look(journal))
    assert promised
    for run, count in promised.items():
        assert len(found[run]) >= count
        assert [record.body for record in found[run]] == [str(number).encode() for number in range(len(found[run]))]


def test_many_processes_make_one_file_at_once(tmp_path: Path) -> None:
    """Each begins a run in a file that none of them has made yet."""
    path = tmp_path / "journal.db"
    script = (
        "import asyncio, sys\nfrom dragoman.journal import SqliteJournal\n"
        "with SqliteJournal(sys.argv[1]) as journal: asyncio.run(journal.begin(sys.argv[2], 's', b'{}'))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, str(path), f"r{number}"]) for number in range(6)]
    assert [process.wait() for process in processes] == [0] * 6
    with SqliteJournal(path) as journal:
        assert sorted(run.run_id for run in asyncio.run(journal.runs("s"))) == [f"r{number}" for number in range(6)]
