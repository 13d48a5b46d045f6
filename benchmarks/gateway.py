"""What the gateway costs: CPU per request, added latency, memory and start time.

The same requests go directly to an endpoint with fixed answers, through a proxy of the same stack (Starlette, uvicorn,
uvloop) that only reads and writes JSON, through the same proxy without a framework, which is the least that a proxy can
cost, and through the gateway. A request has 2 kB and two tools; the answer is one call, or a stream of 60 pieces
of 20 characters. CPU is that of the process in between, over all requests. The sides take turns in rounds, so that what
else runs on the machine meets all of them.

`--keys` adds a second gateway, whose clients need keys, with every limit of a key and with a log: what they cost is the
difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support.gateway_load import PARTS, cpu_of, load, memory_of, settings_file, started, write_request

ROUNDS = 5
PROXIES = ("proxy", "bare")


def make_key(folder: Path) -> tuple[Path, str]:
    """A file with a key that has every limit, and the key."""
    from dragoman.server.keys import KeyLimits, add_key

    most = 1_000_000_000
    limits = KeyLimits(
        requests_per_minute=most, tokens_per_minute=most, max_concurrent=1000, tokens_per_day=most * 1000
    )
    return folder / "keys.json", add_key(folder / "keys.json", "load", limits)


def take_turns(
    sides: dict[str, tuple[int, int]], options: argparse.Namespace, connections: int, *, stream: bool, key: str
) -> dict[str, tuple[float, list[float]]]:
    """Send the requests to all sides in rounds. Return the seconds of CPU and the seconds of each request."""
    import uvloop

    count = max(options.count // (4 if stream else 1) // ROUNDS, connections)
    measured: dict[str, tuple[float, list[float]]] = {name: (0.0, []) for name in sides}
    for number in range(ROUNDS + 1):
        for name, (process, place) in sides.items():
            wire = options.wire if name in ("gateway", "guarded") else "openai_chat"
            where, body = write_request(wire, stream)
            before = cpu_of(process) if process else 0.0
            taken, last = uvloop.run(load(place, where, body, count, connections, key if name == "guarded" else ""))
            used = cpu_of(process) - before if process else 0.0
            assert b" 200 " in last[:20], last[:300]
            if number:  # the first round warms up
                measured[name] = (measured[name][0] + used, measured[name][1] + taken)
    return measured


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    import tempfile

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, started([sys.executable, str(PARTS), "endpoint"]) as (_, upstream, _):
        path = settings_file(Path(folder), upstream)
        serve = [sys.executable, "-m", "dragoman", "serve", "--config", str(path), "--port", "0", "--json", "--quiet"]
        address = f"http://127.0.0.1:{upstream}"
        with ExitStack() as stack:
            sides = {"direct": (0, upstream)}
            for name in PROXIES:
                sides[name] = stack.enter_context(started([sys.executable, str(PARTS), name, address]))[:2]
            pid, port, start = stack.enter_context(started(serve))
            sides["gateway"] = (pid, port)
            key = ""
            if options.keys:
                stored, key = make_key(Path(folder))
                guarded = [*serve[:-1], "--keys", str(stored)]
                sides["guarded"] = stack.enter_context(started(guarded))[:2]
            for stream in (False, True):
                for connections in options.connections:
                    measured = take_turns(sides, options, connections, stream=stream, key=key)
                    for name, (process, _) in sides.items():
                        seconds, taken = measured[name]
                        used = seconds / len(taken) * 1000
                        cuts = quantiles(taken, n=100)
                        rows.append(
                            {
                                "kind": "stream" if stream else "whole",
                                "connections": connections,
                                "side": name,
                                "cpu_ms": used,
                                "p50_ms": cuts[49] * 1000,
                                "p99_ms": cuts[98] * 1000,
                                "memory_mb": memory_of(process) if process else 0.0,
                                "start_s": start if name == "gateway" else 0.0,
                            }
                        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    heads = "".join(f"{f'x {name}':>9}" for name in PROXIES)
    print(f"{'kind':<8}{'conn':>5}  {'side':<9}{'CPU ms':>8}{heads}{'p50 ms':>9}{'added':>8}{'p99 ms':>9}{'MB':>7}")
    for row in rows:
        same = [each for each in rows if (each["kind"], each["connections"]) == (row["kind"], row["connections"])]
        costs = {each["side"]: each["cpu_ms"] for each in same}
        direct = next(each["p50_ms"] for each in same if each["side"] == "direct")
        is_gateway = row["side"] in ("gateway", "guarded")
        ratios = [row["cpu_ms"] / costs[name] if costs[name] and is_gateway else 0 for name in PROXIES]
        shown = "".join(f"{ratio:>9.2f}" if ratio else " " * 9 for ratio in ratios)
        added = f"{row['p50_ms'] - direct:.2f}" if row["side"] != "direct" else ""
        print(
            f"{row['kind']:<8}{row['connections']:>5}  {row['side']:<9}{row['cpu_ms']:>8.2f}{shown}"
            f"{row['p50_ms']:>9.2f}{added:>8}{row['p99_ms']:>9.2f}{row['memory_mb']:>7.0f}"
        )
    for row in rows:
        if row["side"] == "guarded":
            place = (row["kind"], row["connections"])
            plain = next(r["cpu_ms"] for r in rows if (r["kind"], r["connections"], r["side"]) == (*place, "gateway"))
            added, ratio = row["cpu_ms"] - plain, row["cpu_ms"] / plain
            print(f"keys, limits and log, {place[0]}, {place[1]} connections: {added:+.3f} ms, x {ratio:.2f}")
    print(f"start of the gateway: {max(row['start_s'] for row in rows):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="requests of each kind; streams are a quarter of it")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--wire", choices=["openai_chat", "anthropic"], default="openai_chat")
    parser.add_argument("--keys", action="store_true", help="also measure a gateway with keys, limits and a log")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options)
    if options.json:
        print(json.dumps(rows))
    else:
        show(rows)


if __name__ == "__main__":
    main()
