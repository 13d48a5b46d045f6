"""Invariants: append and read are inverse, runs are independent, forks are prefixes, implementations agree."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.support import Clock, record_run, turn

from dragoman.journal import Entry, Journal, JournalError, MemoryJournal, SqliteJournal

IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KINDS = st.sampled_from(["reply", "approved", "denied", "started", "finished", "delivered", "input"])
ENTRIES = st.builds(Entry, KINDS, st.binary(max_size=40), IDS, st.lists(IDS, max_size=3).map(tuple))
APPENDS = st.lists(st.tuples(st.sampled_from("abc"), st.lists(ENTRIES, max_size=4)), max_size=12)
TURNS = st.lists(st.integers(0, 2), min_size=1, max_size=4)


def journals(folder: str) -> tuple[MemoryJournal, SqliteJournal]:
    """Return one journal of each kind, with the same clock and the same ids."""
    ids = [itertools.count(), itertools.count()]
    makers = [lambda: f"fork-{next(ids[0])}", lambda: f"fork-{next(ids[1])}"]
    clock = Clock()
    memory = MemoryJournal(clock=clock, new_id=makers[0])
    return memory, SqliteJournal(Path(folder) / "journal.db", clock=clock, new_id=makers[1])


@settings(max_examples=60)
@given(APPENDS)
def test_any_interleaving_of_runs_reads_back_as_each_run_wrote_it(appends: list[tuple[str, list[Entry]]]) -> None:
    async def scenario(journal: Journal) -> None:
        tokens = {run: await journal.begin(run, "s", run.encode()) for run in "abc"}
        for run, entries in appends:
            await journal.append(run, entries, token=tokens[run])
        for run in "abc":
            wrote = [Entry("run", run.encode()), *(entry for name, part in appends if name == run for entry in part)]
            records = await journal.read(run)
            assert [Entry(each.kind, each.body, each.call_id, each.calls) for each in records] == wrote
            assert [each.number for each in records] == list(range(len(records)))

    with tempfile.TemporaryDirectory() as folder:
        for journal in journals(folder):
            asyncio.run(scenario(journal))
            journal.close()


@settings(max_examples=40)
@given(st.lists(TURNS, min_size=1, max_size=3), st.integers(0, 12), st.booleans())
def test_a_fork_is_a_prefix_and_both_journals_agree(sessions: list[list[int]], at: int, ended: bool) -> None:
    async def scenario(journal: Journal) -> list[object]:
        number = itertools.count()
        for place, counts in enumerate(sessions):
            entries = [entry for count in counts for entry in turn(*(f"c{next(number)}" for _ in range(count)))]
            last = place == len(sessions) - 1
            await record_run(journal, f"r{place}", "s", entries if last and not ended else [*entries, Entry("ended")])
        told: list[object] = []
        try:
            told.append(await journal.fork("s", at, "f"))
        except JournalError as error:
            assert at > sum(map(len, sessions))
            return [str(error)]
        for run in await journal.runs("f"):
            assert run.copied_from is not None
            kept, whole = await journal.read(run.run_id), await journal.read(run.copied_from)
            assert whole[: len(kept)] == kept
            told.append(kept)
        assert sum(run.turns for run in await journal.runs("f")) == at
        return [*told, await journal.runs(), await journal.sessions(), [line async for line in journal.export("f")]]

    with tempfile.TemporaryDirectory() as folder:
        memory, sqlite = journals(folder)
        assert asyncio.run(scenario(memory)) == asyncio.run(scenario(sqlite))
        memory.close()
        sqlite.close()


@settings(max_examples=30)
@given(st.lists(ENTRIES, min_size=1, max_size=6))
def test_another_process_reads_the_same(entries: list[Entry]) -> None:
    async def write(journal: Journal) -> list[object]:
        await record_run(journal, "r", "s", entries)
        return [await journal.read("r"), await journal.run("r")]

    async def look(journal: Journal) -> list[object]:
        return [await journal.read("r"), await journal.run("r")]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        with SqliteJournal(path) as journal, SqliteJournal(path) as beside:
            written = asyncio.run(write(journal))
            assert asyncio.run(look(beside)) == written
        with SqliteJournal(path) as later:
            assert asyncio.run(look(later)) == written
