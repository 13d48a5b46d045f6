"""What it costs to start the command: CPU time of whole processes, best of several, against `import typer`.

    python benchmarks/startup.py            the table
    python benchmarks/startup.py --json     the same as JSON

The time is user and system time together. It includes the start of the interpreter and the processes that a command
waits for. `dragoman run` is measured until its first request arrives at a server on this machine, which then kills it
and reads the time that it took: the time of a running process in /proc has steps of 10 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 9
SECONDS_FOR_ONE = 60.0
SECONDS_BETWEEN_LOOKS = 0.05
PYTHON = sys.executable
DRAGOMAN = str(Path(PYTHON).with_name("dragoman"))
NOTHING = "python -c pass"
YARDSTICK = "import typer"
VERSION = "dragoman --version"
RUN = "dragoman run, first request"
COMMANDS = {
    NOTHING: (PYTHON, "-c", "pass"),
    YARDSTICK: (PYTHON, "-c", "import typer"),
    VERSION: (DRAGOMAN, "--version"),
}
# How many times `import typer` each of them may cost.
MOST_TIMES = {VERSION: 2.5, RUN: 6.0}


class Home:
    """A folder to work in with settings, journal and cache of its own, so that those of the user change nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "XDG_"))}
        # An installed package has its bytecode. A checkout may have none, and nothing is to be written into it.
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self._environment = kept | {"HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        (folder / "workspace").mkdir()

    def start(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with open(self._folder / "output", "wb") as output:
            return subprocess.Popen(
                command,
                cwd=self._folder / "workspace",
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        """What the last command printed."""
        return (self._folder / "output").read_text(encoding="utf-8", errors="replace")


def wait_for_end(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process, and of those that it waited for, once it has ended."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def cost_of(command: tuple[str, ...], home: Home) -> float:
    process = home.start(command)
    cost = wait_for_end(process)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {home.said()}")
    return cost


def cost_of_run(home: Home) -> float:
    """CPU seconds of `dragoman run` until its first request has arrived."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        process = home.start((DRAGOMAN, "run", "Hello", "-m", "custom:scripted", "--base-url", url))
        try:
            request = wait_for_request(server, process)
        finally:
            process.kill()
            cost = wait_for_end(process)
    if not request.startswith(b"POST /v1/chat/completions "):
        raise SystemExit(f"dragoman run asked for {request[:80]!r} and said: {home.said()}")
    return cost


def wait_for_request(server: socket.socket, process: subprocess.Popen[bytes]) -> bytes:
    """The head of the first request; nothing if the process ends without one."""
    server.settimeout(SECONDS_BETWEEN_LOOKS)
    for _ in range(int(SECONDS_FOR_ONE / SECONDS_BETWEEN_LOOKS)):
        try:
            connection, _ = server.accept()
        except TimeoutError:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            continue
        with connection, connection.makefile("rb") as stream:
            connection.settimeout(SECONDS_FOR_ONE)
            return b"".join(iter(stream.readline, b"\r\n"))
    return b""


def measure(rounds: int) -> dict[str, float]:
    """The least CPU seconds of each, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        # The rounds go around all commands, so that a busy moment of the machine does not hit one of them alone.
        every = [
            {name: cost_of(command, home) for name, command in COMMANDS.items()} | {RUN: cost_of_run(home)}
            for _ in range(rounds + 1)
        ]
    # The first round compiled the bytecode.
    return {name: min(costs[name] for costs in every[1:]) for name in every[0]}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is measured (default: {ROUNDS})")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = options.parse_args()
    best = measure(max(given.rounds, 1))
    times = {name: seconds / best[YARDSTICK] for name, seconds in best.items()}
    rows = [
        {"command": name, "cpu_ms": round(seconds * 1000, 1), "times_typer": round(times[name], 2)}
        for name, seconds in best.items()
    ]
    kept = {name: times[name] <= most for name, most in MOST_TIMES.items()}
    if given.json:
        print(json.dumps({"rounds": given.rounds, "rows": rows, "within_budget": kept}, indent=2))
        return 0
    print(f"{'command':<28} {'CPU ms':>8} {'x import typer':>15}")
    for row in rows:
        print(f"{row['command']:<28} {row['cpu_ms']:>8.1f} {row['times_typer']:>15.2f}")
    for name, most in MOST_TIMES.items():
        print(f"budget of {name} ({most:g} x import typer): {'kept' if kept[name] else 'EXCEEDED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
