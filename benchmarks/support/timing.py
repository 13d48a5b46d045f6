"""How the benchmarks of the wires measure: CPU time, the best of several rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import process_time
from typing import Any

# Short work is repeated until the clock can tell it apart from nothing.
LEAST_SECONDS = 0.004


def take_turns(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Microseconds of each. They take turns, so that a busy moment of the machine does not hit one of them alone."""
    repeats = {name: _repeats(run) for name, run in runs.items()}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = process_time()
            for _ in range(repeats[name]):
                run()
            least[name] = min(least[name], process_time() - start)
    return {name: least[name] / repeats[name] * 1e6 for name in runs}


def on_fresh(run: Callable[[Any], object], inputs: Callable[[], Iterable[Any]], rounds: int) -> float:
    """Microseconds of one run on inputs of its own, which are made outside of the measured time."""
    least = float("inf")
    for each in inputs():
        run(each)
    for _ in range(rounds):
        fresh = list(inputs())
        start = process_time()
        for each in fresh:
            run(each)
        least = min(least, (process_time() - start) / len(fresh))
    return least * 1e6


def _repeats(run: Callable[[], object]) -> int:
    repeat = 1
    while True:
        start = process_time()
        for _ in range(repeat):
            run()
        if (taken := process_time() - start) >= LEAST_SECONDS:
            return repeat
        repeat = max(repeat + 1, int(repeat * min(10.0, 1.2 * LEAST_SECONDS / max(taken, 1e-6))))
