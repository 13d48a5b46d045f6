"""What workers do for runs that nobody holds: answered, cancelled, or with a request that has expired."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from dbos import error
from tests.engine.test_engine import AgentSetup, _until_it_serves, working
from tests.postgres import PostgresServer

from dragoman.agent import Safety
from dragoman.agent.approvals import Approval, answer_request, list_requests
from dragoman.agent.records import Ended, decode
from dragoman.engine import PostgresEngine, digest_tools
from dragoman.engine.execution import Executor, make_submission
from dragoman.engine.upkeep import Upkeep
from dragoman.engine.workers import Heartbeat, connect, find_parked, find_workers
from dragoman.errors import ConfigError
from dragoman.journal import JournalFailed, PostgresJournal
from dragoman.journal.postgres import KEEP_ALIVE


@asynccontextmanager
async def serving(url: str, safety: Safety | None = None) -> AsyncIterator[tuple[PostgresEngine, AgentSetup]]:
    engine, setup = PostgresEngine(url), AgentSetup()
    async with asyncio.timeout(60), working(engine, {"assistant": setup.make_agent(safety=safety)}):
        await _until_it_serves(engine)
        yield engine, setup
    await engine.close()


def forget_held(journal: PostgresJournal) -> None:
    """Leave the journal as a killed process does: its leases are neither renewed nor released."""
    journal._writer.held.clear()


def test_a_run_that_is_cancelled_when_its_worker_has_just_died_gets_an_end(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cancelled it could not record that, because the lease of the dead worker was still valid. Nobody ended it."""
    monkeypatch.setattr("dragoman.engine.upkeep._THOROUGH_SECONDS", 0.5)

    async def begin_and_die(url: str) -> str:
        engine, setup = PostgresEngine(url), AgentSetup()
        engine._digests = {"assistant": digest_tools(setup.make_agent())}
        run_id = await engine.submit("assistant", "note a")
        dead = PostgresJournal(url, lease_seconds=2.0)
        executor = Executor(dead, {"assistant": setup.make_agent()})
        await executor.advance(make_submission("assistant", "note a", None, run_id))
        await executor.live[run_id].flush()
        forget_held(dead)
        await engine.cancel(run_id)
        assert (await engine.status(run_id)).state == "cancelled"
        assert [record.kind for record in await engine.journal.read(run_id)] == ["run", "reply"]
        await engine.close()
        dead.close()
        return run_id

    async def scenario() -> None:
        url = postgres.new_database()
        run_id = await begin_and_die(url)
        async with serving(url) as (engine, setup):
            while not (await engine.journal.run(run_id)).ended:
                await asyncio.sleep(0.05)
            ended = decode((await engine.journal.read(run_id))[-1].body, Ended)
            assert (ended.kind, setup.done) == ("cancelled", [])
            assert (await engine.wait(run_id)).state == "cancelled"

    asyncio.run(scenario())


def test_a_cancelled_run_with_a_damaged_journal_keeps_no_other_from_its_end(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dragoman.engine.upkeep._THOROUGH_SECONDS", 0.1)

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url) as (engine, _):
            runs = [await engine.submit("assistant", "pay rent") for _ in range(2)]
            for run_id in runs:
                assert (await engine.wait(run_id)).state == "waiting"
            with connect(url) as connection:
                # As if both had been cancelled by a process that could not write the journal.
                connection.execute("UPDATE dbos.workflow_status SET status = 'CANCELLED'")
                connection.execute(
                    "SET session_replication_role = replica"
                )  # the triggers keep the records as they are
                connection.execute(
                    "UPDATE dragoman.records SET checksum = 'x' WHERE number = 1 AND run ="
                    " (SELECT id FROM dragoman.runs WHERE run_id = %s)",
                    (runs[0],),
                )
                connection.execute("UPDATE dragoman.runs SET token = token + 1")
            while not (await engine.journal.run(runs[1])).ended:
                await asyncio.sleep(0.05)

    asyncio.run(scenario())
    said = [record.message for record in caplog.records if "cannot be ended" in record.message]
    assert len(said) == 1


def test_a_run_continues_although_who_answered_it_was_killed(postgres: PostgresServer) -> None:
    """The answer was stored, and the lease never released: workers looked only at runs without a holder."""

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url) as (engine, setup):
            run_id = await engine.submit("assistant", "pay rent")
            assert (await engine.wait(run_id)).state == "waiting"
            killed: Any = PostgresJournal(url, lease_seconds=1.0)

            async def release_nothing(run_id: str, *, token: int) -> None:
                forget_held(killed)

            killed.release = release_nothing
            (request,) = await list_requests(killed)
            await answer_request(killed, request.id, Approval(True), now=request.asked)
            while not (await engine.journal.run(run_id)).ended:
                await asyncio.sleep(0.05)
            assert setup.done == ["rent"]
            killed.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [False, True], ids=["", "after a look that failed"])
def test_a_request_that_has_expired_is_asked_again(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Nobody could answer it, and nothing resumed the run of a worker: it waited for ever."""

    def find_nothing(*_: object) -> dict[str, float]:
        raise psycopg.OperationalError("the server closed the connection")

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url, Safety(approval_seconds=0.001)) as (engine, setup):
            run_id = await engine.submit("assistant", "pay rent")
            assert (await engine.wait(run_id)).state == "waiting"
            (before,) = await list_requests(engine.journal)
            assert engine._executor is not None
            upkeep = Upkeep(
                engine._client,
                engine.journal,
                engine._executor,
                engine.worker,
                engine._digests,
                clock=iter([0.0, 0.0, 20.0, 20.0]).__next__,
                wall=lambda: time.time() + 120.0,
            )
            with connect(url) as connection:
                if fails:
                    with monkeypatch.context() as patch, pytest.raises(psycopg.OperationalError):
                        patch.setattr("dragoman.engine.upkeep.find_expiries", find_nothing)
                        await asyncio.to_thread(upkeep.look, connection)
                await asyncio.to_thread(upkeep.look, connection)
            while (now := await list_requests(engine.journal)) and now[0].id == before.id:
                await asyncio.sleep(0.02)
            assert [(each.run_id, each.tool) for each in now] == [(run_id, "pay")]
            assert (await engine.wait(run_id)).state == "waiting"
            assert setup.done == []

    asyncio.run(scenario())


def test_the_look_twice_a_second_reads_only_what_has_just_changed(postgres: PostgresServer) -> None:
    """It read the last record of every run that waited: with thousands of them, half a second of the database."""

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url) as (engine, _):
            run_id = await engine.submit("assistant", "pay rent")
            assert (await engine.wait(run_id)).state == "waiting"
        with PostgresJournal(url) as journal:
            (request,) = await list_requests(journal)
            await answer_request(journal, request.id, Approval(True), now=request.asked)
        with connect(url) as connection:
            assert find_parked(connection, recent=True) == ([run_id], [])
            connection.execute("UPDATE dragoman.runs SET until = until - 600")
            assert find_parked(connection, recent=True) == ([], [])
            assert find_parked(connection) == ([run_id], [])

    asyncio.run(scenario())


def test_a_worker_is_alive_while_it_cares_for_other_runs(postgres: PostgresServer) -> None:
    """A thousand answers, or a slow database, delayed its heartbeat. The others took its runs away, and so did it."""
    url, may_end, looks = postgres.new_database(), threading.Event(), threading.Event()

    def look_for_long(_: psycopg.Connection[Any]) -> None:
        looks.set()
        may_end.wait(30)

    heartbeat = Heartbeat(url, "busy", {}, take_over=list, look=look_for_long)
    heartbeat.start()
    assert looks.wait(20)
    with connect(url) as other:
        first = other.execute("SELECT beat FROM dragoman.workers").fetchone()
        deadline = time.monotonic() + 20
        while (now := other.execute("SELECT beat FROM dragoman.workers").fetchone()) == first:
            assert time.monotonic() < deadline, "the heart does not beat"
        assert now is not None
    may_end.set()
    heartbeat.stop()
    with connect(url) as other:
        assert find_workers(other) == []


def test_two_live_workers_cannot_have_one_name(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took each other's runs for their own, and the first one that stopped gave the runs of both away."""
    monkeypatch.setattr("dragoman.engine.workers.DEAD_AFTER_SECONDS", 1.0)
    url = postgres.new_database()

    def make(agents: dict[str, str]) -> Heartbeat:
        return Heartbeat(url, "pod-1", agents, take_over=list, look=lambda _: None)

    first = make({"clerk": "1"})
    first.start()
    with pytest.raises(ConfigError, match="'pod-1' is alive"):
        make({"clerk": "2"}).start()
    with connect(url) as connection:
        assert [each.agents for each in find_workers(connection)] == [{"clerk": "1"}]
        # The first one is killed, and started again at once: it waits until its own row is old.
        first._stop.set()
        first._beating.join()
        again = make({"clerk": "3"})
        again.start()
        assert [each.agents for each in find_workers(connection)] == [{"clerk": "3"}]
        first.stop()
        assert [each.agents for each in find_workers(connection)] == [{"clerk": "3"}]
        again.stop()
        assert find_workers(connection) == []


def test_new_runs_go_to_the_version_that_started_last(postgres: PostgresServer) -> None:
    """They went to whichever worker had the newest heartbeat, so the old version never ran out of runs."""

    async def scenario() -> None:
        url = postgres.new_database()
        engine = PostgresEngine(url)
        with connect(url) as connection:
            for name, began, beat, digest in (("old", 60, 0, "1"), ("new", 10, 1, "2"), ("older", 90, 0, "1")):
                connection.execute(
                    "INSERT INTO dragoman.workers VALUES (%s, clock_timestamp() - make_interval(secs => %s), %s,"
                    " clock_timestamp() - make_interval(secs => %s))",
                    (name, beat, f'{{"clerk":"{digest}"}}', began),
                )
        assert [each.worker for each in await engine.workers()] == ["new", "old", "older"]
        assert await engine._find_digest("clerk") == "2"
        await engine.close()

    asyncio.run(scenario())


def test_the_status_says_why_a_run_does_not_continue(postgres: PostgresServer) -> None:
    """The run of a worker that had died was called running, by a worker that was not there any more."""

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url) as (engine, setup):
            run_id = await engine.submit("assistant", "stall now")
            while not setup.done:
                await asyncio.sleep(0.01)
            assert (await engine.status(run_id)).state == "running"
            name = engine.worker
            with connect(url) as connection:
                rename = "UPDATE dbos.workflow_status SET executor_id = %s WHERE executor_id = %s"
                connection.execute(rename, ("gone", name))
                status = await engine.status(run_id)
                connection.execute(rename, (name, "gone"))
            assert (status.state, status.why) == (
                "queued",
                "its worker has stopped or is paused; another one takes over",
            )
            setup.may_end = True
            assert (await engine.wait(run_id)).why == "answered"

    asyncio.run(scenario())


def test_a_cancelled_run_is_no_error_in_the_log_of_its_worker(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """DBOS wrote a traceback of fifty lines for each of them."""

    async def scenario() -> None:
        async with serving(postgres.new_database()) as (engine, setup):
            run_id = await engine.submit("assistant", "stall now")
            while not setup.done:
                await asyncio.sleep(0.01)
            await engine.cancel(run_id)
            while not (await engine.journal.run(run_id)).ended:
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.INFO, "dragoman.engine"):
        asyncio.run(scenario())
    # DBOS asks for the end of the run once a second, and writes the traceback then.
    for problem in (error.DBOSAwaitedWorkflowCancelledError("run_1"), ValueError("a bug")):
        logging.getLogger("dbos").error("an exception", exc_info=problem)
    logged = [record for record in caplog.records if record.name == "dbos"]
    assert [str(record.exc_info[1]) for record in logged if record.exc_info] == ["a bug"]
    assert "is cancelled" in caplog.text


def test_a_user_who_may_only_use_the_tables_can_submit_and_work(postgres: PostgresServer) -> None:
    """Every command tried to create the tables first, and Postgres refuses that even if they exist."""
    url = postgres.new_database()
    name = url.rpartition("/")[2]
    user = f"clerk_{name}"

    async def prepare() -> None:
        async with serving(url):
            pass
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN")
            for statement in (
                "GRANT USAGE ON SCHEMA dragoman, dbos",
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dragoman, dbos",
                "GRANT USAGE ON ALL SEQUENCES IN SCHEMA dragoman, dbos",
            ):
                connection.execute(f"{statement} TO {user}")

    async def use() -> None:
        async with serving(url.replace("tester@", f"{user}@")) as (engine, setup):
            assert (await engine.wait(await engine.submit("assistant", "note a"))).why == "answered"
            assert setup.done == ["a"]

    asyncio.run(prepare())
    asyncio.run(use())


def test_a_worker_that_may_only_read_says_so(postgres: PostgresServer) -> None:
    """The error was called a bug in dragoman."""
    url = postgres.new_database()
    user = f"reader_{url.rpartition('/')[2]}"

    async def scenario() -> None:
        async with serving(url):
            pass
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA dragoman, dbos TO {user}")
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA dragoman, dbos TO {user}")
        engine = PostgresEngine(url.replace("tester@", f"{user}@"))
        with pytest.raises(JournalFailed, match="permission denied for table workers") as caught:
            await engine.work({"assistant": AgentSetup().make_agent()}, asyncio.Event())
        assert "rights on its tables" in str(caught.value.next_step)
        await engine.close()

    asyncio.run(asyncio.wait_for(scenario(), 50))


def make_read_only(url: str, value: str) -> None:
    """Change whether a database accepts changes, and end its connections, as a failover does."""
    server, _, name = url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {value}')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


def test_a_run_survives_a_database_that_is_read_only_for_a_while(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Its worker dropped it, and stayed its owner for as long as it lived. The result of its tool was lost."""

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url) as (engine, setup):
            run_id = await engine.submit("assistant", "stall now")
            while not setup.done:
                await asyncio.sleep(0.01)
            make_read_only(url, "on")
            setup.may_end = True
            while "the database 127.0.0.1" not in caplog.text or "now" not in setup.done:
                await asyncio.sleep(0.05)
            make_read_only(url, "off")
            assert (await engine.wait(run_id)).why == "answered"
            kinds = [record.kind for record in await engine.journal.read(run_id)]
            assert (setup.done, kinds.count("started"), kinds.count("finished")) == (["begun now", "now"], 1, 1)

    asyncio.run(scenario())


def test_a_run_that_its_worker_has_dropped_is_queued_again(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called running for ever, by a worker that was alive."""
    monkeypatch.setattr("dragoman.engine.upkeep._THOROUGH_SECONDS", 0.5)

    async def scenario() -> None:
        url = postgres.new_database()
        async with serving(url) as (engine, setup):
            run_id = await engine.submit("assistant", "note a")
            await engine.wait(run_id)
            with connect(url) as connection:
                # As if DBOS could not record the end of the workflow.
                connection.execute(
                    "UPDATE dbos.workflow_status SET status = 'PENDING' WHERE workflow_uuid = %s", (run_id,)
                )
            assert (await engine.status(run_id)).state == "running"
            assert (await engine.wait(run_id)).why == "answered"
            assert setup.done == ["a"]

    asyncio.run(scenario())


def test_the_database_forgets_runs_that_ended(postgres: PostgresServer) -> None:
    """It grew for ever: a deleted session left its task and its outcome in the tables of DBOS."""

    async def scenario() -> None:
        url = postgres.new_database()
        journal_only = PostgresEngine(url)
        assert await journal_only.forget_before(time.time()) == 0
        await journal_only.forget(["run-x"])
        await journal_only.close()
        async with serving(url) as (engine, setup):
            for task in ("note a", "note b", "pay rent"):
                await engine.wait(await engine.submit("assistant", task, run_id=task.replace(" ", "-")))
            going = await engine.submit("assistant", "stall now")
            while "begun now" not in setup.done:
                await asyncio.sleep(0.01)
            with pytest.raises(ConfigError, match="has not ended"):
                await engine.forget(["note-a", going])
            await engine.forget(["note-a"])
            assert await engine.forget_before(time.time() - 3600) == 0
            assert await engine.forget_before(time.time() + 3600) == 1
            assert {each.run_id for each in await engine.recent(9)} == {"pay-rent", going}
            with connect(url) as connection:
                for table in ("workflow_input", "workflow_output", "operation_outputs"):
                    left = connection.execute(f"SELECT DISTINCT workflow_uuid FROM dbos.{table}").fetchall()
                    assert {run_id for (run_id,) in left} <= {"pay-rent", going}
            # A run whose session was deleted is unknown, and the same id is a new run.
            await engine.journal.delete("note-b")
            assert (await engine.wait(await engine.submit("assistant", "note b", run_id="note-b"))).why == "answered"
            setup.may_end = True
            await engine.wait(going)
        assert setup.done.count("b") == 2

    asyncio.run(scenario())


def test_a_worker_notices_that_it_is_cut_off(postgres: PostgresServer) -> None:
    """A lost packet kept the heartbeat, and commands such as `status`, for a quarter of an hour."""
    with connect(postgres.new_database()) as connection:
        used = connection.info.get_parameters()
    assert {name: int(used[name]) for name in KEEP_ALIVE} == KEEP_ALIVE


@pytest.mark.parametrize("state", ["waiting", "queued"])
def test_a_cancellation_that_was_interrupted_is_completed(postgres: PostgresServer, state: str) -> None:
    """Whoever cancels may be killed between the two databases, the journal and that of DBOS."""

    async def scenario() -> None:
        async with serving(postgres.new_database()) as (engine, setup):
            run_id = await engine.submit("assistant", "pay rent")
            assert (await engine.wait(run_id)).state == "waiting"

            ask, calls = engine._ask, list[Any]()

            async def ask_once(work: Any) -> Any:
                calls.append(work)
                if len(calls) > (1 if state == "waiting" else 2):
                    raise ConnectionError("killed")
                return await ask(work)

            engine._ask = ask_once  # type: ignore[method-assign]
            with pytest.raises(ConnectionError):
                await engine.cancel(run_id)
            engine._ask = ask  # type: ignore[method-assign]
            while not (await engine.journal.run(run_id)).ended:
                await asyncio.sleep(0.05)
            assert (await engine.wait(run_id)).state == "cancelled"
            assert setup.done == []

    asyncio.run(scenario())
