"""The threads of the journal: runs share a commit, no event loop waits for the disk, and the threads end."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.journal import Entry, JournalFailed, SqliteJournal
from dragoman.journal.threads import Job, Writer


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("dragoman-journal")]


@contextmanager
def stopped(journal: SqliteJournal) -> Iterator[None]:
    """Block the thread of the writer, while its queue accepts jobs. Use it in a running loop."""
    reached, go = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        reached.set()
        assert go.wait(30)

    blocking = asyncio.ensure_future(journal._writing.do(wait))
    try:
        yield
    finally:
        go.set()
        blocking.add_done_callback(lambda _: None)


async def reached_the_queue() -> None:
    """Let every task that is ready run until it waits."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_two_hundred_appends_at_once_share_a_commit(sqlite: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    serve = Writer.serve

    def counting(self: Writer, jobs: list[Job]) -> None:
        sizes.append(len(jobs))
        serve(self, jobs)

    async def scenario() -> None:
        tokens = [await sqlite.begin(f"r{number}", "s", b"{}") for number in range(200)]
        monkeypatch.setattr(Writer, "serve", counting)
        with stopped(sqlite):
            await reached_the_queue()
            waiting = [
                asyncio.ensure_future(
                    sqlite.append(f"r{number}", [Entry("started", str(number).encode(), "c")], token=tokens[number])
                )
                for number in range(200)
            ]
            await reached_the_queue()
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting)
        for number in range(200):
            assert (await sqlite.read(f"r{number}"))[1].body == str(number).encode()

    asyncio.run(scenario())
    # The blocking job may or may not share the first batch; the appends wait together.
    assert sum(sizes) == 201
    assert len(sizes) <= 3


def test_a_cancelled_append_is_written_all_the_same(sqlite: SqliteJournal) -> None:
    """Fault 43: a task that is cancelled during a write leaves a consistent run."""

    async def scenario() -> None:
        token = await sqlite.begin("r", None, b"{}")
        with stopped(sqlite):
            await reached_the_queue()
            task = asyncio.ensure_future(sqlite.append("r", [Entry("finished", b"1", "c")], token=token))
            await reached_the_queue()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await sqlite.append("r", [Entry("ended")], token=token)
        assert [record.kind for record in await sqlite.read("r")] == ["run", "finished", "ended"]

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["begin", "claim"])
def test_a_cancelled_claim_is_released(sqlite: SqliteJournal, method: str) -> None:
    """The process held the run for as long as it lived: every later run of the session was refused."""

    async def scenario() -> None:
        if method == "claim":
            await sqlite.release("r", token=await sqlite.begin("r", None, b"{}"))
        with stopped(sqlite):
            await reached_the_queue()
            task = asyncio.ensure_future(sqlite.claim("r") if method == "claim" else sqlite.begin("r", None, b"{}"))
            await reached_the_queue()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        token = await sqlite.claim("r")
        await sqlite.append("r", [Entry("ended")], token=token)
        assert [record.kind for record in await sqlite.read("r")] == ["run", "ended"]

    asyncio.run(scenario())


def test_a_loop_that_is_gone_does_not_stop_the_writer(sqlite: SqliteJournal) -> None:
    go = threading.Event()

    async def leave() -> int:
        token = await sqlite.begin("r", None, b"{}")
        blocking = asyncio.ensure_future(sqlite._writing.do(lambda _: go.wait(30)))
        late = asyncio.ensure_future(sqlite.append("r", [Entry("input", b"late")], token=token))
        await reached_the_queue()
        blocking.cancel()
        late.cancel()
        return token

    async def come_back(token: int) -> list[bytes]:
        await sqlite.append("r", [Entry("input", b"again")], token=token)
        return [record.body for record in await sqlite.read("r")]

    token = asyncio.run(leave())
    go.set()
    assert asyncio.run(come_back(token)) == [b"{}", b"late", b"again"]


def test_loops_in_several_threads_share_a_journal(sqlite: SqliteJournal) -> None:
    async def scenario(name: str) -> None:
        token = await sqlite.begin(name, "s", b"{}")
        for number in range(20):
            await sqlite.append(name, [Entry("input", str(number).encode())], token=token)

    running = [threading.Thread(target=lambda name=name: asyncio.run(scenario(name))) for name in "abc"]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    runs = asyncio.run(sqlite.runs())
    assert sorted((run.run_id, run.records) for run in runs) == [("a", 21), ("b", 21), ("c", 21)]


def test_closing_finishes_what_was_asked_for_and_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def scenario(journal: SqliteJournal) -> None:
        token = await journal.begin("r", None, b"{}")
        assert await journal.read("r")
        tasks = [
            asyncio.ensure_future(journal.append("r", [Entry("input", str(number).encode())], token=token))
            for number in range(50)
        ]
        await reached_the_queue()
        journal.close()
        assert threads() == []
        await asyncio.gather(*tasks)

    assert threads() == []
    asyncio.run(scenario(SqliteJournal(path)))
    assert [each.name for each in tmp_path.iterdir()] == ["journal.db"], "the log is folded into the file"
    with SqliteJournal(path) as journal:
        assert len(asyncio.run(journal.read("r"))) == 51


def test_a_journal_that_was_never_used_starts_nothing(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db"):
        assert threads() == []
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_journal_ends_its_threads(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    asyncio.run(journal.begin("r", None, b"{}"))
    asyncio.run(journal.read("r"))
    running = threads()
    assert len(running) == 2
    del journal
    gc.collect()
    for thread in running:
        thread.join(30)
    assert threads() == []


def test_a_journal_is_not_carried_into_a_forked_process(sqlite: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(sqlite.begin("r", None, b"{}"))
    with monkeypatch.context() as patched:
        patched.setattr("dragoman.journal.threads.os.getpid", lambda: -1)
        with pytest.raises(JournalFailed, match="forked") as caught:
            asyncio.run(sqlite.claim("r"))
    assert caught.value.next_step == "open it in the child"
    assert os.getpid() > 0
