"""Group `gateways`: dragoman serve, LiteLLM's proxy and smg between a client and a host."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.peers.loops import Subject
from benchmarks.peers.odd_outputs import ODD_OUTPUTS
from benchmarks.peers.rows import GATEWAYS, LOOPS, OURS, ROOT, Peer, install
from benchmarks.peers.scripted_host import ScriptedHost
from benchmarks.support.environments import Environments, Unavailable, free_port, running
from benchmarks.support.gateway_load import PARTS, load, memory_of, started, write_request
from benchmarks.support.gateway_parts import CHUNKS
from benchmarks.support.progress import Progress

DIRECT, PLAIN = "direct", "plain proxy"
LITELLM_SETTINGS = """
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{url}/v1", api_key: none}}
litellm_settings: {{telemetry: false}}
general_settings: {{master_key: "{key}"}}
"""
# LiteLLM does not start without one. The others do not look at it.
KEY = f"sk-{secrets.token_hex(24)}"
CONNECTIONS = (1, 16)
LOADS = {"whole": 60, "streamed": 20, "paced": 5}
"""The number of requests in a round: whole, streamed as fast as the host can, and streamed with pauses."""
PAUSE = 2
Figures = dict[str, Any]


class Side(NamedTuple):
    """Where requests go: a port, and the process that stands in between."""

    port: int
    process: int
    start: float


def measure(environments: Environments, progress: Progress, *, quick: bool) -> Figures:
    """All figures of the group."""
    rows: dict[str, Figures] = {peer.name: {"settings": peer.settings} for peer in GATEWAYS}
    costs = measure_costs(environments, rows, progress, quick=quick)
    table = try_odd_outputs(environments, rows, progress)
    return {"peers": rows, "costs": costs, "odd": table}


# ---- starting --------------------------------------------------------------------------------------------------------


@contextmanager
def open_gateway(environments: Environments, peer: Peer, url: str) -> Iterator[Side]:
    """A gateway in front of a host, as long as the block lasts."""
    folder = environments.folder / "home"
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command, ready = COMMANDS[peer.name](environments, peer, folder, url, port)
    began = time.perf_counter()
    log = folder / f"{peer.adapter or peer.name}.log"
    log.unlink(missing_ok=True)
    with running(command, log, f"http://127.0.0.1:{port}{ready}", dict(peer.variables)) as process:
        yield Side(port, process.pid, time.perf_counter() - began)


def litellm_command(environments: Environments, peer: Peer, folder: Path, url: str, port: int) -> tuple[list[str], str]:
    settings = folder / "litellm.yaml"
    settings.write_text(LITELLM_SETTINGS.format(url=url, key=KEY), encoding="utf-8")
    program = str(install(environments, peer) / "litellm")
    return [program, "--config", str(settings), "--host", "127.0.0.1", "--port", str(port)], "/health/liveliness"


def smg_command(environments: Environments, peer: Peer, folder: Path, url: str, port: int) -> tuple[list[str], str]:
    program = str(install(environments, peer) / "smg")
    where = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-host", "127.0.0.1"]
    return [
        *(program, "launch", "--backend", "openai", "--worker-urls", url),
        *(*where, "--prometheus-port", str(free_port()), "--log-level", "error", "--tool-call-parser", "qwen"),
    ], "/health"


def our_command(environments: Environments, peer: Peer, folder: Path, url: str, port: int) -> tuple[list[str], str]:
    serve = [sys.executable, "-m", "dragoman", "serve", "--to", url, "--port", str(port), "--quiet"]
    return ["env", f"PYTHONPATH={ROOT / 'src'}", *serve], "/readyz"


COMMANDS = {OURS: our_command, "LiteLLM proxy": litellm_command, "smg": smg_command}

# ---- costs -----------------------------------------------------------------------------------------------------------


def measure_costs(
    environments: Environments, rows: dict[str, Figures], progress: Progress, *, quick: bool
) -> list[Figures]:
    """Latency and CPU time, whole and streamed, of all sides in turns."""
    with ExitStack() as stack:
        _, upstream, _ = stack.enter_context(started([sys.executable, str(PARTS), "endpoint"]))
        address = f"http://127.0.0.1:{upstream}"
        sides = {DIRECT: Side(upstream, 0, 0.0)}
        process, port, seconds = stack.enter_context(started([sys.executable, str(PARTS), "proxy", address]))
        sides[PLAIN] = Side(port, process, seconds)
        for peer in GATEWAYS:
            progress.say(f"starting {peer.name}")
            try:
                side = stack.enter_context(open_gateway(environments, peer, address))
                asyncio.run(load(side.port, *write_request("openai_chat", False), 3, 1, KEY))
                sides[peer.name] = side
                rows[peer.name] |= {"versions": version_of(environments, peer), "start_s": side.start}
            except (Unavailable, ConnectionError) as reason:
                rows[peer.name]["not_measured"] = str(reason)
        found: list[Figures] = []
        for kind in LOADS:
            for connections in CONNECTIONS if kind != "paced" else CONNECTIONS[:1]:
                progress.say(f"latency: {kind}, {connections} connections")
                found += take_turns(sides, connections, kind, rounds=2 if quick else 8)
        for name, side in sides.items():
            if name in rows:
                rows[name]["memory_mb"] = memory_of(side.process)
        return found


def take_turns(sides: dict[str, Side], connections: int, kind: str, rounds: int) -> list[Figures]:
    """The median latencies and the CPU time of each side."""
    path, body = write_request("openai_chat", kind != "whole", PAUSE if kind == "paced" else 0)
    count = max(LOADS[kind], connections)
    kept: dict[str, Figures] = {name: {"whole": [], "first": [], "cpu": [], "failed": ""} for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            before, firsts = cpu_of_session(side.process), list[float]()
            try:
                taken, last = asyncio.run(load(side.port, path, body, count, connections, KEY, firsts))
            except OSError as error:
                kept[name]["failed"] = str(error)
                continue
            used = cpu_of_session(side.process) - before
            if b" 200 " not in last[:20]:
                kept[name]["failed"] = last[:200].decode("utf-8", "replace")
            if number:  # the first round warms up
                kept[name]["whole"] += taken
                kept[name]["first"] += firsts
                kept[name]["cpu"].append(used)
    return [
        {
            "side": name,
            "kind": kind,
            "connections": connections,
            "ms": median(figures["whole"]) * 1000,
            "first_ms": median(figures["first"]) * 1000,
            "chunks_per_s": connections * CHUNKS / median(figures["whole"]) if kind == "streamed" else 0.0,
            # The clock has steps of 10 ms, so the rounds are added up.
            "cpu_ms": sum(figures["cpu"]) / len(figures["whole"]) * 1000,
            "failed": figures["failed"],
        }
        for name, figures in kept.items()
        if figures["whole"]
    ]


def cpu_of_session(leader: int) -> float:
    """The seconds of CPU of a process and of all processes of its session. 0: there is no process."""
    if not leader:
        return 0.0
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # It ended in the meantime.
        if int(fields[3]) == leader or int(path.parent.name) == leader:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def version_of(environments: Environments, peer: Peer) -> dict[str, str]:
    """The version of the package that a gateway is named after."""
    if peer.name == OURS:
        return {}
    package = peer.packages[0].partition("[")[0]
    program = f"from importlib.metadata import version; print(version({package!r}))"
    python = str(install(environments, peer) / "python")
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return {package: done.stdout.strip()}


# ---- odd outputs -----------------------------------------------------------------------------------------------------


def try_odd_outputs(environments: Environments, rows: dict[str, Figures], progress: Progress) -> list[Figures]:
    """What a plain loop over the openai client makes of odd outputs behind each gateway."""
    table: list[Figures] = [{"title": odd.title, "verdicts": {}} for odd in ODD_OUTPUTS]
    client = next(peer for peer in LOOPS if peer.name == "openai")._replace(variables={"PEER_KEY": KEY})
    with ScriptedHost() as host:
        for name in (DIRECT, *(peer.name for peer in GATEWAYS if "not_measured" not in rows[peer.name])):
            with ExitStack() as stack:
                address = ""
                if name != DIRECT:
                    peer = next(peer for peer in GATEWAYS if peer.name == name)
                    side = stack.enter_context(open_gateway(environments, peer, f"http://127.0.0.1:{host.port}"))
                    address = f"http://127.0.0.1:{side.port}/v1"
                subject = stack.enter_context(Subject(environments, client, host, address))
                for odd, row in zip(ODD_OUTPUTS, table, strict=True):
                    progress.say(f"odd outputs: {name}: {odd.title}")
                    row["verdicts"][name] = {mode: subject.show(odd, mode) for mode in odd.modes}
    return table
