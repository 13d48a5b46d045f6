"""Fault 45, the disk: full, read-only, locked, broken, or of another user. Each error names the next step."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.journal.support import Clock, record_run

from dragoman.journal import Entry, JournalDamaged, JournalFailed, JournalTooNew, SqliteJournal, schema, sqlite
from dragoman.journal.sqlite import Settings, SqliteWriter
from dragoman.journal.threads import Job


def test_a_full_disk_refuses_and_keeps_what_was_written(tmp_path: Path) -> None:
    async def scenario(journal: SqliteJournal) -> None:
        token = await journal.begin("r", "s", b"{}")
        written = 1
        with pytest.raises(JournalFailed, match="full") as caught:
            while True:
                await journal.append("r", [Entry("started", b"x" * 3000, "c")], token=token)
                written += 1
        assert caught.value.next_step == "free space on the disk, then resume the run"
        assert written > 3
        assert len(await journal.read("r")) == written
        # One that fits is still taken, and the chain is whole.
        await journal.append("r", [Entry("input", b"1")], token=token)
        assert len(await journal.read("r")) == written + 1

    with SqliteJournal(tmp_path / "journal.db", most_bytes=80_000) as journal:
        asyncio.run(scenario(journal))


def test_one_that_does_not_fit_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    async def scenario(journal: SqliteJournal) -> None:
        tokens = [await journal.begin(f"r{number}", "s", b"{}") for number in range(5)]
        bodies = [b"x" * (500_000 if number == 2 else 10) for number in range(5)]
        results = await asyncio.gather(
            *(
                journal.append(f"r{number}", [Entry("started", bodies[number])], token=tokens[number])
                for number in range(5)
            ),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [type(None), type(None), JournalFailed, type(None), type(None)]
        assert [run.records for run in await journal.runs()] == [2, 2, 1, 2, 2]

    with SqliteJournal(tmp_path / "journal.db", most_bytes=200_000) as journal:
        asyncio.run(scenario(journal))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with SqliteJournal(tmp_path / "file" / "journal.db") as journal, pytest.raises(JournalFailed) as caught:
        asyncio.run(journal.begin("r", None, b"{}"))
    assert "cannot be created" in str(caught.value)
    assert caught.value.next_step == "name a file in a folder that you may write"


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path) as journal:
        for ask in (journal.begin("r", None, b"{}"), journal.runs()):
            with pytest.raises(JournalFailed) as caught:
                asyncio.run(ask)
            assert caught.value.next_step


def test_a_file_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        asyncio.run(record_run(journal, "r", "s", []))

    def read_only(path: Path, **_: object) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        connection.text_factory = bytes
        return connection

    # The rights of a file do not bind every user, but a connection is bound by its mode.
    monkeypatch.setattr(sqlite, "connect", read_only)
    with SqliteJournal(path) as journal:
        with pytest.raises(JournalFailed, match="read-only") as caught:
            asyncio.run(journal.claim("r"))
        assert caught.value.next_step == "make it writable, or name another file"
        assert len(asyncio.run(journal.read("r"))) == 1


def test_a_file_that_another_process_keeps_locked(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path, busy_seconds=0.0) as journal:
        token = asyncio.run(journal.begin("r", None, b"{}"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalFailed, match="locked") as caught:
                asyncio.run(journal.append("r", [Entry("input")], token=token))
            assert caught.value.next_step
            assert len(asyncio.run(journal.read("r"))) == 1, "reading goes on"
            other.execute("ROLLBACK")
        asyncio.run(journal.append("r", [Entry("input")], token=token))
        assert len(asyncio.run(journal.read("r"))) == 2


@pytest.mark.parametrize("content", [b"just a text, and a long one" * 40, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with SqliteJournal(path) as journal:
        for ask in (journal.begin("r", None, b"{}"), journal.runs()):
            with pytest.raises(JournalDamaged) as caught:
                asyncio.run(ask)
            assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE photos (name)")
        other.commit()
    content = path.read_bytes()
    with SqliteJournal(path) as journal:
        for ask in (journal.begin("r", None, b"{}"), journal.runs()):
            with pytest.raises(JournalFailed, match="not a journal of dragoman"):
                asyncio.run(ask)
    assert path.read_bytes() == content


def test_a_newer_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        asyncio.run(record_run(journal, "r", None, []))
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with SqliteJournal(path) as journal:
        for ask in (journal.claim("r"), journal.runs()):
            with pytest.raises(JournalTooNew, match="newer dragoman") as caught:
                asyncio.run(ask)
            assert caught.value.next_step == "upgrade dragoman, or name another file"


def test_after_a_failure_of_the_disk_nothing_more_is_promised(tmp_path: Path) -> None:
    """A write that the system could not put on the disk may be forgotten, so a later success would prove nothing."""

    def fail(connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    async def scenario(handler: SqliteWriter) -> None:
        jobs = [Job(work, durable=True) for work in (lambda _: "before", fail, lambda _: "after")]
        for job in jobs:
            handler.serve([job])
        assert jobs[0].outcome == ("before", None)
        for job in jobs[1:]:
            assert isinstance(job.outcome[1], JournalFailed)
            assert job.outcome[1].next_step == "check the disk, then open the journal again"

    handler = SqliteWriter(Settings(path=tmp_path / "journal.db", busy_seconds=1.0, most_bytes=None, clock=Clock()))
    asyncio.run(scenario(handler))
    handler.close()
