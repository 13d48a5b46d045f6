"""What an import costs: CPU time in a fresh interpreter, best of nine, against `import asyncio`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

ROUNDS = 9
YARDSTICK = "asyncio"
MODULES = (YARDSTICK, "dragoman", "dragoman.formats")
# What the bare import may cost at most.
MOST_SECONDS = 0.1
MOST_TIMES_YARDSTICK = 2.0


def cost_of(module: str) -> float:
    """CPU seconds of one import in a fresh interpreter, the start of the interpreter left out."""
    code = f"from time import process_time as now; start = now(); import {module}; print(now() - start)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def measure() -> dict[str, float]:
    # The rounds go around all modules, so that a busy moment of the machine does not hit one of them alone.
    rounds = [{module: cost_of(module) for module in MODULES} for _ in range(ROUNDS)]
    return {module: min(costs[module] for costs in rounds) for module in MODULES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    best = measure()
    rows = [
        {"import": module, "cpu_ms": round(seconds * 1000, 2), "times_asyncio": round(seconds / best[YARDSTICK], 2)}
        for module, seconds in best.items()
    ]
    bare = best["dragoman"]
    within = bare <= MOST_SECONDS and bare <= MOST_TIMES_YARDSTICK * best[YARDSTICK]
    if as_json:
        print(json.dumps({"rounds": ROUNDS, "rows": rows, "within_budget": within}, indent=2))
        return 0
    print(f"{'import':<20} {'CPU ms':>8} {'x asyncio':>10}")
    for row in rows:
        print(f"{row['import']:<20} {row['cpu_ms']:>8.2f} {row['times_asyncio']:>10.2f}")
    print(f"budget of `import dragoman` (100 ms, 2 x asyncio): {'kept' if within else 'EXCEEDED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
