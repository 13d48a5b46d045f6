"""How long the first `arun` of a process blocks its event loop: the longest gap that a watchdog task sees.

    python benchmarks/first_run.py            the table
    python benchmarks/first_run.py --json     the same as JSON

Each measurement is a process of its own. A gap is CPU time of the whole process between two turns of the watchdog, so
that other programs on the machine do not count. The run has two requests over loopback and one call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support.loopback import Loopback

MOST_MILLISECONDS = 20.0
ROUNDS = 5
KINDS = ("native", "stream", "text")
TICK = 0.0005


def measure(kind: str, port: int) -> dict[str, float]:
    """Create an agent and run it once, in this process."""
    began = time.process_time()
    import dragoman

    @dragoman.tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    settings: dict[str, Any] = {"tool_mode": "text"} if kind == "text" else {}
    agent = dragoman.Agent("custom:m", [weather], base_url=f"http://127.0.0.1:{port}/v1", key="k", **settings)
    made = time.process_time() - began
    gaps: list[float] = []

    async def watch() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(TICK)
            now = time.process_time()
            gaps.append(now - last)
            last = now

    async def main() -> None:
        watchdog = asyncio.create_task(watch())
        await asyncio.sleep(10 * TICK)
        gaps.clear()
        if kind == "stream":
            async for _ in agent.stream("Is it warm in Paris?"):
                pass
        else:
            await agent.arun("Is it warm in Paris?", check=False)
        watchdog.cancel()

    asyncio.run(main())
    return {"created_ms": made * 1000, "gap_ms": max(gaps) * 1000}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is measured (default: {ROUNDS})")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options.add_argument("--one", nargs=2, metavar=("KIND", "PORT"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]))))
        return 0
    rows = []
    with Loopback() as loopback:
        for kind in KINDS:
            command = [sys.executable, __file__, "--one", kind, str(loopback.port)]
            found = [json.loads(subprocess.check_output(command)) for _ in range(max(given.rounds, 1))]
            rows.append({"kind": kind, **{name: round(min(each[name] for each in found), 1) for name in found[0]}})
    kept = all(row["gap_ms"] <= MOST_MILLISECONDS for row in rows)
    if given.json:
        print(json.dumps({"rows": rows, "within_budget": kept}, indent=2))
        return 0
    print(f"{'run':<8} {'agent created, CPU ms':>22} {'longest gap, CPU ms':>20}")
    for row in rows:
        print(f"{row['kind']:<8} {row['created_ms']:>22.1f} {row['gap_ms']:>20.1f}")
    print(f"budget of a gap ({MOST_MILLISECONDS:g} ms): {'kept' if kept else 'EXCEEDED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
