"""Fault 46: several processes claim one run. One of them holds it, and the journal refuses records of the others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journal.support import Clock, record_run

from dragoman.journal import Entry, Journal, RunBusy, RunLost, SqliteJournal
from dragoman.journal.leases import LEASE_SECONDS, Holder, Lease, is_held, is_running, this_process
from dragoman.journal.sqlite import Settings, SqliteWriter
from dragoman.journal.threads import Job

HOLD = """
import asyncio, sys
from dragoman.journal import SqliteJournal

async def hold(path, run):
    journal = SqliteJournal(path)
    print(await journal.claim(run, "worker"), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(hold(*sys.argv[1:]))
"""


def test_a_run_is_held_by_one(journal: Journal) -> None:
    async def scenario() -> None:
        first = await journal.begin("r", "s", b"{}", owner="me")
        with pytest.raises(RunBusy) as caught:
            await journal.claim("r")
        assert caught.value.holder == str(this_process("me"))
        assert f"process {os.getpid()}" in str(caught.value)
        assert (await journal.run("r")).holder == caught.value.holder
        with pytest.raises(RunBusy):
            await journal.delete("s")
        await journal.release("r", token=first)
        assert (await journal.run("r")).holder == ""
        assert await journal.claim("r") == first + 1

    asyncio.run(scenario())


def test_of_many_who_claim_at_once_one_wins(journal: Journal) -> None:
    async def scenario() -> None:
        await record_run(journal, "r", None, [])
        results = await asyncio.gather(*(journal.claim("r") for _ in range(20)), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["RunBusy"] * 19 + ["int"]

    asyncio.run(scenario())


def test_an_old_token_is_worth_nothing(journal: Journal) -> None:
    async def scenario() -> None:
        old = await journal.begin("r", None, b"{}")
        await journal.release("r", token=old)
        with pytest.raises(RunLost):
            await journal.append("r", [Entry("input")], token=old)
        new = await journal.claim("r")
        for late in (journal.append("r", [Entry("finished", call_id="c")], token=old), journal.renew("r", token=old)):
            with pytest.raises(RunLost) as caught:
                await late
            assert caught.value.token == old
        await journal.release("r", token=old)
        await journal.append("r", [Entry("input")], token=new)
        await journal.renew("r", token=new)
        assert [record.kind for record in await journal.read("r")] == ["run", "input"]

    asyncio.run(scenario())


def test_a_claim_falls_when_its_time_is_over(tmp_path: Path) -> None:
    clock = Clock()

    async def scenario(first: SqliteJournal, second: SqliteJournal) -> None:
        old = await first.begin("r", None, b"{}")
        clock.now += LEASE_SECONDS - 1
        with pytest.raises(RunBusy):
            await second.claim("r")
        await first.append("r", [Entry("input")], token=old)
        clock.now += LEASE_SECONDS - 1
        with pytest.raises(RunBusy):
            await second.claim("r")
        clock.now += 1
        # No other process has claimed it, so its holder may continue.
        await first.append("r", [Entry("input")], token=old)
        clock.now += LEASE_SECONDS
        new = await second.claim("r")
        with pytest.raises(RunLost, match="held by process"):
            await first.append("r", [Entry("finished", call_id="late")], token=old)
        await second.append("r", [Entry("ended")], token=new)

    path = tmp_path / "journal.db"
    with SqliteJournal(path, clock=clock) as first, SqliteJournal(path, clock=clock) as second:
        asyncio.run(scenario(first, second))


HERE = this_process()


@pytest.mark.parametrize(
    ("lease", "alive", "expected"),
    [
        (Lease(1, HERE, until=1030.0), True, True),
        (Lease(1, HERE, until=1030.0), False, False),
        (Lease(1, HERE, until=1000.0), True, False),
        (Lease(1, None, until=1030.0), True, False),
        (Lease(1, HERE, until=4600.0), True, False),
        (Lease(1, HERE, until=4600.0, seconds=7200.0), True, True),
    ],
    ids=["held", "process gone", "over", "released", "clock set back", "long lease"],
)
def test_when_a_claim_stands(lease: Lease, alive: bool, expected: bool) -> None:
    assert is_held(lease, 1000.0, lambda _: alive) is expected


def test_a_process_is_known_by_more_than_its_number() -> None:
    assert is_running(HERE)
    if HERE.began:
        assert not is_running(Holder(HERE.host, HERE.pid, "another start")), "the number was used again"
    assert is_running(Holder("elsewhere", 1, "1")), "of another machine only the lease speaks"


def test_claims_are_kept_alive_while_nothing_is_written(tmp_path: Path) -> None:
    """A tool may run for an hour without a record, while its process is alive."""
    clock, passing = Clock(), Clock(0.0)
    path = tmp_path / "journal.db"

    async def scenario(journal: SqliteJournal) -> None:
        # The test calls the writer itself; no thread does.
        handler = SqliteWriter(Settings(path=path, busy_seconds=1.0, most_bytes=None, clock=clock, monotonic=passing))
        token = await journal.begin("r", None, b"{}")
        handler.serve([Job(lambda _: handler.held.update(r=token), durable=False)])
        for _ in range(10):
            wait = handler.rest()
            assert wait is not None
            assert 0 < wait <= LEASE_SECONDS / 3
            clock.now += wait
            passing.now += wait
        with pytest.raises(RunBusy):
            await journal.claim("r")
        handler.close()
        assert await journal.claim("r") == token + 1

    with SqliteJournal(path, clock=clock) as journal:
        asyncio.run(scenario(journal))


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the run r, until its input ends."""
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        asyncio.run(record_run(journal, "r", "s", []))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), "r"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "2\n"
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_named_and_its_death_frees_the_run(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        with pytest.raises(RunBusy, match=f"held by worker .process {holder.pid} on"):
            asyncio.run(journal.claim("r"))
        holder.send_signal(signal.SIGKILL)
        if sys.platform == "linux":
            # A zombie process counts as ended.
            os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
            assert asyncio.run(journal.claim("r")) == 3
        holder.wait()
        assert (asyncio.run(journal.run("r"))).holder == ("" if sys.platform != "linux" else str(this_process()))


def test_a_process_that_ends_well_gives_everything_back(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db", is_alive=lambda _: True) as journal:
        holder.communicate("")
        assert asyncio.run(journal.run("r")).holder == ""
        assert asyncio.run(journal.claim("r")) == 3
