"""Workers are killed at every write and step, workers race, the database restarts: no run is lost or repeated."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.engine import crash_program
from tests.engine.test_engine import AgentSetup, working
from tests.engine.test_workers import finish, run_within, submit, until_effects, worker_processes
from tests.journal.crash_program import make_agent
from tests.journal.test_crash_sweep import LINES, check_case
from tests.postgres import PostgresServer

from dragoman.agent.approvals import Approval, ApprovalRefused, answer_request, list_requests
from dragoman.engine import PostgresEngine
from dragoman.engine.execution import Executor, Submission
from dragoman.journal import Journal, PostgresJournal
from dragoman.types import Message, Text

SWEEPS = [(kind, moment) for kind in ("write", "step") for moment in ("before", "after")]


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=[pytest.mark.full, pytest.mark.timeout(600)])])
def test_a_worker_killed_at_any_write_or_step_is_replaced(
    postgres: PostgresServer, tmp_path: Path, root: Path, stride: int
) -> None:
    url = postgres.new_database()
    killed = kill_workers(url, tmp_path, root, stride)
    assert set(killed.values()) == {True, False}
    asyncio.run(asyncio.wait_for(take_over(url, tmp_path, list(killed)), 300))
    unknown = {name: check_case(tmp_path / name, url) for name in killed}
    if stride == 1:
        # Only a kill between the start of a call and its end leaves the outcome open: one write per effect and moment.
        writes = [call for name in killed if name.startswith("write") for call in unknown[name]]
        assert Counter(writes) == dict.fromkeys(LINES, 2)
        assert len(killed) > 40
        # A step may end while the result of its call is written. No other step leaves an outcome open.
        steps = [call for name in killed if name.startswith("step") for call in unknown[name]]
        assert Counter(steps) <= Counter(dict.fromkeys(LINES, 2))
    for name, was_killed in killed.items():
        assert was_killed or unknown[name] == []


def kill_workers(url: str, folder: Path, root: Path, stride: int) -> dict[str, bool]:
    """Run the four sweeps concurrently. Return the cases, and whether the worker of each was killed."""
    sweeps = [
        subprocess.Popen(
            [sys.executable, crash_program.__file__, url, str(folder), kind, moment, str(stride)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
        )
        for kind, moment in SWEEPS
    ]
    found: dict[str, bool] = {}
    for sweep in sweeps:
        out, errors = sweep.communicate()
        assert sweep.returncode == 0, errors
        found |= {told["case"]: told["killed"] for told in map(json.loads, out.splitlines())}
    return found


async def take_over(url: str, folder: Path, cases: list[str]) -> None:
    """Start one worker with all agents, which continues the runs of the killed ones."""
    engine = PostgresEngine(url)
    async with working(engine, {name: make_agent(folder / name, None) for name in cases}):
        async for status in engine.follow(cases):
            assert (status.state, status.why) == ("ended", "answered"), status
    await engine.close()


@pytest.mark.parametrize("tries", [50, pytest.param(1000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_of_two_workers_and_of_two_answers_one_wins(postgres: PostgresServer, tries: int) -> None:
    """Both workers get the run, as if the engine had given it to both. Both answers come at the same time."""

    async def race(number: int, workers: list[tuple[AgentSetup, Executor]], journals: list[PostgresJournal]) -> str:
        name = f"run-{number}"
        submission = Submission("assistant", name, [Message("user", [Text(f"pay {name}")])])

        async def execute(executor: Executor) -> str:
            while (progress := await executor.advance(submission)).state == "goes_on":
                pass
            return progress.outcome

        both = [executor for _, executor in workers]
        assert await asyncio.gather(*map(execute, both)) == ["awaiting_approval"] * 2
        (request,) = [each for each in await list_requests(journals[0]) if each.run_id == name]
        told = await asyncio.gather(
            *(give_answer(journal, request.id, is_yes) for journal, is_yes in zip(journals, (True, False), strict=True))
        )
        assert sum(told) == 1, "exactly one answer is accepted"
        assert await asyncio.gather(*map(execute, both)) == ["answered"] * 2
        effects = sum(setup.done.count(name) for setup, _ in workers)
        assert effects == int(told[0]), f"{name}: {effects} payments after the answers {told}"
        kinds = Counter(record.kind for record in await journals[0].read(name))
        assert kinds["started"] == int(told[0]) and kinds["answered"] == kinds["ended"] == 1
        return "yes" if told[0] else "no"

    async def scenario() -> None:
        journals = [PostgresJournal(url) for _ in range(2)]
        workers = []
        for journal in journals:
            setup = AgentSetup()
            workers.append((setup, Executor(journal, {"assistant": setup.make_agent()})))
        won: Counter[str] = Counter()
        for first in range(0, tries, 10):
            won.update(await asyncio.gather(*(race(number, workers, journals) for number in range(first, first + 10))))
        print(won)
        assert won.total() == tries
        for journal in journals:
            journal.close()

    url = postgres.new_database()
    run_within(scenario(), 800)


async def give_answer(journal: Journal, request_id: str, is_yes: bool) -> bool:
    try:
        await answer_request(journal, request_id, Approval(is_yes), now=time.time())
    except ApprovalRefused:
        return False
    return True


def test_a_waiting_run_survives_the_restart_of_everything(postgres: PostgresServer) -> None:
    async def begin() -> str:
        engine, setup = PostgresEngine(url), AgentSetup()
        async with working(engine, {"assistant": setup.make_agent()}):
            while not engine.is_working:
                await asyncio.sleep(0.01)
            run_id = await engine.submit("assistant", "pay rent")
            assert (await engine.wait(run_id)).state == "waiting"
        assert setup.done == []
        await engine.close()
        return run_id

    async def answer() -> None:
        # Nobody works, and the answer is only in the journal, as `dragoman approvals` leaves it.
        with PostgresJournal(url) as journal:
            (request,) = await list_requests(journal)
            await answer_request(journal, request.id, Approval(True), now=request.asked)

    async def go_on(run_id: str) -> None:
        engine, setup = PostgresEngine(url), AgentSetup()
        async with working(engine, {"assistant": setup.make_agent()}):
            while (await engine.wait(run_id)).state == "waiting":
                await asyncio.sleep(0.01)
        assert ((await engine.status(run_id)).state, setup.done) == ("ended", ["rent"])
        await engine.close()

    url = postgres.new_database()
    run_id = asyncio.run(begin())
    for mode in ("fast", "immediate"):
        postgres.stop(mode)
        postgres.start()
    asyncio.run(answer())
    asyncio.run(asyncio.wait_for(go_on(run_id), 60))


@pytest.mark.full
def test_a_crash_of_the_database_under_load_loses_nothing(postgres: PostgresServer, tmp_path: Path, root: Path) -> None:
    async def scenario(processes: Any) -> None:
        engine = PostgresEngine(processes.url)
        run_ids = await submit(engine, 40)
        for count in (10, 60):
            await until_effects(processes, count)
            await asyncio.to_thread(postgres.stop, "immediate")
            await asyncio.to_thread(postgres.start)
        print(f"{await finish(engine, run_ids, processes)} outcomes are unknown")
        await engine.close()

    with worker_processes(postgres, tmp_path, root, 2) as processes:
        run_within(scenario(processes), 110)
