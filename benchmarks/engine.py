"""What the engines cost: the throughput of one and of two workers, and the time that a step takes.

The model is scripted. For the throughput it has a latency of 50 ms, and both measurements have the same concurrency per
worker. For the steps, the time in which the model computes its reply does not count, and the measure is an empty step
of DBOS in the same process, on the same server. A server of our own is measured twice: with the disk of this machine,
and with a delay of 10 ms for each commit, as on a slow disk.

python benchmarks/engine.py [--runs N] [--concurrency N] [--address postgres://...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import dragoman
from dragoman.agent import Agent, Connection
from dragoman.engine import EmbeddedEngine, Engine, PostgresEngine
from dragoman.engine.execution import Executor, Progress, Submission
from dragoman.testing import ScriptedModel
from dragoman.types import Request, ToolCall, ToolResult

LATENCY = 0.05
WARM_UP = 10
"""Runs that do not count. The driver of Postgres prepares a statement when it is used for the sixth time."""
ROUNDS = 12


def make_agent(latency: float) -> Agent[Any]:
    async def say(request: Request) -> Any:
        await asyncio.sleep(latency)
        results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        count = len(results)
        # The same call again would be a loop, which is reported.
        return [ToolCall(f"call_{count}", "note", {"name": f"note {count}"})] if count < 3 else "Done."

    @dragoman.tool
    async def note(name: str) -> str:
        """Write a note."""
        return name

    model = ScriptedModel(say, loop=True)
    # One secret to hide, as in most programs, and none of the machine that measures.
    connection = Connection(transport=model, environment={"SERVICE_API_KEY": "sk-0f4be1c97d2a48e6"})
    return Agent(model.endpoint(), [note], name="clerk", connection=connection)


# ---- throughput ------------------------------------------------------------------------------------------------------


async def serve(address: str, concurrency: int) -> None:
    """A worker in a process of its own, until its standard input ends."""
    engine, stop = PostgresEngine(address, concurrency=concurrency), asyncio.Event()
    working = asyncio.create_task(engine.work({"clerk": make_agent(LATENCY)}, stop))
    while not engine.is_working:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    stop.set()
    await working
    await engine.close()


@contextlib.contextmanager
def workers(address: str, number: int, concurrency: int) -> Iterator[None]:
    words = [sys.executable, __file__, "--serve", "--address", address, "--concurrency", str(concurrency)]
    started = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    yield
    for each in started:
        each.communicate()


async def throughput(address: str, runs: int) -> float:
    """Return how many runs end in a second. All are queued at the beginning."""
    engine = PostgresEngine(address)
    gate = asyncio.Semaphore(16)

    async def submit() -> str:
        async with gate:
            return await engine.submit("clerk", "Count.")

    began = perf_counter()
    run_ids = await asyncio.gather(*(submit() for _ in range(runs)))
    async for status in engine.follow(run_ids):
        assert status.state == "ended", status
    seconds = perf_counter() - began
    await engine.close()
    return runs / seconds


# ---- steps -----------------------------------------------------------------------------------------------------------


class StepCounter:
    """Counts the steps that the executors of this process do."""

    def __init__(self) -> None:
        self.steps = 0
        advance = Executor.advance

        async def counted(executor: Executor, submission: Submission) -> Progress:
            self.steps += 1
            return await advance(executor, submission)

        setattr(Executor, "advance", counted)  # noqa: B010


@contextlib.asynccontextmanager
async def working(engine: Engine) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(engine.work({"clerk": make_agent(0.0)}, stop))
    while not getattr(engine, "is_working", True):
        await asyncio.sleep(0.01)
    yield
    stop.set()
    await task
    await engine.close()


class RunTimer:
    """The time that a worker takes for a whole run, without the queue and without the model."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._model_seconds = 0.0
        self.run_alone = self._timed(self._run_alone)
        for engine, name in ((PostgresEngine, "_run"), (EmbeddedEngine, "_execute")):
            setattr(engine, name, self._timed(getattr(engine, name)))
        setattr(ScriptedModel, "send", self._counted(ScriptedModel.send))  # noqa: B010

    @staticmethod
    async def _run_alone(agent: Agent[Any]) -> None:
        """Execute a run in this process, without an engine and without a journal."""
        await agent.arun("Count.")

    def _timed(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*arguments: Any) -> Any:
            self._model_seconds = 0.0
            began = perf_counter()
            try:
                return await execute(*arguments)
            finally:
                self.seconds.append(perf_counter() - began - self._model_seconds)

        return timed

    def _counted(self, send: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any) -> Any:
            began = perf_counter()
            try:
                return await send(*arguments)
            finally:
                self._model_seconds += perf_counter() - began

        return counted


async def steps_of(engine: Engine, counter: StepCounter, timer: RunTimer, rounds: int) -> float:
    """Return the median time of a step, over whole runs: their tools and their model take no time."""
    found = []
    for _ in range(rounds):
        counter.steps = 0
        await engine.wait(await engine.submit("clerk", "Count."))
        while not timer.seconds:
            await asyncio.sleep(0)
        found.append(timer.seconds.pop() / counter.steps)
    return statistics.median(found)


def make_empty_steps() -> Callable[[int], float]:
    """Return a function that measures the median time of an empty step of DBOS, in a workflow of so many steps."""
    from dbos import DBOS

    async def nothing() -> dict[str, str]:
        return {"state": "goes_on", "outcome": ""}

    @DBOS.workflow(name="empty")
    async def empty(steps: int) -> float:
        began = perf_counter()
        for _ in range(steps):
            await DBOS.run_step_async({"name": "nothing"}, nothing)
        return (perf_counter() - began) / steps

    def measure(steps: int) -> float:
        # In the loop of DBOS, like the runs.
        found = []
        for _ in range(3):
            handle: Any = DBOS.start_workflow(empty, steps)
            found.append(float(handle.get_result()))
        return statistics.median(found)

    return measure


def delay_commits(address: str) -> None:
    """Make each commit of the server take 10 ms longer."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        for setting in ("commit_delay = 10000", "commit_siblings = 0"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")


async def measure_steps(address: str, folder: Path, *, is_ours: bool) -> None:
    counter, timer = StepCounter(), RunTimer()
    embedded = EmbeddedEngine(folder / "journal.db")
    async with working(embedded):
        await steps_of(embedded, counter, timer, WARM_UP)
        print(f"embedded, a step:       {await steps_of(embedded, counter, timer, ROUNDS) * 1e3:6.1f} ms")
    durable = PostgresEngine(address)
    async with working(durable):
        await steps_of(durable, counter, timer, WARM_UP)
        empty_steps = make_empty_steps()
        await compare_steps(durable, counter, timer, empty_steps)
        if is_ours:
            delay_commits(address)
            print("with a delay of 10 ms for each commit:")
            await compare_steps(durable, counter, timer, empty_steps)


async def compare_steps(
    engine: Engine, counter: StepCounter, timer: RunTimer, empty_steps: Callable[[int], float]
) -> None:
    rounds, agent = [], make_agent(0.0)
    for _ in range(ROUNDS):
        # In turns, because the load of a machine changes.
        ours = await steps_of(engine, counter, timer, 5)
        await timer.run_alone(agent)
        alone = timer.seconds.pop() / counter.steps
        rounds.append((ours, alone, await asyncio.to_thread(empty_steps, counter.steps)))
    ours, alone, empty = (statistics.median(values) for values in zip(*rounds, strict=True))
    whole = statistics.median(one / empty for one, _, empty in rounds)
    added = statistics.median((one - own) / empty for one, own, empty in rounds)
    print(f"Postgres, a step:       {ours * 1e3:6.1f} ms, {counter.steps} steps in a run")
    print(f"Postgres, an empty one: {empty * 1e3:6.1f} ms; ratio {whole:.2f}")
    print(f"without an engine:      {alone * 1e3:6.1f} ms; the engine adds {added:.2f} empty steps to each step")


# ---- all -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def database(address: str | None) -> Iterator[Any]:
    """Yield a function that returns the address of a database: a new one of a server of our own, if none is given."""
    if address is not None:
        yield lambda: address
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.postgres import PostgresServer

    server = PostgresServer(fsync="on")
    try:
        yield server.new_database
    finally:
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="runs per measurement of the throughput")
    parser.add_argument("--concurrency", type=int, default=2, help="runs at the same time per worker")
    parser.add_argument("--address", help="a database; default: a server of our own")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.address, given.concurrency))
        return
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with database(given.address) as new_database, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure_steps(new_database(), Path(folder), is_ours=given.address is None))
    with database(given.address) as new_database:
        found = []
        for number in (1, 2):
            address = new_database()
            with workers(address, number, given.concurrency):
                asyncio.run(throughput(address, given.concurrency * number))
                found.append(asyncio.run(throughput(address, given.runs * number)))
            print(f"{number} worker{'s' if number > 1 else ' '}:              {found[-1]:6.1f} runs per second")
        print(f"growth:                 {found[1] / found[0]:6.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
