"""Group `loops`: the same run with one tool call in several libraries, and what each makes of odd outputs."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from statistics import median
from typing import Any

from benchmarks.peers.odd_outputs import ODD_OUTPUTS, Ending, Odd, judge
from benchmarks.peers.rows import LOOPS, ROOT, Peer, command_of, install, start, variables_of
from benchmarks.peers.scripted_host import ScriptedHost
from benchmarks.peers.team import Team
from benchmarks.support.environments import Environments, Unavailable, Worker
from benchmarks.support.loopback import Loopback
from benchmarks.support.progress import Progress

ODD_SECONDS = 60.0
BLOCK = 10
Figures = dict[str, Any]


def measure(environments: Environments, progress: Progress, *, quick: bool) -> Figures:
    """All figures of the group."""
    with Team(environments, LOOPS, progress) as team:
        time_runs(team, progress, rounds=2 if quick else 15)
        rows = team.rows
    for peer in LOOPS:
        if peer.uses_us and "packages" in rows[peer.name]:
            rows[peer.name] |= add_ourselves(rows[peer.name])
    measured = [peer for peer in LOOPS if "not_measured" not in rows[peer.name]]
    start_cold(environments, measured, rows, progress, rounds=1 if quick else 5)
    return {"peers": rows, "odd": try_odd_outputs(environments, measured, progress)}


def add_ourselves(found: Figures) -> Figures:
    """Count this checkout as a package: it is imported and not installed."""
    ours = sum(path.stat().st_size for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {**found, "packages": found["packages"] + 1, "megabytes": found["megabytes"] + ours / 1e6}


# ---- time ------------------------------------------------------------------------------------------------------------


def time_runs(team: Team, progress: Progress, rounds: int) -> None:
    """Wall and CPU milliseconds of a run. The libraries take turns; the host is a process of its own."""
    spent: dict[str, list[Figures]] = {name: [] for name in team.names}
    with Loopback() as host:
        for number in range(rounds):
            for name in team.names:
                progress.say(f"run time, round {number + 1} of {rounds}: {name}")
                answer = team.ask(name, 120.0, do="time", url=host.url, count=BLOCK)
                if answer is not None and answer["ran"] != BLOCK:
                    team.leave_out(name, f"{answer['ran']} of {BLOCK} runs called the tool")
                elif answer is not None:
                    spent[name].append(answer)
    for name in team.names:
        for kind in ("wall", "cpu"):
            team.rows[name][f"{kind}_ms"] = median(block[kind] for block in spent[name]) / BLOCK * 1000


def start_cold(
    environments: Environments, peers: list[Peer], rows: dict[str, Figures], progress: Progress, rounds: int
) -> None:
    """CPU seconds and peak memory of a fresh process that imports the library, makes an agent and does one run."""
    found: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    with Loopback() as host:
        for number in range(rounds + 1):
            for peer in peers:
                progress.say(f"cold start, round {number} of {rounds}: {peer.name}")
                command = command_of(install(environments, peer), peer, "--once", host.url)
                variables = variables_of(environments, peer)
                with suppress(subprocess.SubprocessError):
                    done = subprocess.run(
                        command, env=variables, cwd=variables["HOME"], capture_output=True, timeout=120, check=True
                    )
                    if number:  # the first round writes bytecode and fills the cache of the disk
                        found[peer.name].append(json.loads(done.stdout.splitlines()[-1]))
    for name, runs in found.items():
        if runs:
            rows[name]["cold_s"] = min(run["cpu"] for run in runs)
            rows[name]["peak_mb"] = min(run["megabytes"] for run in runs)


# ---- odd outputs -----------------------------------------------------------------------------------------------------


def try_odd_outputs(environments: Environments, peers: list[Peer], progress: Progress) -> list[Figures]:
    """The verdict of each odd output for each peer, whole and streamed."""
    table: list[Figures] = [{"title": odd.title, "verdicts": {}} for odd in ODD_OUTPUTS]
    with ScriptedHost() as host:
        for peer in peers:
            with Subject(environments, peer, host) as subject:
                for odd, row in zip(ODD_OUTPUTS, table, strict=True):
                    progress.say(f"odd outputs: {peer.name}: {odd.title}")
                    row["verdicts"][peer.name] = {mode: subject.show(odd, mode) for mode in odd.modes}
    return table


class Subject:
    """A library in front of the host. A process that hangs or dies is replaced.

    `address` is where it sends its requests, if that is not the host itself.
    """

    def __init__(self, environments: Environments, peer: Peer, host: ScriptedHost, address: str = "") -> None:
        self._environments, self._peer, self._host = environments, peer, host
        self._address = address or host.url
        self._worker: Worker | None = None

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *ended: object) -> None:
        if self._worker is not None:
            self._worker.close()

    def show(self, odd: Odd, mode: str) -> Figures:
        """Give it one odd output. Return the verdict, and what it is based on."""
        self._host.play(odd)
        forget_learned_facts(self._environments)
        try:
            if self._worker is None:
                self._worker = start(self._environments, self._peer)
            answer = self._worker.ask(ODD_SECONDS, do="odd", url=self._address, stream=mode == "streamed")
            ending = Ending(answer["ran"], str(answer["answer"]), answer["raised"])
        except Unavailable as reason:
            if self._worker is not None:
                self._worker.close()
            self._worker, ending = None, Ending([], stuck=str(reason))
        verdict = judge(odd, ending, self._host.requests, self._peer.own)
        raised = ending.raised or {}
        why = f"{raised['kinds'][0]}: {raised['message']}" if raised else ending.stuck or ending.answer
        streamed = all(request.get("stream", False) for request in self._host.requests)
        return {
            "verdict": verdict,
            "ran": ending.ran,
            "why": why[:200],
            "requests": len(self._host.requests),
            "as_asked": streamed == (mode == "streamed"),
        }


def forget_learned_facts(environments: Environments) -> None:
    """Each odd output meets a program that has learned nothing from the ones before."""
    home = environments.folder / "home"
    for path in home.rglob("learned.toml"):
        path.unlink()
