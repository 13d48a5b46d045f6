"""Fault 45: after a flipped bit or a missing record the run is refused; an incomplete tail loses only that tail."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.journal.support import record_run, turn

from dragoman.journal import Entry, JournalDamaged, JournalError, Record, SqliteJournal, UnknownRun

MARK = b'{"note":"a body that can be found in the file"}'
ENTRIES = [*turn("first", "second"), Entry("input", MARK), Entry("ended")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """A journal of two runs, closed, and the records of the first."""
    path = tmp_path_factory.mktemp("whole") / "journal.db"

    async def scenario(journal: SqliteJournal) -> list[Record]:
        await record_run(journal, "r", "s", ENTRIES, parent="p")
        await record_run(journal, "other", "s", ENTRIES)
        return await journal.read("r")

    with SqliteJournal(path) as journal:
        return path, asyncio.run(scenario(journal))


@pytest.fixture
def copy(whole: tuple[Path, list[Record]], tmp_path: Path) -> Path:
    return Path(shutil.copy(whole[0], tmp_path / "journal.db"))


def read(path: Path, run_id: str = "r") -> list[Record]:
    with SqliteJournal(path) as journal:
        return asyncio.run(journal.read(run_id))


def tamper(path: Path, *statements: str) -> None:
    """Change the file without the journal and its triggers."""
    with closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()


def flips(value: object) -> Iterator[str]:
    """A stored value with one bit changed, for each of its bytes, as SQL."""
    if isinstance(value, str | bytes):
        raw = value if isinstance(value, bytes) else value.encode()
        cast = "CAST({} AS TEXT)" if isinstance(value, str) else "{}"
        for place in range(len(raw)):
            changed = raw[:place] + bytes([raw[place] ^ (1 << place % 8)]) + raw[place + 1 :]
            yield cast.format(f"x'{changed.hex()}'")
    elif isinstance(value, int):
        yield from (str(value ^ (1 << bit)) for bit in (0, 1, 7))
    elif isinstance(value, float):
        yield from (repr(value + change) for change in (0.000001, -3600.0))
    else:
        raise TypeError(value)


RECORD_COLUMNS = ["run", "number", "at", "kind", "call_id", "calls", "checksum", "body"]
RUN_COLUMNS = ["id", "session", "parent", "begun", "records", "turns", "ended", "checksum"]


@pytest.mark.parametrize("column", RECORD_COLUMNS)
def test_a_flip_in_any_byte_of_a_record_is_found(copy: Path, column: str) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        stored = connection.execute(f"SELECT number, {column} FROM records WHERE run = 1").fetchall()
    swept = 0
    pristine = copy.read_bytes()
    for number, value in stored:
        for changed in flips(value):
            if column == "run":
                changed = "77"
            copy.write_bytes(pristine)
            # Two records cannot have the same number, so the one that is in the way has to go.
            if column == "number":
                tamper(copy, f"UPDATE records SET number = number + 1000 WHERE run = 1 AND number = {number}")
            else:
                tamper(copy, f"UPDATE records SET {column} = {changed} WHERE run = 1 AND number = {number}")
            with pytest.raises(JournalDamaged) as caught:
                read(copy)
            assert caught.value.run_id == "r"
            assert caught.value.number == number
            swept += 1
    assert swept >= (1 if column == "calls" else len(ENTRIES) // 2)


@pytest.mark.parametrize("column", RUN_COLUMNS)
def test_a_flip_in_any_byte_of_what_names_a_run_is_found(copy: Path, column: str) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        value = connection.execute(f"SELECT {column} FROM runs WHERE run_id = 'r'").fetchone()[0]
    pristine = copy.read_bytes()
    changes = ["77"] if column == "id" else list(flips(value))
    assert changes
    for changed in changes:
        copy.write_bytes(pristine)
        tamper(copy, f"UPDATE runs SET {column} = {changed} WHERE run_id = 'r'")
        with pytest.raises(JournalDamaged):
            read(copy)


@pytest.mark.parametrize("number", range(len(ENTRIES) + 1))
def test_a_missing_record_is_found(copy: Path, number: int) -> None:
    tamper(copy, f"DELETE FROM records WHERE run = 1 AND number = {number}")
    with pytest.raises(JournalDamaged) as caught:
        read(copy)
    assert caught.value.number == number
    if number == 0:
        with SqliteJournal(copy) as journal, pytest.raises(JournalDamaged):
            asyncio.run(journal.first("r"))
    assert f"run r, record {number}" in str(caught.value)
    assert caught.value.next_step


def test_a_record_of_another_run_is_found(copy: Path) -> None:
    other = "SELECT checksum FROM records WHERE run = 2 AND number = 2"
    tamper(copy, f"UPDATE records SET checksum = ({other}) WHERE run = 1 AND number = 2")
    with pytest.raises(JournalDamaged):
        read(copy)


def test_damage_in_one_run_leaves_the_others_alone(copy: Path, whole: tuple[Path, list[Record]]) -> None:
    tamper(copy, "UPDATE records SET body = x'00' WHERE run = 2 AND number = 3")
    assert read(copy) == whole[1]
    with pytest.raises(JournalDamaged):
        read(copy, "other")


def test_a_damaged_run_is_not_forked_or_exported(copy: Path) -> None:
    tamper(copy, "UPDATE records SET body = x'00' WHERE run = 2 AND number = 3")

    async def scenario(journal: SqliteJournal) -> None:
        with pytest.raises(JournalDamaged):
            await journal.fork("s", None, "t")
        assert await journal.runs("t") == []
        with pytest.raises(JournalDamaged):
            [line async for line in journal.export("s")]

    with SqliteJournal(copy) as journal:
        asyncio.run(scenario(journal))


def sound_or_refused(path: Path, records: list[Record]) -> bool:
    """Read after damage: either exactly what was written, or an error of ours; whether it was read."""
    try:
        assert read(path) == records
    except JournalError as error:
        assert isinstance(error, UnknownRun) or error.next_step
        return False
    return True


def test_a_flip_anywhere_in_the_file_is_found_or_harmless(copy: Path, whole: tuple[Path, list[Record]]) -> None:
    pristine = copy.read_bytes()
    body = pristine.rindex(MARK)
    cell = range(body - 60, body + len(MARK))
    elsewhere = range(0, len(pristine), 131)
    found = 0
    for place in (*cell, *elsewhere):
        copy.write_bytes(pristine[:place] + bytes([pristine[place] ^ 0x10]) + pristine[place + 1 :])
        read_all_right = sound_or_refused(copy, whole[1])
        found += not read_all_right
        assert not (read_all_right and body <= place < body + len(MARK)), f"byte {place}"
        for extra in copy.parent.glob("journal.db-*"):
            extra.unlink()
    assert found > len(MARK)


def test_a_shortened_file_is_found(copy: Path, whole: tuple[Path, list[Record]]) -> None:
    pristine = copy.read_bytes()
    lengths = (*range(1, len(pristine), 977), len(pristine) - 1)
    refused = 0
    for length in lengths:
        copy.write_bytes(pristine[:length])
        refused += not sound_or_refused(copy, whole[1])
    # The last page may hold nothing of this run.
    assert refused >= len(lengths) * 2 // 3


def test_a_torn_log_costs_only_what_was_torn(tmp_path: Path) -> None:
    """The file as a crash leaves it, its log cut at many places: every whole append is there, in order, and usable."""
    path, image = tmp_path / "journal.db", tmp_path / "image" / "journal.db"
    image.parent.mkdir()

    async def scenario(journal: SqliteJournal) -> list[Record]:
        token = await journal.begin("r", "s", b"{}")
        for number in range(6):
            await journal.append("r", [Entry("input", str(number).encode()), Entry("input", MARK)], token=token)
        return await journal.read("r")

    with SqliteJournal(path) as journal:
        records = asyncio.run(scenario(journal))
        database, log = path.read_bytes(), path.with_name("journal.db-wal").read_bytes()
    lengths = []
    for length in (*range(0, len(log), 509), len(log)):
        image.write_bytes(database)
        image.with_name("journal.db-wal").write_bytes(log[:length])
        try:
            found = read(image)
        except UnknownRun:
            found = []
        assert found == records[: len(found)]
        assert len(found) % 2 == (1 if found else 0), "an append is there whole or not at all"
        lengths.append(len(found))
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    assert lengths[-1] == len(records)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = x'00' WHERE number = 1",
        "DELETE FROM records WHERE number = 1",
        "DELETE FROM runs",
        "UPDATE runs SET session = 'x'",
    ],
)
def test_the_tables_refuse_to_be_rewritten(copy: Path, statement: str) -> None:
    with (
        closing(sqlite3.connect(copy)) as connection,
        pytest.raises(sqlite3.IntegrityError, match=r"append-only|session"),
    ):
        connection.execute(statement)


def test_what_is_deleted_is_gone_from_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def scenario(journal: SqliteJournal) -> None:
        await record_run(journal, "r", "s", [Entry("input", MARK)])
        await record_run(journal, "kept", "t", [])
        assert any(MARK in each.read_bytes() for each in tmp_path.iterdir())
        await journal.delete("s")
        assert not any(MARK in each.read_bytes() for each in tmp_path.iterdir())

    with SqliteJournal(path) as journal:
        asyncio.run(scenario(journal))
