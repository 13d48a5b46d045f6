"""The journal in Postgres: faults of a server, and several machines."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.support import record_run, turn
from tests.postgres import PostgresServer

from dragoman.errors import ConfigError
from dragoman.journal import (
    Entry,
    Journal,
    JournalDamaged,
    JournalError,
    JournalFailed,
    JournalTooNew,
    JournalUnreachable,
    PostgresJournal,
    RunBusy,
    RunLost,
    RunOver,
    open_journal,
    order_faults,
)
from dragoman.journal.leases import this_process
from dragoman.journal.postgres import PostgresWriter

HOLD = """
import asyncio, sys
from dragoman.journal import Entry, PostgresJournal, RunLost

async def hold(url):
    journal = PostgresJournal(url, lease_seconds=0.5)
    token = await journal.begin("r", "s", b"{}", owner="paused worker")
    print("held", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    try:
        await journal.append("r", [Entry("started", call_id="late")], token=token)
        print("appended", flush=True)
    except RunLost:
        print("lost", flush=True)

asyncio.run(hold(sys.argv[1]))
"""

CLAIM = """
import asyncio, sys
from dragoman.journal import PostgresJournal, RunBusy

async def claim(url):
    with PostgresJournal(url) as journal:
        await journal.runs()
        print("ready", flush=True)
        for line in iter(sys.stdin.readline, ""):
            try:
                print(await journal.claim(line.strip()), flush=True)
            except RunBusy:
                print("busy", flush=True)

asyncio.run(claim(sys.argv[1]))
"""


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@contextmanager
def program(source: str, url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", source, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str], line: str = "") -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    if line:
        process.stdin.write(line + "\n")
    return process.stdout.readline().strip()


def test_an_address_opens_the_database(url: str) -> None:
    journal = open_journal(url)
    assert isinstance(journal, PostgresJournal)
    asyncio.run(record_run(journal, "r", "s", turn("a")))
    journal.close()
    with PostgresJournal(url.replace("postgres://", "postgresql://")) as again:
        assert [run.run_id for run in asyncio.run(again.runs())] == ["r"]


IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KINDS = st.sampled_from(["reply", "approved", "denied", "started", "finished", "delivered", "input"])
ENTRIES = st.builds(Entry, KINDS, st.binary(max_size=40), IDS, st.lists(IDS, max_size=3).map(tuple))


def test_any_entry_reads_back_as_it_was_written(url: str) -> None:
    """Ids of calls are text of models: they hold every character, NUL included."""
    numbers = iter(range(10_000))
    journal = PostgresJournal(url)

    @settings(max_examples=30)
    @given(st.lists(ENTRIES, min_size=1, max_size=5))
    def check(entries: list[Entry]) -> None:
        run_id = f"r{next(numbers)}"
        asyncio.run(record_run(journal, run_id, "s", entries))
        records = asyncio.run(journal.read(run_id))[1:]
        assert [Entry(each.kind, each.body, each.call_id, each.calls) for each in records] == entries

    check()
    asyncio.run(record_run(journal, "nul", "s", [Entry("started", call_id="a\0b", calls=("\0",))]))
    assert asyncio.run(journal.read("nul"))[1].call_id == "a\0b"
    journal.close()


class LosesAnswers:
    """Breaks the connection after a commit has happened, so that its answer is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.next = False
        execute = PostgresWriter._execute

        def lose(writer: PostgresWriter, connection: Any, jobs: list[Any]) -> None:
            execute(writer, connection, jobs)
            if self.next:
                self.next = False
                connection.raw.close()
                raise psycopg.OperationalError("the connection was lost")

        monkeypatch.setattr(PostgresWriter, "_execute", lose)


def test_a_change_whose_answer_was_lost_happens_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = LosesAnswers(monkeypatch)

    async def lost(work: Any) -> Any:
        answers.next = True
        done = await work
        assert not answers.next, "the answer was lost"
        return done

    async def scenario(journal: PostgresJournal) -> None:
        token = await lost(journal.begin("r", "s", b"{}"))
        await lost(journal.append("r", [Entry("reply", calls=("a", "b"))], token=token))
        answers.next = True
        # Two of one run in one transaction: the second hides the checksum of the first.
        await asyncio.gather(
            *(journal.append("r", [Entry("approved", call_id=call)], token=token) for call in ("a", "b"))
        )
        assert [record.call_id for record in await journal.read("r")] == ["", "", "a", "b"]
        await lost(journal.release("r", token=token))
        assert await lost(journal.claim("r")) == token + 1
        await lost(journal.append("r", [Entry("ended")], token=token + 1))
        await lost(journal.release("r", token=token + 1))
        fork = await lost(journal.fork("s", None, "t"))
        assert [run.run_id for run in await journal.runs("t")] == [fork.run_id]
        assert await lost(journal.delete("t")) == 5
        assert await journal.runs("t") == []
        assert len(await journal.read("r")) == 5

    with PostgresJournal(url) as journal:
        asyncio.run(scenario(journal))


def test_a_claim_that_was_rolled_back_is_not_taken_for_the_one_that_came_meanwhile(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same token, and another journal of the same process made the second."""
    holder = msgspec.json.encode(this_process()).decode()

    def undo(writer: PostgresWriter, connection: Any) -> None:
        monkeypatch.undo()
        connection.raw.execute("ROLLBACK")
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "UPDATE dragoman.runs SET token = token + 1, holder = %s, until = %s", (holder, time.time() + 5)
            )
        raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")

    async def scenario() -> None:
        with PostgresJournal(url) as journal:
            await record_run(journal, "r", "s", turn("a"))
            monkeypatch.setattr(PostgresWriter, "_commit", undo)
            with pytest.raises(RunBusy):
                await journal.claim("r")

    asyncio.run(scenario())


def test_an_append_is_refused_after_another_process_has_claimed_the_run(url: str) -> None:
    """The journal appends without a look at the run, as long as nobody else has changed it."""

    async def scenario(first: PostgresJournal, second: PostgresJournal) -> None:
        token = await first.begin("r", "s", b"{}")
        await first.append("r", [Entry("reply")], token=token)
        await first.release("r", token=token)
        taken = await second.claim("r")
        with pytest.raises(RunLost):
            await first.append("r", [Entry("reply")], token=token)
        await second.append("r", [Entry("reply", b"2"), Entry("delivered")], token=taken)
        await second.append("r", [Entry("ended")], token=taken)
        with pytest.raises(RunOver):
            await second.append("r", [Entry("reply")], token=taken)
        assert [record.kind for record in await first.read("r")] == ["run", "reply", "reply", "delivered", "ended"]

    async def steal(journal: PostgresJournal) -> None:
        token = await journal.begin("t", "s", b"{}")
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("UPDATE dragoman.runs SET token = token + 1 WHERE run_id = 't'")
        with pytest.raises(RunLost):
            await journal.append("t", [Entry("reply")], token=token)
        assert len(await journal.read("t")) == 1

    with PostgresJournal(url) as first, PostgresJournal(url) as second:
        asyncio.run(scenario(first, second))
        asyncio.run(steal(first))


def test_a_server_that_crashes_loses_no_promise(postgres: PostgresServer, url: str) -> None:
    """Runs append while the server is killed and started again: each record is there once, and in order."""

    async def write(journal: Journal, run: str, crash: asyncio.Event, back: asyncio.Event) -> int:
        token = await journal.begin(run, "s", b"0")
        number = 0
        while number < 400 and not (back.is_set() and number > 150):
            number += 1
            await journal.append(run, [Entry("started", str(number).encode())], token=token)
            if number == 60:
                crash.set()
        return number

    async def scenario(journal: PostgresJournal) -> list[int]:
        crash, back = asyncio.Event(), asyncio.Event()
        writers = [asyncio.create_task(write(journal, f"r{number}", crash, back)) for number in range(4)]
        await crash.wait()
        await asyncio.to_thread(postgres.stop, "immediate")
        await asyncio.to_thread(postgres.start)
        back.set()
        return await asyncio.gather(*writers)

    with PostgresJournal(url) as journal:
        promised = asyncio.run(scenario(journal))
        for run, count in enumerate(promised):
            bodies = [record.body for record in asyncio.run(journal.read(f"r{run}"))]
            assert bodies == [str(number).encode() for number in range(count + 1)]


def test_a_paused_process_loses_its_run_to_another(url: str) -> None:
    async def take(journal: PostgresJournal) -> int:
        while True:
            try:
                return await journal.claim("r", "new worker")
            except RunBusy as busy:
                assert "paused worker" in str(busy)

    with program(HOLD, url) as process, PostgresJournal(url) as journal:
        assert ask(process) == "held"
        process.send_signal(signal.SIGSTOP)
        token = asyncio.run(asyncio.wait_for(take(journal), 20))
        asyncio.run(journal.append("r", [Entry("started", call_id="new")], token=token))
        process.send_signal(signal.SIGCONT)
        assert ask(process, "go on") == "lost"
        assert [record.call_id for record in asyncio.run(journal.read("r"))] == ["", "new"]


def test_of_two_processes_that_race_for_a_run_one_wins(url: str) -> None:
    with PostgresJournal(url) as journal:
        for number in range(50):
            asyncio.run(record_run(journal, f"r{number}", "s", []))
    with ExitStack() as stack:
        racers = [stack.enter_context(program(CLAIM, url)) for _ in range(2)]
        assert [ask(racer) for racer in racers] == ["ready"] * 2
        for number in range(50):
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(f"r{number}\n")
        told = [[ask(racer) for _ in range(50)] for racer in racers]
    assert [sorted(pair) for pair in zip(*told, strict=True)] == [["2", "busy"]] * 50


def test_many_processes_create_the_tables_at_once(url: str) -> None:
    source = (
        "import asyncio, sys\nfrom dragoman.journal import PostgresJournal\n"
        "with PostgresJournal(sys.argv[1]) as journal: asyncio.run(journal.begin(sys.argv[2], 's', b'{}'))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", source, url, f"r{number}"]) for number in range(3)]
    assert [process.wait() for process in processes] == [0] * 3
    with PostgresJournal(url) as journal:
        assert sorted(run.run_id for run in asyncio.run(journal.runs("s"))) == [f"r{number}" for number in range(3)]


def test_records_cannot_be_changed_and_damage_is_found(url: str) -> None:
    with PostgresJournal(url) as journal:
        asyncio.run(record_run(journal, "r", "s", [*turn("a"), Entry("ended")]))
        with psycopg.connect(url, autocommit=True) as direct:
            for statement in (
                "UPDATE dragoman.records SET body = 'x' WHERE number = 1",
                "DELETE FROM dragoman.records",
                "DELETE FROM dragoman.runs",
                "UPDATE dragoman.runs SET session = 'x'",
            ):
                with pytest.raises(psycopg.errors.RaiseException, match=r"append-only|only deleted with"):
                    direct.execute(statement)
            assert order_faults(asyncio.run(journal.read("r"))) == []
            # A superuser can switch the triggers off. The chain of checksums still finds the change.
            direct.execute("SET session_replication_role = replica")
            direct.execute("UPDATE dragoman.records SET body = 'x' WHERE number = 2")
        with pytest.raises(JournalDamaged, match="record 2 is damaged: its checksum is wrong"):
            asyncio.run(journal.read("r"))


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    with PostgresJournal(url) as journal:
        asyncio.run(record_run(journal, "r", "s", []))
    with psycopg.connect(url, autocommit=True) as direct:
        direct.execute("UPDATE dragoman.version SET number = 99")
    with PostgresJournal(url) as journal:
        for work in (journal.runs(), journal.begin("x", None, b"{}")):
            with pytest.raises(JournalTooNew, match="99"):
                asyncio.run(work)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: url.replace("tester@", "tester:se-cr-et@").replace("127.0.0.1:", "127.0.0.1:1"), "cannot be"),
        (lambda url: url.replace("tester@", "stranger:se-cr-et@"), "stranger"),
        (lambda url: f"{url}-absent", "does not exist"),
    ],
    ids=["no server", "wrong user", "no database"],
)
def test_an_unusable_database_is_named_without_its_password(url: str, change: Any, says: str) -> None:
    with PostgresJournal(change(url), wait_seconds=0.1) as journal:
        for work in (journal.begin("r", None, b"{}"), journal.runs()):
            with pytest.raises(JournalFailed) as caught:
                asyncio.run(work)
            assert says in str(caught.value)
            assert caught.value.next_step
            assert "se-cr-et" not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.fixture
def limited(url: str) -> Iterator[tuple[str, Callable[[int], None]]]:
    """An address with a user of its own, and a function that limits its connections and ends those that are open."""
    user = f"limited_{url.rpartition('/')[2]}"
    with psycopg.connect(url, autocommit=True) as direct:

        def limit(connections: int) -> None:
            direct.execute(f"ALTER ROLE {user} CONNECTION LIMIT {connections}")
            direct.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (user,))

        direct.execute(f"CREATE ROLE {user} LOGIN")
        direct.execute(f'GRANT CREATE ON DATABASE "{url.rpartition("/")[2]}" TO {user}')
        yield url.replace("tester@", f"{user}@"), limit


def test_a_server_without_free_connections_says_so(limited: tuple[str, Callable[[int], None]]) -> None:
    """It was called a refused login, with the advice to check the password."""
    address, limit = limited
    limit(0)
    with PostgresJournal(address, wait_seconds=0.1) as journal:
        for work in (journal.begin("r", None, b"{}"), journal.runs()):
            with pytest.raises(JournalUnreachable, match="too many connections") as caught:
                asyncio.run(work)
            assert "max_connections" in str(caught.value.next_step)


def test_an_append_waits_for_a_free_connection(
    limited: tuple[str, Callable[[int], None]], caplog: pytest.LogCaptureFixture
) -> None:
    """It failed at once, and a worker then gave up the run."""
    address, limit = limited

    async def scenario(journal: PostgresJournal) -> None:
        token = await journal.begin("r", None, b"{}")
        limit(0)
        append = asyncio.create_task(journal.append("r", [Entry("started", call_id="c")], token=token))
        while "cannot be used now" not in caplog.text:
            await asyncio.sleep(0.01)
        limit(10)
        await append
        assert [record.kind for record in await journal.read("r")] == ["run", "started"]

    with PostgresJournal(address) as journal:
        asyncio.run(asyncio.wait_for(scenario(journal), 50))


def test_an_address_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresJournal("postgres://user:se-cr-et@[bad/name")
    assert "se-cr-et" not in str(caught.value)
    assert caught.value.next_step


def test_without_the_package_the_next_step_is_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError) as caught:
        PostgresJournal("postgres://host/name")
    assert 'pip install "dragoman[durable]"' in str(caught.value.next_step)


def test_close_does_not_wait_for_an_absent_server(url: str) -> None:
    absent = url.replace("127.0.0.1:", "127.0.0.1:1")

    async def scenario(journal: PostgresJournal) -> None:
        begun = asyncio.create_task(journal.begin("r", None, b"{}"))
        await asyncio.sleep(0)
        await asyncio.to_thread(journal.close)
        with pytest.raises(JournalError, match=r"cannot be reached|closed"):
            await begun

    asyncio.run(asyncio.wait_for(scenario(PostgresJournal(absent, wait_seconds=600)), 30))
