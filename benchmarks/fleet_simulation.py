"""How many runs a fleet of workers ends, and what is busy first: a discrete-event simulation.

A run is a row of steps. Each step needs the processor of its worker, then the database, and every step that asks the
model waits for its latency. A worker has one processor and a number of slots for runs; the database serves a number of
requests at once; the model is never busy. Runs arrive at random (a Poisson process), or are all queued at the start.

    python benchmarks/fleet_simulation.py                    the fleet for 10, 1,000 and 100,000 runs a minute
    python benchmarks/fleet_simulation.py --workers 2 --queued 200 --slots 2 --latency 0.05 --spread 0

The defaults are what `benchmarks/engine.py` measures on a small machine: with its latency and slots, the simulation has
to give its throughput.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

RATES = (10, 1_000, 100_000)
TARGET = 0.7
"""How busy the busiest part of a planned fleet is. Above this, the queues grow quickly."""
MOST_RUNS = 20_000
"""The arrivals of one simulation."""


@dataclass(frozen=True)
class Fleet:
    """The parameters. Times are seconds."""

    workers: int = 1
    slots: int = 50
    """The runs that a worker executes at the same time."""
    databases: int = 1
    """Databases that share the runs evenly: the shards."""
    channels: int = 4
    """The requests that one database serves at the same time: its cores, or the writes that its disk takes at once."""
    turns: int = 4
    """The requests to the model in a run."""
    latency: float = 2.0
    """The mean time until a model has answered."""
    spread: float = 0.5
    """The deviation of the latency, as a part of its mean."""
    steps: int = 8
    """The steps of the engine in a run: the turns, the tools, the end."""
    start: float = 0.17
    """The time until a free slot has its next run: workers look into the queue from time to time."""
    processor: float = 0.004
    """The time of the worker's processor for a step."""
    database: float = 0.0022
    """The time of the database for a step: its row, and the records of the journal."""


class Station:
    """A part that serves some requests at the same time, in the order of their arrival."""

    def __init__(self, servers: int) -> None:
        self._free = servers
        self._servers = servers
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self.used = 0.0

    def ask(self, clock: Clock, seconds: float, then: Callable[[], None]) -> None:
        if self._free:
            self._free -= 1
            self._serve(clock, seconds, then)
        else:
            self._waiting.append((seconds, then))

    def _serve(self, clock: Clock, seconds: float, then: Callable[[], None]) -> None:
        self.used += seconds

        def end() -> None:
            if self._waiting:
                self._serve(clock, *self._waiting.popleft())
            else:
                self._free += 1
            then()

        clock.after(seconds, end)

    def load(self, seconds: float) -> float:
        """The part of the time in which it was busy."""
        return self.used / (seconds * self._servers) if seconds else 0.0


class Clock:
    """The time of the simulation, and what happens later."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, action))

    def run(self) -> None:
        while self._events:
            self.now, _, action = heapq.heappop(self._events)
            action()


@dataclass
class Outcome:
    """What a simulation found."""

    runs_per_second: float
    median: float
    slowest: float
    """The latency of a run from its arrival to its end: the median, and what 99 of 100 runs do not exceed."""
    processor: float
    database: float
    slots: float
    """How busy the workers' processors, the databases and the slots of the workers were."""

    @property
    def busiest(self) -> str:
        loads = {"processor": self.processor, "database": self.database, "slots": self.slots}
        return max(loads, key=lambda name: loads[name])


class Simulation:
    """One fleet, and the runs that it executes."""

    def __init__(self, fleet: Fleet, seed: int = 1) -> None:
        self._fleet = fleet
        self._clock = Clock()
        self._random = random.Random(seed)
        self._processors = [Station(1) for _ in range(fleet.workers)]
        self._databases = [Station(fleet.channels) for _ in range(fleet.databases)]
        self._free = deque(worker for _ in range(fleet.slots) for worker in range(fleet.workers))
        self._queue: deque[tuple[int, float]] = deque()
        self._taken: list[float] = []
        self._occupied = 0.0

    def execute(self, runs: int, rate: float | None = None) -> Outcome:
        """Let runs arrive at a rate per second; without one, all are queued at the start."""
        at = 0.0
        for number in range(runs):
            if rate is not None:
                at += self._random.expovariate(rate)
            self._clock.after(at, lambda number=number: self._arrive(number))  # type: ignore[misc]
        self._clock.run()
        seconds = self._clock.now
        taken = sorted(self._taken)
        return Outcome(
            runs / seconds,
            taken[len(taken) // 2],
            taken[min(len(taken) - 1, math.ceil(len(taken) * 0.99))],
            sum(each.load(seconds) for each in self._processors) / len(self._processors),
            sum(each.load(seconds) for each in self._databases) / len(self._databases),
            self._occupied / (seconds * self._fleet.workers * self._fleet.slots),
        )

    def _arrive(self, number: int) -> None:
        self._queue.append((number, self._clock.now))
        self._start()

    def _start(self) -> None:
        while self._queue and self._free:
            (number, arrived), worker = self._queue.popleft(), self._free.popleft()
            database, began = self._databases[number % len(self._databases)], self._clock.now
            first = partial(self._step, worker, database, 0, arrived, began)
            self._clock.after(self._fleet.start, first)

    def _step(self, worker: int, database: Station, step: int, arrived: float, began: float) -> None:
        fleet, clock = self._fleet, self._clock
        if step == fleet.steps:
            self._taken.append(clock.now - arrived)
            self._occupied += clock.now - began
            self._free.append(worker)
            self._start()
            return

        def wait() -> None:
            # The first steps of a run and every second one after them ask the model.
            asks = step % 2 == 0 and step // 2 < fleet.turns
            clock.after(self._draw() if asks else 0.0, go_on)

        def go_on() -> None:
            self._step(worker, database, step + 1, arrived, began)

        def store() -> None:
            database.ask(clock, fleet.database, wait)

        self._processors[worker].ask(clock, fleet.processor, store)

    def _draw(self) -> float:
        fleet = self._fleet
        if not fleet.spread or not fleet.latency:
            return fleet.latency
        shape = 1 / fleet.spread**2
        return self._random.gammavariate(shape, fleet.latency / shape)


# ---- what a fleet needs ----------------------------------------------------------------------------------------------


def plan(rate: float, fleet: Fleet) -> Fleet:
    """Return the smallest fleet whose parts are busy at most to TARGET at a rate of runs per second."""
    held = fleet.start + fleet.turns * fleet.latency + fleet.steps * (fleet.processor + fleet.database)
    by_processor = rate * fleet.steps * fleet.processor / TARGET
    by_slots = rate * held / (fleet.slots * TARGET)
    by_database = rate * fleet.steps * fleet.database / (fleet.channels * TARGET)
    workers, databases = max(by_processor, by_slots), by_database
    return replace(fleet, workers=max(1, math.ceil(workers)), databases=max(1, math.ceil(databases)))


def show_plans(fleet: Fleet, as_json: bool) -> None:
    rows = []
    for per_minute in RATES:
        rate = per_minute / 60
        planned = plan(rate, fleet)
        # Shards do not know each other, so one of them is simulated.
        shard = replace(planned, workers=math.ceil(planned.workers / planned.databases), databases=1)
        runs = min(MOST_RUNS, max(200, 10 * per_minute))
        rows.append((per_minute, planned, Simulation(shard).execute(runs, rate / planned.databases)))
    if as_json:
        print(json.dumps([{"per_minute": per_minute, **asdict(found)} for per_minute, _, found in rows]))
        return
    print(
        f"{'runs/min':>9}{'workers':>9}{'databases':>11}{'median s':>10}{'p99 s':>8}  busy: processor, database, slots"
    )
    for per_minute, planned, found in rows:
        sizes = f"{per_minute:>9,}{planned.workers:>9}{planned.databases:>11}"
        busy = f"{found.processor:5.0%} {found.database:5.0%} {found.slots:5.0%}, first the {found.busiest}"
        print(f"{sizes}{found.median:>10.1f}{found.slowest:>8.1f}  {busy}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in asdict(Fleet()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--queued", type=int, metavar="RUNS", help="execute so many runs, all queued at the start")
    parser.add_argument("--json", action="store_true")
    given = vars(parser.parse_args())
    queued, as_json = given.pop("queued"), given.pop("json")
    fleet = Fleet(**given)
    if queued is None:
        show_plans(fleet, as_json)
        return
    found = Simulation(fleet).execute(queued)
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        print(
            f"{found.runs_per_second:.1f} runs per second; busy: {found.processor:.0%} processor, "
            f"{found.database:.0%} database, {found.slots:.0%} slots"
        )


if __name__ == "__main__":
    main()
