"""The behaviour of every engine: it executes submitted runs, waits for approvals, cancels, and loses no run."""

from __future__ import annotations

import asyncio
import base64
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from tests.mcp.toolboxes import faulty
from tests.postgres import PostgresServer

import dragoman
from dragoman.agent import Connection, Safety
from dragoman.agent.agent import Agent
from dragoman.agent.approvals import ApprovalRefused, list_requests
from dragoman.agent.records import Ended, decode
from dragoman.engine import EmbeddedEngine, Engine, PostgresEngine, digest_tools
from dragoman.engine.execution import Executor, make_submission
from dragoman.engine.postgres import _serializer
from dragoman.engine.workers import DEAD_AFTER_SECONDS, Heartbeat, connect
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal import Entry, JournalUnreachable, MemoryJournal, UnknownRun
from dragoman.testing import ScriptedModel, call
from dragoman.types import Request, ToolCall, ToolResult

Scenario = Callable[[Engine, "AgentSetup"], Coroutine[Any, Any, None]]


class AgentSetup:
    """An agent with tools. `done` lists their side effects."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.may_end = False

    def make_agent(
        self, engine: Any = None, model: ScriptedModel | None = None, safety: Safety | None = None
    ) -> Agent[Any]:
        @dragoman.tool
        async def note(name: str) -> str:
            """Write a note."""
            self.done.append(name)
            return "noted"

        @dragoman.tool(requires_approval=True)
        async def pay(name: str) -> str:
            """Pay a bill."""
            self.done.append(name)
            return "paid"

        @dragoman.tool
        async def stall(name: str) -> str:
            """Wait until the test goes on."""
            self.done.append(f"begun {name}")
            while not self.may_end:
                await asyncio.sleep(0.01)
            self.done.append(name)
            return "stalled"

        def say(request: Request) -> Any:
            parts = [part for message in request.messages for part in message.parts]
            if any(isinstance(part, ToolResult) for part in parts):
                return "Done."
            words = next(message.text for message in request.messages if message.role == "user")
            tool, _, name = words.partition(" ")
            return [ToolCall("call_1", tool, {"name": name})]

        model = model or ScriptedModel(say, loop=True)
        return Agent(
            model.endpoint(),
            [note, pay, stall],
            name="assistant",
            engine=engine,
            connection=Connection(transport=model),
            safety=safety,
        )


@asynccontextmanager
async def working(engine: Engine, agents: dict[str, Agent[Any]]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = asyncio.create_task(engine.work(agents, stop))
    try:
        yield
    finally:
        stop.set()
        await worker


@pytest.fixture(params=["embedded", "postgres"])
def run_scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """Return a function that runs a scenario while the engine has a worker."""
    kind: str = request.param
    url = request.getfixturevalue("postgres").new_database() if kind == "postgres" else ""

    async def with_engine(scenario: Scenario) -> None:
        engine: Engine = PostgresEngine(url) if url else EmbeddedEngine(tmp_path / "journal.db")
        setup = AgentSetup()
        try:
            async with working(engine, {"assistant": setup.make_agent()}):
                await _until_it_serves(engine)
                await scenario(engine, setup)
        finally:
            await engine.close()

    return lambda scenario: asyncio.run(asyncio.wait_for(with_engine(scenario), 50))


async def _until_it_serves(engine: Engine) -> None:
    while isinstance(engine, PostgresEngine) and not engine.is_working:
        await asyncio.sleep(0.01)


def test_a_submitted_run_is_executed_once(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        first = await engine.submit("assistant", "note a", run_id="run-a")
        assert await engine.submit("assistant", "note a", run_id="run-a") == first == "run-a"
        others = [await engine.submit("assistant", f"note {number}") for number in range(5)]
        states = [await engine.wait(run_id) for run_id in [first, *others]]
        assert [(status.state, status.why, status.agent) for status in states] == [
            ("ended", "answered", "assistant")
        ] * 6
        assert sorted(setup.done) == ["0", "1", "2", "3", "4", "a"]
        assert (await engine.journal.run("run-a")).ended

    run_scenario(scenario)


def test_a_run_waits_for_an_approval_and_continues(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        run_ids = [await engine.submit("assistant", f"pay {name}") for name in ("rent", "bribe")]
        assert [(await engine.wait(run_id)).state for run_id in run_ids] == ["waiting", "waiting"]
        assert setup.done == []
        requests = {each.run_id: each for each in await list_requests(engine.journal)}
        for run_id, approved in zip(run_ids, (True, False), strict=True):
            await engine.answer(requests[run_id].id, approved)
        for run_id in run_ids:
            while (await engine.wait(run_id)).state == "waiting":
                pass
            assert (await engine.status(run_id)).state == "ended"
        assert setup.done == ["rent"]

    run_scenario(scenario)


def test_a_running_run_is_cancelled(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        run_id = await engine.submit("assistant", "stall now")
        while (await engine.status(run_id)).state != "running":
            await asyncio.sleep(0)
        while not any(record.kind == "started" for record in await _records(engine, run_id)):
            pass
        await engine.cancel(run_id)
        assert (await engine.wait(run_id)).state == "cancelled"
        while not (await engine.journal.run(run_id)).ended:
            pass
        assert setup.done == ["begun now"]

    run_scenario(scenario)


def test_a_waiting_run_is_cancelled(run_scenario: Callable[[Scenario], None]) -> None:
    """The journal did not know it: its approval was listed and accepted, and the session looked interrupted."""

    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        run_id = await engine.submit("assistant", "pay rent", session="day")
        assert (await engine.wait(run_id)).state == "waiting"
        (request,) = await list_requests(engine.journal)
        await engine.cancel(run_id, "too expensive")
        assert await list_requests(engine.journal) == []
        with pytest.raises(ApprovalRefused, match="no open request"):
            await engine.answer(request.id, True)
        while not (await engine.journal.run(run_id)).ended:
            await asyncio.sleep(0.01)
        status = await engine.wait(run_id)
        assert (status.state, status.agent, setup.done) == ("cancelled", "assistant", [])
        ended = decode((await engine.journal.read(run_id))[-1].body, Ended)
        assert (ended.kind, ended.reason) == ("cancelled", "too expensive")
        await engine.cancel(run_id)
        assert (await engine.wait(await engine.submit("assistant", "note a", session="day"))).why == "answered"

    run_scenario(scenario)


def test_an_agent_that_does_not_defer_approvals_denies_the_calls_of_submitted_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine, setup = EmbeddedEngine(tmp_path / "journal.db"), AgentSetup()
        async with working(engine, {"assistant": setup.make_agent(safety=Safety(defer_approvals=False))}):
            status = await engine.wait(await engine.submit("assistant", "pay rent"))
        assert (status.why, setup.done, await list_requests(engine.journal)) == ("answered", [], [])
        await engine.close()

    asyncio.run(scenario())


def test_a_run_that_was_cancelled_in_the_queue_is_repeated_with_the_same_tools(postgres: PostgresServer) -> None:
    """DBOS forgets the queue of a cancelled run. Any worker could have taken it, and its agent had no name."""

    async def scenario() -> None:
        engine, setup = PostgresEngine(postgres.new_database()), AgentSetup()
        engine._digests = {"assistant": digest_tools(setup.make_agent())}
        run_id = await engine.submit("assistant", "note a")
        await engine.cancel(run_id)
        status = await engine.status(run_id)
        assert (status.state, status.agent) == ("cancelled", "assistant")
        await engine.retry([run_id])
        status = await engine.status(run_id)
        assert (status.state, status.agent) == ("queued", "assistant")
        await engine.close()

    asyncio.run(scenario())


def test_a_run_survives_a_database_that_is_away_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It failed with the error of the journal, although nothing was wrong with it, and nothing repeated it."""

    async def scenario() -> None:
        engine, setup, refused = EmbeddedEngine(tmp_path / "journal.db"), AgentSetup(), list[str]()
        append = engine.journal.append

        async def append_later(run_id: str, entries: Sequence[Entry], *, token: int) -> None:
            if entries[-1].kind == "finished" and not refused:
                refused.append(run_id)
                raise JournalUnreachable("the database cannot be reached")
            await append(run_id, entries, token=token)

        monkeypatch.setattr(engine.journal, "append", append_later)
        async with working(engine, {"assistant": setup.make_agent()}):
            status = await engine.wait(await engine.submit("assistant", "note a"))
        await engine.close()
        assert (refused, status.why, setup.done) == ([status.run_id], "answered", ["a"])

    asyncio.run(asyncio.wait_for(scenario(), 50))


@asynccontextmanager
async def taken_away(postgres: PostgresServer, queue: str) -> AsyncIterator[tuple[PostgresEngine, AgentSetup, str]]:
    """A run that another worker takes over while its tool runs, although its worker is alive."""
    engine, setup = PostgresEngine(postgres.new_database()), AgentSetup()
    async with asyncio.timeout(50), working(engine, {"assistant": setup.make_agent()}):
        await _until_it_serves(engine)
        run_id = await engine.submit("assistant", "stall now")
        while not setup.done:
            await asyncio.sleep(0.01)
        client = engine._client()
        (workflow,) = await client.list_workflows_async(workflow_ids=[run_id])
        await client.resume_workflow_async(run_id, queue_name=queue or workflow.queue_name)
        yield engine, setup, run_id
    await engine.close()


def test_a_live_worker_lets_go_of_a_run_that_another_one_took(postgres: PostgresServer) -> None:
    """It kept the run in the journal for as long as it lived, and the other worker waited for it all the time."""

    async def scenario() -> None:
        async with taken_away(postgres, "assistant:elsewhere") as (engine, setup, run_id):
            setup.may_end = True
            while (await engine.journal.run(run_id)).holder:
                await asyncio.sleep(0.01)
            assert (await _records(engine, run_id))[-1].kind == "finished"
            assert setup.done == ["begun now", "now"]

    asyncio.run(scenario())


def test_a_worker_that_gets_its_own_run_again_finishes_the_command_first(postgres: PostgresServer) -> None:
    """It executed two commands of one run at the same time, and called the outcome of the tool unknown."""

    async def scenario() -> None:
        async with taken_away(postgres, "") as (engine, setup, run_id):
            while (await engine.status(run_id)).state != "running":
                await asyncio.sleep(0.01)
            setup.may_end = True
            assert (await engine.wait(run_id)).why == "answered"
            assert setup.done == ["begun now", "now"]
            assert "finished" in {record.kind for record in await _records(engine, run_id)}

    asyncio.run(scenario())


def test_workers_have_time_to_come_back_after_the_database_was_away(postgres: PostgresServer) -> None:
    """The first worker that came back took the runs of all others, which were alive and only a moment later."""
    url, now, taken, beats = postgres.new_database(), [100.0], list[str](), threading.Semaphore(0)

    def take_over(dead: list[str]) -> list[str]:
        taken.extend(dead)
        return dead

    heartbeat = Heartbeat(url, "first", {}, take_over=take_over, look=lambda _: beats.release(), clock=lambda: now[0])
    heartbeat.start()
    with connect(url) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = %s"
            " AND application_name = 'dragoman worker'",
            (url.rpartition("/")[2],),
        )
        # The second worker did not beat for as long as the database was away.
        other.execute("INSERT INTO dragoman.workers VALUES ('second', clock_timestamp() - interval '20s', '{}')")
        while beats.acquire(blocking=False):
            pass
        assert beats.acquire(timeout=20) and beats.acquire(timeout=20)
        assert taken == []
        now[0] += DEAD_AFTER_SECONDS
        while not taken:
            assert beats.acquire(timeout=20)
        heartbeat.stop()
    assert taken == ["second"]


def test_a_program_names_an_engine_and_nothing_else_changes(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        agent = setup.make_agent(engine)
        result = await agent.arun("note a")
        assert (result.text, result.outcome.kind, setup.done) == ("Done.", "answered", ["a"])
        assert [call.name for call in result.calls] == ["note"]
        assert (await engine.journal.run(result.run_id)).ended
        assert [text async for text in agent.stream("note b").text_stream()] == ["Done."]
        parked = await agent.arun("pay rent")
        assert parked.outcome.kind == "awaiting_approval"
        (request,) = await list_requests(engine.journal)
        await engine.answer(request.id, True)
        paid = parked
        while paid.outcome.kind == "awaiting_approval":
            paid = await agent.aresume(parked.run_id)
        assert (paid.text, setup.done) == ("Done.", ["a", "b", "rent"])
        first = await agent.arun("note c", session="day")
        again = await agent.arun("note d", session="day")
        assert len(again.messages) > len(first.messages)

    run_scenario(scenario)


class _Elsewhere(EmbeddedEngine):
    runs_here = False


def test_a_program_reads_the_results_of_mcp_servers_that_only_the_workers_started(tmp_path: Path) -> None:
    """Such a program does not know the tools. To say that their calls were not run would be wrong."""

    def make_agent(*replies: Any, log: str, engine: Engine | None = None) -> Agent:
        server = faulty("none", tmp_path / log)
        return Agent(ScriptedModel([*replies]), [server], allow=["mcp:*"], name="assistant", engine=engine)

    async def run() -> None:
        engine, stop = _Elsewhere(tmp_path / "runs.db"), asyncio.Event()
        worker = make_agent(call("mcp__echo__echo", text="one"), call("mcp__echo__nothing"), "done", log="worker")
        program = make_agent(log="program", engine=engine)
        working = asyncio.create_task(engine.work({"assistant": worker}, stop))
        async with asyncio.timeout(60):
            result = await program.arun("go")
        stop.set()
        await working
        for each in (worker, program, engine):
            await (each.close() if isinstance(each, EmbeddedEngine) else each.aclose())
        ran, unknown = result.results
        assert (ran.is_error, "one" in ran.content) == (False, True), ran
        assert unknown.is_error and "no tool named" in unknown.content, unknown

    asyncio.run(run())
    assert (tmp_path / "worker").exists() and not (tmp_path / "program").exists(), "only the worker starts the server"


def test_a_run_on_an_engine_is_cancelled_by_its_handle(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        run = setup.make_agent(engine).start("stall now")
        waiting = asyncio.create_task(run.result(check=False))
        while not any(record.kind == "started" for record in await _records(engine, run.run_id)):
            await asyncio.sleep(0)
        run.cancel("enough")
        assert (await waiting).outcome.kind == "cancelled"

    run_scenario(scenario)


def test_what_cannot_travel_to_a_worker_is_refused(postgres: PostgresServer) -> None:
    engine = PostgresEngine(postgres.url("none"))
    agent = AgentSetup().make_agent(engine)
    for given in ({"data": 1}, {"tools": [len]}, {"limits": dragoman.Limits()}, {"answer": int}, {"validate": len}):
        with pytest.raises(ConfigError, match=f"^{next(iter(given))}: a run on an engine"):
            agent.start("note a", **given)
    with pytest.raises(ConfigError, match="needs a name"):
        Agent("ollama:qwen3", engine=engine).run("note a")
    with pytest.raises(ConfigError, match="a journal of its own"):
        Agent("ollama:qwen3", engine=engine, journal=True)
    with pytest.raises(ConfigError, match="not int"):
        Agent("ollama:qwen3", engine=7)  # type: ignore[arg-type]
    assert isinstance(Agent("ollama:qwen3", engine="postgres://nobody@localhost/none").engine, PostgresEngine)
    engine.journal.close()


async def _records(engine: Engine, run_id: str) -> list[Any]:
    try:
        return list(await engine.journal.read(run_id))
    except UnknownRun:
        return []


def test_what_is_not_there_is_named(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine, setup: AgentSetup) -> None:
        with pytest.raises(UnknownRun):
            await engine.status("run-x")
        if isinstance(engine, PostgresEngine):
            with pytest.raises(ConfigError, match="no worker serves an agent named 'nobody'"):
                await engine.submit("nobody", "cook")
        else:
            status = await engine.wait(await engine.submit("nobody", "cook"))
            assert (status.state, status.why) == ("failed", "no agent is named 'nobody'")
        with pytest.raises(ConfigError, match="already"):
            await engine.work({"assistant": setup.make_agent()}, asyncio.Event())

        for given in ({"run_id": " a"}, {"run_id": "a\nb"}, {"run_id": "a" * 300}, {"session": ""}):
            with pytest.raises(ConfigError, match="cannot be the name of a"):
                await engine.submit("assistant", "note a", **given)

    run_scenario(scenario)


def test_the_digest_is_that_of_the_tools() -> None:
    """Another description or another model is the same agent; another argument is not."""

    def make(*tools: Any, model: str = "ollama:qwen3") -> Agent[Any]:
        return Agent(model, tools)

    def note(name: str) -> str:
        """Write."""
        return name

    first = digest_tools(make(dragoman.tool(note)))
    note.__doc__ = "Write a line."
    assert digest_tools(make(dragoman.tool(note), model="ollama:llama3")) == first

    def note(name: str, line: str) -> str:  # type: ignore[no-redef]
        """Write."""
        return name + line

    assert digest_tools(make(dragoman.tool(note))) != first


def test_the_digest_covers_the_tools_of_mcp_servers(postgres: PostgresServer) -> None:
    """They were not known before the first run, so a worker with other servers took the run."""

    async def scenario() -> None:
        engine = PostgresEngine(postgres.new_database())
        agent: Agent[Any] = Agent(ScriptedModel(["done"]), [faulty("none")], name="assistant")
        without = digest_tools(agent)
        async with working(engine, {"assistant": agent}):
            await _until_it_serves(engine)
            (worker,) = await engine.workers()
            assert worker.agents["assistant"] != without
            assert "mcp__echo__echo" in agent.tools.names
        await agent.aclose()
        await engine.close()

    asyncio.run(asyncio.wait_for(scenario(), 50))


EXECUTED: list[str] = []


def note_execution() -> None:
    EXECUTED.append("now")


class PickledCode:
    """A value that runs code if it is read with pickle."""

    def __reduce__(self) -> Any:
        return note_execution, ()


def test_what_the_engine_stores_is_plain_json() -> None:
    stored = _serializer()
    for value in (None, "text", 7, {"state": "goes_on", "outcome": ""}, ["a", 1.5]):
        assert stored.deserialize(stored.serialize(value)) == value
    error = stored.deserialize(stored.serialize(ValueError("wrong")))
    assert (type(error), str(error)) == (DragomanError, "ValueError: wrong")
    for forged in (base64.b64encode(pickle.dumps(PickledCode())).decode(), pickle.dumps(PickledCode(), 0).decode()):
        with pytest.raises(msgspec.DecodeError):
            stored.deserialize(forged)
    assert EXECUTED == []


def test_rows_that_name_pickle_run_no_code(postgres: PostgresServer) -> None:
    """DBOS reads a row with pickle if the row says so, whatever its serializer is."""
    url, pickled = postgres.new_database(), base64.b64encode(pickle.dumps(PickledCode())).decode()

    async def scenario() -> None:
        engine, setup = PostgresEngine(url), AgentSetup()
        digest = digest_tools(setup.make_agent())
        engine._digests = {"assistant": digest}
        with psycopg.connect(url, autocommit=True) as attacker:
            for state, column in (("ENQUEUED", "inputs"), ("CANCELLED", "inputs"), ("SUCCESS", "output")):
                run_id = await engine.submit("assistant", "note a", run_id=f"forged-{state}")
                attacker.execute(
                    f"UPDATE dbos.workflow_status SET status = %s, serialization = 'py_pickle', {column} = %s"
                    " WHERE workflow_uuid = %s",
                    (state, pickled, run_id),
                )
            attacker.execute("UPDATE dbos.workflow_status SET queue_name = NULL WHERE status = 'CANCELLED'")
        states = {status.run_id: status.state for status in await engine.recent(10)}
        assert states == {"forged-ENQUEUED": "queued", "forged-CANCELLED": "cancelled", "forged-SUCCESS": "ended"}
        async with working(engine, {"assistant": setup.make_agent()}):
            await _until_it_serves(engine)
            assert (await engine.wait(await engine.submit("assistant", "note b"))).why == "answered"
        await engine.close()
        assert setup.done == ["b"]

    asyncio.run(asyncio.wait_for(scenario(), 50))
    assert EXECUTED == []


def test_a_bug_in_the_execution_of_a_run_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stayed in the state `running`, and `wait` never returned."""

    async def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    async def scenario() -> None:
        monkeypatch.setattr("dragoman.engine.execution.Executor.advance", fail)
        engine = EmbeddedEngine(tmp_path / "journal.db")
        async with working(engine, {"assistant": AgentSetup().make_agent()}):
            run_id = await engine.submit("assistant", "note a")
            status = await engine.wait(run_id)
            assert (status.state, status.why) == ("failed", "OSError: the disk is gone")
        await engine.close()

    asyncio.run(scenario())


def test_a_worker_that_stops_between_two_steps_stores_the_last_reply() -> None:
    """After a rolling update, no reply is requested and paid again."""

    async def scenario() -> None:
        journal, setup = MemoryJournal(), AgentSetup()
        executor = Executor(journal, {"assistant": setup.make_agent()})
        submission = make_submission("assistant", "note a", None, "run-a")
        assert (await executor.advance(submission)).state == "goes_on"
        await executor.drain()
        assert [record.kind for record in await journal.read("run-a")] == ["run", "reply"]
        assert setup.done == []

    asyncio.run(scenario())


def test_a_worker_that_stops_during_a_request_stores_its_reply(tmp_path: Path) -> None:
    """The engine asks for the next command at once. That waited under the lock of the run: the reply was not stored."""

    async def scenario() -> None:
        engine, setup = EmbeddedEngine(tmp_path / "journal.db"), AgentSetup()
        is_asked, may_answer, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def say(request: Request) -> Any:
            is_asked.set()
            await may_answer.wait()
            return call("note", name="a")

        model = ScriptedModel(say, loop=True)
        worker = asyncio.create_task(engine.work({"assistant": setup.make_agent(model=model)}, stop))
        await engine.submit("assistant", "note a", run_id="run-a")
        await is_asked.wait()
        stop.set()
        await asyncio.sleep(0)
        may_answer.set()
        await worker
        assert [record.kind for record in await _records(engine, "run-a")] == ["run", "reply"]
        assert setup.done == []
        await engine.close()

    asyncio.run(scenario())
