"""What HTTP costs: our transport beside http.client, aiohttp, httpx and pyreqwest, on the loopback.

Figures are microseconds of CPU time of the client's process, the best of several rounds: of one small POST with a JSON
answer on a kept connection, and of a stream of 500 events. Other libraries run in an environment of their own, which
the first run makes in the user's cache; where that cannot be, they are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support.environments import Environments, Unavailable, cache_folder
from benchmarks.support.progress import Progress
from benchmarks.support.transport_server import CHUNKS, TransportServer

OURS = ("dragoman", "http.client")
OTHERS = ("aiohttp", "aiohttp+uvloop", "httpx", "httpx+uvloop", "pyreqwest")
PACKAGES = ("aiohttp", "httpx", "pyreqwest", "uvloop")
WORKER = Path(__file__).resolve().parent / "support" / "transport_worker.py"

Row = dict[str, Any]


def measure(python: Path | str, name: str, port: int, count: int) -> Row:
    """The figures of one client, in a process of its own."""
    command = [str(python), str(WORKER), name, str(port), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{name}: {next(reversed(done.stderr.strip().splitlines()), 'no word')}")
    row: Row = {"client": name, **json.loads(done.stdout)}
    return row


def measure_all(clients: Sequence[tuple[Path | str, str]], rounds: int, count: int) -> list[Row]:
    """All clients take turns, so that a busy moment of the machine does not hit one of them alone."""
    best: dict[str, Row] = {}
    progress = Progress()
    with TransportServer() as server:
        for turn in range(rounds):
            for python, name in clients:
                progress.say(f"round {turn + 1} of {rounds}, {name}")
                row = measure(python, name, server.port, count)
                known = best.setdefault(name, row)
                for kind in ("request", "stream"):
                    known[kind] = min(known[kind], row[kind])
    progress.finish(f"{rounds} rounds")
    assert len({tuple(row["bytes"]) for row in best.values()}) == 1, "all of them have to read the same"
    return list(best.values())


def print_table(rows: Sequence[Row]) -> None:
    ours = rows[0]
    print(f"{'client':<18}{'version':>10}{'request us':>12}{'times':>8}{'event us':>12}{'times':>8}")
    for row in rows:
        request, stream = row["request"], row["stream"] / CHUNKS
        times = request / ours["request"], row["stream"] / ours["stream"]
        print(f"{row['client']:<18}{row['version']:>10}{request:>12.0f}{times[0]:>8.1f}{stream:>12.2f}{times[1]:>8.1f}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    options.add_argument("--rounds", type=int, default=5, help="how often all of them take turns (default: 5)")
    options.add_argument("--count", type=int, default=500, help="requests in a round (default: 500)")
    options.add_argument("--without-others", action="store_true", help="only what needs no installation")
    given = options.parse_args()
    clients: list[tuple[Path | str, str]] = [(sys.executable, name) for name in OURS]
    if not given.without_others:
        try:
            python = Environments(cache_folder()).python("transports", *PACKAGES) / "python"
            clients += [(python, name) for name in OTHERS if os.name != "nt" or "uvloop" not in name]
        except Unavailable as why:
            print(f"the other clients are left out: {why}", file=sys.stderr)
    try:
        rows = measure_all(clients, max(1, given.rounds), max(1, given.count))
    except Unavailable as why:
        print(f"not measured: {why}", file=sys.stderr)
        return 1
    print_table(rows)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
