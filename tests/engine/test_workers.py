"""Workers in processes of their own: killed, paused, stopped, replaced. No run is lost, and nothing happens twice."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.engine import worker_program
from tests.postgres import PostgresServer

from dragoman.agent.records import Ended, decode
from dragoman.agent.turn import UNKNOWN_OUTCOME
from dragoman.engine import PostgresEngine
from dragoman.errors import ConfigError
from dragoman.journal import Record, order_faults
from dragoman.types import ToolResult

EFFECTS = {"call_1": "pay", "call_2": "note"}


class WorkerProcesses:
    """Workers that share a database, and the file in which their tools note their effects."""

    def __init__(self, url: str, folder: Path, root: Path) -> None:
        self.url = url
        self.effects_file = folder / "effects"
        self.effects_file.touch()
        self._path = f"{root}{os.pathsep}{root / 'src'}"
        self.workers: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, worker_program.__file__, self.url, str(self.effects_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": self._path},
        )
        self.workers.append(process)
        return process

    def stop_all(self) -> None:
        for each in self.workers:
            with each as worker:
                worker.send_signal(signal.SIGCONT)
                worker.kill()

    def await_start(self, *workers: subprocess.Popen[str]) -> None:
        for worker in workers or self.workers:
            assert worker.stdout is not None
            assert worker.stdout.readline().startswith("started")

    def effects(self) -> Counter[tuple[str, str]]:
        lines = (line.split() for line in self.effects_file.read_text(encoding="utf-8").splitlines())
        return Counter((what, name) for what, name, _ in lines)


@contextmanager
def worker_processes(postgres: PostgresServer, folder: Path, root: Path, workers: int) -> Iterator[WorkerProcesses]:
    made = WorkerProcesses(postgres.new_database(), folder, root)
    with ExitStack() as stack:
        stack.callback(made.stop_all)
        for _ in range(workers):
            made.start()
        made.await_start()
        yield made


def check_run(records: Sequence[Record], name: str, effects: Counter[tuple[str, str]]) -> int:
    """Check one run against the effects of the tools. Return the number of calls whose outcome is unknown."""
    assert order_faults(records) == []
    assert records[-1].kind == "ended"
    ended: Ended = decode(records[-1].body, Ended)
    assert ended.kind == "answered"
    parts = [part for message in ended.messages for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    assert list(results) == ["call_0", "call_1", "call_2"]
    unknown = 0
    for call_id, what in EFFECTS.items():
        happened = effects[what, name]
        assert happened <= 1, f"{what} happened twice in {name}"
        if results[call_id].content == UNKNOWN_OUTCOME:
            unknown += 1
        else:
            assert happened == 1, f"{what} is reported and never happened in {name}"
    assert effects["look", name] >= 1
    return unknown


async def finish(engine: PostgresEngine, run_ids: Sequence[str], processes: WorkerProcesses) -> int:
    """Wait for all runs and check each. Return the number of unknown outcomes."""
    for run_id in run_ids:
        assert (await engine.wait(run_id)).state == "ended"
    effects = processes.effects()
    return sum([check_run(await engine.journal.read(run_id), run_id, effects) for run_id in run_ids])


async def submit(engine: PostgresEngine, count: int) -> list[str]:
    while True:
        try:
            return [
                await engine.submit("assistant", f"run-{number}", run_id=f"run-{number}") for number in range(count)
            ]
        except ConfigError:
            # No worker has registered yet.
            await asyncio.sleep(0.05)


async def until_effects(processes: WorkerProcesses, count: int) -> None:
    while processes.effects().total() < count:
        await asyncio.sleep(0.01)


def run_within(scenario: object, seconds: float) -> None:
    asyncio.run(asyncio.wait_for(scenario, seconds))  # type: ignore[arg-type]


@pytest.mark.full
def test_a_killed_and_a_paused_worker_are_replaced(postgres: PostgresServer, tmp_path: Path, root: Path) -> None:
    async def scenario(processes: WorkerProcesses) -> None:
        engine = PostgresEngine(processes.url)
        run_ids = await submit(engine, 24)
        await until_effects(processes, 6)
        processes.workers[0].kill()
        await until_effects(processes, 20)
        processes.workers[1].send_signal(signal.SIGSTOP)
        unknown = await finish(engine, run_ids, processes)
        # A paused worker that wakes up is refused by the journal, before it starts anything.
        processes.workers[1].send_signal(signal.SIGCONT)
        again = await submit(engine, 24)
        assert again == run_ids, "a second submission changes nothing"
        more = [await engine.submit("assistant", f"late-{number}", run_id=f"late-{number}") for number in range(4)]
        assert await finish(engine, more, processes) == 0
        assert await finish(engine, run_ids, processes) == unknown
        await engine.close()

    with worker_processes(postgres, tmp_path, root, 3) as processes:
        run_within(scenario(processes), 100)


def test_a_worker_that_stops_hands_its_runs_over(postgres: PostgresServer, tmp_path: Path, root: Path) -> None:
    async def scenario(processes: WorkerProcesses) -> None:
        engine = PostgresEngine(processes.url)
        run_ids = await submit(engine, 12)
        await until_effects(processes, 4)
        leaver = processes.workers[0]
        assert leaver.stdin is not None
        leaver.stdin.close()
        assert await asyncio.to_thread(leaver.wait) == 0
        await finish(engine, run_ids, processes)
        await engine.close()

    with worker_processes(postgres, tmp_path, root, 2) as processes:
        run_within(scenario(processes), 100)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_workers_that_die_every_two_seconds_lose_nothing(postgres: PostgresServer, tmp_path: Path, root: Path) -> None:
    async def kill(processes: WorkerProcesses, done: asyncio.Event) -> list[str]:
        """Every two seconds the oldest worker goes and a new one comes; one is stopped and continued."""
        events: list[str] = []
        working, paused, coming = list(processes.workers), list[subprocess.Popen[str]](), list[asyncio.Task[None]]()

        async def replace() -> None:
            new = processes.start()
            await asyncio.to_thread(processes.await_start, new)
            working.append(new)

        plan = itertools.chain(
            ("killed", "killed", "stopped", "killed", "killed", "continued"), itertools.repeat("killed")
        )
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 2.0)
                await asyncio.gather(*coming)
                return events
            # A busy machine starts workers slowly. Without this limit there would soon be none that works.
            events.append(next(plan) if len(working) > 1 else "waited")
            if events[-1] == "killed":
                working.pop(0).kill()
                coming.append(asyncio.create_task(replace()))
            elif events[-1] == "stopped":
                paused.append(working.pop(0))
                paused[0].send_signal(signal.SIGSTOP)
            elif events[-1] == "continued":
                # Its lease of three seconds has ended, so others have taken its runs.
                paused[0].send_signal(signal.SIGCONT)
                working.append(paused[0])

    async def scenario(processes: WorkerProcesses) -> None:
        engine, done = PostgresEngine(processes.url), asyncio.Event()
        await submit(engine, 1)
        killer = asyncio.create_task(kill(processes, done))
        names = [f"run-{number}" for number in range(500)]
        run_ids = await asyncio.gather(*(engine.submit("assistant", name, run_id=name) for name in names))
        unknown = await finish(engine, run_ids, processes)
        done.set()
        events = await killer
        assert {"killed", "stopped", "continued"} <= set(events)
        print(f"{unknown} outcomes are unknown; workers: {events}")
        await engine.close()

    with worker_processes(postgres, tmp_path, root, 4) as processes:
        run_within(scenario(processes), 800)
